"""Signs of trouble in a journal that is in use: what JLog's documentation tells operators to look for, as checks.

``check_health`` judges what was seen, and touches nothing. Its findings are warnings: each has a code of ``WARNINGS``,
says what was found and expected, and what to do. With an earlier observation it also sees what did not move.
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
    "transient-left-behind": "A subscriber for a session (`~`) that nobody moves: its program died without closing it.",
    "checkpoint-without-segment": "A checkpoint is in a segment that is not there: its subscriber misses messages, or "
    "gets none.",
    "checkpoint-unreadable": "A checkpoint file can't be read, or has not 8 bytes.",
    "no-subscribers": "Nobody has subscribed, so no segment is ever deleted.",
    "segments-waiting": "More finished segments wait for a subscriber than a reader that keeps up leaves.",
    "disk-full-soon": "At the rate at which the journal grows, the file system is full soon.",
    "pre-commit-waiting": "Messages have waited long in the pre-commit buffer, where no reader sees them.",
    "metastore-damaged": "The metastore is missing, or says what can't be: writers can't open the journal.",
    "safety-unsafe": "The journal is set to be written without syncs.",
}
"""Code to meaning. ``docs/monitoring.md`` lists them."""

DAY_S = 86_400
SHORTEST_SPAN_S = 60
"""A growth rate over less is no rate: one burst of writes would tell how full a disk is tomorrow."""
HEALTHY_SEGMENTS = 2
"""So many finished segments wait now and then where all keep up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLimits:
    """From when on something is told. Raises :class:`UsageError` for a negative one.

    ``stalled_s``: age of the oldest message that waits, and of the last move of the checkpoint;
    ``second_look_s``: an earlier observation must be so old to show that a checkpoint does not move;
    ``transient_s``: as ``stalled_s``, for subscribers of a session; ``waiting_segments``: finished segments
    that may wait; ``full_within_s``: how far growth is looked ahead; ``buffered_s``: age of the oldest
    message in the pre-commit buffer; ``settling_s``: how long a checkpoint file may be empty, as it is while it
    is made."""

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
    """What a check is given. ``places_before`` are those of the subscribers in ``before``, by checkpoint file."""

    now: Observation
    before: Observation | None
    limits: HealthLimits
    places_before: Mapping[str, tuple[int, int] | None]


def check_health(
    now: Observation, before: Observation | None = None, limits: HealthLimits = DEFAULT_LIMITS
) -> list[Fault]:
    """What is wrong with a journal as it was seen ``now``, and maybe ``before``. Notes are hints; faults want somebody
    to act."""
    places = {} if before is None else {s.checkpoint.file: s.place for s in before.subscribers}
    case = _Case(now, before, limits, places)
    return [fault for check in _CHECKS for fault in check(case)]


def span_text(seconds: float) -> str:
    """A span of time for people: ``90 s``, ``12 min``, ``5.0 h``, ``3.1 days``."""
    for unit, size in (("days", 2 * DAY_S), ("h", 7200), ("min", 120)):
        if seconds >= size:
            return f"{seconds / (size / 2):.0f} {unit}" if unit == "min" else f"{seconds / (size / 2):.1f} {unit}"
    return f"{seconds:.0f} s"


def _warning(
    code: str, file: str, found: str, expected: str, loses: str, repair: str, severity: Severity = Severity.FAULT
) -> Fault:
    assert code in WARNINGS, code
    return Fault(code, file, None, found, expected, loses, repair, severity, STREAM)


def _address(subscriber: SubscriberSnapshot) -> str:
    return "{:08x}:{:08x}".format(*subscriber.place) if subscriber.place else "no place"


def _check_moves(case: _Case) -> Iterator[Fault]:
    """A subscriber that does not move while messages wait for it."""
    for subscriber in case.now.subscribers:
        checkpoint, age = subscriber.checkpoint, subscriber.lag.seconds
        limit = case.limits.transient_s if checkpoint.is_transient else case.limits.stalled_s
        if age is None or age <= limit:
            continue
        still = _unmoved_s(subscriber, case, limit)
        if still is None:
            continue
        found = (
            f"subscriber {checkpoint.name} at {_address(subscriber)} for {span_text(still)} or more, a message that "
            f"waits since {span_text(age)}"
        )
        expected = f"a checkpoint that moves within {span_text(limit)}"
        keeps = f"nothing yet, but no segment from {segment_name(checkpoint.log or 0)} on is deleted"
        if checkpoint.is_transient and not subscriber.is_held:
            repair = "remove the subscriber if no program uses it any more"
            yield _warning("transient-left-behind", checkpoint.file, found, expected, keeps, repair, Severity.NOTE)
        else:
            repair = "start its reader again, or remove the subscriber"
            yield _warning("subscriber-stalled", checkpoint.file, found, expected, keeps, repair)


