"""Moves the publisher limits of IPC publications and cleans their terms, in every cycle. Python twin of
:mod:`everlog.aeron.transport.driver.ipc._limits`. Source: IpcPublication.

Publishers may be one window ahead of the slowest subscriber. Before the limit moves, the part of the terms that all
subscribers have read is zeroed, so that publishers find zeros. Positions are counters in shared memory, which any
process may have written: they determine how much is cleaned, at most one term per call, but never where.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everlog.aeron.frames.constants import (
    FRAME_ALIGNMENT,
    HEADER_LENGTH,
    MAX_TERM_LENGTH,
    MIN_TERM_LENGTH,
    is_power_of_two,
)
from everlog.aeron.frames.position import wrap_int32
from everlog.aeron.transport.driver.subscriber_positions import SubscriberPositions
from everlog.aeron.transport.format.layouts import LogMetaData
from everlog.errors import CorruptData
from everlog.kernel.memory import Memory

TERM_COUNT = 3
MAX_POSITION = 1 << 62
"""Greater than any position of a stream: 2^31 terms of 2^30 bytes are 2^61. Positions are capped at it."""
CLEAN_STEP = 256 << 10
"""Once all subscribers have read this many bytes, they are cleaned, without waiting for the limit's next step (an
eighth of a window): they are still in the processor's caches and needn't be loaded from memory again."""
SHORT_WINDOW = 1 << 20
"""Longest window of publications whose limits are followed within a cycle."""
MAX_FOLLOWED = 64
MAX_LOOKS = 8_000
MAX_FOLLOWED_BYTES = 16 << 20
"""Bytes cleaned while following, after which the driver's other work gets its turn."""
_LENGTH_SIZE = 8
_ACTIVE_TERM_COUNT = LogMetaData.field("active_term_count").offset


@dataclass(frozen=True, slots=True)
class IpcTerms:
    """An IPC publication's log: three terms of ``term_length`` bytes, its metadata, and the window in bytes."""

    terms: Sequence[Memory]
    metadata: Memory
    term_length: int
    initial_term_id: int
    window_length: int


class IpcLimits(SubscriberPositions):
    """The limits of one publication. ``publisher_position`` and ``publisher_limit`` are counters, as memory and offset.
    Raises :class:`CorruptData` for an invalid log."""

    def __init__(
        self, log: IpcTerms, publisher_position: tuple[Memory, int], publisher_limit: tuple[Memory, int]
    ) -> None:
        length = log.term_length
        if not (is_power_of_two(length) and MIN_TERM_LENGTH <= length <= MAX_TERM_LENGTH):
            raise CorruptData("log buffer", found=f"term length {length}", expected="a power of two, 64 KiB to 1 GiB")
        if len(log.terms) != TERM_COUNT or any(len(term) != length for term in log.terms):
            raise CorruptData("log buffer", found="wrong terms", expected=f"{TERM_COUNT} terms of {length} bytes")
        if len(log.metadata) < LogMetaData.size:
            raise CorruptData(
                "log buffer", found=f"metadata of {len(log.metadata)} bytes", expected=f"{LogMetaData.size} bytes"
            )
        for memory, offset in (publisher_position, publisher_limit):
            memory.get_i64_acquire(offset)
        self._terms = list(log.terms)
        self._metadata = log.metadata
        self._term_length = length
        self._initial_term_id = log.initial_term_id
        self._window = log.window_length
        self._trip_gain = log.window_length >> 3
        self._trip_limit = 0
        self._position = publisher_position
        self._limit = publisher_limit
        super().__init__()
        self.is_active = True
        self.consumer_position = self.clean_position = max(self.producer_position(), 0)

    def clear_subscribers(self) -> None:
        """Stop counting all subscribers."""
        self._subscribers.clear()

    def producer_position(self) -> int:
        """The position up to which publishers have claimed."""
        count = self._metadata.get_i32_acquire(_ACTIVE_TERM_COUNT)
        tail = self._metadata.get_i64_acquire((count & 0xFFFFFFFF) % TERM_COUNT * 8)
        offset = min(tail & 0xFFFFFFFF, self._term_length)
        return wrap_int32((tail >> 32) - self._initial_term_id) * self._term_length + offset

    def join_position(self) -> int:
        """The position at which a new subscriber starts: the slowest subscriber's, or where the last one was."""
        return min([self.consumer_position, *self._positions()])

    def is_drained(self, position: int) -> bool:
        """Whether all subscribers have reached ``position``."""
        return all(at >= position for at in self._positions())

    def update(self) -> int:
        """Run one cycle. Returns 1 if the limit moved or anything was cleaned. Does nothing once ``is_active`` is
        false."""
        if not self.is_active:
            return 0
        producer = self.producer_position()
        memory, at = self._position
        memory.put_i64_release(at, producer)
        memory, at = self._limit
        positions = self._positions()
        if positions:
            slowest = min(positions)
            self.consumer_position = max(self.consumer_position, *positions)
            limit = slowest + self._window
            if limit >= self._trip_limit:
                self._clean_to(slowest)
                memory.put_i64_release(at, limit)
                self._trip_limit = limit + self._trip_gain
                return 1
            passed = min(slowest, producer)
            if passed - self.clean_position >= CLEAN_STEP:
                self._clean_to(passed)
                return 1
        elif memory.get_i64(at) > self.consumer_position:
            self._trip_limit = self.consumer_position
            memory.put_i64_release(at, self.consumer_position)
            self._clean_to(self.consumer_position)
            return 1
        return 0

    def _positions(self) -> list[int]:
        found = (memory.get_i64_acquire(offset) for memory, offset in self._subscribers)
        return [max(-MAX_POSITION, min(position, MAX_POSITION)) for position in found]

    def _clean_to(self, position: int) -> None:
        """Zero up to ``position`` or the term's end. The first 8 bytes, which have a frame's length, are zeroed last,
        so that nobody sees a frame without its rest."""
        clean = self.clean_position
        position &= -FRAME_ALIGNMENT
        if position <= clean:
            return
        term = self._terms[clean // self._term_length % TERM_COUNT]
        offset = clean & (self._term_length - 1) & -HEADER_LENGTH
        length = min(position - clean, self._term_length - offset)
        term.zero(offset + _LENGTH_SIZE, length - _LENGTH_SIZE)
        term.put_i64_release(offset, 0)
        self.clean_position = clean + length


def update_all(publications: list[IpcLimits], looks: int = 0) -> int:
    """Run one cycle of all publications. Returns how many did any work.

    With ``looks``, publications that moved and have a window of at most :data:`SHORT_WINDOW` are followed: they are
    checked again until none of them moved in ``looks`` consecutive checks, or a limit per cycle is reached. Publishers
    and subscribers of short terms wait for each cycle of the driver. If a cycle takes longer than they spin, they
    sleep, and then all three wait for timers.
    """
    moved = [publication for publication in publications if publication.update()]
    followed = [publication for publication in moved if publication._window <= SHORT_WINDOW][:MAX_FOLLOWED]
    return len(moved) + (_follow(followed, looks) if followed else 0)


def _follow(followed: list[IpcLimits], looks: int) -> int:
    start = sum(publication.clean_position for publication in followed)
    count, left, turns = 0, looks, 0
    while left > 0 and turns < MAX_LOOKS:
        found = sum(publication.update() for publication in followed)
        count += found
        if sum(publication.clean_position for publication in followed) - start > MAX_FOLLOWED_BYTES:
            break
        left = looks if found else left - 1
        turns += 1
    return count
