"""Checks of what drivers and archives have in common: a heartbeat, files that their owner is still writing, distinct
errors."""

from __future__ import annotations

from collections.abc import Sequence

from everlog.aeron.error_log import DistinctError
from everlog.aeron.family_options import (
    ERROR_COUNT,
    ERROR_WINDOW,
    ERRORS,
    HEARTBEAT_AGE,
    HEARTBEAT_AGE_CRITICAL_S,
    STOPPED,
)
from everlog.core.counting import counted
from everlog.core.files.storage import Storage
from everlog.core.monitoring.checking import CheckResult, Limits
from everlog.core.monitoring.levels import Levels, Status
from everlog.errors import EverlogError
from everlog.time_units import NS_PER_MS, NS_PER_S

CLOSED = -1
"""Heartbeat of a driver or an archive that was closed properly."""
MS_PER_S = 1000
MAX_DETAILS = 5
MAX_ERROR_TEXT = 200


def add_heartbeat(result: CheckResult, owner: str, heartbeat_ms: int, pid: int, limits: Limits, now_ns: int) -> bool:
    """Judge a heartbeat; returns whether it is young enough for the owner to count as running."""
    if heartbeat_ms == CLOSED:
        add_stopped(result, f"the {owner} was stopped", limits)
        return False
    age = now_ns / NS_PER_S - heartbeat_ms / MS_PER_S
    levels: Levels = limits[HEARTBEAT_AGE.field]
    when = f"is {age:.1f} s old" if age >= 0 else f"is {-age:.1f} s in the future: a clock is wrong"
    text = f"the heartbeat of the {owner} (process {pid}) {when}"
    status = result.measure("heartbeat_age", abs(age), text, unit="s", levels=levels)
    if status is Status.OK:
        result.facts.append(f"running as process {pid}")
    return status is not Status.CRITICAL


def add_stopped(result: CheckResult, text: str, limits: Limits) -> None:
    """Add that nothing runs here, with the status that the user gave it."""
    result.find(limits[STOPPED.field], text)


def add_half_written(
    result: CheckResult, storage: Storage, name: str, owner: str, problem: str, limits: Limits, now_ns: int
) -> None:
    """Judge a file that is not complete: its owner writes it while it starts, so a young one is only a warning."""
    written_ns = next((entry.mtime_ns for entry in storage.entries() if entry.name == name), 0)
    age = (now_ns - written_ns) / NS_PER_S
    level = limits[HEARTBEAT_AGE.field].critical
    if abs(age) <= (HEARTBEAT_AGE_CRITICAL_S if level is None else level):
        result.find(Status.WARNING, f"{name} is half-written: the {owner} is starting ({problem})")
    else:
        result.find(Status.CRITICAL, f"{name} is half-written: the {owner} died while starting ({problem})")


def add_errors(result: CheckResult, errors: Sequence[DistinctError], limits: Limits, now_ns: int) -> None:
    """Judge the distinct errors that were last seen within the window. The log keeps each error until its owner starts
    again, so that older ones would alert for ever."""
    window: float = limits[ERROR_WINDOW.field]
    since_ms = now_ns // NS_PER_MS - window * MS_PER_S
    recent = [error for error in errors if error.last_observation_timestamp >= since_ms]
    text = f"{counted(len(recent), 'distinct error')} in the last {window:g} s"
    result.measure("errors", len(recent), text, levels=limits[ERRORS.field])
    newest_first = sorted(recent, key=lambda error: -error.last_observation_timestamp)
    for error in newest_first[:MAX_DETAILS]:
        first = (error.text.strip().splitlines() or [""])[0][:MAX_ERROR_TEXT]
        result.details.append(f"error, seen {error.observation_count} times: {first}")
    if len(recent) > MAX_DETAILS:
        result.details.append(f"and {counted(len(recent) - MAX_DETAILS, 'other error')}")


def add_error_count(result: CheckResult, owner: str, count: int, limits: Limits) -> None:
    """Judge a counter of errors."""
    text = f"{counted(count, 'error')} since the {owner} started"
    result.measure("error_count", count, text, unit="c", levels=limits[ERROR_COUNT.field])


def problem_text(error: EverlogError) -> str:
    """What is wrong with a file, without its name."""
    parts = [error.found or str(error)]
    parts += [f"expected {error.expected}"] if error.expected else []
    return "; ".join(parts)
