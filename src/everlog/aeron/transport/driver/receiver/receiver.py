"""The agent that writes all data from the network into images and sends feedback to their sources. Source: Receiver,
DataTransportPoller.

The agent's runner calls :meth:`Receiver.do_work` with the time. The conductor sends commands through ``ReceiverProxy``.
If the conductor runs on another thread, the receiver carries out one command per cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from everlog.aeron.java_exception import AeronEvent
from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.driver.receiver.dispatcher import CreateImage, DataPacketDispatcher, is_possible
from everlog.aeron.transport.driver.receiver.endpoint import ReceiveEndpoint, Transport
from everlog.aeron.transport.driver.receiver.image_parameters import ReceiverCounters
from everlog.aeron.transport.driver.receiver.image_receiver import DISCONNECTED, ImageReceiver
from everlog.aeron.transport.driver.receiver.packets import CONTROL, END_OF_STREAM, NEW_CONNECTION, NEW_SESSION
from everlog.aeron.transport.driver.receiver.pending_setups import PendingSetup, PendingSetups
from everlog.aeron.transport.driver.receiver.publication_image import PublicationImage
from everlog.aeron.transport.driver.system_counters import CycleTime
from everlog.aeron.transport.media.network import SocketSelector
from everlog.aeron.transport.media.receive_destination import ReceiveDestinationTransport
from everlog.aeron.transport.media.udp_channel import UdpChannel
from everlog.aeron.transport.protocol.wire import FLAG_REVOKED, RttMeasurement, Setup, decode
from everlog.errors import CorruptData
from everlog.kernel.udp import Datagrams, SocketAddress
from everlog.kernel.watch import WordPair
from everlog.runtime.agent_commands import AgentCommands, ErrorRecorder, do_command
from everlog.runtime.quiet import BUSY, FOREVER

BATCH_DATAGRAMS = 64
MAX_BATCHES = 4
"""Most batches of one transport in one cycle; then other transports and status messages get their turn."""
SLOT_LENGTH = 65_536
"""Longer than any datagram."""


class ConductorOfImages(Protocol):
    """The conductor, as far as the receiver notifies it."""

    def create_publication_image(self, request: Any, /) -> None: ...
    def receive_channel_endpoint_closed(self, endpoint: Any, /) -> None: ...
    def close_receive_destination(self, transport: Any, /) -> None: ...


@dataclass(slots=True, eq=False)
class PolledTransport:
    """A transport of a channel that the receiver polls."""

    endpoint: ReceiveEndpoint
    transport: Transport
    index: int
    was_invalid: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverSettings:
    """The receiver's settings. A ``re_resolution_interval_ns`` of 0 disables resolving names again."""

    re_resolution_interval_ns: int = 1_000_000_000
    stream_session_limit: int = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class ReceiverDependencies:
    """A receiver's dependencies: its socket selector, the conductor it notifies, its error recorder, the measure of its
    cycle times, and a clock of nanoseconds since 1970 for timestamps in data (without it they have milliseconds)."""

    selector: SocketSelector[PolledTransport]
    conductor: ConductorOfImages
    errors: ErrorRecorder
    cycle_time: CycleTime | None = None
    epoch_ns: Callable[[], int] | None = None


