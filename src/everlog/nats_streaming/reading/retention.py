"""Computes which messages a server with given limits would keep.

First the limits on messages and bytes drop the oldest messages, but always leave one. Then the age limit drops every
message that is too old, possibly all. Only the slices at the cut are read message by message. Source:
``stores/filestore.go`` (enforceLimits, expireMsgs)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from everlog.nats_streaming.format.layouts import RECORD_OVERHEAD
from everlog.nats_streaming.format.limits import Limits
from everlog.nats_streaming.reading.slices import Part

Entry = tuple[int, int, int]
"""A message's sequence, timestamp in nanoseconds, and record payload size in bytes."""

EntriesOf = Callable[[Part, int], Iterator[Entry]]
"""``entries(part, first)`` yields the part's messages from sequence ``first`` on."""


@dataclass(slots=True)
class Kept:
    """The remaining messages: those from sequence ``first`` on. If none remain, ``first`` is the last sequence plus
    one."""

    first: int
    count: int
    byte_count: int
    removed_count: int = 0
    removed_bytes: int = 0


def apply_limits(parts: list[Part], limits: Limits, now_ns: int, entries: EntriesOf) -> Kept:
    """Apply ``limits`` to a channel's parts, which are in sequence order."""
    totals = [_totals(part, entries) for part in parts]
    count, size = sum(t[0] for t in totals), sum(t[1] for t in totals)
    kept = Kept(parts[0].first if parts else 0, count, size)
    if not parts or not limits:
        return kept
    _drop(kept, parts, totals, entries, _too_many(kept, limits))
    if limits.max_age_ns:
        oldest = now_ns - limits.max_age_ns
        _expire(kept, parts, totals, entries, oldest)
    kept.removed_count, kept.removed_bytes = count - kept.count, size - kept.byte_count
    return kept


def _totals(part: Part, entries: EntriesOf) -> tuple[int, int]:
    state = part.state
    if part.first <= state.first and part.end > state.last:
        return state.count, state.byte_count
    sizes = [size + RECORD_OVERHEAD for _, _, size in entries(part, part.first)]
    return len(sizes), sum(sizes)


def _too_many(kept: Kept, limits: Limits) -> Callable[[int, int], bool]:
    def over(count: int, size: int) -> bool:
        """Whether a channel with ``count`` messages of ``size`` bytes drops its oldest."""
        too_many = 0 < limits.max_msgs < count
        return count > 1 and (too_many or 0 < limits.max_bytes < size)

    return over


def _drop(
    kept: Kept, parts: list[Part], totals: list[tuple[int, int]], entries: EntriesOf, over: Callable[[int, int], bool]
) -> None:
    for part, (count, size) in zip(parts, totals, strict=True):
        if not over(kept.count, kept.byte_count):
            return
        if over(kept.count - count, kept.byte_count - size):
            _remove(kept, count, size, part.end)
            continue
        for sequence, _, payload in entries(part, part.first):
            if not over(kept.count, kept.byte_count):
                kept.first = sequence
                return
            _remove(kept, 1, payload + RECORD_OVERHEAD, sequence + 1)


def _expire(kept: Kept, parts: list[Part], totals: list[tuple[int, int]], entries: EntriesOf, oldest_ns: int) -> None:
    for part, (count, size) in zip(parts, totals, strict=True):
        if part.end <= kept.first:
            continue
        if kept.first <= part.first and part.state.max_timestamp_ns <= oldest_ns:
            _remove(kept, count, size, part.end)
            continue
        for sequence, timestamp_ns, payload in entries(part, kept.first):
            if timestamp_ns > oldest_ns:
                kept.first = sequence
                return
            _remove(kept, 1, payload + RECORD_OVERHEAD, sequence + 1)


def _remove(kept: Kept, count: int, size: int, first: int) -> None:
    kept.count -= count
    kept.byte_count -= size
    kept.first = first
