"""The conductor's side of a network publication: moves the publisher limit, cleans terms, handles spies and the end of
the stream. Source: NetworkPublication.

| state | until | then |
| --- | --- | --- |
| active | the last client releases it (``dec_ref``) | draining; lingers immediately if it is revoked |
| draining | all is sent or no receiver is left, and spies have read all | lingers |
| lingers | the linger timeout, or its only receiver has confirmed the end | done: the sender is asked to release it |
| done | the sender has released it | the conductor closes it |
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from everlog.aeron.frames.constants import FRAME_ALIGNMENT
from everlog.aeron.transport.driver.log_factory import DriverLog
from everlog.aeron.transport.driver.sender.network_parameters import (
    Endpoint,
    NetworkPublicationParameters,
    has_subscribers,
    update_connected,
)
from everlog.aeron.transport.driver.sender.publication_sender import PublicationSender
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.driver.untethered import UntetheredLink, UntetheredSubscriptions, UntetheredTimeouts
from everlog.aeron.transport.memory import log_memory
from everlog.aeron.transport.memory.counters_memory import AtomicCounter
from everlog.aeron.transport.memory.terms import clean, producer_position, unblock

IPC_CHANNEL = "aeron:ipc"
"""The source identity that spies get."""


class State(Enum):
    """States of a network publication, in their order; the module's table has the transitions."""

    ACTIVE = 1
    DRAINING = 2
    LINGER = 3
    DONE = 4


class Spy(UntetheredLink, Protocol):
    """A subscription to a publication of the same driver."""

    @property
    def is_tether(self) -> bool: ...


class PublicationOwner(Protocol):
    """A publication's callbacks to the conductor."""

    def cleanup_spies(self, publication: NetworkPublication) -> None:
        """Unlink the publication's spies, which have read all."""

    def cleanup_publication(self, publication: NetworkPublication) -> None:
        """Ask the sender to release the publication."""

    def notify_unavailable_image_link(self, resource_id: int, link: UntetheredLink) -> None:
        """Notify a spy's client that the image is unavailable."""

    def notify_available_image_link(
        self,
        resource_id: int,
        session_id: int,
        link: UntetheredLink,
        position_counter_id: int,
        join_position: int,
        log_file_name: str,
        source_identity: str,
    ) -> None:
        """Notify a spy's client that the image is available again."""


