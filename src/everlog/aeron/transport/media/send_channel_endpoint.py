"""Sends the publications of one channel and receives their receivers' answers. Source: SendChannelEndpoint.

The conductor opens and closes it; in between, only the sender's thread uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from everlog.aeron.channel_uri import ChannelUri, InvalidChannel
from everlog.aeron.frames.constants import FLAG_BEGIN, FRAME_ALIGNMENT, HEADER_LENGTH, MAX_TERM_LENGTH
from everlog.aeron.java_exception import AeronEvent
from everlog.aeron.layouts import NULL_VALUE, DataHeader
from everlog.aeron.transport.media.context import (
    ACTIVE,
    ADDRESS_TIMEOUT_NS,
    CLOSING,
    ERRORED,
    INITIALIZING,
    ChannelFailed,
    MediaContext,
    send_failed,
    text_of,
)
from everlog.aeron.transport.media.send_destinations import (
    NO_REGISTRATION,
    Destination,
    DynamicDestinations,
    ManualDestinations,
)
from everlog.aeron.transport.media.transport import BufferLengths, Ends, UdpTransport
from everlog.aeron.transport.media.udp_channel import ENDPOINT, UdpChannel
from everlog.aeron.transport.memory.counters_memory import AtomicCounter
from everlog.aeron.transport.protocol import wire
from everlog.errors import CorruptData
from everlog.kernel.memory import Memory
from everlog.kernel.socket_address import SocketAddress
from everlog.kernel.udp import Datagrams

_READ_KINDS = frozenset(
    (wire.TYPE_NAK, wire.TYPE_SM, wire.TYPE_ERR, wire.TYPE_SETUP, wire.TYPE_RTTM, wire.TYPE_RES, wire.TYPE_RSP_SETUP)
)
"""The kinds of frames that are decoded. Checked before decoding, because raising an error for each datagram of a flood
would cost ten times as much."""


class Publication(Protocol):
    """A publication on the sender's thread, as endpoints see it."""

    @property
    def session_id(self) -> int: ...
    @property
    def stream_id(self) -> int: ...
    @property
    def term_length(self) -> int: ...
    @property
    def response_correlation_id(self) -> int: ...
    @property
    def time_of_last_status_message_ns(self) -> int: ...
    def is_valid_status_message(self, message: wire.StatusMessage) -> bool: ...
    def on_status_message(self, message: wire.StatusMessage, source: SocketAddress, now_ns: int) -> None: ...
    def trigger_send_setup_frame(self, message: wire.StatusMessage, source: SocketAddress, now_ns: int) -> None: ...
    def on_nak(self, nak: wire.Nak, now_ns: int) -> None: ...
    def on_rtt_measurement(self, message: wire.RttMeasurement, source: SocketAddress) -> None: ...
    def on_error(
        self, error: wire.ErrorFrame, source: SocketAddress, destination_registration_id: int, now_ns: int
    ) -> None: ...


