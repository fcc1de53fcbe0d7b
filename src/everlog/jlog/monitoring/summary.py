"""Summarises a journal without reading all of it, for ``ls`` and ``info``."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from everlog.core.columns import MAX_BATCH_BYTES, MAX_BATCH_ROWS
from everlog.core.store import StreamInfo
from everlog.errors import EverlogError
from everlog.jlog.format.checkpoints import Checkpoint, read_checkpoints
from everlog.jlog.format.faults import STREAM
from everlog.jlog.format.framing import PLAIN
from everlog.jlog.format.names import PRE_COMMIT, segment_name
from everlog.jlog.format.pre_commit import START
from everlog.jlog.monitoring.lag import WALK_BUDGET_BYTES, measure_lags
from everlog.jlog.reading.journal import SOURCES, Journal
from everlog.jlog.reading.recovery import SegmentData
from everlog.jlog.reading.segments import Segment, SegmentReader
from everlog.kernel.columns import RowSink

WALK_BYTES = 8 << 20
"""Bytes without an index that are walked for counts and the last address; beyond that they are unknown."""


@dataclass(slots=True)
class SegmentSummary:
    """A segment: its index's state, first and last message (0: empty, ``None``: unknown), message count, and the number
    after the last message, including lost ones."""

    segment: Segment
    index_state: str
    first: int | None = None
    last: int | None = None
    record_count: int | None = None
    following: int | None = None
    magic: int | None = None


def summarize_segments(
    journal: Journal,
    *,
    budget: int | None = WALK_BYTES,
    known: Mapping[Segment, SegmentSummary] = MappingProxyType({}),
) -> list[SegmentSummary]:
    """Each segment, from its index if that is sound and ends where the data does, else by walking, within ``budget``
    bytes (``None``: unlimited). Summaries in ``known`` are reused."""
    found = []
    for segment in journal.segments:
        try:
            summary, walked = (known[segment], 0) if segment in known else _summarize(journal, segment, budget)
        except EverlogError:
            summary, walked = SegmentSummary(segment, "unreadable"), 0
        budget = None if budget is None else budget - walked
        found.append(summary)
    return found


def _summarize(journal: Journal, segment: Segment, budget: int | None) -> tuple[SegmentSummary, int]:
    if segment.byte_count == 0:
        state = journal.index_of(segment, journal.preferred or PLAIN).state
        return SegmentSummary(segment, state, 0, 0, 0, 1), 0
    with journal.storage.open(segment_name(segment.log)) as file:
        size = file.size()
        data = SegmentData(file, 0, size)
        framing = journal.framing_of(file, 0, size)
        index = journal.index_of(Segment(segment.log, size), framing)
        summary = SegmentSummary(segment, index.state, magic=framing.magic)
        if index.is_sound and index.good:
            last = data.header(index.entries[-1], framing)
            if last is not None and last.end == size:
                summary.first, summary.last, summary.record_count = 1, index.good, index.good
                summary.following = index.good + 1
                return summary, 0
        if budget is not None and size > budget:
            summary.first = None if data.header(0, framing) is None else 1
            return summary, 0
        reader = SegmentReader(
            file,
            segment.log,
            0,
            size,
            framing,
            _marker_sink(),
            lambda _: None,
        )
        reader.load_index = lambda: index
        summary.first, summary.last, summary.record_count = _walk(reader)
        summary.following = reader.marker
        return summary, size


def _marker_sink() -> RowSink:
    return RowSink([("marker", "q", SOURCES["marker"])], MAX_BATCH_ROWS, MAX_BATCH_BYTES)


def _walk(reader: SegmentReader) -> tuple[int, int, int]:
    first, last, count = 0, 0, 0
    sink = reader.sink

    def take() -> None:
        nonlocal first, last, count
        rows, taken = sink.take()
        if rows:
            markers = taken["marker"][0]
            first, last, count = first or markers[0], markers[rows - 1], count + rows

    for _ in reader.fill():
        take()
    take()
    return first, last, count


def _summarize_buffer(journal: Journal, summaries: list[SegmentSummary]) -> SegmentSummary | None:
    """The pre-commit buffer's messages, as if after those of the last segment."""
    state = journal.pre_commit()
    marker = summaries[-1].following if summaries else 1
    if state is None or not state.readable or marker is None:
        return None
    log = summaries[-1].segment.log if summaries else journal.metastore.storage_log or 0
    with journal.storage.open(PRE_COMMIT) as file:
        end = min(state.end, file.size())
        framing = journal.framing_of(file, START, end)
        reader = SegmentReader(file, log, START, end, framing, _marker_sink(), lambda _: None, marker=marker)
        first, last, count = _walk(reader)
    return SegmentSummary(Segment(log, state.readable), "missing", first, last, count)


