"""Changes of ``recording.log``, from bytes to bytes: sort it, seed it from a snapshot, invalidate its latest snapshot.

The results differ from ClusterTool's where ClusterTool loses something:

* When it sorts, it writes invalid entries as valid ones. Here they stay marked as invalid.
* It leaves parts of an archive's endpoint in the padding of later entries. Here padding is zeros.
* If a service's part of the latest snapshot is missing, it takes one of another position. Here the parts of a snapshot
  must have the same position and term, in whichever archives they are.
* If the last entry's padding is cut it throws, and if all padding is missing it overlooks the entry. Here the entry
  counts, and its padding is written.
* If there is no snapshot to seed from, it deletes the file. Here that is an error.

Source: RecordingLog, ClusterToolOperator.
"""

from __future__ import annotations

from dataclasses import dataclass

from everlog.aeron.cluster.folder.snapshot import service_label
from everlog.aeron.cluster.format.messages import CONSENSUS_MODULE
from everlog.aeron.cluster.format.recording_log import (
    RECORDING_LOG_NAME,
    TERM,
    Entry,
    RecordingLog,
    encode,
    read_recording_log,
)
from everlog.core.plan.step import NOTHING
from everlog.errors import CorruptData

_TYPE_END = 47
"""Offset of the last byte of an entry's type, which has the invalid flag."""
_INVALID = 0x80
_SEED_HINT = "seed-recording-log-from-snapshot makes a new log from the readable entries"


@dataclass(frozen=True, slots=True)
class Change:
    """The file's new content, with descriptions of the old and new content and of what the change loses."""

    data: bytes
    before: str
    after: str
    loses: str = NOTHING


def sort_entries(data: bytes) -> Change | None:
    """Sort the entries in the order in which a node uses them, drop removed ones, and write missing padding.

    Returns ``None`` if nothing changes. Raises :class:`CorruptData` if an entry is unreadable, because sorting would
    lose it."""
    whole, log = _read_whole(data)
    count = len(log.entries)
    moved = next((entry for place, entry in enumerate(log.entries) if entry.entry_index != place), None)
    if moved is None:
        before = f"{_entries(count)}; the last one lacks {len(whole) - len(data)} bytes of padding"
        return None if whole == data else Change(whole, before, f"{_entries(count)} with their padding")
    return Change(
        b"".join(map(encode, log.entries)),
        f"{_entries(count)}; the one at offset {moved.offset} is out of order",
        f"{_entries(count)}, sorted",
    )


def invalidate_latest_snapshot(data: bytes) -> Change | None:
    """Mark the latest snapshot as invalid, so that the node uses an earlier one or replays the whole log.

    Marks the parts of the consensus module and of the services at the highest position, in the node's own archive and
    in those of standbys. Returns ``None`` if no snapshot is valid. Raises :class:`CorruptData` if an entry is
    unreadable, as it may be a later snapshot, or if the snapshot's term is missing, as the node could start from
    nothing else."""
    whole, log = _read_whole(data)
    parts = _latest_parts(log)
    if not parts:
        return None
    terms = {entry.leadership_term_id for entry in log.terms}
    for part in parts:
        if part.leadership_term_id not in terms:
            found = f"a snapshot of term {part.leadership_term_id} without that term"
            expected = f"an entry of term {part.leadership_term_id}"
            hint = (
                "the log was seeded from this snapshot, and the node can start from nothing else; nothing was changed"
            )
            raise CorruptData(RECORDING_LOG_NAME, offset=part.offset, found=found, expected=expected, hint=hint)
    new = bytearray(whole)
    for part in parts:
        new[part.offset + _TYPE_END] |= _INVALID
    return Change(bytes(new), f"valid: {_parts_text(parts)}", "the same, marked as invalid", _lost_with(new))


