"""Health checks of a journal in use, after the advice for operators in JLog's documentation.

``check_health`` judges an observation and touches nothing. Its findings are warnings: each has a code of ``WARNINGS``
and says what was found, what was expected, and what to do. An earlier observation also shows what did not move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields

from everlog.core.report import Fault, Severity
from everlog.errors import UsageError
from everlog.jlog.format.faults import STREAM
from everlog.jlog.format.layouts import JlogCheckpoint
from everlog.jlog.format.metastore import SAFETY
from everlog.jlog.format.names import METASTORE, PRE_COMMIT, segment_name
from everlog.jlog.monitoring.observation import Observation, SubscriberSnapshot
from everlog.time_units import NS_PER_S

WARNINGS: dict[str, str] = {
    "subscriber-stalled": "A subscriber's oldest message has waited long, and its checkpoint does not move.",
    "transient-left-behind": "A session subscriber (`~`) that does not move: its program died without closing it.",
    "checkpoint-without-segment": "A checkpoint is in a missing segment: its subscriber misses messages or gets none.",
    "checkpoint-unreadable": "A checkpoint file can't be read, or does not have 8 bytes.",
    "no-subscribers": "Nobody has subscribed, so no segment is ever deleted.",
    "segments-waiting": "More finished segments are pending than with subscribers that keep up.",
    "disk-full-soon": "At its present growth the journal will soon fill the file system.",
    "pre-commit-waiting": "Messages have been in the pre-commit buffer for long, where no reader sees them.",
    "metastore-damaged": "The metastore is missing or invalid: writers can't open the journal.",
    "safety-unsafe": "The journal's safety setting writes without syncs.",
}
"""Code to meaning. ``docs/monitoring.md`` lists them."""

DAY_S = 86_400
SHORTEST_SPAN_S = 60
"""Minimum span for a growth rate: over less, one burst of writes would predict a full disk."""
HEALTHY_SEGMENTS = 2
"""This many finished segments may be pending now and then even if all subscribers keep up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLimits:
    """Thresholds of the warnings. Raises :class:`UsageError` for a negative one.

    ``stalled_s``: age of the oldest pending message and of the last checkpoint move; ``second_look_s``: minimum age of
    the earlier observation that shows whether a checkpoint moves; ``transient_s``: like ``stalled_s``, for session
    subscribers; ``waiting_segments``: finished segments that may be pending; ``full_within_s``: how far growth is
    extrapolated; ``buffered_s``: age of the oldest message in the pre-commit buffer; ``settling_s``: how long a new
    checkpoint file may be empty.
    """

    stalled_s: float = 3600
    second_look_s: float = 60
    transient_s: float = 600
    waiting_segments: int = 10
    full_within_s: float = DAY_S
    buffered_s: float = 300
    settling_s: float = 60

    def __post_init__(self) -> None:
        for item in fields(self):
            if not getattr(self, item.name) >= 0:
                raise UsageError(item.name, found=repr(getattr(self, item.name)), expected="0 or more")


DEFAULT_LIMITS = HealthLimits()


@dataclass(frozen=True, slots=True)
class _Case:
    """Input of the checks. ``places_before`` are the subscribers' places in ``before``, by checkpoint file."""

    now: Observation
    before: Observation | None
    limits: HealthLimits
    places_before: Mapping[str, tuple[int, int] | None]


def check_health(
    now: Observation, before: Observation | None = None, limits: HealthLimits = DEFAULT_LIMITS
) -> list[Fault]:
    """Warnings for a journal observed ``now`` and optionally ``before``. Notes are hints; faults need action."""
    places = {} if before is None else {s.checkpoint.file: s.place for s in before.subscribers}
    case = _Case(now, before, limits, places)
    return [fault for check in _CHECKS for fault in check(case)]


def span_text(seconds: float) -> str:
    """A duration for people: ``90 s``, ``12 min``, ``5.0 h``, ``3.1 days``, ``1104 days``."""
    for unit, size in (("days", 2 * DAY_S), ("h", 7200), ("min", 120)):
        if seconds >= size:
            return (
                f"{seconds / (size / 2):.0f} {unit}"
                if unit == "min" or seconds >= 100 * DAY_S
                else f"{seconds / (size / 2):.1f} {unit}"
            )
    return f"{seconds:.0f} s"