class SendChannelEndpoint(UdpTransport):
    """The endpoint of one channel. ``status_indicator`` reports the channel's status to clients.
    ``local_socket_address_indicator`` and ``destinations_counter``, if used, are set before :meth:`open_channel`. All
    counters are closed with the endpoint."""

    def __init__(self, channel: UdpChannel, status_indicator: AtomicCounter, context: MediaContext) -> None:
        has_peer = not channel.is_multi_destination and not channel.is_response_control_mode
        ends = Ends(channel.remote_control, channel.local_control, channel.remote_data if has_peer else None)
        super().__init__(channel, ends, BufferLengths.of(channel, context), context.sender_ports, context)
        self.udp_channel = channel
        self.status_indicator = status_indicator
        self.local_socket_address_indicator: AtomicCounter | None = None
        self._references = 0
        self._now_ns = 0
        self._time_of_last_resolution_ns = 0
        self._publications: dict[tuple[int, int], Publication] = {}
        self._manual = ManualDestinations() if channel.is_manual_control_mode else None
        self._dynamic = DynamicDestinations() if channel.is_dynamic_control_mode else None
        self._destinations = self._dynamic if self._manual is None else self._manual
        self._timestamp_offset = channel.channel_send_timestamp_offset
        self._readers: dict[type, Callable[..., None]] = {
            wire.StatusMessage: self._on_status_message,
            wire.Nak: self._on_nak,
            wire.RttMeasurement: self._on_rtt_measurement,
            wire.ErrorFrame: self._on_error,
            wire.ResponseSetup: self._on_response_setup,
        }

    # For the conductor

    @property
    def destinations_counter(self) -> AtomicCounter | None:
        """The counter of the number of destinations; ``None`` for a channel with a single destination."""
        return None if self._destinations is None else self._destinations.counter

    @destinations_counter.setter
    def destinations_counter(self, counter: AtomicCounter) -> None:
        if self._destinations is None:
            raise ValueError(f"one destination only: {self.original_uri}")
        self._destinations.counter = counter

    @property
    def destination_count(self) -> int:
        """The current number of destinations of a multi-destination channel."""
        return 0 if self._destinations is None else len(self._destinations)

    @property
    def status(self) -> int:
        """The value of the status counter."""
        return self.status_indicator.get_acquire()

    @property
    def status_indicator_counter_id(self) -> int:
        """The id of the status counter."""
        return self.status_indicator.id

    @property
    def multicast_ttl(self) -> int:
        """The TTL of the channel's multicast datagrams; 0 is the system's default."""
        return self._multicast_ttl

    def open_channel(self) -> None:
        """Open the sockets. Raises :class:`~everlog.aeron.transport.media.context.ChannelFailed`."""
        self.open_sockets(self.status_indicator)
        if self.local_socket_address_indicator is not None:
            self._context.update_bind_address(self.local_socket_address_indicator, self.bind_address_and_port)
            self.local_socket_address_indicator.set_release(ACTIVE)

    def indicate_active(self) -> None:
        """Report in the counters that it is active, and its bound address."""
        if self.status_indicator.get() != INITIALIZING:
            raise ValueError(f"a channel that has the status {self.status_indicator.get()} can't become active")
        self._context.append_label(self.status_indicator, self.bind_address_and_port)
        self.status_indicator.set_release(ACTIVE)

    def indicate_closing(self) -> None:
        """Set its status to closing."""
        self.status_indicator.set_release(CLOSING)

    def inc_ref(self) -> None:
        """Add a reference of a publication."""
        self._references += 1

    def dec_ref(self) -> None:
        """Remove a reference."""
        self._references -= 1

    def should_be_closed(self) -> bool:
        """Whether nothing uses it and it is not closing yet."""
        status = self.status_indicator
        return self._references == 0 and not status.is_closed and status.get() != CLOSING

    def close(self) -> None:
        """Close sockets and counters; a second call does nothing."""
        self._close_sockets()
        for counter in (self.status_indicator, self.local_socket_address_indicator, self.destinations_counter):
            if counter is not None:
                counter.close()

    def matches_tag(self, channel: UdpChannel) -> bool:
        """Whether a channel refers to this endpoint by its tag. Raises :class:`InvalidChannel` if it contradicts the
        endpoint."""
        return channel.matches_tag(self.udp_channel, None, self._connect_address)

    def validate_allows_manual_control(self) -> None:
        """Raises :class:`InvalidChannel` unless its destinations are set manually."""
        if self._manual is None:
            raise InvalidChannel("channel does not allow manual control")

    # For the sender

    def register(self, publication: Publication) -> None:
        """Route answers to this publication to it."""
        self._publications[publication.session_id, publication.stream_id] = publication

    def unregister(self, publication: Publication) -> None:
        """Stop routing answers to this publication."""
        self._publications.pop((publication.session_id, publication.stream_id), None)

    def send(self, data: bytes, address: SocketAddress | None = None) -> int:
        """Send one frame to the peer, to all destinations, or to ``address``. Returns its bytes, fewer if a destination
        did not get it."""
        if address is not None or self._destinations is None:
            return 0 if address is None and self._connect_address is None else self.send_to(data, address)
        shortest = len(data)
        for target in self._destinations.targets(self._now_ns):
            if target is not None:
                shortest = min(shortest, self.send_to(data, target))
        return shortest

    def send_parts(
        self,
        memory: Memory,
        offset: int,
        ends: Sequence[int],
        count: int = -1,
        address: SocketAddress | None = None,
    ) -> int:
        """Send parts of a term, a datagram each, like :meth:`everlog.kernel.udp_twin.UdpSocket.send_parts`. Returns how
        many all destinations got."""
        total = len(ends) if count < 0 else count
        if self._timestamp_offset is not None:
            self._stamp(memory, offset, ends, total, self._timestamp_offset)
        if address is not None or self._destinations is None:
            if address is None and self._connect_address is None:
                return 0
            return self._send_parts(memory, offset, ends, total, address)
        fewest = total
        for target in self._destinations.targets(self._now_ns):
            if target is not None:
                fewest = min(fewest, self._send_parts(memory, offset, ends, total, target))
        return fewest

    def _send_parts(
        self, memory: Memory, offset: int, ends: Sequence[int], count: int, address: SocketAddress | None
    ) -> int:
        if self._send_socket is None:
            return 0
        try:
            return self._send_socket.send_parts(memory, offset, ends, address, count)
        except OSError as error:
            send_failed(self._context.errors, address or self._connect_address, error)
            return 0

    def _stamp(self, memory: Memory, offset: int, ends: Sequence[int], count: int, timestamp_offset: int) -> None:
        """Write the time into the first message of each datagram, if a message begins there and is long enough."""
        now_ns, start = self._context.epoch_ns(), offset
        for end in ends[:count]:
            at = start + HEADER_LENGTH + timestamp_offset
            if end - start >= HEADER_LENGTH and at + 8 <= end:
                header = DataHeader.struct.unpack_from(memory.read(start, HEADER_LENGTH))
                is_begin = header[3] == wire.TYPE_DATA and header[2] & FLAG_BEGIN
                if is_begin and at + 8 <= start + header[0]:
                    memory.put_i64(at, now_ns)
            start = end

    def add_destination(
        self, uri: ChannelUri, address: SocketAddress | None, registration_id: int, now_ns: int
    ) -> None:
        """Add a destination. Raises :class:`InvalidChannel` unless the destinations are set manually."""
        self._by_hand.add(Destination(address, now_ns, None, text_of(uri, ENDPOINT), registration_id))

    def remove_destination(self, address: SocketAddress) -> None:
        """Remove a destination."""
        self._by_hand.remove(address)

    def remove_destination_by_id(self, registration_id: int) -> None:
        """Remove the destination that this command added."""
        self._by_hand.remove_by_id(registration_id)

    @property
    def _by_hand(self) -> ManualDestinations:
        self.validate_allows_manual_control()
        assert self._manual is not None
        return self._manual

    def check_for_re_resolution(self, now_ns: int) -> None:
        """Have the names of silent peers resolved again."""
        channel, conductor = self.udp_channel, self._context.conductor
        if self._manual is not None:
            for destination in self._manual.silent(now_ns):
                conductor.re_resolve_endpoint(destination.endpoint or "", self, destination.address)
        elif channel.has_explicit_endpoint and not channel.is_multicast and not channel.is_response_control_mode:
            last_ns = self._time_of_last_resolution_ns
            if self._is_silent(now_ns) and last_ns + ADDRESS_TIMEOUT_NS < now_ns:
                self._time_of_last_resolution_ns = now_ns
                conductor.re_resolve_endpoint(text_of(channel.uri, ENDPOINT), self, self._connect_address)

    def _is_silent(self, now_ns: int) -> bool:
        heard = (each.time_of_last_status_message_ns for each in self._publications.values())
        return all(last_ns + ADDRESS_TIMEOUT_NS < now_ns for last_ns in heard)

    def resolution_change(self, endpoint: str, new_address: SocketAddress) -> None:
        """Set the new address of a name. Raises :class:`~everlog.aeron.transport.media.context.ChannelFailed` and sets
        the status counter to errored if that fails."""
        if self._manual is not None:
            self._manual.update(endpoint, new_address)
        elif self._dynamic is None and self._send_socket is not None:
            try:
                self._send_socket.connect(new_address)
            except OSError as error:
                self.status_indicator.set_release(ERRORED)
                reason = f"re-resolve endpoint channel error - {error.strerror or error}"
                raise ChannelFailed(f"{reason}: {self.original_uri}") from error
            self._connect_address = new_address
            self.status_indicator.set_release(ACTIVE)

    # Answers of receivers

    def poll(self, batch: Datagrams, now_ns: int) -> int:
        """Receive datagrams into ``batch`` and handle their frames. Returns the number of bytes received. Invalid
        frames are counted and skipped. Raises ``OSError``."""
        self._now_ns = now_ns
        total = 0
        for index in range(self.receive(batch)):
            total += batch.length(index)
            frame = self._frame(batch.view(index))
            reader = self._readers.get(type(frame))
            if reader is not None:
                reader(frame, batch.source(index), now_ns)
        return total

    def _frame(self, view: memoryview) -> wire.Frame | None:
        """Handle a frame for the sender. Ignores frames of other types; counts invalid ones."""
        kind, length = wire.frame_type(view), len(view)
        if kind in (wire.TYPE_DATA, wire.TYPE_PADDING) and length >= HEADER_LENGTH and length % FRAME_ALIGNMENT == 0:
            return None
        if kind in _READ_KINDS:
            try:
                return wire.decode(view)
            except CorruptData:
                pass
        self._context.counters.invalid_packets.increment_release()
        return None

    def _on_status_message(self, message: wire.StatusMessage, source: SocketAddress, now_ns: int) -> None:
        counters = self._context.counters
        publication = self._publications.get((message.session_id, message.stream_id))
        if not message.is_valid(MAX_TERM_LENGTH if publication is None else publication.term_length):
            counters.invalid_packets.increment_release()
            return
        counters.status_messages_received.increment_release()
        asks_setup = bool(message.flags & wire.SM_SEND_SETUP)
        if not asks_setup and publication is not None and not publication.is_valid_status_message(message):
            counters.status_messages_rejected.increment_release()
            return
        if self._manual is not None:
            self._manual.on_status_message(message, source, now_ns)
        elif self._dynamic is not None and not self._dynamic.on_status_message(message, source, now_ns):
            self._context.errors.record(AeronEvent(f"too many dynamic destinations: {self.original_uri}"))
            return
        if publication is not None and asks_setup:
            publication.trigger_send_setup_frame(message, source, now_ns)
        elif publication is not None:
            publication.on_status_message(message, source, now_ns)

    def _on_nak(self, nak: wire.Nak, source: SocketAddress, now_ns: int) -> None:
        publication = self._publications.get((nak.session_id, nak.stream_id))
        if publication is None:
            return
        if nak.is_valid(publication.term_length):
            self._context.counters.nak_messages_received.increment_release()
            publication.on_nak(nak, now_ns)
        else:
            self._context.counters.invalid_packets.increment_release()

    def _on_rtt_measurement(self, message: wire.RttMeasurement, source: SocketAddress, now_ns: int) -> None:
        publication = self._publications.get((message.session_id, message.stream_id))
        if publication is not None:
            publication.on_rtt_measurement(message, source)

    def _on_error(self, error: wire.ErrorFrame, source: SocketAddress, now_ns: int) -> None:
        self._context.counters.error_frames_received.increment_release()
        publication = self._publications.get((error.session_id, error.stream_id))
        if publication is not None:
            destinations = self._destinations
            found = NO_REGISTRATION if destinations is None else destinations.registration_id_of(error, source)
            publication.on_error(error, source, found, now_ns)

    def _on_response_setup(self, message: wire.ResponseSetup, source: SocketAddress, now_ns: int) -> None:
        publication = self._publications.get((message.session_id, message.stream_id))
        if publication is not None and publication.response_correlation_id != NULL_VALUE:
            correlation_id = publication.response_correlation_id
            self._context.conductor.response_setup(correlation_id, message.response_session_id)
