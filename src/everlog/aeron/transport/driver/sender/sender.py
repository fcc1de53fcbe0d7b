"""The agent that sends all network publications and reads the receivers' answers. Source: Sender, SenderProxy,
ControlTransportPoller.

The agent's runner calls :meth:`Sender.do_work` with the time. The conductor sends commands through
:class:`SenderProxy`. If the conductor runs on another thread, the sender carries out one command per cycle, so that
data is never delayed for long."""

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
"""Longer than any frame that receivers send: an error frame has at most 1,063 bytes."""


class ConductorOfEndpoints(Protocol):
    """Receives the sender's notification that it released an endpoint."""

    def send_channel_endpoint_closed(self, endpoint: Endpoint, /) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderSettings:
    """The sender's settings. While data is sent, sockets are polled every ``status_message_poll_ratio`` cycles, and at
    least every half of ``status_message_timeout_ns``. A ``re_resolution_interval_ns`` of 0 disables resolving names
    again."""

    status_message_timeout_ns: int = 200_000_000
    status_message_poll_ratio: int = 6
    re_resolution_interval_ns: int = 1_000_000_000


@dataclass(frozen=True, slots=True)
class SenderDependencies:
    """A sender's dependencies: its socket selector, the conductor it notifies, its error recorder, and the measure of
    its cycle times."""

    selector: SocketSelector[Endpoint]
    conductor: ConductorOfEndpoints
    errors: ErrorRecorder
    cycle_time: CycleTime | None = None


class Sender:
    """Sends all network publications of a driver."""

    name = "sender"

    def __init__(
        self, settings: SenderSettings, dependencies: SenderDependencies, system: SystemCounters, now_ns: int
    ) -> None:
        self.commands: AgentCommands = AgentCommands()
        """The conductor's commands, each called with the time."""
        self._settings = settings
        self._dependencies = dependencies
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
        """Run one cycle. Returns the amount of work done."""
        settings = self._settings
        if self._dependencies.cycle_time is not None:
            self._dependencies.cycle_time.measure(now_ns)
        work = do_command(self.commands, self._dependencies.errors, now_ns, now_ms)
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
            received = self._poll(now_ns, now_ms)
            work += received
            self._cycles_since_poll = 0
            self._poll_deadline_ns = now_ns + settings.status_message_timeout_ns // 2
            if received and sent == 0:
                # A receiver may have opened its window: use it in this cycle, not in the next one.
                work += self._send(now_ns, now_ms)
        if settings.re_resolution_interval_ns > 0 and self._re_resolution_deadline_ns < now_ns:
            self._re_resolution_deadline_ns = now_ns + settings.re_resolution_interval_ns
            for endpoint in self._endpoints:
                endpoint.check_for_re_resolution(now_ns)
        return work

    def quiet_until(self) -> int:
        """See :class:`~everlog.runtime.agent_runner.Agent`. The sender is idle without publications."""
        if not self.commands.listen() or self._publications:
            return BUSY
        has_names = self._endpoints and self._settings.re_resolution_interval_ns > 0
        return self._re_resolution_deadline_ns + 1 if has_names else FOREVER

    @property
    def words(self) -> Sequence[WordPair]:
        """The words that change when a command is queued."""
        return (self.commands.words,)

    def sockets(self) -> Sequence[int]:
        """The sockets that the sender polls."""
        return self._dependencies.selector.numbers()

    def resume(self) -> None:
        """Exclude the idle time from the measured cycle times."""
        if self._dependencies.cycle_time is not None:
            self._dependencies.cycle_time.restart()

    def close(self) -> None:
        """Stop polling. The conductor closes the sockets."""
        for endpoint in self._endpoints:
            self._dependencies.selector.remove(endpoint.socket)
        self._endpoints = []

    def _send(self, now_ns: int, now_ms: int) -> int:
        """Send all publications, starting with another one in each cycle. Returns the number of bytes."""
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
                self._dependencies.errors.record(error, now_ms)
        if sent:
            self._bytes_sent.add_release(sent)
        return sent

    def _poll(self, now_ns: int, now_ms: int) -> int:
        """Read the receivers' frames. Returns the number of bytes."""
        received = 0
        for endpoint in self._dependencies.selector.ready():
            try:
                received += endpoint.poll(self._batch, now_ns)
            except Exception as error:
                self._dependencies.errors.record(error, now_ms)
        return received

    # Commands of the conductor

    def on_register_send_channel_endpoint(self, endpoint: Endpoint, now_ns: int) -> None:
        """Poll the endpoint's socket from now on."""
        self._dependencies.selector.add(endpoint.socket, endpoint)
        self._endpoints.append(endpoint)

    def on_close_send_channel_endpoint(self, endpoint: Endpoint, now_ns: int) -> None:
        """Stop polling the endpoint, and notify the conductor."""
        self._dependencies.selector.remove(endpoint.socket)
        self._endpoints = [other for other in self._endpoints if other is not endpoint]
        self._dependencies.conductor.send_channel_endpoint_closed(endpoint)

    def on_new_network_publication(self, publication: NetworkPublication, now_ns: int) -> None:
        """Send the publication from now on."""
        self._publications = [*self._publications, publication.sender]
        publication.channel_endpoint.register(publication.sender)

    def on_remove_network_publication(self, publication: NetworkPublication, now_ns: int) -> None:
        """Stop sending the publication, and let the conductor close it."""
        self._publications = [other for other in self._publications if other is not publication.sender]
        publication.channel_endpoint.unregister(publication.sender)
        publication.sender.release()

    def on_resolution_change(self, endpoint: Endpoint, name: str, new_address: SocketAddress, now_ns: int) -> None:
        """Use the new address of a name."""
        endpoint.resolution_change(name, new_address)
        self._resolution_changes.increment_release()


