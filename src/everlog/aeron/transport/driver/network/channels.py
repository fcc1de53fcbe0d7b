"""Parses network channels. Parsing is a task, because resolving names may take long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from everlog.aeron.channel_uri import ChannelUri
from everlog.aeron.transport.driver.commands import uri_syntax
from everlog.aeron.transport.media.interfaces import Interfaces
from everlog.aeron.transport.media.name_resolver import NameResolver, UnknownHost, resolve_address
from everlog.aeron.transport.media.udp_channel import UdpChannel, destination_address
from everlog.aeron.transport.memory.counters_memory import AtomicCounter
from everlog.kernel.socket_address import SocketAddress
from everlog.runtime.tasks import Task, Tasks


@dataclass(frozen=True, slots=True)
class Channels:
    """Parses channels and resolves their names."""

    tasks: Tasks
    resolver: NameResolver
    interfaces: Interfaces

    def uri(self, text: str) -> ChannelUri:
        """Parse a channel's URI without resolving names. Raises :class:`CommandRefused`."""
        return uri_syntax.parse(text)

    def parse(self, text: str, *, is_destination: bool = False) -> Task[UdpChannel]:
        """Parse a channel and resolve its names. Raises :class:`CommandRefused` immediately, and
        :class:`InvalidChannel` with the task's result."""
        uri_syntax.parse(text)
        return self.tasks.submit(lambda: UdpChannel.parse(text, self.resolver, is_destination, self.interfaces))

    def destination(self, uri: ChannelUri) -> Task[SocketAddress | None]:
        """Resolve a destination's address; ``None`` if its name is unknown."""
        return self.tasks.submit(lambda: self._destination(uri))

    def _destination(self, uri: ChannelUri) -> SocketAddress | None:
        try:
            return destination_address(uri, self.resolver)
        except UnknownHost:
            return None

    def resolve_again(self, text: str, parameter: str) -> Task[SocketAddress | None]:
        """Resolve a name again; ``None`` if it is unknown."""
        return self.tasks.submit(lambda: resolve_address(text, parameter, self.resolver, is_re_resolution=True))


class TimedResolver:
    """A resolver that counts its longest time, and how often it exceeded a threshold. Source:
    TimeTrackingNameResolver."""

    def __init__(
        self,
        resolver: NameResolver,
        clock_ns: Callable[[], int],
        counters: tuple[AtomicCounter, AtomicCounter],
        threshold_ns: int,
    ) -> None:
        """Wrap a resolver. ``counters`` are for the longest time, and for times above the threshold."""
        self.name = f"TimeTracking({resolver.name})"
        self._resolver = resolver
        self._clock_ns = clock_ns
        self._longest, self._exceeded = counters
        self._threshold_ns = threshold_ns

    def lookup(self, name: str, parameter: str, is_re_lookup: bool) -> str:
        """Call the wrapped resolver, and measure its time."""
        start_ns = self._clock_ns()
        try:
            return self._resolver.lookup(name, parameter, is_re_lookup)
        finally:
            self._measure(self._clock_ns() - start_ns)

    def resolve(self, host: str, parameter: str, is_re_resolution: bool) -> str | None:
        """Call the wrapped resolver, and measure its time."""
        start_ns = self._clock_ns()
        try:
            return self._resolver.resolve(host, parameter, is_re_resolution)
        finally:
            self._measure(self._clock_ns() - start_ns)

    def _measure(self, duration_ns: int) -> None:
        self._longest.propose_max_release(duration_ns)
        if duration_ns > self._threshold_ns:
            self._exceeded.increment_release()
