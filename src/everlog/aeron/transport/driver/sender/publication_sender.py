"""The sender's side of a network publication: sends setup frames, data, heartbeats and retransmissions, and handles the
receivers' frames. Source: NetworkPublication, ReceiverLivenessTracker.

It runs on the sender's thread. State shared with the conductor's side is in ``SharedState`` and in counters. Each value
has one writer, and a reader that sees an old value only acts later, never wrongly.

Data is sent in blocks: one call finds the datagrams in a term, one call sends them.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict

from everlog.aeron.frames.constants import FLAG_BEGIN, FLAG_END
from everlog.aeron.frames.position import term_id_of, wrap_int32
from everlog.aeron.layouts import NULL_VALUE
from everlog.aeron.transport.driver.sender.flow_control import MAX_RECEIVERS
from everlog.aeron.transport.driver.sender.network_parameters import (
    NetworkPublicationParameters,
    max_message_length,
    update_connected,
)
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.memory.log_memory import is_publication_revoked
from everlog.aeron.transport.memory.terms import scan_datagrams
from everlog.aeron.transport.protocol import wire
from everlog.kernel.udp import SocketAddress

SETUP_TIMEOUT_NS = 100_000_000
"""Interval between unanswered setup frames."""
HEARTBEAT_TIMEOUT_NS = 100_000_000
"""Silence after which a heartbeat is sent."""
MAX_BLOCK_DATAGRAMS = 64
MAX_BLOCK_LENGTH = 128 << 10
"""Most bytes sent in one call: a receiver's default window. After that, other publications get their turn and status
messages are read."""


class PublicationSender:
    """Sends one publication, up to the limit that its flow control sets."""

    def __init__(self, parameters: NetworkPublicationParameters) -> None:
        self._parameters = parameters
        self._params = parameters.params
        self.registration_id = parameters.registration_id
        self.session_id, self.stream_id = self._params.session_id, self._params.stream_id
        self.term_length = parameters.log.memory.term_length
        self.response_correlation_id = self._params.response_correlation_id
        self.time_of_last_status_message_ns = 0
        self._endpoint = parameters.channel_endpoint
        self._state = parameters.state
        self._counters = parameters.counters
        self._limit = self._state.sender_position = self._params.position
        self._terms = parameters.log.memory.terms
        self._metadata = parameters.log.memory.metadata
        self._flow_control = parameters.flow_control
        self._retransmit = parameters.retransmit
        self._short_sends = parameters.system[SystemCounter.SHORT_SENDS]
        self._ends = array("q", bytes(8 * MAX_BLOCK_DATAGRAMS))
        self._receivers: OrderedDict[int, int] = OrderedDict()
        """Receiver id to time of its last status message, in order of these times; at most ``MAX_RECEIVERS``."""
        self._response_address: SocketAddress | None = None
        self._time_of_last_setup_ns = parameters.now_ns - SETUP_TIMEOUT_NS - 1
        self._time_of_last_send_ns = parameters.now_ns - HEARTBEAT_TIMEOUT_NS - 1
        self._is_setup_elicited = False
        self._has_initial_connection = False
        self._tracks_limits = False
        self._padding = 0
        """Bytes of padding at the end of the last block; only the padding's header is sent."""

    # Each cycle

    def send(self, now_ns: int) -> int:
        """Send data up to the limit, or a heartbeat when one is due. Returns the number of bytes."""
        position = self._state.sender_position
        if not self._has_initial_connection or self._is_setup_elicited:
            self._check_setup(now_ns, position)
        sent = self._send_data(now_ns, position)
        if sent == 0:
            sent = self._check_heartbeat(now_ns, position)
            self._on_idle(now_ns, position)
        self._retransmit.process_timeouts(now_ns, self.resend)
        return sent

    def _send_data(self, now_ns: int, position: int) -> int:
        """Send a block of the term at ``position``. Returns the number of bytes, padding included."""
        window = self._limit - position
        if window <= 0:
            self._count_limit()
            return 0
        index, offset = self._place(position)
        length = min(window, max(MAX_BLOCK_LENGTH, self._params.mtu_length))
        count, available, padding, is_blocked = scan_datagrams(
            self._terms[index], offset, length, self._params.mtu_length, self._ends
        )
        if count == 0:
            if is_blocked:
                self._count_limit()
            return 0
        sent = self._send_parts(index, offset, count)
        if sent < count:
            self._short_sends.increment()
            available, padding = (self._ends[sent - 1] - offset if sent else 0), 0
        if sent:
            self._time_of_last_send_ns = now_ns
            self._tracks_limits = True
            self._padding = padding
            self._move_to(position + available + padding)
        return available + padding

    def _move_to(self, position: int) -> None:
        if position != self._state.sender_position:
            self._state.sender_position = position
            self._counters.sender_position.set_release(position)

    def _set_limit(self, limit: int) -> None:
        if limit != self._limit:
            self._limit = limit
            self._counters.sender_limit.set_release(limit)

    def _count_limit(self) -> None:
        """Count a back-pressure event, once each time that flow control stops the sender."""
        if self._tracks_limits:
            self._tracks_limits = False
            self._counters.sender_bpe.increment_release()
            self._parameters.system[SystemCounter.SENDER_FLOW_CONTROL_LIMITS].increment_release()

    def _check_setup(self, now_ns: int, position: int) -> None:
        if self._time_of_last_setup_ns + SETUP_TIMEOUT_NS >= now_ns:
            return
        self._time_of_last_setup_ns = now_ns
        if self._is_setup_elicited:
            self._flow_control.on_setup(self._limit, now_ns)
        self._send_frame(wire.encode(self._setup(position)))
        if self._is_setup_elicited and self._state.has_receivers:
            self._is_setup_elicited = False

    def _setup(self, position: int) -> wire.Setup:
        params, channel = self._params, self._endpoint.udp_channel
        asks_response = not params.is_response and params.response_correlation_id != NULL_VALUE
        return wire.Setup(
            self.session_id,
            self.stream_id,
            params.initial_term_id,
            term_id_of(position, params.initial_term_id, self.term_length),
            position & (self.term_length - 1),
            self.term_length,
            params.mtu_length,
            self._endpoint.multicast_ttl,
            (wire.SETUP_SEND_RESPONSE if asks_response else 0)
            | (wire.SETUP_GROUP if channel.has_group_semantics else 0),
        )

    def _check_heartbeat(self, now_ns: int, position: int) -> int:
        """Send a heartbeat after silence. Returns the number of bytes."""
        if not self._has_initial_connection or self._time_of_last_send_ns + HEARTBEAT_TIMEOUT_NS >= now_ns:
            return 0
        flags = FLAG_BEGIN | FLAG_END
        if is_publication_revoked(self._metadata):
            flags |= wire.FLAG_EOS | wire.FLAG_REVOKED
        elif self._params.signal_eos and self._state.is_end_of_stream:
            flags |= wire.FLAG_EOS
        sent = self._send_heartbeat(position, flags)
        if self._padding and position > self._limit:
            # Padding may take the sender past a receiver's window. A receiver drops everything more than half a term
            # ahead, even a heartbeat, so it would never notice that it lost the last data, until its image times out.
            # A heartbeat at the position before the padding does reach it.
            sent += self._send_heartbeat(position - self._padding, FLAG_BEGIN | FLAG_END)
        self._time_of_last_send_ns = now_ns
        return sent

    def _send_heartbeat(self, position: int, flags: int) -> int:
        term_id = term_id_of(position, self._params.initial_term_id, self.term_length)
        term_offset = position & (self.term_length - 1)
        self._parameters.system[SystemCounter.HEARTBEATS_SENT].increment_release()
        return self._send_frame(wire.heartbeat(self.session_id, self.stream_id, term_id, term_offset, flags))

    def _on_idle(self, now_ns: int, position: int) -> None:
        """After a cycle without data: with spies only, follow the fastest spy; remove receivers that timed out."""
        state = self._state
        if self._params.spies_simulate_connection and state.has_spies and not state.has_receivers:
            position = max(state.max_spy_position, position)
            self._move_to(position)
            self._set_limit(self._flow_control.on_idle(now_ns, position))
        else:
            self._set_limit(self._flow_control.on_idle(now_ns, self._limit))
        self._forget_receivers(now_ns - self._parameters.connection_timeout_ns)

    def _forget_receivers(self, before_ns: int) -> None:
        receivers = self._receivers
        while receivers and next(iter(receivers.values())) <= before_ns:
            receivers.popitem(last=False)
        self._state.has_receivers = bool(receivers)

    # Frames from receivers

    def on_status_message(self, message: wire.StatusMessage, source: SocketAddress, now_ns: int) -> None:
        """Handle a receiver's status message, which is valid for this stream."""
        state, channel = self._state, self._endpoint.udp_channel
        if message.flags & wire.SM_EOS:
            self._receivers.pop(message.receiver_id, None)
            if not channel.is_multicast and not channel.is_multi_destination:
                state.has_unicast_eos = True
        else:
            # Another receiver joined: it must still get the end of the stream.
            state.has_unicast_eos = False
            if message.receiver_id in self._receivers or len(self._receivers) < MAX_RECEIVERS:
                self._receivers[message.receiver_id] = now_ns
                self._receivers.move_to_end(message.receiver_id)
        is_live = bool(self._receivers)
        if is_live and not state.has_receivers and self.response_correlation_id != NULL_VALUE:
            self._parameters.conductor_proxy.response_connected(self.response_correlation_id)
        state.has_receivers = is_live
        self._has_initial_connection = True
        self.time_of_last_status_message_ns = now_ns
        position = self._position_of(message.consumption_term_id, message.consumption_term_offset)
        self._set_limit(self._flow_control.on_status_message(message, position, self._limit, now_ns))
        update_connected(self._parameters)

    def is_valid_status_message(self, message: wire.StatusMessage) -> bool:
        """Whether the receiver's position is plausible: at most half a term before or after the sender's."""
        position = self._position_of(message.consumption_term_id, message.consumption_term_offset)
        return abs(position - self._state.sender_position) <= self.term_length >> 1

    def trigger_send_setup_frame(self, message: wire.StatusMessage, source: SocketAddress, now_ns: int) -> None:
        """Handle a receiver's request for a setup frame."""
        if self._state.is_end_of_stream:
            return
        self.time_of_last_status_message_ns = now_ns
        self._is_setup_elicited = True
        self._flow_control.on_trigger_send_setup(message, now_ns)
        if self._params.is_response:
            self._response_address = source

    def on_nak(self, nak: wire.Nak, now_ns: int) -> None:
        """Handle a NAK, whose range is within a term of this length."""
        self._counters.naks_received.increment_release()
        length = self._flow_control.max_retransmission_length(nak.term_offset, nak.length, self.term_length)
        self._retransmit.on_nak(nak, length, now_ns, self.resend)

    def on_rtt_measurement(self, message: wire.RttMeasurement, source: SocketAddress) -> None:
        """Reply, if the measurement is a request."""
        if message.flags & wire.RTTM_REPLY:
            reply = wire.RttMeasurement(
                self.session_id, self.stream_id, message.echo_timestamp_ns, 0, message.receiver_id
            )
            self._send_frame(wire.encode(reply))

    def on_error(
        self, error: wire.ErrorFrame, source: SocketAddress, destination_registration_id: int, now_ns: int
    ) -> None:
        """Handle a receiver's rejection of the stream: remove the receiver, and report the error to clients once."""
        self._flow_control.on_error(error, now_ns)
        if self._receivers.pop(error.receiver_id, None) is not None:
            self._parameters.conductor_proxy.on_publication_error(
                self.registration_id,
                destination_registration_id,
                error.session_id,
                error.stream_id,
                error.receiver_id,
                error.group_tag,
                source,
                error.error_code,
                error.message,
            )

    def resend(self, term_id: int, term_offset: int, length: int) -> None:
        """Resend a range, if it was sent and can't have been cleaned since."""
        position = self._state.sender_position
        start = self._position_of(term_id, term_offset)
        oldest = position - (self.term_length >> 1) - max_message_length(self.term_length)
        if not max(oldest, 0) <= start < position:
            return
        index, offset = self._place(start)
        end = offset + min(length, position - start, self.term_length - offset)
        total = 0
        while offset < end:
            count, available, padding, _ = scan_datagrams(
                self._terms[index], offset, end - offset, self._params.mtu_length, self._ends
            )
            sent = self._send_parts(index, offset, count) if count else 0
            if sent < count:
                self._short_sends.increment()
                available, padding = (self._ends[sent - 1] - offset if sent else 0), 0
            total += available + padding
            offset += available + padding
            if sent < MAX_BLOCK_DATAGRAMS:
                break
        if total > 0:
            self._parameters.system[SystemCounter.RETRANSMITS_SENT].increment_release()
            self._parameters.system[SystemCounter.RETRANSMITTED_BYTES].add_release(total)

    def release(self) -> None:
        """Record that the sender no longer uses the publication, so that the conductor may close it."""
        self._state.has_sender_released = True

    # Sending

    def _send_frame(self, data: bytes) -> int:
        """Send one frame. Returns the number of bytes. A response publication sends only to its requester, and nothing
        before that one is known."""
        if self._params.is_response and self._response_address is None:
            sent = 0
        else:
            sent = self._endpoint.send(data, self._response_address)
        if sent != len(data):
            self._short_sends.increment()
        return sent

    def _send_parts(self, index: int, offset: int, count: int) -> int:
        if self._params.is_response and self._response_address is None:
            return 0
        return self._endpoint.send_parts(self._terms[index], offset, self._ends, count, self._response_address)

    def _position_of(self, term_id: int, term_offset: int) -> int:
        return wrap_int32(term_id - self._params.initial_term_id) * self.term_length + term_offset

    def _place(self, position: int) -> tuple[int, int]:
        """The index of the term that has a position, and the offset in it."""
        count, offset = divmod(position, self.term_length)
        return count % len(self._terms), offset
