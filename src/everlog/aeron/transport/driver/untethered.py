"""Untethered subscribers (``tether=false``), which a stream does not wait for. One that lags too far for too long
loses the image and may rejoin later. Source: UntetheredSubscription, and ``checkUntetheredSubscriptions`` of
publications and images.

| state | until | then |
| --- | --- | --- |
| active | its position stayed at or below the limit for ``window_limit_ns`` | its client loses the image; lingers |
| lingers | ``linger_ns`` passed | its position no longer counts; rests, or is removed if it does not rejoin |
| rests | ``resting_ns`` passed | its position counts again and its client gets the image; active |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from everlog.aeron.transport.memory.counters_memory import AtomicCounter


class UntetheredLink(Protocol):
    """A client's subscription."""

    @property
    def is_rejoin(self) -> bool: ...
    def unlink(self, stream: Any, /) -> None: ...


class UntetheredStream(Protocol):
    """What a stream does when the state of an untethered subscriber changes."""

    def on_untethered_inactive(self, link: UntetheredLink) -> None:
        """Notify the subscriber's client that the image is unavailable."""

    def on_untethered_resting(self, position: AtomicCounter) -> None:
        """Stop counting the position."""

    def on_untethered_active(self, link: UntetheredLink, position: AtomicCounter) -> None:
        """Count the position again, and notify the client that the image is available."""


@dataclass(frozen=True, slots=True)
class UntetheredTimeouts:
    """Times in nanoseconds. ``window_limit_ns``: how long a subscriber may lag by more than the limit before it loses
    the image. ``linger_ns``: how long its position still counts after that. ``resting_ns``: how long it then rests
    before it rejoins."""

    window_limit_ns: int = 5_000_000_000
    linger_ns: int = 5_000_000_000
    resting_ns: int = 10_000_000_000


class _State(Enum):
    ACTIVE = 1
    LINGER = 2
    RESTING = 3


@dataclass(slots=True, eq=False)
class _Subscription:
    link: UntetheredLink
    position: AtomicCounter
    time_of_last_update_ns: int
    state: _State = _State.ACTIVE

    def enter(self, state: _State, now_ns: int) -> None:
        self.state = state
        self.time_of_last_update_ns = now_ns


class UntetheredSubscriptions:
    """The untethered subscribers of one stream."""

    def __init__(self, timeouts: UntetheredTimeouts) -> None:
        self._timeouts = timeouts
        self._subscriptions: list[_Subscription] = []

    def __len__(self) -> int:
        return len(self._subscriptions)

    def add(self, link: UntetheredLink, position: AtomicCounter, now_ns: int) -> None:
        """Add an untethered subscriber, in the active state."""
        self._subscriptions.append(_Subscription(link, position, now_ns))

    def remove(self, link: UntetheredLink) -> None:
        """Remove a subscription that ended."""
        self._subscriptions = [other for other in self._subscriptions if other.link is not link]

    def check(self, now_ns: int, limit_position: int, stream: UntetheredStream) -> None:
        """Move all subscribers through the states of the table above. ``limit_position`` is the limit that active ones
        must have passed."""
        timeouts = self._timeouts
        for subscription in list(self._subscriptions):
            age_ns = now_ns - subscription.time_of_last_update_ns
            if subscription.state is _State.ACTIVE:
                if subscription.position.get_acquire() > limit_position:
                    subscription.time_of_last_update_ns = now_ns
                elif age_ns >= timeouts.window_limit_ns:
                    stream.on_untethered_inactive(subscription.link)
                    subscription.enter(_State.LINGER, now_ns)
            elif subscription.state is _State.LINGER:
                if age_ns >= timeouts.linger_ns:
                    self._rest(subscription, now_ns, stream)
            elif age_ns >= timeouts.resting_ns:
                stream.on_untethered_active(subscription.link, subscription.position)
                subscription.enter(_State.ACTIVE, now_ns)

    def _rest(self, subscription: _Subscription, now_ns: int, stream: UntetheredStream) -> None:
        stream.on_untethered_resting(subscription.position)
        if subscription.link.is_rejoin:
            subscription.enter(_State.RESTING, now_ns)
        else:
            self._subscriptions.remove(subscription)
            subscription.link.unlink(stream)
            subscription.position.close()

    def close(self) -> None:
        """Free the position counters of resting subscribers, which nobody else holds."""
        for subscription in self._subscriptions:
            if subscription.state is _State.RESTING:
                subscription.position.close()
