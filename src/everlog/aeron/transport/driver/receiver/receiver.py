"""The agent that takes all data from the network into images, and tells their sources what they need to know. Source:
Receiver, DataTransportPoller.

A machine: the shell calls :meth:`Receiver.do_work` with the time. The conductor asks for things by ``receiver_proxy``.
When the conductor runs in another thread, the receiver does one of them at the start of each cycle.
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
"""Of one transport in one cycle: the others, and status messages, have their turn after that."""
SLOT_LENGTH = 65_536
"""Longer than any datagram."""


class ConductorOfImages(Protocol):
    """Whom the receiver tells."""

    def create_publication_image(self, request: Any, /) -> None: ...
    def receive_channel_endpoint_closed(self, endpoint: Any, /) -> None: ...
    def close_receive_destination(self, transport: Any, /) -> None: ...


@dataclass(slots=True, eq=False)
class PolledTransport:
    """A transport of a channel, that is listened to."""

    endpoint: ReceiveEndpoint
    transport: Transport
    index: int
    was_invalid: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverSettings:
    """No names are looked up anew with a ``re_resolution_interval_ns`` of 0."""

    re_resolution_interval_ns: int = 1_000_000_000
    stream_session_limit: int = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class ReceiverDependencies:
    """What a receiver is handed: who listens on sockets, who is told, where errors go, what measures its cycles, and
    the time since 1970 in nanoseconds for timestamps in data (without it they are of milliseconds)."""

    selector: SocketSelector[PolledTransport]
    conductor: ConductorOfImages
    errors: ErrorRecorder
    cycle_time: CycleTime | None = None
    epoch_ns: Callable[[], int] | None = None


class Receiver:
    """All channels and images of a driver."""

    name = "receiver"

    def __init__(
        self, settings: ReceiverSettings, seams: ReceiverDependencies, counters: ReceiverCounters, now_ns: int
    ) -> None:
        self.commands: AgentCommands = AgentCommands()
        """What the conductor asks for; each is called with the time."""
        self.now_ns = now_ns
        """Of the present cycle."""
        self._settings = settings
        self._seams = seams
        self._counters = counters
        self._images: list[ImageReceiver] = []
        self._heard: list[PolledTransport] = []
        self._pending = PendingSetups()
        self._batch = Datagrams(BATCH_DATAGRAMS, SLOT_LENGTH)
        self._re_resolution_deadline_ns = now_ns + settings.re_resolution_interval_ns

    def new_dispatcher(self) -> DataPacketDispatcher:
        """For a new endpoint."""
        return DataPacketDispatcher(self, self._settings.stream_session_limit)

    def do_work(self, now_ns: int, now_ms: int) -> int:
        """One cycle; how much was done."""
        self.now_ns = now_ns
        if self._seams.cycle_time is not None:
            self._seams.cycle_time.measure(now_ns)
        work = do_command(self.commands, self._seams.errors, now_ns, now_ms) + self._poll(now_ns, now_ms)
        for image in self._images:
            try:
                done = image.do_work(now_ns)
            except Exception as error:
                self._seams.errors.record(error, now_ms)
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
            for endpoint in {id(heard.endpoint): heard.endpoint for heard in self._heard}.values():
                endpoint.check_for_re_resolution(now_ns)
        return work

    def quiet_until(self) -> int:
        """See :class:`~everlog.runtime.agent_runner.Agent`: without images it
        listens, no more."""
        if not self.commands.listen() or self._images or len(self._pending):
            return BUSY
        has_names = self._heard and self._settings.re_resolution_interval_ns > 0
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
        for heard in self._heard:
            self._seams.selector.remove(heard.transport.socket)
        self._heard = []

    def _remove(self, image: ImageReceiver) -> None:
        self._images = [other for other in self._images if other is not image]
        image.channel_endpoint.dispatcher.remove_image(image)
        image.release()

    # What comes in

    def _poll(self, now_ns: int, now_ms: int) -> int:
        """Take what each transport has, a few batches at most; bytes."""
        received = 0
        for heard in self._seams.selector.ready():
            try:
                sock = heard.transport.socket
                for _ in range(MAX_BATCHES):
                    count = sock.receive(self._batch)
                    if count:
                        received += self._take(heard, now_ns, now_ms)
                    if count < BATCH_DATAGRAMS:
                        break
            except Exception as error:
                self._seams.errors.record(error, now_ms)
        if received:
            self._counters.bytes_received.add_release(received)
        return received

    def _take(self, heard: PolledTransport, now_ns: int, now_ms: int) -> int:
        sessions = heard.endpoint.dispatcher.sessions
        epoch_ns = now_ms * 1_000_000 if self._seams.epoch_ns is None else self._seams.epoch_ns()
        received = sessions.insert(self._batch, heard.index, now_ns, epoch_ns)
        invalid = sessions.invalid
        for index, what in sessions.notes:
            try:
                if what == CONTROL:
                    self._on_control(heard, index)
                else:
                    self._on_data(heard, index, what)
            except CorruptData as error:
                invalid += 1
                self._log_invalid(heard, str(error), now_ms)
            except Exception as error:
                self._seams.errors.record(error, now_ms)
        counters = self._counters
        if sessions.heartbeats:
            counters.heartbeats_received.add_release(sessions.heartbeats)
        if sessions.under_runs:
            counters.flow_control_under_runs.add_release(sessions.under_runs)
        if sessions.over_runs:
            counters.flow_control_over_runs.add_release(sessions.over_runs)
        if invalid:
            counters.invalid_packets.add(invalid)
            self._log_invalid(heard, "a frame or its length is out of bounds", now_ms)
        if invalid < len(self._batch):
            heard.endpoint.on_activity(now_ns, heard.index)
        return received

    def _log_invalid(self, heard: PolledTransport, reason: str, now_ms: int) -> None:
        """Once for each transport: whoever can send rubbish can send a lot of it."""
        if not heard.was_invalid:
            heard.was_invalid = True
            channel = heard.endpoint.original_uri
            self._seams.errors.record(AeronEvent(f"invalid packet received: {reason} - channel={channel}"), now_ms)

    def _on_control(self, heard: PolledTransport, index: int) -> None:
        frame = decode(self._batch.read(index))
        dispatcher, source = heard.endpoint.dispatcher, self._batch.source(index)
        if isinstance(frame, Setup):
            if not is_possible(frame):
                raise CorruptData("setup frame", found=str(frame), expected="a stream that can be")
            dispatcher.on_setup(frame, heard.endpoint, heard.index, source)
        elif isinstance(frame, RttMeasurement) and frame.receiver_id in (0, heard.endpoint.receiver_id):
            dispatcher.on_rtt_measurement(frame, heard.endpoint, heard.index, source)

    def _on_data(self, heard: PolledTransport, index: int, what: int) -> None:
        header = DataHeader.unpack_from(self._batch.read(index))
        dispatcher, source = heard.endpoint.dispatcher, self._batch.source(index)
        if what == NEW_SESSION:
            dispatcher.on_new_session(header.stream_id, header.session_id, heard.endpoint, heard.index, source)
            return
        image = dispatcher.image_of(header.stream_id, header.session_id)
        if image is None:
            return
        if what == NEW_CONNECTION:
            image.add_connection_if_unknown(heard.index, source, self.now_ns)
        elif what == END_OF_STREAM:
            image.on_end_of_stream(heard.index, header, bool(header.flags & FLAG_REVOKED))

    # What dispatchers ask for

    def on_pending(self, pending: PendingSetup) -> None:
        """A source was asked for a setup."""
        self._pending.add(pending)

    def create_image(self, create: CreateImage) -> None:
        """A session is to have an image."""
        self._seams.conductor.create_publication_image(create)

    def on_ttl_asymmetry(self) -> None:
        """A source's datagrams come from further away than ours may go."""
        self._counters.possible_ttl_asymmetry.increment_release()

    # What the conductor asks for

    def on_add_subscription(
        self, endpoint: ReceiveEndpoint, stream_id: int, session_id: int | None, now_ns: int
    ) -> None:
        """Somebody wants a stream."""
        endpoint.dispatcher.add_subscription(stream_id, session_id)
        if session_id is not None:
            self.on_request_setup(endpoint, stream_id, session_id, now_ns)

    def on_request_setup(self, endpoint: ReceiveEndpoint, stream_id: int, session_id: int, now_ns: int) -> None:
        """Ask the source that is known, if there is one, for a session's setup."""
        address = None if endpoint.has_destination_control else endpoint.explicit_control_address()
        if address is not None:
            endpoint.send_setup_eliciting_status_message(0, address, session_id, stream_id)

    def on_remove_subscription(
        self, endpoint: ReceiveEndpoint, stream_id: int, session_id: int | None, now_ns: int
    ) -> None:
        """Nobody wants it any more."""
        endpoint.dispatcher.remove_subscription(stream_id, session_id)
        if session_id is not None:
            stream = endpoint, stream_id, session_id
            self._pending.remove(lambda each: (each.endpoint, each.stream_id, each.session_id) == stream)

    def on_new_publication_image(self, endpoint: ReceiveEndpoint, image: PublicationImage, now_ns: int) -> None:
        """Its data goes there from now on."""
        receiver = image.receiver
        for other in self._images:
            same_stream = (other.stream_id, other.session_id) == (receiver.stream_id, receiver.session_id)
            if same_stream and other.channel_endpoint is endpoint:
                other.stop_status_messages_if_not_active()
        self._images = [*self._images, receiver]
        endpoint.dispatcher.add_image(receiver)

    def on_register_receive_channel_endpoint(self, endpoint: ReceiveEndpoint, now_ns: int) -> None:
        """Listen to it; where destinations are added to it there is nothing yet."""
        if not endpoint.has_destination_control:
            self._listen(endpoint, endpoint, 0, now_ns)

    def _listen(self, endpoint: ReceiveEndpoint, transport: Transport, index: int, now_ns: int) -> None:
        heard = PolledTransport(endpoint, transport, index)
        self._seams.selector.add(transport.socket, heard)
        self._heard.append(heard)
        address = endpoint.explicit_control_address(index)
        if address is not None:
            pending = PendingSetup(0, 0, index, endpoint, address, now_ns, is_periodic=True)
            self._pending.add(pending)
            pending.ask(now_ns)

    def _ignore(self, is_meant: Callable[[PolledTransport], bool]) -> None:
        for heard in self._heard:
            if is_meant(heard):
                self._seams.selector.remove(heard.transport.socket)
        self._heard = [heard for heard in self._heard if not is_meant(heard)]

    def on_close_receive_channel_endpoint(self, endpoint: ReceiveEndpoint, now_ns: int) -> None:
        """Listen to it no more, and tell the conductor."""
        self._ignore(lambda heard: heard.endpoint is endpoint)
        self._pending.remove(lambda pending: pending.endpoint is endpoint)
        self._seams.conductor.receive_channel_endpoint_closed(endpoint)

    def on_add_destination(
        self, endpoint: ReceiveEndpoint, transport: ReceiveDestinationTransport, now_ns: int
    ) -> None:
        """Listen to another transport of a channel."""
        index = endpoint.add_destination(transport)
        self._listen(endpoint, transport, index, now_ns)
        multicast = endpoint.is_multicast(index)
        address = endpoint.channel_of(index).remote_control if multicast else endpoint.explicit_control_address(index)
        for image in self._images:
            if image.channel_endpoint is endpoint:
                image.add_destination(index, address, now_ns)

    def on_remove_destination(self, endpoint: ReceiveEndpoint, channel: UdpChannel, now_ns: int) -> None:
        """Listen to a transport no more, and tell the conductor."""
        index = endpoint.destination_index(channel)
        if index < 0:
            self._seams.conductor.close_receive_destination(None)
            return
        transport = endpoint.destination(index)
        self._ignore(lambda heard: heard.transport is transport)
        self._pending.remove(lambda pending: pending.endpoint is endpoint and pending.transport_index == index)
        endpoint.remove_destination(index)
        for image in self._images:
            if image.channel_endpoint is endpoint:
                image.remove_destination(index, now_ns)
        self._seams.conductor.close_receive_destination(transport)

    def on_resolution_change(
        self, endpoint: ReceiveEndpoint, channel: UdpChannel, new_address: SocketAddress, now_ns: int
    ) -> None:
        """A control has another address now."""
        index = endpoint.destination_index(channel) if endpoint.has_destination_control else 0
        if index >= 0:
            changed = self._pending.resolve(endpoint, index, new_address)
            self._counters.resolution_changes.add_release(changed)
            endpoint.update_control_address(index, new_address)

    def on_reject_image(self, correlation_id: int, reason: str, now_ns: int) -> None:
        """A client can't use it."""
        for image in self._images:
            if image.correlation_id == correlation_id:
                image.reject(reason)