def _warning(
    code: str, file: str, found: str, expected: str, loses: str, repair: str, severity: Severity = Severity.FAULT
) -> Fault:
    assert code in WARNINGS, code
    return Fault(code, file, None, found, expected, loses, repair, severity, STREAM)


def _address(subscriber: SubscriberSnapshot) -> str:
    return "{:08x}:{:08x}".format(*subscriber.place) if subscriber.place else "an unknown place"


def _check_moves(case: _Case) -> Iterator[Fault]:
    """Subscribers that don't move while messages are pending."""
    for subscriber in case.now.subscribers:
        checkpoint, age = subscriber.checkpoint, subscriber.lag.seconds
        limit = case.limits.transient_s if checkpoint.is_transient else case.limits.stalled_s
        if age is None or age <= limit:
            continue
        still = _unmoved_s(subscriber, case, limit)
        if still is None:
            continue
        found = (
            f"subscriber {checkpoint.name} at {_address(subscriber)} for at least {span_text(still)}; its oldest "
            f"message has waited {span_text(age)}"
        )
        expected = f"a checkpoint that moves within {span_text(limit)}"
        keeps = f"nothing yet, but segments from {segment_name(checkpoint.log or 0)} on are not deleted"
        if checkpoint.is_transient and not subscriber.is_held:
            repair = "remove the subscriber if no program uses it"
            yield _warning("transient-left-behind", checkpoint.file, found, expected, keeps, repair, Severity.NOTE)
        else:
            repair = "start its reader again, or remove the subscriber"
            yield _warning("subscriber-stalled", checkpoint.file, found, expected, keeps, repair)


def _unmoved_s(subscriber: SubscriberSnapshot, case: _Case, limit: float) -> float | None:
    """Minimum number of seconds that a checkpoint has not moved; ``None`` if it did, or that is not known to be
    long."""
    written = None if subscriber.modified_ns is None else (case.now.at_ns - subscriber.modified_ns) / NS_PER_S
    if case.before is not None:
        apart = (case.now.at_ns - case.before.at_ns) / NS_PER_S
        file = subscriber.checkpoint.file
        was_there = file in case.places_before
        if was_there and case.places_before[file] != subscriber.place:
            return None
        if was_there and apart >= case.limits.second_look_s:
            return max(apart, written or 0)
    return written if written is not None and written > limit else None


def _check_places(case: _Case) -> Iterator[Fault]:
    """Checkpoints in segments that don't exist, and unreadable ones."""
    logs = {segment.log for segment in case.now.segments}
    for subscriber in case.now.subscribers:
        checkpoint = subscriber.checkpoint
        if checkpoint.log is None:
            yield from _check_readable(subscriber, case)
        elif checkpoint.log not in logs and (
            checkpoint.log != case.now.storage_log or _is_below_last(subscriber, case)
        ):
            below = _is_below_last(subscriber, case)
            yield _warning(
                "checkpoint-without-segment",
                checkpoint.file,
                f"subscriber {checkpoint.name} at {_address(subscriber)}, no segment {segment_name(checkpoint.log)}",
                _range_text(case.now),
                "the messages in between"
                if below
                else f"every message, until segment {segment_name(checkpoint.log)} exists",
                "set the checkpoint to where the subscriber is to continue",
            )


def _is_below_last(subscriber: SubscriberSnapshot, case: _Case) -> bool:
    last, log = case.now.last_log, subscriber.checkpoint.log
    return last is not None and log is not None and log < last


def _range_text(now: Observation) -> str:
    if not now.segments:
        return "an existing segment; the journal has none"
    return f"one of the segments {segment_name(now.segments[0].log)} to {segment_name(now.segments[-1].log)}"


def _check_readable(subscriber: SubscriberSnapshot, case: _Case) -> Iterator[Fault]:
    checkpoint, modified_ns = subscriber.checkpoint, subscriber.modified_ns
    is_young = modified_ns is not None and (case.now.at_ns - modified_ns) / NS_PER_S < case.limits.settling_s
    if checkpoint.error is None and checkpoint.byte_count == 0 and is_young:
        return
    yield _warning(
        "checkpoint-unreadable",
        checkpoint.file,
        checkpoint.error or f"{checkpoint.byte_count} bytes",
        f"{JlogCheckpoint.size} bytes",
        f"the place of subscriber {checkpoint.name}; the C library may delete segments that it needs",
        "set the checkpoint to where the subscriber is to continue",
    )