def seed_from_snapshot(data: bytes, service_count: int = 0) -> Change | None:
    """Keep only the latest valid snapshot in the node's own archive, at position 0 of its term, so that the node starts
    from it with a new log. Returns ``None`` if the file has nothing else.

    ``service_count`` is the least number of services that must have a part of the snapshot. Unreadable entries are
    dropped. Raises :class:`CorruptData` if there is no valid snapshot, or if a part of the latest is missing.
    """
    _, log = _read(data)
    index = log.latest_snapshot()
    if index is None:
        hint = "to start the node without any state, move the file away; nothing was changed"
        raise CorruptData(
            RECORDING_LOG_NAME, found="no valid snapshot", expected="one in the node's own archive", hint=hint
        )
    own = log.entries[index]
    parts = {entry.service_id: entry for entry in log.entries if entry.is_valid and is_part(entry, own)}
    services = range(max(service_count, *(service_id + 1 for service_id in parts)))
    missing = next((service_id for service_id in services if service_id not in parts), None)
    if missing is not None:
        raise CorruptData(
            RECORDING_LOG_NAME,
            offset=own.offset,
            found=f"no snapshot of service {missing} at position {own.log_position}",
            expected=f"snapshots of {len(services)} services",
            hint="invalidate-latest-snapshot selects an earlier one; nothing was changed",
        )
    chosen = [parts[service_id] for service_id in sorted(parts, reverse=True)]
    new = b"".join(encode(entry._replace(term_base_log_position=0, log_position=0)) for entry in chosen)
    if new == data:
        return None
    unread = len(log.faults)
    loses = "the leadership terms and all other snapshots; the old log's recording stays in the archive, unused"
    return Change(
        new,
        _entries(len(log.entries)) + (f" and {unread} unreadable" if unread else ""),
        f"{_parts_text(chosen)}, now at position 0",
        loses + (f"; the unreadable entries, which may include a later snapshot ({log.faults[0]})" if unread else ""),
    )


def _read(data: bytes) -> tuple[bytes, RecordingLog]:
    """Return the file, with its last entry padded, and its entries."""
    log = read_recording_log(data)
    if log.end <= len(data):
        return data, log
    whole = data.ljust(log.end, b"\0")
    return whole, read_recording_log(whole)


def _read_whole(data: bytes) -> tuple[bytes, RecordingLog]:
    """As :func:`_read`, but raises :class:`CorruptData` if an entry is unreadable."""
    whole, log = _read(data)
    for fault in log.faults:
        found, expected = f"{fault.found} ({fault.code})", fault.expected
        hint = f"{_SEED_HINT}; nothing was changed"
        raise CorruptData(RECORDING_LOG_NAME, offset=fault.offset, found=found, expected=expected, hint=hint)
    return whole, log


def _latest_parts(log: RecordingLog) -> list[Entry]:
    """The parts of the valid snapshots at the highest position. Like a node, searches from the end and stops at the
    first lower position."""
    latest: list[Entry] = []
    for entry in reversed(log.entries):
        if entry.type == TERM or not entry.is_valid or entry.service_id != CONSENSUS_MODULE:
            continue
        if latest and entry.log_position < latest[0].log_position:
            break
        if latest and entry.log_position > latest[0].log_position:
            latest.clear()
        latest.append(entry)
    return [entry for entry in log.entries if entry.is_valid and any(is_part(entry, own) for own in latest)]


def is_part(entry: Entry, own: Entry) -> bool:
    """Whether an entry belongs to the same snapshot as the consensus module's entry ``own``."""
    return (entry.type, entry.leadership_term_id, entry.log_position) == (
        own.type,
        own.leadership_term_id,
        own.log_position,
    )


def _lost_with(new: bytearray) -> str:
    """Describe what the invalidated snapshot means for the next start."""
    log = read_recording_log(bytes(new))
    index = log.latest_snapshot()
    if index is None:
        return "the only snapshot: a start replays the log from its beginning"
    return f"this snapshot: a start loads the one at position {log.entries[index].log_position} and replays from there"


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def _parts_text(parts: list[Entry]) -> str:
    """``the snapshot of term 1 at position 4096 (service-0 recording 3, ...)``."""
    own = parts[-1]
    listed = ", ".join(f"{service_label(part.service_id)} recording {part.recording_id}" for part in parts)
    return f"the snapshot of term {own.leadership_term_id} at position {own.log_position} ({listed})"
