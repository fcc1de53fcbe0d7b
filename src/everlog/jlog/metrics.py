"""Prometheus metrics of journals, collected at each scrape. Needs the extra ``metrics``.

A scrape reads only segments that are new or have grown since the last one. A journal that can't be read gives
``everlog_jlog_up 0`` and doesn't affect the others.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from everlog.core.files.storage import LocalStorage, Storage
from everlog.core.report import Fault
from everlog.errors import EverlogError, NotAStore
from everlog.jlog.format.checkpoints import read_checkpoints
from everlog.jlog.monitoring.health import DEFAULT_LIMITS, WARNINGS, HealthLimits, check_health
from everlog.jlog.monitoring.lag import LagMemory, measure_lags
from everlog.jlog.monitoring.observation import Observation, observe_journal
from everlog.jlog.monitoring.summary import SegmentSummary, summarize_segments
from everlog.jlog.reading.journal import Journal
from everlog.jlog.reading.segments import Segment
from everlog.jlog.store import JlogStore
from everlog.time_units import NS_PER_S

PREFIX = "everlog_jlog_"
JOURNAL = ("journal",)
SUBSCRIBER = ("journal", "subscriber")
METRICS: dict[str, tuple[tuple[str, ...], str]] = {
    "up": (JOURNAL, "1 if the journal could be read, else 0 with no other metrics."),
    "segments": (JOURNAL, "Segment files."),
    "bytes": (JOURNAL, "Bytes of all segment files."),
    "pre_commit_bytes": (JOURNAL, "Bytes of messages in the pre-commit buffer."),
    "last_write_timestamp_seconds": (JOURNAL, "Time of the last write to a segment, in seconds since 1970."),
    "free_bytes": (JOURNAL, "Free bytes on the journal's file system."),
    "subscribers": (JOURNAL, "Subscribers, including session subscribers."),
    "subscriber_lag_messages": (SUBSCRIBER, "Messages not yet consumed by a subscriber; absent if unknown."),
    "subscriber_lag_bytes": (SUBSCRIBER, "Bytes of messages not yet consumed by a subscriber; absent if unknown."),
    "subscriber_lag_seconds": (SUBSCRIBER, "Age of the oldest message not yet consumed by a subscriber; 0 if none."),
    "warning": (("journal", "code"), "Number of warnings with this code."),
}
"""Name after ``PREFIX`` to labels and help text. All are gauges. ``docs/monitoring.md`` lists them."""

OpenStorage = Callable[[str], Storage]
OnError = Callable[[str, Exception], None]


def label_text(name: bytes) -> str:
    """Encodes any bytes as a label: printable text stays, a backslash is doubled, other bytes become ``\\xNN``.
    Different names never give the same label."""
    parts = []
    for char in name.decode("utf-8", "surrogateescape"):
        if char == "\\":
            parts.append("\\\\")
        elif char.isprintable():
            parts.append(char)
        else:
            parts += [f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape")]
    return "".join(parts)


@dataclass(slots=True)
class _Watched:
    """A scraped journal and its cached state: counted segments, and two observations far enough apart to show what does
    not move."""

    path: str
    label: str
    counted: dict[Segment, SegmentSummary] = field(default_factory=dict)
    memory: LagMemory = field(default_factory=LagMemory)
    newer: Observation | None = None
    older: Observation | None = None

    def observe(self, open_storage: OpenStorage, limits: HealthLimits) -> tuple[Observation, list[Fault]]:
        """Observe the journal now, and its warnings."""
        storage = open_storage(self.path)
        if not JlogStore.detect(storage):
            raise NotAStore(self.path, found="no JLog journal", message=f"no JLog journal here: {self.path}")
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


class JournalCollector(Collector):
    """Collects the metrics of journals, for a ``CollectorRegistry``. ``open_storage`` opens each path again for every
    scrape. ``on_error`` is called with the path and error of a journal that can't be read. Concurrent scrapes run one
    after another."""

    def __init__(
        self,
        paths: Iterable[str | os.PathLike[str]],
        *,
        open_storage: OpenStorage = LocalStorage,
        limits: HealthLimits = DEFAULT_LIMITS,
        on_error: OnError | None = None,
    ) -> None:
        names = dict.fromkeys(os.fspath(path) for path in paths)
        self._watched = [_Watched(name, label_text(os.fsencode(name))) for name in names]
        self._open_storage = open_storage
        self._limits = limits
        self._on_error = on_error
        self._lock = threading.Lock()

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The metrics without samples; reads no journal."""
        return iter(_families().values())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All metrics with their current values."""
        families = _families()
        with self._lock:
            for journal in self._watched:
                self._collect(journal, families)
        return iter(families.values())

    def _collect(self, journal: _Watched, families: dict[str, GaugeMetricFamily]) -> None:
        try:
            seen, faults = journal.observe(self._open_storage, self._limits)
        except (EverlogError, OSError) as error:
            families["up"].add_metric([journal.label], 0)
            if self._on_error is not None:
                self._on_error(journal.path, error)
            return
        for name, value in _values(seen).items():
            if value is not None:
                families[name].add_metric([journal.label], value)
        for subscriber in seen.subscribers:
            raw = subscriber.checkpoint.subscriber.encode("utf-8", "surrogateescape")
            lag = subscriber.lag
            values = {"messages": lag.messages, "bytes": lag.byte_count, "seconds": lag.seconds}
            for unit, value in values.items():
                if value is not None:
                    families[f"subscriber_lag_{unit}"].add_metric([journal.label, label_text(raw)], value)
        counts = Counter(fault.code for fault in faults)
        for code in WARNINGS:
            families["warning"].add_metric([journal.label, code], counts[code])


def _families() -> dict[str, GaugeMetricFamily]:
    return {name: GaugeMetricFamily(PREFIX + name, text, labels=labels) for name, (labels, text) in METRICS.items()}


def _values(seen: Observation) -> dict[str, float | None]:
    """The values that concern the journal as a whole."""
    times = [segment.modified_ns for segment in seen.segments if segment.byte_count and segment.modified_ns]
    return {
        "up": 1,
        "segments": len(seen.segments),
        "bytes": seen.byte_count,
        "pre_commit_bytes": seen.buffered_bytes,
        "last_write_timestamp_seconds": max(times) / NS_PER_S if times else None,
        "free_bytes": seen.free_bytes,
        "subscribers": len(seen.subscribers),
    }
