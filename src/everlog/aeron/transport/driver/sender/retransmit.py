"""When what a receiver missed is sent again. Source: RetransmitHandler.

A NAK is answered at once or after a delay, and the same range then not again for a while (it lingers), because more
receivers may miss it, and because NAKs cross with what answers them. With one receiver only the last answer is
remembered; with a group, up to ``max_retransmits`` of them, and what is over is counted and not answered.

A machine of the sender's thread: it says what to send again by ``resend(term_id, term_offset, length)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from everlog.aeron.transport.protocol.wire import Nak

Resend = Callable[[int, int, int], None]


class OverflowCounter(Protocol):
    """Counts NAKs that were not answered."""

    def increment(self) -> object:
        """One more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetransmitSettings:
    """How a stream's NAKs are answered. ``has_group_semantics``: it has many receivers."""

    delay_ns: int = 0
    linger_ns: int = 10_000_000
    has_group_semantics: bool = False
    max_retransmits: int = 16


class _State(Enum):
    DELAYED = 1
    LINGERING = 2


@dataclass(slots=True)
class _Retransmit:
    term_id: int
    term_offset: int
    length: int
    state: _State
    expiry_ns: int

    def covers(self, term_id: int, term_offset: int) -> bool:
        return self.term_id == term_id and self.term_offset <= term_offset < self.term_offset + self.length


class RetransmitHandler:
    """The ranges of one stream that are to be sent again, or were lately."""

    def __init__(self, settings: RetransmitSettings, overflow: OverflowCounter) -> None:
        self._settings = settings
        self._overflow = overflow
        self._active: list[_Retransmit] = []

    @property
    def active_count(self) -> int:
        """Ranges that wait or linger."""
        return len(self._active)

    def on_nak(self, nak: Nak, length: int, now_ns: int, resend: Resend) -> None:
        """A receiver misses a range, which must be within the term; ``length`` is how much of it may be sent."""
        if nak.length == 0 or any(old.covers(nak.term_id, nak.term_offset) for old in self._active):
            return
        settings = self._settings
        if not settings.has_group_semantics:
            self._active.clear()
        elif len(self._active) >= settings.max_retransmits:
            self._overflow.increment()
            return
        range_ = _Retransmit(nak.term_id, nak.term_offset, length, _State.DELAYED, now_ns + settings.delay_ns)
        self._active.append(range_)
        if settings.delay_ns == 0:
            self._send(range_, now_ns, resend)

    def process_timeouts(self, now_ns: int, resend: Resend) -> None:
        """Answer what has waited long enough, and forget what has lingered."""
        if not self._active:
            return
        for range_ in [old for old in self._active if old.expiry_ns < now_ns]:
            if range_.state is _State.DELAYED:
                self._send(range_, now_ns, resend)
            else:
                self._active.remove(range_)

    def _send(self, range_: _Retransmit, now_ns: int, resend: Resend) -> None:
        resend(range_.term_id, range_.term_offset, range_.length)
        range_.state = _State.LINGERING
        range_.expiry_ns = now_ns + self._settings.linger_ns