def summarize(journal: Journal, *, pre_commit: bool = False) -> StreamInfo:
    """The journal's one stream; ``pre_commit`` includes messages in the buffer."""
    summaries = summarize_segments(journal)
    buffered = _summarize_buffer(journal, summaries) if pre_commit else None
    details = _details(journal, summaries)
    if buffered is not None:
        summaries.append(buffered)
    filled = [s for s in summaries if s.record_count != 0]
    first = _address(filled[0].segment.log, filled[0].first) if filled else None
    last_summary = filled[-1] if filled else None
    last = _address(last_summary.segment.log, last_summary.last) if last_summary else None
    end = None
    if last_summary is not None and last_summary.last:
        end = _address(last_summary.segment.log, last_summary.last + 1)
    counts = [s.record_count for s in summaries]
    return StreamInfo(
        name=STREAM,
        family="jlog",
        first=first,
        last=last,
        end=end,
        record_count=None if None in counts else sum(c for c in counts if c is not None),
        byte_count=sum(s.segment.byte_count for s in summaries),
        details=details,
    )


def describe(journal: Journal) -> dict[str, Any]:
    """The journal's state as plain values."""
    summaries = summarize_segments(journal)
    pre_commit = journal.pre_commit()
    checkpoints = read_checkpoints(journal.storage, journal.storage.names())
    places = sorted(c.log for c in checkpoints if c.log is not None)
    return {
        "family": "jlog",
        "path": journal.storage.root,
        "metastore": journal.metastore.to_dict(),
        "segments": [
            {
                "log": s.segment.log,
                "file": segment_name(s.segment.log),
                "bytes": s.segment.byte_count,
                "records": s.record_count,
                "first_marker": s.first or None,
                "last_marker": s.last or None,
                "magic": None if s.magic is None else f"{s.magic:08x}",
                "index": s.index_state,
                "pending_readers": bisect_right(places, s.segment.log),
            }
            for s in summaries
        ],
        "subscribers": describe_subscribers(journal, checkpoints, summaries),
        "pre_commit": None if pre_commit is None else pre_commit.to_dict(),
    }


def describe_subscribers(
    journal: Journal,
    checkpoints: list[Checkpoint],
    summaries: list[SegmentSummary],
    *,
    budget: int | None = WALK_BUDGET_BYTES,
) -> list[dict[str, Any]]:
    """Checkpoints and their present lag."""
    counts = [summary.record_count for summary in summaries]
    lags = measure_lags(journal, checkpoints, time.time_ns(), counts, budget=budget)
    return [c.to_dict() | lag.to_dict() for c, lag in zip(checkpoints, lags, strict=True)]


def count_lags(journal: Journal) -> list[dict[str, Any]]:
    """Like :func:`describe_subscribers`, walking everything that no index covers, however long that takes."""
    checkpoints = read_checkpoints(journal.storage, journal.storage.names())
    return describe_subscribers(journal, checkpoints, summarize_segments(journal, budget=None), budget=None)


def _details(journal: Journal, summaries: list[SegmentSummary]) -> dict[str, Any]:
    pre_commit = journal.pre_commit()
    checkpoints = read_checkpoints(journal.storage, journal.storage.names())
    return journal.metastore.to_dict() | {
        "segments": len(summaries),
        "subscribers": describe_subscribers(journal, checkpoints, summaries),
        "pre_commit": None if pre_commit is None else pre_commit.to_dict(),
    }


def _address(log: int, marker: int | None) -> str | None:
    return f"{log:08x}:{marker:08x}" if marker else None