class Receiver:
    """Receives all channels and images of a driver."""

    name = "receiver"

    def __init__(
        self, settings: ReceiverSettings, dependencies: ReceiverDependencies, counters: ReceiverCounters, now_ns: int
    ) -> None:
        self.commands: AgentCommands = AgentCommands()
        """The conductor's commands, each called with the time."""
        self.now_ns = now_ns
        """The time of the current cycle."""
        self._settings = settings
        self._dependencies = dependencies
        self._counters = counters
        self._images: list[ImageReceiver] = []
        self._polled: list[PolledTransport] = []
        self._pending = PendingSetups()
        self._batch = Datagrams(BATCH_DATAGRAMS, SLOT_LENGTH)
        self._re_resolution_deadline_ns = now_ns + settings.re_resolution_interval_ns

    def new_dispatcher(self) -> DataPacketDispatcher:
        """Create the dispatcher of a new endpoint."""
        return DataPacketDispatcher(self, self._settings.stream_session_limit)

    def do_work(self, now_ns: int, now_ms: int) -> int:
        """Run one cycle. Returns the amount of work done."""
        self.now_ns = now_ns
        if self._dependencies.cycle_time is not None:
            self._dependencies.cycle_time.measure(now_ns)
        work = do_command(self.commands, self._dependencies.errors, now_ns, now_ms) + self._poll(now_ns, now_ms)
        for image in self._images:
            try:
                done = image.do_work(now_ns)
            except Exception as error:
                self._dependencies.errors.record(error, now_ms)
                continue
            if done == DISCONNECTED:
                self._remove(image)
                done = 1
            work += done
        if len(self._pending):
            work += self._pending.check(now_ns)
        interval_ns = self._settings.re_resolution_interval_ns
        if interval_ns > 0 and self._re_resolution_deadline_ns < now_ns:
            self._re_resolution_deadline_ns = now_ns + interval_ns
            for endpoint in {id(polled.endpoint): polled.endpoint for polled in self._polled}.values():
                endpoint.check_for_re_resolution(now_ns)
        return work

    def quiet_until(self) -> int:
        """See :class:`~everlog.runtime.agent_runner.Agent`. Without images the receiver only waits for packets."""
        if not self.commands.listen() or self._images or len(self._pending):
            return BUSY
        has_names = self._polled and self._settings.re_resolution_interval_ns > 0
        return self._re_resolution_deadline_ns + 1 if has_names else FOREVER

    @property
    def words(self) -> Sequence[WordPair]:
        """The words that change when a command is queued."""
        return (self.commands.words,)

    def sockets(self) -> Sequence[int]:
        """The sockets that the receiver polls."""
        return self._dependencies.selector.numbers()

    def resume(self) -> None:
        """Exclude the idle time from the measured cycle times."""
        if self._dependencies.cycle_time is not None:
            self._dependencies.cycle_time.restart()

    def close(self) -> None:
        """Stop polling. The conductor closes the sockets."""
        for polled in self._polled:
            self._dependencies.selector.remove(polled.transport.socket)
        self._polled = []

    def _remove(self, image: ImageReceiver) -> None:
        self._images = [other for other in self._images if other is not image]
        image.channel_endpoint.dispatcher.remove_image(image)
        image.release()

    # Incoming packets

    def _poll(self, now_ns: int, now_ms: int) -> int:
        """Read a few batches at most from each transport. Returns the number of bytes."""
        received = 0
        for polled in self._dependencies.selector.ready():
            try:
                sock = polled.transport.socket
                for _ in range(MAX_BATCHES):
                    count = sock.receive(self._batch)
                    if count:
                        received += self._take(polled, now_ns, now_ms)
                    if count < BATCH_DATAGRAMS:
                        break
            except Exception as error:
                self._dependencies.errors.record(error, now_ms)
        if received:
            self._counters.bytes_received.add_release(received)
        return received

    def _take(self, polled: PolledTransport, now_ns: int, now_ms: int) -> int:
        sessions = polled.endpoint.dispatcher.sessions
        epoch_ns = now_ms * 1_000_000 if self._dependencies.epoch_ns is None else self._dependencies.epoch_ns()
        received = sessions.insert(self._batch, polled.index, now_ns, epoch_ns)
        invalid = sessions.invalid
        for index, what in sessions.notes:
            try:
                if what == CONTROL:
                    self._on_control(polled, index)
                else:
                    self._on_data(polled, index, what)
            except CorruptData as error:
                invalid += 1
                self._log_invalid(polled, str(error), now_ms)
            except Exception as error:
                self._dependencies.errors.record(error, now_ms)
        counters = self._counters
        if sessions.heartbeats:
            counters.heartbeats_received.add_release(sessions.heartbeats)
        if sessions.under_runs:
            counters.flow_control_under_runs.add_release(sessions.under_runs)
        if sessions.over_runs:
            counters.flow_control_over_runs.add_release(sessions.over_runs)
        if invalid:
            counters.invalid_packets.add(invalid)
            self._log_invalid(polled, "a frame or its length is out of bounds", now_ms)
        if invalid < len(self._batch):
            polled.endpoint.on_activity(now_ns, polled.index)
        return received

    def _log_invalid(self, polled: PolledTransport, reason: str, now_ms: int) -> None:
        """Log an invalid packet, but only once per transport, because an attacker may send many."""
        if not polled.was_invalid:
            polled.was_invalid = True
            channel = polled.endpoint.original_uri
            self._dependencies.errors.record(
                AeronEvent(f"invalid packet received: {reason} - channel={channel}"), now_ms
            )

    def _on_control(self, polled: PolledTransport, index: int) -> None:
        frame = decode(self._batch.read(index))
        dispatcher, source = polled.endpoint.dispatcher, self._batch.source(index)
        if isinstance(frame, Setup):
            if not is_possible(frame):
                expected = "a term length, MTU, term offset and term ids that fit together"
                raise CorruptData(f"setup frame from {source}", found=str(frame), expected=expected)
            dispatcher.on_setup(frame, polled.endpoint, polled.index, source)
        elif isinstance(frame, RttMeasurement) and frame.receiver_id in (0, polled.endpoint.receiver_id):
            dispatcher.on_rtt_measurement(frame, polled.endpoint, polled.index, source)

    def _on_data(self, polled: PolledTransport, index: int, what: int) -> None:
        header = DataHeader.unpack_from(self._batch.read(index))
        dispatcher, source = polled.endpoint.dispatcher, self._batch.source(index)
        if what == NEW_SESSION:
            dispatcher.on_new_session(header.stream_id, header.session_id, polled.endpoint, polled.index, source)
            return
        image = dispatcher.image_of(header.stream_id, header.session_id)
        if image is None:
            return
        if what == NEW_CONNECTION:
            image.add_connection_if_unknown(polled.index, source, self.now_ns)
        elif what == END_OF_STREAM:
            image.on_end_of_stream(polled.index, header, bool(header.flags & FLAG_REVOKED))

    # Callbacks of dispatchers

    def on_pending(self, pending: PendingSetup) -> None:
        """Track a setup request that was sent to a source."""
        self._pending.add(pending)

    def create_image(self, create: CreateImage) -> None:
        """Request an image for a session from the conductor."""
        self._dependencies.conductor.create_publication_image(create)

    def on_ttl_asymmetry(self) -> None:
        """Count a source whose datagrams travel farther than this channel's TTL lets answers travel."""
        self._counters.possible_ttl_asymmetry.increment_release()

    # Commands of the conductor

    def on_add_subscription(
        self, endpoint: ReceiveEndpoint, stream_id: int, session_id: int | None, now_ns: int
    ) -> None:
        """Receive a stream, or one session of it."""
        endpoint.dispatcher.add_subscription(stream_id, session_id)
        if session_id is not None:
            self.on_request_setup(endpoint, stream_id, session_id, now_ns)

    def on_request_setup(self, endpoint: ReceiveEndpoint, stream_id: int, session_id: int, now_ns: int) -> None:
        """Request a session's setup from the channel's control address, if it has one."""
        address = None if endpoint.has_destination_control else endpoint.explicit_control_address()
        if address is not None:
            endpoint.send_setup_eliciting_status_message(0, address, session_id, stream_id)

    def on_remove_subscription(
        self, endpoint: ReceiveEndpoint, stream_id: int, session_id: int | None, now_ns: int
    ) -> None:
        """Stop receiving a stream, or one session of it."""
        endpoint.dispatcher.remove_subscription(stream_id, session_id)
        if session_id is not None:
            stream = endpoint, stream_id, session_id
            self._pending.remove(lambda each: (each.endpoint, each.stream_id, each.session_id) == stream)

    def on_new_publication_image(self, endpoint: ReceiveEndpoint, image: PublicationImage, now_ns: int) -> None:
        """Write a session's data into a new image."""
        receiver = image.receiver
        for other in self._images:
            same_stream = (other.stream_id, other.session_id) == (receiver.stream_id, receiver.session_id)
            if same_stream and other.channel_endpoint is endpoint:
                other.stop_status_messages_if_not_active()
        self._images = [*self._images, receiver]
        endpoint.dispatcher.add_image(receiver)

    def on_register_receive_channel_endpoint(self, endpoint: ReceiveEndpoint, now_ns: int) -> None:
        """Poll the endpoint, unless it takes destinations, because it has none yet."""
        if not endpoint.has_destination_control:
            self._start_polling(endpoint, endpoint, 0, now_ns)

    def _start_polling(self, endpoint: ReceiveEndpoint, transport: Transport, index: int, now_ns: int) -> None:
        polled = PolledTransport(endpoint, transport, index)
        self._dependencies.selector.add(transport.socket, polled)
        self._polled.append(polled)
        address = endpoint.explicit_control_address(index)
        if address is not None:
            pending = PendingSetup(0, 0, index, endpoint, address, now_ns, is_periodic=True)
            self._pending.add(pending)
            pending.ask(now_ns)

    def _stop_polling(self, matches: Callable[[PolledTransport], bool]) -> None:
        for polled in self._polled:
            if matches(polled):
                self._dependencies.selector.remove(polled.transport.socket)
        self._polled = [polled for polled in self._polled if not matches(polled)]

    def on_close_receive_channel_endpoint(self, endpoint: ReceiveEndpoint, now_ns: int) -> None:
        """Stop polling the endpoint, and notify the conductor."""
        self._stop_polling(lambda polled: polled.endpoint is endpoint)
        self._pending.remove(lambda pending: pending.endpoint is endpoint)
        self._dependencies.conductor.receive_channel_endpoint_closed(endpoint)

    def on_add_destination(
        self, endpoint: ReceiveEndpoint, transport: ReceiveDestinationTransport, now_ns: int
    ) -> None:
        """Poll another transport of a channel."""
        index = endpoint.add_destination(transport)
        self._start_polling(endpoint, transport, index, now_ns)
        multicast = endpoint.is_multicast(index)
        address = endpoint.channel_of(index).remote_control if multicast else endpoint.explicit_control_address(index)
        for image in self._images:
            if image.channel_endpoint is endpoint:
                image.add_destination(index, address, now_ns)

    def on_remove_destination(self, endpoint: ReceiveEndpoint, channel: UdpChannel, now_ns: int) -> None:
        """Stop polling a transport, and notify the conductor."""
        index = endpoint.destination_index(channel)
        if index < 0:
            self._dependencies.conductor.close_receive_destination(None)
            return
        transport = endpoint.destination(index)
        self._stop_polling(lambda polled: polled.transport is transport)
        self._pending.remove(lambda pending: pending.endpoint is endpoint and pending.transport_index == index)
        endpoint.remove_destination(index)
        for image in self._images:
            if image.channel_endpoint is endpoint:
                image.remove_destination(index, now_ns)
        self._dependencies.conductor.close_receive_destination(transport)

    def on_resolution_change(
        self, endpoint: ReceiveEndpoint, channel: UdpChannel, new_address: SocketAddress, now_ns: int
    ) -> None:
        """Use the new address of a control."""
        index = endpoint.destination_index(channel) if endpoint.has_destination_control else 0
        if index >= 0:
            changed = self._pending.resolve(endpoint, index, new_address)
            self._counters.resolution_changes.add_release(changed)
            endpoint.update_control_address(index, new_address)

    def on_reject_image(self, correlation_id: int, reason: str, now_ns: int) -> None:
        """Reject an image that a client can't use."""
        for image in self._images:
            if image.correlation_id == correlation_id:
                image.reject(reason)
