"""``everlog check`` of an archive: heartbeat, catalog, recordings, errors, its driver, free space."""

from __future__ import annotations

from everlog.aeron.archive.folder.archive import load_mark
from everlog.aeron.archive.format.mark_place import MARK_NAME, mark_storage
from everlog.aeron.archive.monitoring.observation import (
    ArchiveObservation,
    driver_folder,
    has_driver_files,
    observe_archive,
)
from everlog.aeron.mark_file import ArchiveMark
from everlog.aeron.owner_checks import (
    add_error_count,
    add_errors,
    add_half_written,
    add_heartbeat,
    add_stopped,
    problem_text,
)
from everlog.core.counting import counted
from everlog.core.files.storage import Storage
from everlog.core.monitoring.checking import CheckResult, Limits, measure_free_space
from everlog.core.monitoring.levels import Status
from everlog.errors import CorruptData
from everlog.time_units import NS_PER_MS

OWNER = "archive"
ERROR_COUNT_TYPE = "archive-error-count"
PERFORMANCE = {
    "archive-control-sessions": ("control_sessions", ""),
    "archive-recording-session-count": ("recording_sessions", ""),
    "archive-replay-session-count": ("replay_sessions", ""),
    "archive-recorder-total-write-bytes": ("written_bytes", "c"),
    "archive-replayer-total-read-bytes": ("read_bytes", "c"),
}
"""Label and unit in performance data of the counters of a running archive."""


def check(storage: Storage, limits: Limits, now_ns: int) -> CheckResult:
    """Check an archive's folder. Raises :class:`UnsupportedVersion`, :class:`LimitExceeded`, and
    :class:`StoreUnavailable` if the folder, or a file that exists, can't be read."""
    result = CheckResult()
    now_ms = now_ns // NS_PER_MS
    mark, is_running = _judge_mark(result, storage, limits, now_ns)
    seen = observe_archive(storage, mark, now_ms)
    _judge_catalog(result, seen)
    _judge_recordings(result, seen, limits, is_running)
    if mark is not None:
        add_errors(result, mark.errors, limits, now_ns)
        if is_running:
            _judge_driver(result, seen, mark, limits)
    measure_free_space(result, storage, limits)
    return result


def _judge_mark(result: CheckResult, storage: Storage, limits: Limits, now_ns: int) -> tuple[ArchiveMark | None, bool]:
    """Judge the mark file; returns it, unless it can't be read, and whether an archive runs."""
    try:
        mark = load_mark(storage)
    except CorruptData as error:
        add_half_written(result, mark_storage(storage), MARK_NAME, OWNER, problem_text(error), limits, now_ns)
        return None, False
    if mark is None:
        add_stopped(result, f"no {MARK_NAME}: no archive runs here", limits)
        return None, False
    version = mark.header.version
    if version == 0:  # an archive sets it last
        add_half_written(result, mark_storage(storage), MARK_NAME, OWNER, "version 0", limits, now_ns)
        return mark, False
    if version < 0:
        result.find(Status.CRITICAL, f"the {OWNER} failed to start ({MARK_NAME} has version {version})")
        return mark, False
    if mark.problem is not None:
        result.find(Status.WARNING, f"{MARK_NAME}: {mark.problem}")
    header = mark.header
    return mark, add_heartbeat(result, OWNER, header.activity_timestamp, header.pid, limits, now_ns)


def _judge_catalog(result: CheckResult, seen: ArchiveObservation) -> None:
    faults = seen.catalog_faults if seen.catalog_fault is None else (seen.catalog_fault, *seen.catalog_faults)
    if faults:
        others = f", and {counted(len(faults) - 1, 'other fault')}" if len(faults) > 1 else ""
        result.find(Status.CRITICAL, f"the catalog is damaged: {faults[0].code}: {faults[0].found}{others}")
    for fault in faults:
        place = fault.file if fault.offset is None else f"{fault.file} at offset {fault.offset}"
        result.details.append(f"{place}: {fault.code}: {fault.found}; expected {fault.expected} ({fault.repair})")


def _judge_recordings(result: CheckResult, seen: ArchiveObservation, limits: Limits, is_running: bool) -> None:
    kept = sum(count for state, count in seen.states.items() if state != "deleted")
    result.facts += [counted(kept, "recording"), f"{counted(seen.recorded_bytes, 'byte')} recorded"]
    states = ", ".join(f"{count} {state}" for state, count in seen.states.items() if count)
    result.details.append(f"recordings: {states or 'none'}; {counted(seen.segment_count, 'segment file')}")
    if seen.active and not is_running:
        result.details.append(f"{counted(seen.active, 'recording')} without stop position: the next start recovers it")
    result.measure("recordings", kept, "")
    result.measure("active_recordings", seen.active, "")
    invalid = seen.states["invalid"]
    text = counted(invalid, "invalid recording")
    result.measure("invalid_recordings", invalid, text, levels=limits["invalid_recordings"])
    result.measure("recorded_bytes", seen.recorded_bytes, "", unit="B")
    result.measure("segment_bytes", seen.segment_bytes, "", unit="B")


def _judge_driver(result: CheckResult, seen: ArchiveObservation, mark: ArchiveMark, limits: Limits) -> None:
    folder = driver_folder(mark)
    if seen.counters is not None:
        for counter in seen.counters:
            if counter.type_name == ERROR_COUNT_TYPE:
                add_error_count(result, OWNER, counter.value, limits)
            elif counter.type_name in PERFORMANCE:
                label, unit = PERFORMANCE[counter.type_name]
                result.measure(label, counter.value, "", unit=unit)
    elif has_driver_files(mark):
        result.find(Status.CRITICAL, f"the archive's driver in {folder} does not run")
    else:
        result.details.append(f"the archive's driver in {folder or 'an unknown folder'} can't be seen from here")
