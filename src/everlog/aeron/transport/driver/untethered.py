"""Subscribers that a stream does not wait for (``tether=false``): one that falls behind its window is left behind, and
may come back later. Source: UntetheredSubscription and the ``checkUntetheredSubscriptions`` of publications and images.

| state | until | then |
| --- | --- | --- |
| active | its position is not beyond the limit for ``window_limit_ns`` | its client loses the image; lingers |
| lingers | ``linger_ns`` | its position counts no more; rests, or is forgotten if it does not rejoin |
| rests | ``resting_ns`` | its position counts, its client gets an image again; active |
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
    """What happens to a stream's subscribers."""

    def on_untethered_inactive(self, link: UntetheredLink) -> None:
        """Tell its client that the image is gone."""

    def on_untethered_resting(self, position: AtomicCounter) -> None:
        """The position counts no more."""

    def on_untethered_active(self, link: UntetheredLink, position: AtomicCounter) -> None:
        """The position counts from now on; tell the client of the image."""


@dataclass(frozen=True, slots=True)
class UntetheredTimeouts:
    """Nanoseconds until a subscriber that is too slow is left behind, until its image goes, until it comes back."""

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
    """Those of one stream."""

    def __init__(self, timeouts: UntetheredTimeouts) -> None:
        self._timeouts = timeouts
        self._subscriptions: list[_Subscription] = []

    def __len__(self) -> int:
        return len(self._subscriptions)

    def add(self, link: UntetheredLink, position: AtomicCounter, now_ns: int) -> None:
        """A subscriber that is not waited for; its position counts."""
        self._subscriptions.append(_Subscription(link, position, now_ns))

    def remove(self, link: UntetheredLink) -> None:
        """It is gone."""
        self._subscriptions = [other for other in self._subscriptions if other.link is not link]

    def check(self, now_ns: int, limit_position: int, stream: UntetheredStream) -> None:
        """Leave behind who has not come beyond ``limit_position`` in time, and take back who has rested."""
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
        """Free the positions of those that rest: they are in nobody else's hands."""
        for subscription in self._subscriptions:
            if subscription.state is _State.RESTING:
                subscription.position.close()
