"""An image: the received copy of a stream from the network. This module has the conductor's part; the receiver's part
is :mod:`everlog.aeron.transport.driver.receiver.image_receiver`. Source: PublicationImage.

| state    | ends when                                                            | then                             |
| -------- | -------------------------------------------------------------------- | -------------------------------- |
| INIT     | the receiver takes it                                                | ACTIVE                           |
| ACTIVE   | the stream's end is reached, nobody subscribes, or sources time out  | DRAINING                         |
| ACTIVE   | the stream is revoked                                                | DRAINING                         |
| DRAINING | subscribers have read all, and that was reported to sources          | LINGER: subscribers lose it      |
| DRAINING | the stream is revoked                                                | LINGER immediately               |
| LINGER   | no subscriber holds it, or the liveness timeout has passed           | DONE: unlinked; its log is freed |
"""

from __future__ import annotations

from everlog.aeron.frames.position import term_id_of, term_offset_of, wrap_int32
from everlog.aeron.transport.driver.receiver.congestion.control import Rebuild
from everlog.aeron.transport.driver.receiver.image_exchange import ImageExchange, ImageState, StatusDue
from everlog.aeron.transport.driver.receiver.image_parameters import ImageEvents, ImageParameters, Link
from everlog.aeron.transport.driver.receiver.image_receiver import ImageReceiver
from everlog.aeron.transport.driver.receiver.loss_detector import Gap, LossDetector
from everlog.aeron.transport.driver.receiver.rebuild import RebuildTracker
from everlog.aeron.transport.driver.untethered import UntetheredLink, UntetheredSubscriptions
from everlog.aeron.transport.memory.counters_memory import AtomicCounter
from everlog.aeron.transport.memory.loss_report_writer import LossReportEntry
from everlog.aeron.transport.protocol.wire import SETUP_SEND_RESPONSE

EOS_STATUS_MESSAGES = 5
"""Number of status message intervals during which the end is reported to the sources before the image is removed."""
NO_GAP = Gap(0, -1, 0)