class NetworkPublication:
    """A publication that is sent to receivers and that spies may read."""

    def __init__(self, parameters: NetworkPublicationParameters) -> None:
        params = parameters.params
        self.parameters = parameters
        self.sender = PublicationSender(parameters)
        """The part that runs on the sender's thread."""
        self.registration_id = parameters.registration_id
        self.session_id, self.stream_id = params.session_id, params.stream_id
        self.tag = params.entity_tag
        self.is_exclusive = parameters.is_exclusive
        self.response_correlation_id = params.response_correlation_id
        self.initial_term_id = params.initial_term_id
        self.starting_term_id, self.starting_term_offset = params.term_id, params.term_offset
        self.term_length, self.mtu_length = parameters.log.memory.term_length, params.mtu_length
        self.spies_simulate_connection = params.spies_simulate_connection
        self.publisher_limit_id = parameters.counters.publisher_limit.id
        self.state = State.ACTIVE
        self._shared = parameters.state
        self._counters = parameters.counters
        self._metadata, self._terms = parameters.log.memory.metadata, parameters.log.memory.terms
        self._window = params.publication_window_length
        self._reference_count = 0
        self._spies: list[AtomicCounter] = []
        self._untethered = UntetheredSubscriptions(
            UntetheredTimeouts(
                params.untethered_window_limit_timeout_ns,
                params.untethered_linger_timeout_ns,
                params.untethered_resting_timeout_ns,
            )
        )
        self._last_sender_position = self._clean_position = self._limit = params.position
        self._time_of_last_activity_ns = parameters.now_ns
        self._owner: PublicationOwner | None = None

    # State

    @property
    def channel(self) -> str:
        """The URI with which the channel was created."""
        return self.parameters.channel_endpoint.original_uri

    @property
    def channel_endpoint(self) -> Endpoint:
        """The endpoint that sends the publication."""
        return self.parameters.channel_endpoint

    @property
    def log(self) -> DriverLog:
        """The log buffer."""
        return self.parameters.log

    @property
    def is_active(self) -> bool:
        """Whether clients hold the publication and none has revoked it; the next time event carries out a
        revocation."""
        return self.state is State.ACTIVE and not self.is_revoked

    @property
    def producer_position(self) -> int:
        """The position up to which publishers have claimed."""
        return producer_position(self._metadata, self.term_length, self.initial_term_id)

    @property
    def consumer_position(self) -> int:
        """The position up to which the publication was sent, or read if it has spies only."""
        return self._shared.sender_position

    @property
    def has_spies(self) -> bool:
        """Whether the publication has spies that hold back the publisher limit. Spies that were given up for being too
        slow do not."""
        return self._shared.has_spies

    @property
    def has_reached_end_of_life(self) -> bool:
        """Whether the sender has released the publication, so that it can be closed."""
        return self._shared.has_sender_released

    @property
    def is_revoked(self) -> bool:
        """Whether a client revoked the publication."""
        return log_memory.is_publication_revoked(self._metadata)

    @property
    def is_accepting_subscriptions(self) -> bool:
        """Whether a new spy could still read anything."""
        if self.state is State.DRAINING:
            return self._shared.has_spies and self.producer_position > self.consumer_position
        return self.state is State.ACTIVE

    def inc_ref(self) -> None:
        """Add a client's reference."""
        self._reference_count += 1

    def dec_ref(self) -> None:
        """Release a client's reference. After the last one, nothing more can be published."""
        self._reference_count -= 1
        if self._reference_count:
            return
        position = self.producer_position
        self._set_limit(position)
        log_memory.set_end_of_stream_position(self._metadata, position)
        if not self.is_revoked:
            if self.consumer_position >= position:
                self._shared.is_end_of_stream = True
            self.state = State.DRAINING

    def revoke(self) -> None:
        """Revoke the publication: data that is not yet sent is dropped, at the next time event."""
        log_memory.set_is_publication_revoked(self._metadata, True)

    def close(self) -> None:
        """Free the publication's counters."""
        self._counters.close()
        for position in self._spies:
            position.close()
        self._untethered.close()
        self.parameters.flow_control.close()

    # Spies

    def add_subscriber(self, link: Spy, position: AtomicCounter, now_ns: int) -> None:
        """Add a spy."""
        self._add_spy(position)
        if not link.is_tether:
            self._untethered.add(link, position, now_ns)
        if self.spies_simulate_connection:
            update_connected(self.parameters, True)

    def remove_subscriber(self, link: Spy, position: AtomicCounter) -> None:
        """Remove a spy, and close its position."""
        self._remove_spy(position)
        position.close()
        self._untethered.remove(link)
        if self.spies_simulate_connection:
            update_connected(self.parameters)

    def on_untethered_inactive(self, link: UntetheredLink) -> None:
        """Notify the client of a spy that is too slow that it loses the image."""
        if self._owner is not None:
            self._owner.notify_unavailable_image_link(self.registration_id, link)

    def on_untethered_resting(self, position: AtomicCounter) -> None:
        """Stop waiting for a spy."""
        self._remove_spy(position)

    def on_untethered_active(self, link: UntetheredLink, position: AtomicCounter) -> None:
        """Let a spy join again, at the sender's position."""
        self._add_spy(position)
        if self._owner is not None:
            self._owner.notify_available_image_link(
                self.registration_id,
                self.session_id,
                link,
                position.id,
                self.consumer_position,
                self.log.name,
                IPC_CHANNEL,
            )

    def _add_spy(self, position: AtomicCounter) -> None:
        self._spies.append(position)
        self._shared.has_spies = True

    def _remove_spy(self, position: AtomicCounter) -> None:
        self._spies = [other for other in self._spies if other is not position]
        self._shared.has_spies = bool(self._spies)

    # Each cycle

    def update_publisher_position_and_limit(self) -> int:
        """Move the publisher limit to one window ahead of the slowest of sender and spies. Returns 1 if anything was
        done."""
        if self.state is not State.ACTIVE:
            return 0
        self._counters.publisher_position.set_release(self.producer_position)
        sender_position = self._shared.sender_position
        if has_subscribers(self.parameters):
            return self._move_limit(self._slowest(sender_position))
        if self._limit > sender_position:
            update_connected(self.parameters, False)
            self._set_limit(sender_position)
            self._clean_to(sender_position - self.term_length)
            return 1
        return 0

    def _slowest(self, sender_position: int) -> int:
        """The slowest position of sender and spies. Any process may have written the spies' positions, so they are
        capped at what was published."""
        if not self._spies:
            return sender_position
        end = max(self.producer_position, sender_position)
        positions = [min(position.get_acquire(), end) & -FRAME_ALIGNMENT for position in self._spies]
        self._shared.max_spy_position = max(self._shared.max_spy_position, sender_position, *positions)
        return min(sender_position, *positions)

    def _move_limit(self, slowest: int) -> int:
        """Move the limit into clean terms only: never into the term that is being cleaned."""
        limit = slowest + self._window
        if limit <= self._limit:
            return 0
        self._clean_to(slowest - self.term_length)
        terms_apart = limit // self.term_length - self._clean_position // self.term_length
        if terms_apart < 2 or (terms_apart == 2 and self._clean_position % self.term_length):
            self._set_limit(limit)
        return 1

    def _set_limit(self, limit: int) -> None:
        self._limit = limit
        self._counters.publisher_limit.set_release(limit)

    def _clean_to(self, position: int) -> None:
        """Zero the term up to ``position`` or the term's end."""
        start = self._clean_position
        if position <= start:
            return
        count, offset = divmod(start, self.term_length)
        length = min(position - start, self.term_length - offset)
        clean(self._terms[count % len(self._terms)], offset, length)
        self._clean_position = start + length

    # Time

    def on_time_event(self, now_ns: int, now_ms: int, conductor: PublicationOwner) -> None:
        """Check whether the state ends; see the table above."""
        self._owner = conductor
        if self.state is State.ACTIVE:
            self._while_active(now_ns, conductor)
        elif self.state is State.DRAINING:
            self._while_draining(now_ns, conductor)
        elif self.state is State.LINGER:
            timeout_ns = self.parameters.params.linger_timeout_ns
            is_over = self._shared.has_unicast_eos or self._time_of_last_activity_ns + timeout_ns < now_ns
            if self._reference_count == 0 and is_over:
                self.parameters.channel_endpoint.dec_ref()
                conductor.cleanup_publication(self)
                self._time_of_last_activity_ns = now_ns
                self.state = State.DONE

    def _while_active(self, now_ns: int, conductor: PublicationOwner) -> None:
        if self.is_revoked:
            position = self.producer_position
            self._set_limit(position)
            log_memory.set_end_of_stream_position(self._metadata, position)
            update_connected(self.parameters, False)
            self._shared.is_end_of_stream = True
            conductor.cleanup_spies(self)
            self.state = State.LINGER
            self.parameters.system[SystemCounter.PUBLICATIONS_REVOKED].increment_release()
            return
        if len(self._untethered):
            limit = self.consumer_position - self._window + (self._window >> 2)
            self._untethered.check(now_ns, limit, self)
        update_connected(self.parameters)
        position = self.producer_position
        self._counters.publisher_position.set_release(position)
        if not self.is_exclusive:
            self._check_for_blocked_publisher(position, now_ns)

    def _check_for_blocked_publisher(self, position: int, now_ns: int) -> None:
        """Unblock the claim of a publisher that died, if the sender's position has not moved for the unblock
        timeout."""
        sender_position = self.consumer_position
        active_count = log_memory.active_term_count(self._metadata)
        may_be_blocked = active_count != sender_position // self.term_length or position > sender_position
        if sender_position != self._last_sender_position or not may_be_blocked:
            self._time_of_last_activity_ns = now_ns
            self._last_sender_position = sender_position
        elif self._time_of_last_activity_ns + self.parameters.unblock_timeout_ns < now_ns:
            self._unblock(sender_position)

    def _while_draining(self, now_ns: int, conductor: PublicationOwner) -> None:
        position, sender_position = self.producer_position, self.consumer_position
        self._counters.publisher_position.set_release(position)
        if position > sender_position:
            if self._unblock(sender_position) or self._shared.has_receivers:
                return
        else:
            self._shared.is_end_of_stream = True
        if self._shared.has_spies:
            if any(spy.get_acquire() < position for spy in self._spies):
                return
            self._shared.has_spies = False
            conductor.cleanup_spies(self)
        self._time_of_last_activity_ns = now_ns
        self.state = State.LINGER

    def _unblock(self, position: int) -> bool:
        done = unblock(self._terms, self._metadata, position, self.term_length)
        if done:
            self.parameters.system[SystemCounter.UNBLOCKED_PUBLICATIONS].increment_release()
        return done
