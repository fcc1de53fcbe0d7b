"""``recording.log``: the log's recording, its leadership terms and the snapshots. Source: RecordingLog.

Entries start at multiples of 64 bytes, in the order of writing. Like a node, :class:`RecordingLog` sorts them by term
and position. An invalid entry is reported as a fault, and reading continues 64 bytes later."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from everlog.aeron.cluster.format.layouts import RecordingLogEntry
from everlog.aeron.cluster.format.messages import CONSENSUS_MODULE
from everlog.aeron.frames.constants import FRAME_ALIGNMENT, align
from everlog.aeron.layouts import NULL_VALUE
from everlog.core.report import Fault
from everlog.errors import UsageError

RECORDING_LOG_NAME = "recording.log"
ALIGNMENT = 64
MAX_ENTRY_BYTES = 4096
ENDPOINT_OFFSET = RecordingLogEntry.size
MAX_ENDPOINT_BYTES = MAX_ENTRY_BYTES - ENDPOINT_OFFSET - 4
MAX_SERVICE_ID = 127
"""Aeron allows at most 127 services."""
TERM, SNAPSHOT, STANDBY_SNAPSHOT = range(3)
TYPE_NAMES = ("TERM", "SNAPSHOT", "STANDBY_SNAPSHOT")
REMOVED = -1
_INVALID_FLAG = -(1 << 31)
_RANK = (0, 2, 1)
_unpack = RecordingLogEntry.struct.unpack_from
_EMPTY = bytes(ALIGNMENT)
_NOT_ZERO = re.compile(rb"[^\0]")


class Entry(NamedTuple):
    """A term or a snapshot. ``entry_index`` is its number in the file, counting removed entries; ``offset`` is its byte
    offset."""

    recording_id: int
    leadership_term_id: int
    term_base_log_position: int
    log_position: int
    timestamp: int
    service_id: int
    type: int
    is_valid: bool
    entry_index: int
    offset: int
    archive_endpoint: str | None = None

    @property
    def sort_key(self) -> tuple[int, int, int, int, int]:
        """The order in which a node uses entries: in each term, the term itself, standby snapshots, then snapshots,
        with the consensus module's after those of the services."""
        if self.type == TERM:
            return self.leadership_term_id, self.term_base_log_position, 0, self.entry_index, 0
        rank = _RANK[self.type]
        return self.leadership_term_id, self.term_base_log_position, rank, self.log_position, -self.service_id

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        fields = {
            "recording_id": self.recording_id,
            "leadership_term_id": self.leadership_term_id,
            "term_base_log_position": self.term_base_log_position,
            "log_position": None if self.log_position == NULL_VALUE else self.log_position,
            "timestamp": self.timestamp,
            "service_id": self.service_id,
            "type": TYPE_NAMES[self.type],
            "is_valid": self.is_valid,
            "entry_index": self.entry_index,
        }
        return fields if self.archive_endpoint is None else {**fields, "archive_endpoint": self.archive_endpoint}


@dataclass(slots=True)
class RecordingLog:
    """The entries in the order in which a node uses them, and the faults of invalid ones.

    ``end`` is the offset after the last entry and its padding, even if the file lacks the padding; if the last entry is
    torn, the offset at which it begins."""

    entries: list[Entry] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    end: int = 0

    @property
    def terms(self) -> list[Entry]:
        """The valid terms, in order."""
        return [entry for entry in self.entries if entry.type == TERM and entry.is_valid]

    @property
    def last_term(self) -> Entry | None:
        """The latest valid term."""
        return next((e for e in reversed(self.entries) if e.type == TERM and e.is_valid), None)

    @property
    def log_recording_id(self) -> int | None:
        """The log's recording, as named by the latest term."""
        last = self.last_term
        return None if last is None else last.recording_id

    @property
    def is_sorted(self) -> bool:
        """Whether the file has the entries in the order in which a node uses them."""
        return all(a.entry_index < b.entry_index for a, b in pairwise(self.entries))

    def latest_snapshot(self) -> int | None:
        """Return the index in ``entries`` of the consensus module's latest valid snapshot in the node's own archive, or
        ``None``."""
        for i in range(len(self.entries) - 1, -1, -1):
            entry = self.entries[i]
            if entry.type == SNAPSHOT and entry.is_valid and entry.service_id == CONSENSUS_MODULE:
                return i
        return None


def read_recording_log(data: bytes, name: str = RECORDING_LOG_NAME) -> RecordingLog:
    """Decode a file. Damage becomes faults and never raises."""
    log = RecordingLog()
    at = index = 0
    end = len(data)
    while at + ENDPOINT_OFFSET <= end:
        if data[at : at + ALIGNMENT] == _EMPTY:
            count = _zeros(log, data, at, name)
            at += count * ALIGNMENT
            index += count
            continue
        values = _unpack(data, at)
        entry_type = values[6]
        length = ALIGNMENT
        if entry_type == REMOVED:
            length = _removed_length(data, at)
        else:
            entry, problem = _entry(data, at, index, values)
            if entry is None:
                _fault(log, name, at, problem, "the entry's term or snapshot", "a term or a snapshot")
            else:
                log.entries.append(entry)
                if entry.archive_endpoint is not None:
                    length = align(ENDPOINT_OFFSET + 4 + len(entry.archive_endpoint), ALIGNMENT)
        at += length
        index += 1
    log.end = at
    _check_end(log, len(data), name)
    log.entries.sort(key=lambda entry: entry.sort_key)
    return log


