"""An IPC publication: publishers and subscribers share one log, and the driver only moves the limit, cleans terms and
tracks who uses it. Source: IpcPublication.

| state    | ends when                                             | then                                    |
| -------- | ----------------------------------------------------- | --------------------------------------- |
| ACTIVE   | the last publisher releases it                        | DRAINING                                |
| ACTIVE   | it is revoked                                         | LINGER: subscribers lose it immediately |
| DRAINING | subscribers have read all (blocked claims are closed) | LINGER: subscribers lose it             |
| LINGER   | no publisher holds it                                 | DONE: unlinked, its log is freed        |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol, cast

from everlog.aeron.transport.driver.commands.publication_params import PublicationParams
from everlog.aeron.transport.driver.ipc.limits import IpcLimits, IpcTerms
from everlog.aeron.transport.driver.links import SubscriptionLink
from everlog.aeron.transport.driver.log_factory import DriverLog
from everlog.aeron.transport.driver.untethered import UntetheredLink, UntetheredSubscriptions, UntetheredTimeouts
from everlog.aeron.transport.memory import log_memory, terms
from everlog.aeron.transport.memory.counters_memory import AtomicCounter


class State(Enum):
    """The states of a publication; see the table above."""

    ACTIVE = "active"
    DRAINING = "draining"
    LINGER = "linger"
    DONE = "done"


class IpcEvents(Protocol):
    """A publication's callbacks to the conductor."""

    def transition_to_linger(self, publication: IpcPublication) -> None: ...
    def cleanup_ipc_publication(self, publication: IpcPublication) -> None: ...
    def link_ipc_subscriptions(self, publication: IpcPublication) -> None: ...
    def unlink_ipc_subscriptions(self, publication: IpcPublication) -> None: ...
    def image_unavailable(self, publication: IpcPublication, link: SubscriptionLink) -> None: ...
    def image_available_again(self, publication: IpcPublication, link: SubscriptionLink, position_id: int) -> None: ...


@dataclass(frozen=True, slots=True)
class IpcCounters:
    """The publication's two counters, and the driver's counters that it updates."""

    publisher_position: AtomicCounter
    publisher_limit: AtomicCounter
    unblocked_publications: AtomicCounter
    publications_revoked: AtomicCounter


@dataclass(frozen=True, slots=True, kw_only=True)
class IpcParameters:
    """The parts of a publication. ``log`` is initialised; ``channel`` is the URI as the client wrote it."""

    registration_id: int
    channel: str
    is_exclusive: bool
    params: PublicationParams
    log: DriverLog
    counters: IpcCounters
    unblock_timeout_ns: int
    image_liveness_timeout_ns: int