class PublicationImage:
    """An image on the conductor's thread. Only ``receiver`` belongs to the receiver's thread."""

    def __init__(self, parameters: ImageParameters) -> None:
        self.correlation_id = parameters.correlation_id
        self.session_id = parameters.session_id
        self.stream_id = parameters.stream_id
        self.channel_endpoint = parameters.channel_endpoint
        self.source_identity = parameters.source_identity
        self.log = parameters.log
        self.flags = parameters.flags
        self._parameters = parameters
        self._counters = parameters.counters
        self._congestion = parameters.congestion_control
        self._term_length = parameters.log.memory.term_length
        start = self._start_position()
        self._next_sm = StatusDue(start, parameters.congestion_control.initial_window_length)
        self._exchange = ImageExchange(self._next_sm, parameters.now_ns)
        position = parameters.counters.receiver_position
        self._tracker = RebuildTracker(parameters.log.memory.terms, start, (position.memory, position.offset))
        self._positions: dict[int, AtomicCounter] = {}
        self._untethered = UntetheredSubscriptions(parameters.untethered)
        for link, counter in parameters.subscriptions:
            self.add_subscriber(link, counter, parameters.now_ns)
        self._detector = LossDetector(parameters.delay)
        self._reported = NO_GAP
        self._report_entry: LossReportEntry | None = None
        self._loss_report = parameters.loss_report
        self._events: ImageEvents
        self.receiver = ImageReceiver(parameters, self._exchange, start)

    def _start_position(self) -> int:
        parameters = self._parameters
        term_count = wrap_int32(parameters.active_term_id - parameters.initial_term_id)
        return term_count * self._term_length + parameters.term_offset

    @property
    def channel(self) -> str:
        """The channel URI as the first subscriber wrote it."""
        return self.channel_endpoint.original_uri

    @property
    def state(self) -> ImageState:
        """The image's state; see the table above."""
        return self._exchange.state

    @property
    def has_send_response_setup(self) -> bool:
        """Whether the publisher has requested the session id of a response publication."""
        return bool(self.flags & SETUP_SEND_RESPONSE)

    @property
    def has_reached_end_of_life(self) -> bool:
        """Whether the image can be closed, because neither thread uses it any more."""
        return self._exchange.is_released and self._exchange.state is ImageState.DONE

    @property
    def is_accepting_subscriptions(self) -> bool:
        """Whether a new subscriber could read anything; true even while all subscribers rest."""
        state = self._exchange.state
        if self._tracker.subscriber_count == 0 and not self._exchange.is_rebuilding:
            return False
        is_draining = state is ImageState.DRAINING and not self._tracker.is_drained()
        return is_draining or state in (ImageState.INIT, ImageState.ACTIVE)

    def join_position(self) -> int:
        """The position at which a new subscriber starts."""
        return self._tracker.join_position()

    def add_subscriber(self, link: Link, position: AtomicCounter, now_ns: int) -> None:
        """Add a subscriber, for which flow control waits from now on."""
        self._positions[position.id] = position
        self._tracker.add_subscriber(position.memory, position.offset)
        if not link.is_tether:
            self._untethered.add(link, position, now_ns)

    def remove_subscriber(self, link: Link, position: AtomicCounter) -> None:
        """Remove a subscriber, and free its position counter."""
        self._tracker.remove_subscriber(position.offset)
        self._untethered.remove(link)
        if self._positions.pop(position.id, None) is not None:
            position.close()
        # A resting subscriber rejoins later, at the image's current position.
        if self._tracker.subscriber_count == 0 and not len(self._untethered):
            self._exchange.is_rebuilding = False

    def set_response_session_id(self, session_id: int | None) -> None:
        """Set the session id of the response publication. It is sent to the source with each periodic status
        message."""
        self._exchange.response_session_id = session_id

    def request_next_sm_deadline_reset(self) -> None:
        """Make the next status message due immediately."""
        self._exchange.is_deadline_reset = True

    def close(self) -> None:
        """Free the image's counters."""
        for position in self._positions.values():
            position.close()
        self._positions.clear()
        self._counters.close()
        self._congestion.close()

    # Each cycle

    def track_rebuild(self, now_ns: int, now_ms: int) -> int:
        """Update how far the image is complete and how far it was read. Returns 1 if a status message is due."""
        exchange, tracker = self._exchange, self._tracker
        if not exchange.is_rebuilding:
            return 0
        hwm_position = self.receiver.rebuilder.hwm_position
        is_new_loss = tracker.track(hwm_position) and self._on_gap(now_ns, now_ms)
        exchange.rebuild_position = tracker.end_position
        consumed, last = tracker.consumption_position, self._next_sm
        window_length, is_forced = self._congestion.on_track_rebuild(
            Rebuild(
                now_ns,
                consumed,
                last.position,
                hwm_position,
                tracker.start_position,
                tracker.end_position,
                is_new_loss,
            )
        )
        if not is_forced and window_length == last.window_length and consumed <= last.position + (window_length >> 2):
            return 0
        # Clean first: once announced, the space may be written to.
        tracker.clean_to(consumed - self._term_length)
        self._next_sm = exchange.status = StatusDue(consumed, window_length)
        return 1

    def _on_gap(self, now_ns: int, now_ms: int) -> bool:
        """Request a NAK if one is due. Returns whether the gap is new since the last cycle."""
        end = self._tracker.end_position
        gap = Gap(
            term_id_of(end, self._parameters.initial_term_id, self._term_length),
            term_offset_of(end, self._term_length),
            self._tracker.gap_length,
        )
        is_new, is_due = self._detector.on_gap(gap, now_ns)
        if is_due:
            self._exchange.gap = Gap(*gap)
            self._report(gap, now_ms)
        return is_new

    def _report(self, gap: Gap, now_ms: int) -> None:
        """Record lost bytes that were not recorded yet: several NAKs may be due for a gap, and it may have grown."""
        reported, lost = self._reported, gap.length
        reported_end = reported.term_offset + reported.length
        if gap.term_id == reported.term_id and gap.term_offset < reported_end:
            lost = gap.term_offset + gap.length - reported_end
            if lost <= 0:
                return
        self._reported = gap
        if self._report_entry is not None:
            self._report_entry.record(lost, now_ms)
        elif self._loss_report is not None:
            stream = self.session_id, self.stream_id
            self._report_entry = self._loss_report.create_entry(
                lost, now_ms, *stream, self.channel, self.source_identity
            )
            if self._report_entry is None:
                self._loss_report = None

    # Time

    def on_time_event(self, now_ns: int, now_ms: int, events: ImageEvents) -> None:
        """Check whether the state ends; see the table above."""
        exchange = self._exchange
        if exchange.state is ImageState.ACTIVE:
            if exchange.is_revoked:
                exchange.state = ImageState.DRAINING
            elif len(self._untethered):
                self._check_untethered(now_ns, events)
        elif exchange.state is ImageState.DRAINING:
            self._check_draining(now_ns, events)
        elif exchange.state is ImageState.LINGER:
            liveness_ns = self._parameters.image_liveness_timeout_ns
            is_over = exchange.time_of_last_state_change_ns + liveness_ns < now_ns
            if is_over or self._tracker.subscriber_count == 0:
                events.cleanup_image(self)
                exchange.change(ImageState.DONE, now_ns)

    def _check_draining(self, now_ns: int, events: ImageEvents) -> None:
        exchange = self._exchange
        reporting_ns = EOS_STATUS_MESSAGES * self._parameters.status_message_timeout_ns
        is_end_reported = exchange.time_of_last_state_change_ns + reporting_ns < now_ns
        if not exchange.is_revoked and not (is_end_reported and self._tracker.is_drained()):
            return
        if exchange.is_revoked:
            exchange.is_rebuilding = False
            exchange.is_deadline_reset = True
        events.transition_to_linger(self)
        exchange.is_release_wanted = True
        self.channel_endpoint.dec_ref_images()
        events.try_close_receive_channel_endpoint(self.channel_endpoint)
        exchange.change(ImageState.LINGER, now_ns)

    # Untethered subscribers

    def _check_untethered(self, now_ns: int, events: ImageEvents) -> None:
        """Drop untethered subscribers that lag the fastest one by three quarters of the window for too long."""
        window_length = self._next_sm.window_length
        fastest = self._tracker.highest_consumption_position(self.receiver.rebuilder.hwm_position)
        self._events = events
        self._untethered.check(now_ns, fastest - window_length + (window_length >> 2), self)

    def on_untethered_inactive(self, link: UntetheredLink) -> None:
        """Notify the subscriber's client that it loses the image."""
        self._events.notify_unavailable_image_link(self.correlation_id, link)

    def on_untethered_resting(self, position: AtomicCounter) -> None:
        """Stop waiting for the subscriber."""
        self._tracker.remove_subscriber(position.offset)

    def on_untethered_active(self, link: UntetheredLink, position: AtomicCounter) -> None:
        """Wait for the subscriber again, from the slowest one's position: the data at its own position is gone."""
        join_position = self._tracker.join_position()
        position.set_release(join_position)
        self._tracker.add_subscriber(position.memory, position.offset)
        self._events.notify_available_image_link(
            self.correlation_id, self.session_id, link, position.id, join_position, self.log.name, self.source_identity
        )