def _zeros(log: RecordingLog, data: bytes, at: int, name: str) -> int:
    """Count the entries of zeros from ``at`` on and report them as one fault. The first one must be zeros."""
    found = _NOT_ZERO.search(data, at)
    count = ((len(data) if found is None else found.start()) - at) // ALIGNMENT
    text, lost = "zeros", "the entry's term or snapshot"
    if count > 1:
        text, lost = f"zeros in place of {count} entries", "the entries' terms and snapshots"
    _fault(log, name, at, text, lost, "a term or a snapshot")
    return count


def _check_end(log: RecordingLog, size: int, name: str) -> None:
    """Check that the last entry is whole. If part of its padding is missing, a node throws when it reads the file; if
    all of it is missing, the node overlooks the entry."""
    if log.end == size:
        return
    at, loses, repair = log.end, "the last entry", _REPAIR
    if log.end > size:
        at = max(log.end - ALIGNMENT, 0)
        loses = "nothing, but a node does not start or overlooks the last entry"
        repair = "everlog cluster DIR sort-recording-log writes the missing padding"
    expected = f"a multiple of {ALIGNMENT} bytes"
    log.faults.append(Fault("recording-log-size", name, at, f"{size} bytes", expected, loses, repair))


_REPAIR = (
    "everlog cluster DIR seed-recording-log-from-snapshot, or a copy from another node; none if a snapshot is newer"
)


def _fault(log: RecordingLog, name: str, at: int, found: str, loses: str, expected: str) -> None:
    log.faults.append(Fault("recording-log-entry", name, at, found, expected, loses, _REPAIR))


def _entry(data: bytes, at: int, index: int, values: tuple[int, ...]) -> tuple[Entry | None, str]:
    """The entry, or what is wrong with it."""
    entry_type = values[6]
    is_valid = entry_type >= 0
    kind = entry_type if is_valid else entry_type - _INVALID_FLAG
    problem = _problem(values, kind)
    if problem:
        return None, problem
    endpoint = None
    if kind == STANDBY_SNAPSHOT:
        endpoint = _endpoint(data, at)
        if endpoint is None:
            return None, "a standby snapshot without a valid endpoint"
    return Entry._make((*values[:6], kind, is_valid, index, at, endpoint)), ""


def _problem(values: tuple[int, ...], kind: int) -> str:
    """Why an entry is invalid, or an empty text. Positions are multiples of the frame alignment; they are 0 in a
    recording log that was seeded from a snapshot."""
    recording_id, term_id, base, position, _, service_id, _ = values
    if not 0 <= kind <= STANDBY_SNAPSHOT:
        return f"entry type {values[6]}"
    if recording_id < 0:
        return f"recording id {recording_id}"
    if term_id < NULL_VALUE or (kind == TERM and term_id < 0):
        return f"leadership term id {term_id}"
    if base < 0 or base % FRAME_ALIGNMENT:
        return f"term base log position {base}"
    if position % FRAME_ALIGNMENT and position != NULL_VALUE:
        return f"log position {position}"
    if position < base and (kind != TERM or position != NULL_VALUE):
        return f"log position {position} before the term's base {base}"
    if kind == TERM:
        return "" if service_id == NULL_VALUE else f"service id {service_id} in a term"
    return "" if NULL_VALUE <= service_id <= MAX_SERVICE_ID else f"service id {service_id}"


def _endpoint(data: bytes, at: int) -> str | None:
    start = at + ENDPOINT_OFFSET + 4
    if start > len(data):
        return None
    length = int.from_bytes(data[start - 4 : start], "little", signed=True)
    if not 0 < length <= MAX_ENDPOINT_BYTES or start + length > len(data):
        return None
    text = data[start : start + length]
    return text.decode("ascii") if text.isascii() and b"\0" not in text else None


def _removed_length(data: bytes, at: int) -> int:
    """Size of a removed entry. Its type is overwritten, so it may have been a standby snapshot with an endpoint. What
    looks like an endpoint may also be left over from another entry; then a valid entry follows after 64 bytes."""
    after = at + ALIGNMENT
    endpoint = _endpoint(data, at)
    if endpoint is None or after + ENDPOINT_OFFSET > len(data):
        return ALIGNMENT
    values = _unpack(data, after)
    if values[6] == REMOVED or _entry(data, after, 0, values)[0] is not None:
        return ALIGNMENT
    return align(ENDPOINT_OFFSET + 4 + len(endpoint), ALIGNMENT)


def encode_entry(
    *,
    recording_id: int,
    leadership_term_id: int,
    term_base_log_position: int,
    log_position: int,
    timestamp: int = 0,
    service_id: int = NULL_VALUE,
    type: int = TERM,
    is_valid: bool = True,
    archive_endpoint: str = "",
) -> bytes:
    """Encode an entry, padded with zeros. Raises :class:`UsageError` if the endpoint is too long or not ASCII."""
    body = RecordingLogEntry.pack(
        recording_id=recording_id,
        leadership_term_id=leadership_term_id,
        term_base_log_position=term_base_log_position,
        log_position=log_position,
        timestamp=timestamp,
        service_id=service_id,
        entry_type=type if is_valid else type + _INVALID_FLAG,
    )
    if archive_endpoint:
        if len(archive_endpoint) > MAX_ENDPOINT_BYTES or not archive_endpoint.isascii():
            expected = f"at most {MAX_ENDPOINT_BYTES} ASCII characters"
            raise UsageError("archive_endpoint", found=f"{archive_endpoint[:100]!r}", expected=expected)
        body += len(archive_endpoint).to_bytes(4, "little") + archive_endpoint.encode("ascii")
    return body.ljust(align(len(body), ALIGNMENT), b"\0")


def encode(entry: Entry) -> bytes:
    """Encode a decoded entry. The bytes fit any place in the file."""
    fields = {name: value for name, value in entry._asdict().items() if name not in ("entry_index", "offset")}
    return encode_entry(**{**fields, "archive_endpoint": entry.archive_endpoint or ""})