class IpcPublication:
    """An IPC publication. Only the conductor's thread uses it; ``events`` are its callbacks."""

    def __init__(self, parameters: IpcParameters, events: IpcEvents, now_ns: int) -> None:
        params, log, counters = parameters.params, parameters.log, parameters.counters
        self.registration_id = parameters.registration_id
        self.channel = parameters.channel
        self.is_exclusive = parameters.is_exclusive
        self.session_id = params.session_id
        self.stream_id = params.stream_id
        self.tag = params.entity_tag
        self.mtu_length = params.mtu_length
        self.term_length = params.term_length
        self.initial_term_id = params.initial_term_id
        self.starting_term_id = params.term_id
        self.starting_term_offset = params.term_offset
        self.response_correlation_id = params.response_correlation_id
        self.params = params
        self.log = log
        self.state = State.ACTIVE
        self._counters = counters
        self._unblock_timeout_ns = parameters.unblock_timeout_ns
        self._cool_down_ns = parameters.image_liveness_timeout_ns
        self._metadata = log.memory.metadata
        self._terms = log.memory.terms
        position, limit = counters.publisher_position, counters.publisher_limit
        window = params.publication_window_length
        self.limits = IpcLimits(
            IpcTerms(self._terms, self._metadata, self.term_length, self.initial_term_id, window),
            (position.memory, position.offset),
            (limit.memory, limit.offset),
        )
        self._window_length = window
        self._positions: dict[int, AtomicCounter] = {}
        self._untethered_timeouts = UntetheredTimeouts(
            params.untethered_window_limit_timeout_ns,
            params.untethered_linger_timeout_ns,
            params.untethered_resting_timeout_ns,
        )
        self._untethered = UntetheredSubscriptions(self._untethered_timeouts)
        self._events = events
        self._references = 0
        self._cool_down_end_ns: int | None = None
        self._last_consumer_position = self.limits.consumer_position
        self._last_progress_ns = now_ns

    @property
    def publisher_limit_id(self) -> int:
        """The id of the publisher limit's counter."""
        return self._counters.publisher_limit.id

    @property
    def is_active(self) -> bool:
        """Whether more publishers may share it. False from a revocation on, which the next time event carries out."""
        return self.state is State.ACTIVE and not log_memory.is_publication_revoked(self._metadata)

    @property
    def has_reached_end_of_life(self) -> bool:
        """Whether it can be closed, because nobody uses it any more."""
        return self.state is State.DONE

    @property
    def is_accepting_subscriptions(self) -> bool:
        """Whether a new subscriber could read anything."""
        if self._cool_down_end_ns is not None:
            return False
        is_draining = self.state is State.DRAINING and not self.limits.is_drained(self.limits.producer_position())
        return self.state is State.ACTIVE or is_draining

    # Publishers and subscribers

    def inc_ref(self) -> None:
        """Add a publisher's reference."""
        self._references += 1

    def dec_ref(self) -> None:
        """Release a publisher's reference. The last release ends the stream at its current position."""
        self._references -= 1
        if self._references == 0:
            end = self.limits.producer_position()
            self._stop()
            self._counters.publisher_limit.set_release(end)
            log_memory.set_end_of_stream_position(self._metadata, end)
            if not log_memory.is_publication_revoked(self._metadata):
                self.state = State.DRAINING

    def revoke(self) -> None:
        """End the stream at the next time event, whatever subscribers have read."""
        log_memory.set_is_publication_revoked(self._metadata, True)

    def add_subscriber(self, link: SubscriptionLink, position: AtomicCounter, now_ns: int) -> None:
        """Add a subscriber, for which flow control waits from now on."""
        self._positions[position.id] = position
        self.limits.add_subscriber(position.memory, position.offset)
        if not link.is_tether:
            self._untethered.add(link, position, now_ns)
        self._set_connected(True)

    def remove_subscriber(self, link: SubscriptionLink, position: AtomicCounter) -> None:
        """Remove a subscriber, and free its position counter."""
        self.limits.remove_subscriber(position.offset)
        self._untethered.remove(link)
        if self._positions.pop(position.id, None) is not None:
            position.close()
        if self.limits.subscriber_count == 0:
            self._set_connected(False)

    def reject(self, now_ns: int) -> None:
        """Handle a subscriber's rejection: all subscribers lose the publication until the cool-down is over."""
        if self._cool_down_end_ns is None:
            self._set_connected(False)
            self._events.unlink_ipc_subscriptions(self)
            self.limits.clear_subscribers()
            self._close_positions()
            self._untethered = UntetheredSubscriptions(self._untethered_timeouts)
        self._cool_down_end_ns = now_ns + self._cool_down_ns

    def close(self) -> None:
        """Free the publication's counters."""
        self._stop()
        self._counters.publisher_position.close()
        self._counters.publisher_limit.close()
        self._close_positions()

    # Time

    def on_time_event(self, now_ns: int) -> None:
        """Check whether the state ends; see the table above."""
        if self.state is State.ACTIVE:
            if log_memory.is_publication_revoked(self._metadata):
                self._end_revoked()
            else:
                self._check_active(now_ns)
        elif self.state is State.DRAINING:
            self._check_draining()
        elif self.state is State.LINGER and self._references == 0:
            self._events.cleanup_ipc_publication(self)
            self.state = State.DONE

    def _end_revoked(self) -> None:
        end = self.limits.producer_position()
        self._stop()
        self._counters.publisher_limit.set_release(end)
        log_memory.set_end_of_stream_position(self._metadata, end)
        self._set_connected(False)
        self._events.transition_to_linger(self)
        self.state = State.LINGER
        self._counters.publications_revoked.increment_release()

    def _check_active(self, now_ns: int) -> None:
        limit = self.limits.consumer_position - self._window_length + (self._window_length >> 2)
        self._untethered.check(now_ns, limit, self)
        self._set_connected(self.limits.subscriber_count > 0)
        end = self.limits.producer_position()
        self._counters.publisher_position.set_release(end)
        if not self.is_exclusive:
            self._check_blocked(end, now_ns)
        if self._cool_down_end_ns is not None and self._cool_down_end_ns < now_ns:
            self._cool_down_end_ns = None
            self._events.link_ipc_subscriptions(self)

    def _check_draining(self) -> None:
        end = self.limits.producer_position()
        self._counters.publisher_position.set_release(end)
        if self.limits.is_drained(end):
            self._events.transition_to_linger(self)
            self.state = State.LINGER
        elif self._unblock(self.limits.consumer_position):
            self._counters.unblocked_publications.increment_release()

    def _check_blocked(self, producer_position: int, now_ns: int) -> None:
        """Close the claim of a publisher that died between claiming and writing, after the unblock timeout. Until then
        it blocks all others."""
        consumer_position = self.limits.consumer_position
        term_count = log_memory.active_term_count(self._metadata)
        is_behind = producer_position > consumer_position or term_count != consumer_position // self.term_length
        if consumer_position != self._last_consumer_position or not is_behind:
            self._last_progress_ns = now_ns
            self._last_consumer_position = consumer_position
        elif now_ns - self._last_progress_ns > self._unblock_timeout_ns and self._unblock(consumer_position):
            self._counters.unblocked_publications.increment_release()

    def _unblock(self, position: int) -> bool:
        return terms.unblock(self._terms, self._metadata, position, self.term_length)

    # Untethered subscribers

    def on_untethered_inactive(self, link: UntetheredLink) -> None:
        """Notify the subscriber's client that it loses the image."""
        self._events.image_unavailable(self, cast(SubscriptionLink, link))

    def on_untethered_resting(self, position: AtomicCounter) -> None:
        """Stop waiting for the subscriber."""
        self.limits.remove_subscriber(position.offset)

    def on_untethered_active(self, link: UntetheredLink, position: AtomicCounter) -> None:
        """Wait for the subscriber again, from the other subscribers' position."""
        position.set_release(self.limits.join_position())
        self.limits.add_subscriber(position.memory, position.offset)
        self._events.image_available_again(self, cast(SubscriptionLink, link), position.id)

    def _stop(self) -> None:
        """Stop moving the limit."""
        self.limits.is_active = False

    def _close_positions(self) -> None:
        for position in self._positions.values():
            position.close()
        self._positions.clear()

    def _set_connected(self, is_connected: bool) -> None:
        if log_memory.is_connected(self._metadata) != is_connected:
            log_memory.set_is_connected(self._metadata, is_connected)
