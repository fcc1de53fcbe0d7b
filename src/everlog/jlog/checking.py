"""``everlog check`` of a journal: its warnings, the lag of its subscribers, free space."""

from __future__ import annotations

from collections.abc import Callable

from everlog.core.counting import counted
from everlog.core.files.storage import Storage
from everlog.core.monitoring.checking import CheckResult, Limits, measure_free_space
from everlog.core.monitoring.levels import Levels, Status, number_text
from everlog.core.report import Severity
from everlog.errors import NotAStore
from everlog.jlog.format.checkpoints import read_checkpoints
from everlog.jlog.monitoring.health import check_health, span_text
from everlog.jlog.monitoring.lag import measure_lags
from everlog.jlog.monitoring.observation import Observation, SubscriberSnapshot, observe_journal
from everlog.jlog.monitoring.summary import summarize_segments
from everlog.jlog.reading.journal import Journal
from everlog.jlog.store import JlogStore

CRITICAL = frozenset({"checkpoint-without-segment", "disk-full-soon", "metastore-damaged"})
"""Warnings that mean that messages are missed, will soon be lost, or can't be written. The others are warnings; notes
are only details."""


def check(storage: Storage, limits: Limits, now_ns: int) -> CheckResult:
    """Check a journal. Raises :class:`NotAStore`, :class:`StoreUnavailable`, :class:`UnsupportedVersion`."""
    if not JlogStore.detect(storage):
        raise NotAStore(storage.root, found="no JLog journal", message=f"no JLog journal here: {storage.root}")
    seen = _observe(storage, now_ns)
    result = CheckResult()
    result.facts.append(
        f"{counted(len(seen.segments), 'segment')}, {counted(seen.byte_count, 'byte')}, "
        f"{counted(len(seen.subscribers), 'subscriber')}"
    )
    for fault in check_health(seen):
        if fault.severity is Severity.FAULT:
            status = Status.CRITICAL if fault.code in CRITICAL else Status.WARNING
            result.find(status, f"{fault.code}: {fault.found}")
        result.details.append(f"{fault.severity.value} {fault.code}: {fault.found} ({fault.repair})")
    _measure(result, seen, "lag_messages", "", limits["lag_messages"], lambda s: s.lag.messages, _messages)
    _measure(result, seen, "lag_bytes", "B", limits["lag_bytes"], lambda s: s.lag.byte_count, _bytes)
    _measure(result, seen, "lag_seconds", "s", limits["lag_seconds"], lambda s: s.lag.seconds, span_text)
    result.measure("bytes", seen.byte_count, "", unit="B")
    measure_free_space(result, storage, limits)
    return result


def _observe(storage: Storage, now_ns: int) -> Observation:
    journal = Journal.read(storage)
    checkpoints = read_checkpoints(storage, storage.names())
    counts = [summary.record_count for summary in summarize_segments(journal)]
    return observe_journal(journal, checkpoints, measure_lags(journal, checkpoints, now_ns, counts), now_ns)


def _measure(
    result: CheckResult,
    seen: Observation,
    label: str,
    unit: str,
    levels: Levels,
    value_of: Callable[[SubscriberSnapshot], float | None],
    text_of: Callable[[float], str],
) -> None:
    """Measure the largest lag of all subscribers. Each one that exceeds a level is a detail."""
    lags = sorted(
        ((value, s.checkpoint.name) for s in seen.subscribers if (value := value_of(s)) is not None), reverse=True
    )
    if not lags:
        return
    value, name = lags[0]
    over = [(value, name) for value, name in lags if levels.status(value) is not Status.OK]
    others = f", and {counted(len(over) - 1, 'other')}" if len(over) > 1 else ""
    result.measure(label, value, f"subscriber {name} lags by {text_of(value)}{others}", unit=unit, levels=levels)
    result.details += [f"subscriber {name} lags by {text_of(value)}" for value, name in over]


def _messages(value: float) -> str:
    return f"{number_text(value)} messages"


def _bytes(value: float) -> str:
    return f"{number_text(value)} bytes"
