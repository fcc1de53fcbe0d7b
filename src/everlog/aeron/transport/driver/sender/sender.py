"""The agent that sends all network publications and reads what receivers answer. Source: Sender, SenderProxy,
ControlTransportPoller.

A machine: the shell calls :meth:`Sender.do_work` with the time. The conductor asks for things by :class:`SenderProxy`.
When the conductor runs in another thread, the sender does one of them at the start of each cycle, so that data is never
held up for long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from everlog.aeron.channel_uri import ChannelUri
from everlog.aeron.transport.driver.sender.network_parameters import Endpoint
from everlog.aeron.transport.driver.sender.network_publication import NetworkPublication
from everlog.aeron.transport.driver.sender.publication_sender import PublicationSender
from everlog.aeron.transport.driver.system_counters import CycleTime, SystemCounter, SystemCounters
from everlog.aeron.transport.media.network import SocketSelector
from everlog.kernel.udp import Datagrams, SocketAddress
from everlog.kernel.watch import WordPair
from everlog.runtime.agent_commands import AgentCommands, AgentProxy, ErrorRecorder, do_command
from everlog.runtime.quiet import BUSY, FOREVER

BATCH_DATAGRAMS = 32
SLOT_LENGTH = 2048
"""Longer than any frame that receivers send: an error frame has 1,063 bytes at most."""


class ConductorOfEndpoints(Protocol):
    """Whom the sender tells that it let go of an endpoint."""

    def send_channel_endpoint_closed(self, endpoint: Endpoint, /) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderSettings:
    """``status_message_poll_ratio``: cycles in which something was sent, after which receivers are listened to anyway;
    after half of ``status_message_timeout_ns`` they are, too. No names are looked up anew with a
    ``re_resolution_interval_ns`` of 0."""

    status_message_timeout_ns: int = 200_000_000
    status_message_poll_ratio: int = 6
    re_resolution_interval_ns: int = 1_000_000_000


@dataclass(frozen=True, slots=True)
class SenderDependencies:
    """What a sender is handed: who listens on sockets, who is told, where errors go, what measures its cycles."""

    selector: SocketSelector[Endpoint]
    conductor: ConductorOfEndpoints
    errors: ErrorRecorder
    cycle_time: CycleTime | None = None


class Sender:
    """All network publications of a driver."""

    name = "sender"

    def __init__(
        self, settings: SenderSettings, seams: SenderDependencies, system: SystemCounters, now_ns: int
    ) -> None:
        self.commands: AgentCommands = AgentCommands()
        """What the conductor asks for; each is called with the time."""
        self._settings = settings
        self._seams = seams
        self._bytes_sent = system[SystemCounter.BYTES_SENT]
        self._resolution_changes = system[SystemCounter.RESOLUTION_CHANGES]
        self._short_sends = system[SystemCounter.SHORT_SENDS]
        self._publications: list[PublicationSender] = []
        self._endpoints: list[Endpoint] = []
        self._batch = Datagrams(BATCH_DATAGRAMS, SLOT_LENGTH)
        self._first = 0
        self._cycles_since_poll = 0
        self._poll_deadline_ns = now_ns
        self._re_resolution_deadline_ns = now_ns + settings.re_resolution_interval_ns

    def do_work(self, now_ns: int, now_ms: int) -> int:
        """One cycle; how much was done."""
        settings = self._settings
        if self._seams.cycle_time is not None:
            self._seams.cycle_time.measure(now_ns)
        work = do_command(self.commands, self._seams.errors, now_ns, now_ms)
        short_sends = self._short_sends.get()
        sent = self._send(now_ns, now_ms)
        work += sent
        self._cycles_since_poll += 1
        if (
            sent == 0
            or self._cycles_since_poll >= settings.status_message_poll_ratio
            or self._poll_deadline_ns < now_ns
            or self._short_sends.get() > short_sends
        ):
            heard = self._poll(now_ns, now_ms)
            work += heard
            self._cycles_since_poll = 0
            self._poll_deadline_ns = now_ns + settings.status_message_timeout_ns // 2
            if heard and sent == 0:
                # A receiver may have said that there is room: it is used in this cycle, not in the next one.
                work += self._send(now_ns, now_ms)
        if settings.re_resolution_interval_ns > 0 and self._re_resolution_deadline_ns < now_ns:
            self._re_resolution_deadline_ns = now_ns + settings.re_resolution_interval_ns
            for endpoint in self._endpoints:
                endpoint.check_for_re_resolution(now_ns)
        return work

    def quiet_until(self) -> int:
        """See :class:`~everlog.runtime.agent_runner.Agent`: there is nothing to
        send without publications."""
        if not self.commands.listen() or self._publications:
            return BUSY
        has_names = self._endpoints and self._settings.re_resolution_interval_ns > 0
        return self._re_resolution_deadline_ns + 1 if has_names else FOREVER

    @property
    def words(self) -> Sequence[WordPair]:
        """Of its queue."""
        return (self.commands.words,)

    def sockets(self) -> Sequence[int]:
        """That it listens on."""
        return self._seams.selector.numbers()

    def resume(self) -> None:
        """The time without cycles is no long cycle."""
        if self._seams.cycle_time is not None:
            self._seams.cycle_time.restart()

    def close(self) -> None:
        """Listen no more. Sockets are closed by the conductor."""
        for endpoint in self._endpoints:
            self._seams.selector.remove(endpoint.socket)
        self._endpoints = []

    def _send(self, now_ns: int, now_ms: int) -> int:
        """Each publication's turn; another is the first in each cycle. Bytes sent."""
        publications = self._publications
        if not publications:
            return 0
        first = self._first if self._first < len(publications) else 0
        self._first = first + 1
        sent = 0
        for publication in publications[first:] + publications[:first]:
            try:
                sent += publication.send(now_ns)
            except Exception as error:
                self._seams.errors.record(error, now_ms)
        if sent:
            self._bytes_sent.add_release(sent)
        return sent

    def _poll(self, now_ns: int, now_ms: int) -> int:
        """Listen to receivers; bytes."""
        received = 0
        for endpoint in self._seams.selector.ready():
            try:
                received += endpoint.poll(self._batch, now_ns)
            except Exception as error:
                self._seams.errors.record(error, now_ms)
        return received

    # What the conductor asks for

    def on_register_send_channel_endpoint(self, endpoint: Endpoint, now_ns: int) -> None:
        """Listen on its socket."""
        self._seams.selector.add(endpoint.socket, endpoint)
        self._endpoints.append(endpoint)

    def on_close_send_channel_endpoint(self, endpoint: Endpoint, now_ns: int) -> None:
        """Listen no more, and tell the conductor."""
        self._seams.selector.remove(endpoint.socket)
        self._endpoints = [other for other in self._endpoints if other is not endpoint]
        self._seams.conductor.send_channel_endpoint_closed(endpoint)

    def on_new_network_publication(self, publication: NetworkPublication, now_ns: int) -> None:
        """Send it from now on."""
        self._publications = [*self._publications, publication.sender]
        publication.channel_endpoint.register(publication.sender)

    def on_remove_network_publication(self, publication: NetworkPublication, now_ns: int) -> None:
        """Send it no more; the conductor may close it."""
        self._publications = [other for other in self._publications if other is not publication.sender]
        publication.channel_endpoint.unregister(publication.sender)
        publication.sender.release()

    def on_resolution_change(self, endpoint: Endpoint, name: str, new_address: SocketAddress, now_ns: int) -> None:
        """A name means another address now."""
        endpoint.resolution_change(name, new_address)
        self._resolution_changes.increment_release()


