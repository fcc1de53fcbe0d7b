"""Cuts a channel into splits: at slices and, within a large slice with a good index, at records."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from everlog.core.files.storage import Storage
from everlog.core.splits import Split, SplitTimes
from everlog.nats_streaming.reading.channels import Channel, Plan
from everlog.nats_streaming.reading.index import IndexLookup
from everlog.nats_streaming.reading.slices import ChannelFolder, Part

MIN_PIECE_BYTES = 1 << 16
"""A slice is not cut into smaller pieces."""
MAX_PIECES = 4096
"""Most pieces of one slice: each is looked up in the index when a query is planned."""
MAX_SEQUENCE = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class PartPiece:
    """A part of a channel within one slice, and its size; ``is_whole``: all that the slice contributes."""

    part: Part
    byte_count: int
    is_whole: bool = True


def plan_splits(channel: Channel, stream: str, start: int | None, end: int | None, split_bytes: int) -> list[Split]:
    """Plan splits of about ``split_bytes`` with the messages ``start <= sequence < end``. Their ranges are contiguous,
    so that exactly one of them reports damage between slices."""
    plan = channel.plan()
    low, high = 0 if start is None else start, MAX_SEQUENCE + 1 if end is None else end
    groups: list[list[PartPiece]] = []
    size = 0  # of the last group
    for piece in _pieces(channel.reading.storage, plan, max(split_bytes, MIN_PIECE_BYTES)):
        if piece.part.end <= low or piece.part.first >= high:
            continue
        if not groups or size + piece.byte_count > split_bytes or not piece.is_whole:
            groups.append([])
            size = 0
        groups[-1].append(piece)
        size += piece.byte_count
    bare = _bare(channel)
    if not groups:
        return [Split(stream, start, end, 0, (bare, plan))] if plan.lost else []
    out = []
    for k, group in enumerate(groups):
        first = start if k == 0 else group[0].part.first
        stop = end if k == len(groups) - 1 else groups[k + 1][0].part.first
        context = bare, Plan(tuple(piece.part for piece in group), plan.lost if k == 0 else ())
        out.append(Split(stream, first, stop, sum(piece.byte_count for piece in group), context))
    return out


def _bare(channel: Channel) -> ChannelFolder:
    """The folder without its list of files, which a walk over a plan does not need."""
    return channel.folder._replace(slices=(), orphan_indexes=(), others=(), bad_names=())


def _pieces(storage: Storage, plan: Plan, piece_bytes: int) -> Iterator[PartPiece]:
    for part in plan.parts:
        size = part.state.data_end
        if size <= piece_bytes or not part.state.indexed:
            yield PartPiece(part, size)
        else:
            yield from _cut(storage, part, piece_bytes)


def _cut(storage: Storage, part: Part, piece_bytes: int) -> Iterator[PartPiece]:
    """Cut a part with a good index into pieces. The first one reports the faults of the whole slice."""
    size = part.state.data_end
    count = min(max(round(size / piece_bytes), 2), MAX_PIECES)
    edges = [(part.first, 0)]
    with storage.open(part.state.slice.idx) as file:
        lookup = IndexLookup(file, part.state.count)
        for k in range(1, count):
            number = lookup.after(size * k // count)
            if number < lookup.count:
                entry = lookup.entry(number)
                if edges[-1][0] < entry.sequence < part.end:
                    edges.append((entry.sequence, entry.offset))
    edges.append((part.end, size))
    for number, ((first, at), (end, next_at)) in enumerate(itertools.pairwise(edges)):
        state = part.state if number == 0 else replace(part.state, faults=())
        yield PartPiece(Part(state, first, end), next_at - at, is_whole=len(edges) == 2)


def times_of(split: Split) -> SplitTimes:
    """Return the times of a split's first and last slice, from the index. A piece of a slice gets the whole slice's
    times: a server's times only rise."""
    plan: Plan = split.context[1]
    if plan.lost or not plan.parts:  # the scan must report what is lost, whatever its time
        return SplitTimes()
    first = min(part.state.first_timestamp_ns for part in plan.parts)
    last = max(part.state.max_timestamp_ns for part in plan.parts)
    return SplitTimes(first, last) if 0 < first <= last else SplitTimes()
