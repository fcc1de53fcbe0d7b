"""Limits the size of a batch: every stream gets its share, so that none has to wait for another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from everlog.core.following import Cut, CutLimit

Key = tuple[str, str]
"""Store and stream."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A stream with new records, ``start <= address < end``."""

    key: Key
    start: int
    end: int


CutAt = Callable[[Pending, CutLimit], Cut]


def admit(pending: Sequence[Pending], limit: CutLimit, cut: CutAt, first: int = 0) -> dict[Key, int]:
    """The address up to which each stream is read in this batch; streams not in the result wait. Shares are assigned
    beginning with stream number ``first``, in two rounds: what streams with few records leave goes to the others."""
    if limit.records is None and limit.byte_count is None:
        return {one.key: one.end for one in pending}
    waiting = [*pending[first % len(pending) :], *pending[: first % len(pending)]] if pending else []
    ends: dict[Key, int] = {}
    records, size = limit.records, limit.byte_count
    for _ in range(2):
        left: list[Pending] = []
        for number, one in enumerate(waiting):
            if not _has_room(records, size):
                break
            share = _share(records, size, len(waiting) - number)
            found = cut(one, share)
            # A record larger than the remaining room is only admitted as the first of the batch.
            if size is not None and ends and found.byte_count > size:
                continue
            records = None if records is None else records - found.record_count
            size = None if size is None else size - found.byte_count
            ends[one.key] = found.address
            if found.address < one.end:
                left.append(replace(one, start=found.address))
        waiting = left
    return ends


def _has_room(records: int | None, size: int | None) -> bool:
    return (records is None or records > 0) and (size is None or size > 0)


def _share(records: int | None, size: int | None, count: int) -> CutLimit:
    return CutLimit(
        records=None if records is None else max(records // count, 1),
        byte_count=None if size is None else max(size // count, 1),
    )
