"""Changes of ``recording.log``, as bytes in and bytes out: sorted, started anew from a snapshot, without its latest
snapshot. Source: RecordingLog, ClusterToolOperator.

In these the bytes differ from ClusterTool's, whose results lose something:

* it writes entries that are marked as invalid as valid ones when it sorts; here they stay marked;
* it leaves parts of an archive's endpoint in the padding of the entries behind it; here padding is zeros;
* it takes a service's snapshot of another position where one of the latest is missing; here only the parts of one
  position and term are taken for one snapshot, from whichever archives;
* it throws where the last entry's padding is cut, and overlooks the entry where all of that is missing; here it is
  an entry, and its padding is written;
* it deletes the file where there is no snapshot to start anew from; here that is an error.
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
"""The last byte of an entry's type, which has the flag for invalid ones."""
_INVALID = 0x80
_SEED_HINT = "seed-recording-log-from-snapshot starts anew with what can be read"


@dataclass(frozen=True, slots=True)
class Change:
    """The file's new content; what was there and what is there then, in words, and what is lost by it."""

    data: bytes
    before: str
    after: str
    loses: str = NOTHING


def sort_entries(data: bytes) -> Change | None:
    """Entries in the order in which a node uses them, without the places of removed ones, and the last one with its
    padding; ``None`` where they are so already. Raises :class:`CorruptData` where an entry can't be read: it would be
    lost."""
    whole, log = _read_whole(data)
    count = len(log.entries)
    moved = next((entry for place, entry in enumerate(log.entries) if entry.entry_index != place), None)
    if moved is None:
        before = f"{_entries(count)}, the last without {len(whole) - len(data)} bytes of its padding"
        return None if whole == data else Change(whole, before, f"{_entries(count)} with their padding")
    return Change(
        b"".join(map(encode, log.entries)),
        f"{_entries(count)}, of which that at offset {moved.offset} is not in its place",
        f"{_entries(count)} in the order in which a node uses them",
    )


def invalidate_latest_snapshot(data: bytes) -> Change | None:
    """The latest snapshot marked as invalid, so that an earlier one, or the log alone, is used: the parts of the
    consensus module and of the services at the highest position, in the node's own archive and in standbys'. ``None``
    where there is no valid snapshot. Raises :class:`CorruptData` where an entry can't be read, which may be a later
    snapshot, and for a snapshot without its term: there is nothing else to start from."""
    whole, log = _read_whole(data)
    parts = _latest_parts(log)
    if not parts:
        return None
    terms = {entry.leadership_term_id for entry in log.terms}
    for part in parts:
        if part.leadership_term_id not in terms:
            found = f"a snapshot of term {part.leadership_term_id}, which is not there"
            hint = "it was seeded from this snapshot, and has nothing else to start from; nothing was changed"
            raise CorruptData(RECORDING_LOG_NAME, offset=part.offset, found=found, expected="its term", hint=hint)
    new = bytearray(whole)
    for part in parts:
        new[part.offset + _TYPE_END] |= _INVALID
    return Change(bytes(new), f"valid: {_parts_text(parts)}", "the same, marked as invalid", _lost_with(new))


def seed_from_snapshot(data: bytes, service_count: int = 0) -> Change | None:
    """Nothing but the latest valid snapshot in the node's own archive, at position 0 of its term: a node starts from it
    with a new log. ``None`` where that is all there is already.

    ``service_count``: so many services the snapshot must have parts of, at least. Raises :class:`CorruptData` where
    there is no snapshot, or a part of the latest is missing. Entries that can't be read are left out.
    """
    _, log = _read(data)
    index = log.latest_snapshot()
    if index is None:
        hint = "to let the node start with nothing at all, move the file away; nothing was changed"
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
            hint="invalidate-latest-snapshot makes an earlier one the latest; nothing was changed",
        )
    chosen = [parts[service_id] for service_id in sorted(parts, reverse=True)]
    new = b"".join(encode(entry._replace(term_base_log_position=0, log_position=0)) for entry in chosen)
    if new == data:
        return None
    unread = len(log.faults)
    loses = "the leadership terms and all other snapshots; the recording of the old log stays, and is not used"
    return Change(
        new,
        _entries(len(log.entries)) + (f", and {unread} that can't be read" if unread else ""),
        f"{_parts_text(chosen)}, now at position 0",
        loses + (f"; what can't be read, such as a later snapshot ({log.faults[0]})" if unread else ""),
    )


def _read(data: bytes) -> tuple[bytes, RecordingLog]:
    """The file with the padding that its last entry may lack, and what is in it."""
    log = read_recording_log(data)
    if log.end <= len(data):
        return data, log
    whole = data.ljust(log.end, b"\0")
    return whole, read_recording_log(whole)


def _read_whole(data: bytes) -> tuple[bytes, RecordingLog]:
    """As ``_read``. Raises :class:`CorruptData` where an entry can't be read."""
    whole, log = _read(data)
    for fault in log.faults:
        found, expected = f"{fault.found} ({fault.code})", fault.expected
        hint = f"{_SEED_HINT}; nothing was changed"
        raise CorruptData(RECORDING_LOG_NAME, offset=fault.offset, found=found, expected=expected, hint=hint)
    return whole, log


def _latest_parts(log: RecordingLog) -> list[Entry]:
    """The parts of the valid snapshots at the highest position; a node looks for it from the end, up to the first one
    that is lower."""
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
    """Whether an entry is of the same snapshot as the consensus module's entry ``own``."""
    return (entry.type, entry.leadership_term_id, entry.log_position) == (
        own.type,
        own.leadership_term_id,
        own.log_position,
    )


def _lost_with(new: bytearray) -> str:
    """What the node no longer has, in words."""
    log = read_recording_log(bytes(new))
    index = log.latest_snapshot()
    if index is None:
        return "the only snapshot: a start replays the log from its beginning"
    return f"this snapshot: a start loads that at position {log.entries[index].log_position}, and replays from there"


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def _parts_text(parts: list[Entry]) -> str:
    """``the snapshot of term 1 at position 4096 (service-0 recording 3, ...)``."""
    own = parts[-1]
    listed = ", ".join(f"{service_label(part.service_id)} recording {part.recording_id}" for part in parts)
    return f"the snapshot of term {own.leadership_term_id} at position {own.log_position} ({listed})"
