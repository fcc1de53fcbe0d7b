"""A node's recovery plan: which snapshot a start loads, and which part of the log it replays.

Source: RecordingLog, createRecoveryPlan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.cluster.format.messages import CONSENSUS_MODULE
from everlog.aeron.cluster.format.recording_log import RECORDING_LOG_NAME, SNAPSHOT, TERM, Entry
from everlog.aeron.frames.constants import NULL_POSITION
from everlog.aeron.layouts import NULL_VALUE
from everlog.errors import CorruptData

UNGIVEN_STATES = ("INVALID", "DELETED")
"""An archive does not provide recordings in these states: to a node they are unknown."""


def ungiven_repair(recording: Recording) -> str:
    """Return how to make the archive provide a recording in such a state again."""
    if recording.state == "DELETED":
        return "a copy of the archive"
    return f"everlog archive DIR mark-valid {recording.recording_id}, once its frames are verified"


class Snapshot(NamedTuple):
    """One component's snapshot to load."""

    recording_id: int
    leadership_term_id: int
    term_base_log_position: int
    log_position: int
    timestamp: int
    service_id: int


@dataclass(frozen=True, slots=True)
class Log:
    """The log to replay, from ``start_position`` to ``stop_position``, which is -1 while it is being recorded."""

    recording_id: int
    leadership_term_id: int
    term_base_log_position: int
    log_position: int
    start_position: int
    stop_position: int
    initial_term_id: int
    term_buffer_length: int
    mtu_length: int
    session_id: int


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """What a start loads and replays.

    ``committed_log_position`` is the position up to which snapshots and closed terms prove that a quorum has the log.
    ``appended_log_position`` is the log's end, -1 while it is being recorded."""

    last_leadership_term_id: int
    last_term_base_log_position: int
    appended_log_position: int
    committed_log_position: int
    snapshots: tuple[Snapshot, ...]
    log: Log | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        fields = asdict(self)
        fields["snapshots"] = [snapshot._asdict() for snapshot in self.snapshots]
        return fields


def plan_recovery(entries: list[Entry], recordings: Mapping[int, Recording], service_count: int) -> RecoveryPlan:
    """Make the plan of a node with ``service_count`` services. ``entries`` are sorted as a node uses them.

    Raises :class:`CorruptData` if the node would not start: a service's snapshot or the log's recording is missing, the
    archive does not provide that recording, or terms name different recordings."""
    _check_terms(entries)
    snapshot_index = _last(entries, SNAPSHOT, CONSENSUS_MODULE)
    snapshots: list[Snapshot] = []
    term_id, base, appended, committed = NULL_VALUE, 0, 0, 0
    if snapshot_index is not None:
        snapshots = _snapshots(entries, snapshot_index, service_count)
        first = snapshots[0]
        term_id, base, appended = first.leadership_term_id, first.term_base_log_position, first.log_position
        committed = first.log_position
    log = None
    log_index = _last(entries, TERM, NULL_VALUE)
    if log_index is not None:
        log = _log(entries[log_index], recordings, snapshots)
        term_id, base, appended = log.leadership_term_id, log.term_base_log_position, log.stop_position
        committed = committed if log.log_position == NULL_POSITION else log.log_position
    return RecoveryPlan(term_id, base, appended, committed, tuple(snapshots), log)


def _check_terms(entries: list[Entry]) -> None:
    """A node reads the entries in the order of writing, and throws if a term, even an invalid one, names another
    recording."""
    terms = sorted((entry for entry in entries if entry.type == TERM), key=lambda entry: entry.entry_index)
    other = next((entry for entry in terms if entry.recording_id != terms[0].recording_id), None)
    if other is not None:
        found = f"a term with recording {other.recording_id}"
        expected = f"recording {terms[0].recording_id} as in the first term"
        hint = "seed-recording-log-from-snapshot makes a new log"
        raise CorruptData(RECORDING_LOG_NAME, offset=other.offset, found=found, expected=expected, hint=hint)


def _last(entries: list[Entry], kind: int, service_id: int) -> int | None:
    for i in range(len(entries) - 1, -1, -1):
        entry = entries[i]
        if entry.type == kind and entry.is_valid and entry.service_id == service_id:
            return i
    return None


def _snapshots(entries: list[Entry], index: int, service_count: int) -> list[Snapshot]:
    """The consensus module's snapshot and, right before it, those of the services at its position."""
    own = entries[index]
    parts = {CONSENSUS_MODULE: own}
    for i in range(1, service_count + 1):
        entry = entries[index - i] if index >= i else None
        if entry is None or entry.type != SNAPSHOT:
            continue
        if (entry.leadership_term_id, entry.log_position) == (own.leadership_term_id, own.log_position):
            parts[entry.service_id] = entry
    missing = [service_id for service_id in range(service_count) if service_id not in parts]
    if missing:
        found = f"no snapshot of service {missing[0]} at position {own.log_position}"
        raise CorruptData(RECORDING_LOG_NAME, found=found, expected=f"snapshots of {service_count} services")
    return [Snapshot(*parts[service_id][:6]) for service_id in sorted(parts)]


def _log(entry: Entry, recordings: Mapping[int, Recording], snapshots: list[Snapshot]) -> Log:
    recording = recordings.get(entry.recording_id)
    if recording is None:
        found, expected = f"no recording {entry.recording_id}", "the log's recording in the archive"
        raise CorruptData(RECORDING_LOG_NAME, offset=entry.offset, found=found, expected=expected)
    if recording.state in UNGIVEN_STATES:
        found, expected = f"recording {entry.recording_id} in state {recording.state}", "a VALID recording of the log"
        hint = ungiven_repair(recording)
        raise CorruptData(RECORDING_LOG_NAME, offset=entry.offset, found=found, expected=expected, hint=hint)
    return Log(
        entry.recording_id,
        entry.leadership_term_id,
        entry.term_base_log_position,
        entry.log_position,
        snapshots[0].log_position if snapshots else recording.start_position,
        NULL_POSITION if recording.stop_position is None else recording.stop_position,
        recording.initial_term_id,
        recording.term_buffer_length,
        recording.mtu_length,
        recording.session_id,
    )
