"""An image on the receiver's thread: sends status messages and NAKs to its sources, and handles the stream's end.
Source: the methods of PublicationImage that the Receiver calls."""

from __future__ import annotations

from everlog.aeron.frames.constants import HEADER_LENGTH
from everlog.aeron.frames.position import term_id_of, term_offset_of, wrap_int32
from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.driver.receiver.image_exchange import ImageExchange, ImageState
from everlog.aeron.transport.driver.receiver.image_parameters import ImageParameters
from everlog.aeron.transport.driver.receiver.packets import NO_TIME, ImageRebuilder
from everlog.aeron.transport.format.error_codes import ErrorCode
from everlog.aeron.transport.media.image_connection import ImageConnection
from everlog.aeron.transport.memory import log_memory
from everlog.aeron.transport.memory.terms import try_fill_gap
from everlog.aeron.transport.protocol.wire import SM_EOS, RttMeasurement
from everlog.kernel.udp import SocketAddress

DISCONNECTED = -1
NOT_HEARD = NO_TIME + 1
"""The time of a known transport's last packet, before the first one."""


class ImageReceiver:
    """The receiver's part of an image. ``connections`` has the source of the stream on each transport of the channel;
    ``None`` for transports without one."""

    def __init__(self, parameters: ImageParameters, exchange: ImageExchange, start_position: int) -> None:
        self.session_id = parameters.session_id
        self.stream_id = parameters.stream_id
        self.channel_endpoint = parameters.channel_endpoint
        self.is_end_of_stream = False
        self.connections: list[ImageConnection | None] = []
        self._parameters = parameters
        self._exchange = exchange
        self._system = parameters.system
        self._congestion = parameters.congestion_control
        self._log = parameters.log.memory
        self._term_length = self._log.term_length
        self._initial_term_id = parameters.initial_term_id
        self._is_sending_eos = False
        self._is_sm_enabled = True
        self._rejection: str | None = None
        self._next_sm_deadline_ns = parameters.now_ns - 1
        self._last_status: object = None
        self._last_gap: object = None
        hwm = parameters.counters.receiver_hwm
        self.rebuilder = ImageRebuilder(
            self._log.terms, parameters.initial_term_id, start_position, (hwm.memory, hwm.offset)
        )
        self.rebuilder.max_window_length = parameters.congestion_control.max_window_length
        self.rebuilder.time_of_last_packet_ns = parameters.now_ns
        if parameters.timestamp_offset is not None:
            self.rebuilder.timestamp_offset = HEADER_LENGTH + parameters.timestamp_offset
        self._set_reported_position(start_position)
        self._last_status = exchange.status
        self._expect(parameters.transport_index, parameters.control_address, parameters.now_ns)

    @property
    def correlation_id(self) -> int:
        """The image's correlation id."""
        return self._parameters.correlation_id

    # Connections

    def _expect(self, transport_index: int, address: SocketAddress, now_ns: int) -> None:
        """Add the known source of a transport, before its first packet."""
        while len(self.connections) <= transport_index:
            self.connections.append(None)
        self.connections[transport_index] = ImageConnection(address, now_ns)
        self.rebuilder.hear(transport_index, NOT_HEARD)

    def add_connection_if_unknown(self, transport_index: int, source: SocketAddress, now_ns: int) -> None:
        """Handle the image's first packet on a transport."""
        known = self.connections[transport_index] if transport_index < len(self.connections) else None
        if known is None:
            self._expect(transport_index, source, now_ns)
        self.rebuilder.hear(transport_index, now_ns)

    def add_destination(self, transport_index: int, control_address: SocketAddress | None, now_ns: int) -> None:
        """Add a destination of the channel. ``control_address`` gets its status messages; it is ``None`` while unknown,
        for a destination that is not multicast and has no control address."""
        if control_address is not None:
            self._expect(transport_index, control_address, now_ns)

    def remove_destination(self, transport_index: int, now_ns: int) -> None:
        """Remove a destination of the channel."""
        if transport_index < len(self.connections):
            self.connections[transport_index] = None
        self.rebuilder.forget(transport_index)
        self._update_active_transport_count(now_ns)

    def _updated_connections(self) -> list[ImageConnection | None]:
        """The connections, with updated times of activity."""
        for index, connection in enumerate(self.connections):
            if connection is not None:
                heard_ns = self.rebuilder.time_heard(index)
                if heard_ns >= connection.time_of_last_activity_ns:
                    connection.time_of_last_activity_ns = connection.time_of_last_frame_ns = heard_ns
        return self.connections

    def _update_active_transport_count(self, now_ns: int) -> None:
        oldest_ns = now_ns - self._parameters.image_liveness_timeout_ns
        count = sum(each is not None and each.time_of_last_frame_ns > oldest_ns for each in self._updated_connections())
        if log_memory.active_transport_count(self._log.metadata) != count:
            log_memory.set_active_transport_count(self._log.metadata, count)

    # Life

    def activate(self, now_ns: int) -> None:
        """Enter the ACTIVE state."""
        self._exchange.change(ImageState.ACTIVE, now_ns)

    def deactivate(self, now_ns: int) -> None:
        """Stop taking data, and enter the DRAINING state."""
        exchange = self._exchange
        if exchange.state not in (ImageState.INIT, ImageState.ACTIVE):
            return
        exchange.is_rebuilding = False
        # Don't report the end to sources while it is known but not reached: missing data could be requested again.
        if not self.is_end_of_stream or exchange.rebuild_position == self.rebuilder.hwm_position:
            self._is_sending_eos = True
            self._next_sm_deadline_ns = now_ns - 1
        exchange.change(ImageState.DRAINING, now_ns)

    def release(self) -> None:
        """Record that the receiver no longer uses the image."""
        self._exchange.is_released = True

    def reject(self, reason: str) -> None:
        """Take no more data, and report the reason to the sources."""
        self._rejection = reason
        self.rebuilder.is_rejected = True

    def stop_status_messages_if_not_active(self) -> None:
        """Stop status messages when another image replaces this one, because the session's sources would mix them
        up."""
        if self._exchange.state is not ImageState.ACTIVE:
            self._is_sm_enabled = False

    def on_end_of_stream(self, transport_index: int, heartbeat: DataHeader, is_revoked: bool) -> None:
        """Handle a source's end-of-stream heartbeat. The stream ends when all sources have announced the end."""
        position = wrap_int32(heartbeat.term_id - self._initial_term_id) * self._term_length + heartbeat.term_offset
        connection = self.connections[transport_index]
        if connection is None:
            return
        connection.is_eos = True
        connection.eos_position = position
        if self.is_end_of_stream or not self._is_all_eos():
            return
        metadata = self._log.metadata
        end = max(each.eos_position for each in self.connections if each is not None)
        if is_revoked:
            log_memory.set_is_publication_revoked(metadata, True)
            self._exchange.is_revoked = True
            self._system.publication_images_revoked.increment()
        log_memory.set_end_of_stream_position(metadata, end)
        self.is_end_of_stream = True

    def _is_all_eos(self) -> bool:
        endpoint = self.channel_endpoint
        return all(
            connection.is_eos if connection is not None else not endpoint.has_destination(index)
            for index, connection in enumerate(self.connections)
        )

    # Each cycle

    def do_work(self, now_ns: int) -> int:
        """Run one cycle. Returns the amount of work done, or :data:`DISCONNECTED` if all sources timed out or the
        conductor wants the image released."""
        exchange = self._exchange
        heard_ns = self.rebuilder.time_of_last_packet_ns
        if exchange.is_release_wanted or heard_ns + self._parameters.image_liveness_timeout_ns < now_ns:
            return DISCONNECTED
        if self.is_end_of_stream and not self._is_sending_eos:
            self._check_drained(now_ns)
        work = 0
        if exchange.is_deadline_reset:
            exchange.is_deadline_reset = False
            self._next_sm_deadline_ns = now_ns - 1
        has_timed_out = self._is_sm_enabled and self._next_sm_deadline_ns < now_ns
        if has_timed_out or (exchange.status is not self._last_status and self._rejection is None):
            work += self._send_status(has_timed_out, now_ns)
        if exchange.gap is not self._last_gap:
            work += self._process_gap(now_ns)
        if self._congestion.should_measure_rtt(now_ns):
            self.channel_endpoint.send_rtt_measurement(
                self._updated_connections(), self.session_id, self.stream_id, now_ns, 0, True, now_ns
            )
            self._congestion.on_rtt_measurement_sent(now_ns)
            work += 1
        return work

    def _check_drained(self, now_ns: int) -> None:
        exchange = self._exchange
        is_there = exchange.rebuild_position == self.rebuilder.hwm_position
        if is_there and exchange.state is ImageState.ACTIVE:
            exchange.is_rebuilding = False
            self._is_sending_eos = True
            self._next_sm_deadline_ns = now_ns - 1
            exchange.change(ImageState.DRAINING, now_ns)

    def _send_status(self, has_timed_out: bool, now_ns: int) -> int:
        endpoint, exchange = self.channel_endpoint, self._exchange
        stream = self.session_id, self.stream_id
        connections = self._updated_connections()
        self._next_sm_deadline_ns = now_ns + self._parameters.status_message_timeout_ns
        if self._rejection is not None:
            endpoint.send_error(connections, *stream, ErrorCode.IMAGE_REJECTED, self._rejection, now_ns)
            return 1
        if has_timed_out and exchange.response_session_id is not None:
            endpoint.send_response_setup(connections, *stream, exchange.response_session_id, now_ns)
        status = exchange.status
        term_id = term_id_of(status.position, self._initial_term_id, self._term_length)
        term_offset = term_offset_of(status.position, self._term_length)
        flags = SM_EOS if self._is_sending_eos else 0
        endpoint.send_status_message(connections, *stream, term_id, term_offset, status.window_length, flags, now_ns)
        self._system.status_messages_sent.increment_release()
        self._last_status = status
        self._set_reported_position(status.position)
        self._update_active_transport_count(now_ns)
        return 1

    def _set_reported_position(self, position: int) -> None:
        """Accept data from the position of the last status message on, up to half a term ahead."""
        self.rebuilder.last_sm_position = position
        self.rebuilder.over_run_threshold = position + (self._term_length >> 1)

    def _process_gap(self, now_ns: int) -> int:
        gap = self._exchange.gap
        self._last_gap = gap
        if gap is None or self._exchange.is_revoked:
            return 0
        if self._parameters.is_reliable:
            self.channel_endpoint.send_nak(self._updated_connections(), self.session_id, self.stream_id, *gap, now_ns)
            self._system.nak_messages_sent.increment_release()
            self._parameters.counters.receiver_naks_sent.increment_release()
        else:
            term = self._log.terms[(gap.term_id - self._initial_term_id & 0xFFFFFFFF) % 3]
            if try_fill_gap(self._log.metadata, term, *gap):
                self._system.loss_gap_fills.increment_release()
        return 1

    def on_rtt_measurement(self, measurement: RttMeasurement, now_ns: int) -> None:
        """Handle a source's reply to an RTT measurement."""
        rtt_ns = now_ns - measurement.echo_timestamp_ns - measurement.reception_delta_ns
        self._congestion.on_rtt_measurement(now_ns, rtt_ns)