class SenderProxy(AgentProxy[Sender]):
    """What the conductor asks of the sender."""

    def register_send_channel_endpoint(self, endpoint: Endpoint) -> None:
        """Listen to who answers on it."""
        self._ask(lambda sender, now_ns: sender.on_register_send_channel_endpoint(endpoint, now_ns))

    def close_send_channel_endpoint(self, endpoint: Endpoint) -> None:
        """Listen no more; then it may be closed."""
        self._ask(lambda sender, now_ns: sender.on_close_send_channel_endpoint(endpoint, now_ns))

    def new_network_publication(self, publication: NetworkPublication) -> None:
        """Send it."""
        self._ask(lambda sender, now_ns: sender.on_new_network_publication(publication, now_ns))

    def remove_network_publication(self, publication: NetworkPublication) -> None:
        """Send it no more; then it has reached its end of life."""
        self._ask(lambda sender, now_ns: sender.on_remove_network_publication(publication, now_ns))

    def add_destination(
        self, endpoint: Endpoint, uri: ChannelUri, address: SocketAddress | None, registration_id: int
    ) -> None:
        """Send there, too."""
        self._ask(lambda sender, now_ns: endpoint.add_destination(uri, address, registration_id, now_ns))

    def remove_destination(self, endpoint: Endpoint, address: SocketAddress) -> None:
        """Send there no more."""
        self._ask(lambda sender, now_ns: endpoint.remove_destination(address))

    def remove_destination_by_id(self, endpoint: Endpoint, registration_id: int) -> None:
        """Send there no more."""
        self._ask(lambda sender, now_ns: endpoint.remove_destination_by_id(registration_id))

    def on_resolution_change(self, endpoint: Endpoint, name: str, new_address: SocketAddress) -> None:
        """A name means another address now."""
        self._ask(lambda sender, now_ns: sender.on_resolution_change(endpoint, name, new_address, now_ns))