def _check_growth(case: _Case) -> Iterator[Fault]:
    """Segments that pile up, and a disk that will be full."""
    now, limits = case.now, case.limits
    finished = [segment for segment in now.segments if segment.log != now.last_log]
    places = [s.checkpoint for s in now.subscribers if s.checkpoint.log is not None]
    slowest = min(places, key=lambda checkpoint: checkpoint.log or 0, default=None)
    if not now.subscribers and now.byte_count:
        yield _warning(
            "no-subscribers",
            segment_name(now.segments[0].log),
            f"no subscribers, and {now.byte_count} bytes in {len(now.segments)} segments",
            "a subscriber, so that consumed segments are deleted",
            "nothing, until the disk is full",
            "add a subscriber, or stop writing",
            Severity.FAULT if finished else Severity.NOTE,
        )
    waiting = [s for s in finished if slowest is None or s.log >= (slowest.log or 0)]
    who = "no subscribers" if slowest is None else f"{slowest.name} is the slowest subscriber"
    if len(waiting) > limits.waiting_segments:
        yield _warning(
            "segments-waiting",
            segment_name(waiting[0].log),
            f"{len(waiting)} finished segments, {sum(s.byte_count for s in waiting)} bytes ({who})",
            f"at most {limits.waiting_segments}",
            "nothing, until the disk is full",
            "speed up, restart or remove the slowest subscriber",
        )
    rate = _bytes_a_second(case, len(waiting))
    if rate is not None and now.free_bytes is not None and now.free_bytes < rate * limits.full_within_s:
        yield _warning(
            "disk-full-soon",
            segment_name(now.segments[-1].log),
            f"{now.free_bytes} bytes free, shrinking by {rate:.0f} bytes a second: full in "
            f"{span_text(now.free_bytes / rate)} ({who})",
            f"free space for {span_text(limits.full_within_s)}",
            "messages written once the disk is full",
            "free space, and restart or remove the slowest subscriber",
        )


def _bytes_a_second(case: _Case, waiting_count: int) -> float | None:
    """Growth rate of a journal with more pending segments than normal: since the earlier observation, else over its
    files' times. ``None`` if it does not grow, or unknown."""
    now, before = case.now, case.before
    if waiting_count <= HEALTHY_SEGMENTS:
        return None
    if before is not None and (now.at_ns - before.at_ns) / NS_PER_S >= SHORTEST_SPAN_S:
        grown, span = now.byte_count - before.byte_count, (now.at_ns - before.at_ns) / NS_PER_S
        return grown / span if grown > 0 else None
    first, last = now.segments[0].modified_ns, now.segments[-1].modified_ns
    if first is None or last is None or (last - first) / NS_PER_S < SHORTEST_SPAN_S:
        return None
    written = now.byte_count - now.segments[0].byte_count  # written after the first was finished
    return written / ((last - first) / NS_PER_S) if written else None


def _check_writers(case: _Case) -> Iterator[Fault]:
    """The buffer, the metastore, and the safety level."""
    now = case.now
    if now.buffered_bytes and now.buffered_since_ns is not None:
        age = (now.at_ns - now.buffered_since_ns) / NS_PER_S
        if age > case.limits.buffered_s:
            yield _warning(
                "pre-commit-waiting",
                PRE_COMMIT,
                f"{now.buffered_bytes} bytes of messages; the oldest has waited {span_text(age)}",
                f"a flush within {span_text(case.limits.buffered_s)}",
                "these messages until a writer flushes them, or for good if the machine stops",
                "flush the writer; if it is gone, open and close another",
                Severity.NOTE,
            )
    for fault in now.metastore_faults:
        yield _warning("metastore-damaged", METASTORE, fault.found, fault.expected, fault.loses, fault.repair)
    if now.safety == 0:
        yield _warning(
            "safety-unsafe",
            METASTORE,
            f"safety {SAFETY[0]}",
            f"{SAFETY[1]} or {SAFETY[2]}",
            "the last messages before the machine stops",
            "set another safety if losing messages matters",
            Severity.NOTE,
        )


_CHECKS: tuple[Callable[[_Case], Iterator[Fault]], ...] = (_check_moves, _check_places, _check_growth, _check_writers)
