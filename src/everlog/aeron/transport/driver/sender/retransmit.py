"""Decides when to resend what a receiver missed. Source: RetransmitHandler.

A NAK is answered immediately or after a delay. The same range then lingers: it is not resent for a while, because
several receivers may miss it, and because NAKs cross with their answers on the network. With a single receiver only the
last range lingers; with a group up to ``max_retransmits`` ranges do, and NAKs beyond that are counted and ignored.

The handler runs on the sender's thread and calls ``resend(term_id, term_offset, length)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from everlog.aeron.transport.protocol.wire import Nak

Resend = Callable[[int, int, int], None]


class OverflowCounter(Protocol):
    """Counts NAKs that were ignored."""

    def increment(self) -> object:
        """Count one NAK."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetransmitSettings:
    """How a stream's NAKs are answered. ``has_group_semantics`` is true for a stream with many receivers."""

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
    """Tracks the ranges of one stream that are about to be resent, or were resent recently."""

    def __init__(self, settings: RetransmitSettings, overflow: OverflowCounter) -> None:
        self._settings = settings
        self._overflow = overflow
        self._active: list[_Retransmit] = []

    @property
    def active_count(self) -> int:
        """Number of ranges that are delayed or linger."""
        return len(self._active)

    def on_nak(self, nak: Nak, length: int, now_ns: int, resend: Resend) -> None:
        """Handle a NAK. Its range must be within the term; at most ``length`` bytes of it are resent."""
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
        """Resend ranges whose delay is over, and forget ranges that have lingered."""
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
