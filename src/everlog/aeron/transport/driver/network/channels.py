"""Channels of the network, from text: names are looked up, which may take long, so it is a task."""

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
    """What makes channels of text."""

    tasks: Tasks
    resolver: NameResolver
    interfaces: Interfaces

    def uri(self, text: str) -> ChannelUri:
        """A channel's text taken apart, no more. Raises :class:`CommandRefused`."""
        return uri_syntax.parse(text)

    def parse(self, text: str, *, is_destination: bool = False) -> Task[UdpChannel]:
        """Raises :class:`CommandRefused` and :class:`InvalidChannel`, now or with the result."""
        uri_syntax.parse(text)
        return self.tasks.submit(lambda: UdpChannel.parse(text, self.resolver, is_destination, self.interfaces))

    def destination(self, uri: ChannelUri) -> Task[SocketAddress | None]:
        """Where a destination is; ``None``: nobody knows its name yet."""
        return self.tasks.submit(lambda: self._destination(uri))

    def _destination(self, uri: ChannelUri) -> SocketAddress | None:
        try:
            return destination_address(uri, self.resolver)
        except UnknownHost:
            return None

    def resolve_again(self, text: str, parameter: str) -> Task[SocketAddress | None]:
        """What a name means now; ``None``: nobody knows it."""
        return self.tasks.submit(lambda: resolve_address(text, parameter, self.resolver, is_re_resolution=True))


class TimedResolver:
    """A resolver that tells how long it took: the longest time, and how often it was over a threshold. Source:
    TimeTrackingNameResolver."""

    def __init__(
        self,
        resolver: NameResolver,
        clock_ns: Callable[[], int],
        counters: tuple[AtomicCounter, AtomicCounter],
        threshold_ns: int,
    ) -> None:
        """``counters``: of the longest time, and of times over the threshold."""
        self.name = f"TimeTracking({resolver.name})"
        self._resolver = resolver
        self._clock_ns = clock_ns
        self._longest, self._exceeded = counters
        self._threshold_ns = threshold_ns

    def lookup(self, name: str, parameter: str, is_re_lookup: bool) -> str:
        """As the resolver."""
        start_ns = self._clock_ns()
        try:
            return self._resolver.lookup(name, parameter, is_re_lookup)
        finally:
            self._measure(self._clock_ns() - start_ns)

    def resolve(self, host: str, parameter: str, is_re_resolution: bool) -> str | None:
        """As the resolver."""
        start_ns = self._clock_ns()
        try:
            return self._resolver.resolve(host, parameter, is_re_resolution)
        finally:
            self._measure(self._clock_ns() - start_ns)

    def _measure(self, duration_ns: int) -> None:
        self._longest.propose_max_release(duration_ns)
        if duration_ns > self._threshold_ns:
            self._exceeded.increment_release()