def _unmoved_s(subscriber: SubscriberSnapshot, case: _Case, limit: float) -> float | None:
    """How long a checkpoint has not moved, at least; ``None`` when it did, or that is not known to be long."""
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
    """Checkpoints in segments that are not there, and checkpoints that say nothing."""
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
                "what was between" if below else f"every message, until segment {segment_name(checkpoint.log)} exists",
                "set the checkpoint where the subscriber is to go on",
            )


def _is_below_last(subscriber: SubscriberSnapshot, case: _Case) -> bool:
    last, log = case.now.last_log, subscriber.checkpoint.log
    return last is not None and log is not None and log < last


def _range_text(now: Observation) -> str:
    if not now.segments:
        return "a segment that exists: there is none"
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
        f"the place of subscriber {checkpoint.name}; the original may delete segments that it needs",
        "set the checkpoint where the subscriber is to go on",
    )


def _check_growth(case: _Case) -> Iterator[Fault]:
    """Segments that pile up, and a disk that is going to be full."""
    now, limits = case.now, case.limits
    finished = [segment for segment in now.segments if segment.log != now.last_log]
    places = [s.checkpoint for s in now.subscribers if s.checkpoint.log is not None]
    slowest = min(places, key=lambda checkpoint: checkpoint.log or 0, default=None)
    if not now.subscribers and now.byte_count:
        yield _warning(
            "no-subscribers",
            segment_name(now.segments[0].log),
            f"no subscriber, {now.byte_count} bytes in {len(now.segments)} segments",
            "a subscriber, so that segments that all are done with are deleted",
            "nothing, until the disk is full",
            "add a subscriber, or stop writing",
            Severity.FAULT if finished else Severity.NOTE,
        )
    waiting = [s for s in finished if slowest is None or s.log >= (slowest.log or 0)]
    who = "no subscriber" if slowest is None else f"subscriber {slowest.name} is the last"
    if len(waiting) > limits.waiting_segments:
        yield _warning(
            "segments-waiting",
            segment_name(waiting[0].log),
            f"{len(waiting)} finished segments, {sum(s.byte_count for s in waiting)} bytes ({who})",
            f"at most {limits.waiting_segments}",
            "nothing, until the disk is full",
            "make the slowest subscriber faster, start it again or remove it",
        )
    rate = _bytes_a_second(case, len(waiting))
    if rate is not None and now.free_bytes is not None and now.free_bytes < rate * limits.full_within_s:
        yield _warning(
            "disk-full-soon",
            segment_name(now.segments[-1].log),
            f"{now.free_bytes} bytes free and {rate:.0f} more in use each second: full in "
            f"{span_text(now.free_bytes / rate)} ({who})",
            f"room for {span_text(limits.full_within_s)}",
            "what is written when the disk is full",
            "make room, and see that the slowest subscriber goes on or is removed",
        )


def _bytes_a_second(case: _Case, waiting_count: int) -> float | None:
    """How fast the journal grows, if more segments wait than where all keep up: as it did since the earlier
    observation, else as it was written. ``None`` where it does not grow, or that is not known."""
    now, before = case.now, case.before
    if waiting_count <= HEALTHY_SEGMENTS:
        return None
    if before is not None and (now.at_ns - before.at_ns) / NS_PER_S >= SHORTEST_SPAN_S:
        grown, span = now.byte_count - before.byte_count, (now.at_ns - before.at_ns) / NS_PER_S
        return grown / span if grown > 0 else None
    first, last = now.segments[0].modified_ns, now.segments[-1].modified_ns
    if first is None or last is None or (last - first) / NS_PER_S < SHORTEST_SPAN_S:
        return None
    written = now.byte_count - now.segments[0].byte_count  # what came after the first was finished
    return written / ((last - first) / NS_PER_S) if written else None


def _check_writers(case: _Case) -> Iterator[Fault]:
    """The buffer, the metastore, and how safely it is written."""
    now = case.now
    if now.buffered_bytes and now.buffered_since_ns is not None:
        age = (now.at_ns - now.buffered_since_ns) / NS_PER_S
        if age > case.limits.buffered_s:
            yield _warning(
                "pre-commit-waiting",
                PRE_COMMIT,
                f"{now.buffered_bytes} bytes of messages, the first of them since {span_text(age)}",
                f"a flush within {span_text(case.limits.buffered_s)}",
                "these messages, until a writer flushes them; all of them if the machine stops",
                "let the writer flush; if it is gone, open and close one",
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
            "what was written shortly before the machine stops",
            "set another safety, if losing messages matters",
            Severity.NOTE,
        )


_CHECKS: tuple[Callable[[_Case], Iterator[Fault]], ...] = (_check_moves, _check_places, _check_growth, _check_writers)
