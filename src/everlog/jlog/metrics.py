"""Prometheus metrics of journals, collected at each scrape. Needs the extra ``metrics``.

A scrape reads only segments that are new or have grown since the last one. A journal that can't be read gives
``everlog_jlog_up 0`` and doesn't affect the others.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from everlog.core.files.storage import LocalStorage, Storage
from everlog.core.monitoring.collector import Metric, OnError, OpenStorage, Sample, StoreCollector, label_text
from everlog.core.report import Fault
from everlog.errors import NotAStore
from everlog.jlog.format.checkpoints import read_checkpoints
from everlog.jlog.monitoring.health import DEFAULT_LIMITS, WARNINGS, HealthLimits, check_health
from everlog.jlog.monitoring.lag import LagMemory, measure_lags
from everlog.jlog.monitoring.observation import Observation, observe_journal
from everlog.jlog.monitoring.summary import SegmentSummary, summarize_segments
from everlog.jlog.reading.journal import Journal
from everlog.jlog.reading.segments import Segment
from everlog.jlog.store import JlogStore
from everlog.time_units import NS_PER_S

SUBSCRIBER = ("subscriber",)
METRICS: dict[str, Metric] = {
    "up": Metric((), "1 if the journal could be read, else 0 with no other metrics."),
    "segments": Metric((), "Segment files."),
    "segment_bytes": Metric((), "Bytes of all segment files."),
    "pre_commit_bytes": Metric((), "Bytes of messages in the pre-commit buffer."),
    "last_write_timestamp_seconds": Metric((), "Time of the last write to a segment, in seconds since 1970."),
    "free_bytes": Metric((), "Free bytes on the journal's file system."),
    "subscribers": Metric((), "Subscribers, including session subscribers."),
    "subscriber_lag_messages": Metric(SUBSCRIBER, "Messages not yet consumed by a subscriber; absent if unknown."),
    "subscriber_lag_bytes": Metric(SUBSCRIBER, "Bytes of messages not yet consumed; absent if unknown."),
    "subscriber_lag_seconds": Metric(
        SUBSCRIBER, "Age of the oldest message not yet consumed by a subscriber; 0 if none."
    ),
    "warnings": Metric(("code",), "Number of warnings with this code."),
}
"""By name after the prefix. ``docs/monitoring.md`` lists them."""


@dataclass(slots=True)
class _Watched:
    """A scraped journal and its cached state: counted segments, and two observations far enough apart to show what does
    not move."""

    counted: dict[Segment, SegmentSummary] = field(default_factory=dict)
    memory: LagMemory = field(default_factory=LagMemory)
    newer: Observation | None = None
    older: Observation | None = None

    def observe(self, path: str, storage: Storage, limits: HealthLimits) -> tuple[Observation, list[Fault]]:
        """Observe the journal now, and its warnings."""
        if not JlogStore.detect(storage):
            raise NotAStore(path, found="no JLog journal", message=f"no JLog journal here: {path}")
        journal = Journal.read(storage)
        checkpoints = read_checkpoints(storage, storage.names())
        summaries = summarize_segments(journal, known=self.counted)
        self.counted = {s.segment: s for s in summaries if s.record_count is not None}
        now_ns = time.time_ns()
        counts = [summary.record_count for summary in summaries]
        lags = measure_lags(journal, checkpoints, now_ns, counts, memory=self.memory)
        now = observe_journal(journal, checkpoints, lags, now_ns)
        faults = check_health(now, self.older, limits)
        if self.newer is None or (now.at_ns - self.newer.at_ns) / NS_PER_S >= limits.second_look_s:
            self.older, self.newer = self.newer, now
        return now, faults


class JournalCollector(StoreCollector):
    """Collects the metrics of journals. ``limits`` are the thresholds of the warnings."""

    prefix = "everlog_jlog_"
    metrics = METRICS

    def __init__(
        self,
        paths: Iterable[str | os.PathLike[str]],
        *,
        open_storage: OpenStorage = LocalStorage,
        limits: HealthLimits = DEFAULT_LIMITS,
        on_error: OnError | None = None,
    ) -> None:
        super().__init__(paths, open_storage=open_storage, on_error=on_error)
        self._watched: dict[str, _Watched] = {}
        self._limits = limits

    def samples(self, path: str, storage: Storage) -> Iterator[Sample]:
        """Read a journal, as far as it has changed since the last scrape."""
        seen, faults = self._watched.setdefault(path, _Watched()).observe(path, storage, self._limits)
        yield from _totals(seen)
        for subscriber in seen.subscribers:
            name = label_text(subscriber.checkpoint.subscriber.encode("utf-8", "surrogateescape"))
            lag = subscriber.lag
            yield Sample("subscriber_lag_messages", lag.messages, (name,))
            yield Sample("subscriber_lag_bytes", lag.byte_count, (name,))
            yield Sample("subscriber_lag_seconds", lag.seconds, (name,))
        counts = Counter(fault.code for fault in faults)
        for code in WARNINGS:
            yield Sample("warnings", counts[code], (code,))


def _totals(seen: Observation) -> Iterator[Sample]:
    """What concerns the journal as a whole."""
    times = [segment.modified_ns for segment in seen.segments if segment.byte_count and segment.modified_ns]
    yield Sample("segments", len(seen.segments))
    yield Sample("segment_bytes", seen.byte_count)
    yield Sample("pre_commit_bytes", seen.buffered_bytes)
    yield Sample("last_write_timestamp_seconds", max(times) / NS_PER_S if times else None)
    yield Sample("free_bytes", seen.free_bytes)
    yield Sample("subscribers", len(seen.subscribers))