class SenderProxy(AgentProxy[Sender]):
    """The conductor's commands to the sender."""

    def register_send_channel_endpoint(self, endpoint: Endpoint) -> None:
        """Poll the endpoint's socket."""
        self._ask(lambda sender, now_ns: sender.on_register_send_channel_endpoint(endpoint, now_ns))

    def close_send_channel_endpoint(self, endpoint: Endpoint) -> None:
        """Stop polling the endpoint, so that it can be closed."""
        self._ask(lambda sender, now_ns: sender.on_close_send_channel_endpoint(endpoint, now_ns))

    def new_network_publication(self, publication: NetworkPublication) -> None:
        """Send a new publication."""
        self._ask(lambda sender, now_ns: sender.on_new_network_publication(publication, now_ns))

    def remove_network_publication(self, publication: NetworkPublication) -> None:
        """Stop sending a publication, which then reaches its end of life."""
        self._ask(lambda sender, now_ns: sender.on_remove_network_publication(publication, now_ns))

    def add_destination(
        self, endpoint: Endpoint, uri: ChannelUri, address: SocketAddress | None, registration_id: int
    ) -> None:
        """Send to another destination, too."""
        self._ask(lambda sender, now_ns: endpoint.add_destination(uri, address, registration_id, now_ns))

    def remove_destination(self, endpoint: Endpoint, address: SocketAddress) -> None:
        """Stop sending to a destination."""
        self._ask(lambda sender, now_ns: endpoint.remove_destination(address))

    def remove_destination_by_id(self, endpoint: Endpoint, registration_id: int) -> None:
        """Stop sending to a destination."""
        self._ask(lambda sender, now_ns: endpoint.remove_destination_by_id(registration_id))

    def on_resolution_change(self, endpoint: Endpoint, name: str, new_address: SocketAddress) -> None:
        """Use the new address of a name."""
        self._ask(lambda sender, now_ns: sender.on_resolution_change(endpoint, name, new_address, now_ns))
