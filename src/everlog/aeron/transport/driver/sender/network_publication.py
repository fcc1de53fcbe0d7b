"""The conductor's side of a network publication: how far publishers may go, what of the terms is cleaned, spies, the
end of the stream. Source: NetworkPublication.

| state | until | then |
| --- | --- | --- |
| active | its last client lets go (``dec_ref``) | draining; lingers at once if it is revoked |
| draining | all is sent, or there is no receiver, and spies have read it | lingers |
| lingers | the linger timeout, or its one receiver has said that it read all | done: the sender is asked to let go |
| done | the sender let go | the conductor closes it |
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
"""The source that spies are told."""


class State(Enum):
    """See the table above."""

    ACTIVE = 1
    DRAINING = 2
    LINGER = 3
    DONE = 4


class Spy(UntetheredLink, Protocol):
    """A subscription to a publication of the same driver."""

    @property
    def is_tether(self) -> bool: ...


class PublicationOwner(Protocol):
    """What a publication asks of the conductor."""

    def cleanup_spies(self, publication: NetworkPublication) -> None:
        """Its spies have read all."""

    def cleanup_publication(self, publication: NetworkPublication) -> None:
        """Its time is over: the sender may let go of it."""

    def notify_unavailable_image_link(self, resource_id: int, link: UntetheredLink) -> None:
        """A spy's client loses its image."""

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
        """A spy's client gets its image again."""


class NetworkPublication:
    """A stream that is sent to receivers, and may be read by spies."""

    def __init__(self, parameters: NetworkPublicationParameters) -> None:
        params = parameters.params
        self.parameters = parameters
        self.sender = PublicationSender(parameters)
        """What the sender's thread does with it."""
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

    # What the conductor asks

    @property
    def channel(self) -> str:
        """The URI that made its channel."""
        return self.parameters.channel_endpoint.original_uri

    @property
    def channel_endpoint(self) -> Endpoint:
        """Where it is sent from."""
        return self.parameters.channel_endpoint

    @property
    def log(self) -> DriverLog:
        """Its terms and metadata, and where clients find them."""
        return self.parameters.log

    @property
    def is_active(self) -> bool:
        """Whether clients hold it, and it is not revoked, though that is done with the next time event."""
        return self.state is State.ACTIVE and not self.is_revoked

    @property
    def producer_position(self) -> int:
        """How far publishers have claimed."""
        return producer_position(self._metadata, self.term_length, self.initial_term_id)

    @property
    def consumer_position(self) -> int:
        """How far it is sent, or read where only spies are."""
        return self._shared.sender_position

    @property
    def has_spies(self) -> bool:
        """Whether there are spies whose positions count."""
        return self._shared.has_spies

    @property
    def has_reached_end_of_life(self) -> bool:
        """Whether the sender let go of it, so that it can be closed."""
        return self._shared.has_sender_released

    @property
    def is_revoked(self) -> bool:
        """Whether its client said so."""
        return log_memory.is_publication_revoked(self._metadata)

    @property
    def is_accepting_subscriptions(self) -> bool:
        """Whether a spy that comes now still gets something."""
        if self.state is State.DRAINING:
            return self._shared.has_spies and self.producer_position > self.consumer_position
        return self.state is State.ACTIVE

    def inc_ref(self) -> None:
        """A client holds it."""
        self._reference_count += 1

    def dec_ref(self) -> None:
        """A client let go. After the last nothing more can be published."""
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
        """What is not sent yet is not sent any more. Done with the next time event."""
        log_memory.set_is_publication_revoked(self._metadata, True)

    def close(self) -> None:
        """Free its counters."""
        self._counters.close()
        for position in self._spies:
            position.close()
        self._untethered.close()
        self.parameters.flow_control.close()

    # Spies

    def add_subscriber(self, link: Spy, position: AtomicCounter, now_ns: int) -> None:
        """A spy joins."""
        self._add_spy(position)
        if not link.is_tether:
            self._untethered.add(link, position, now_ns)
        if self.spies_simulate_connection:
            update_connected(self.parameters, True)

    def remove_subscriber(self, link: Spy, position: AtomicCounter) -> None:
        """A spy leaves; its position is closed."""
        self._remove_spy(position)
        position.close()
        self._untethered.remove(link)
        if self.spies_simulate_connection:
            update_connected(self.parameters)

    def on_untethered_inactive(self, link: UntetheredLink) -> None:
        """A spy is too slow: its client loses the image."""
        if self._owner is not None:
            self._owner.notify_unavailable_image_link(self.registration_id, link)

    def on_untethered_resting(self, position: AtomicCounter) -> None:
        """It is not waited for any more."""
        self._remove_spy(position)

    def on_untethered_active(self, link: UntetheredLink, position: AtomicCounter) -> None:
        """It joins again, where the sender is."""
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

    # What the conductor does in every cycle

    def update_publisher_position_and_limit(self) -> int:
        """Let publishers go on, a window before the slowest of sender and spies; gives 1 when something was done."""
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
        """Of sender and spies. Any process may have written their positions, but none has read what is not there."""
        if not self._spies:
            return sender_position
        end = max(self.producer_position, sender_position)
        positions = [min(position.get_acquire(), end) & -FRAME_ALIGNMENT for position in self._spies]
        self._shared.max_spy_position = max(self._shared.max_spy_position, sender_position, *positions)
        return min(sender_position, *positions)

    def _move_limit(self, slowest: int) -> int:
        """Publishers go where the terms are clean: the term of the limit is not the one that is being cleaned."""
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
        """Zero a term up to ``position``, or its end."""
        start = self._clean_position
        if position <= start:
            return
        count, offset = divmod(start, self.term_length)
        length = min(position - start, self.term_length - offset)
        clean(self._terms[count % len(self._terms)], offset, length)
        self._clean_position = start + length

    # What the conductor does from time to time

    def on_time_event(self, now_ns: int, now_ms: int, conductor: PublicationOwner) -> None:
        """Go on in the states' table."""
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
        """A publisher that claimed and died is unblocked when the sender stands still for too long."""
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
