"""``archive.catalog``: a header, then an entry for each recording. Versions 0.x to 3.x. Source: Catalog,
aeron-archive-codecs.xml, of Aeron 1.7 to 1.53.

Up to version 2 the header and each entry have 1024 bytes, and recording N has entry N. From version 3 on, entries have
variable lengths. An invalid entry is reported as a fault; reading continues at the next intact entry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from everlog.aeron.archive.format.segments import Naming
from everlog.aeron.frames.constants import (
    FRAME_ALIGNMENT,
    MAX_FRAME_LENGTH,
    MAX_SEGMENT_LENGTH,
    MAX_TERM_LENGTH,
    MIN_TERM_LENGTH,
    NULL_POSITION,
    align,
    is_power_of_two,
    version_text,
)
from everlog.aeron.layouts import (
    CatalogHeader,
    DescriptorHeader,
    OldCatalogHeader,
    OldDescriptorHeader,
    RecordingDescriptor,
)
from everlog.core.report import Fault, Severity
from everlog.errors import CorruptData, UnsupportedVersion
from everlog.sbe.decode import decode_texts

CATALOG_NAME = "archive.catalog"
NAMING = {0: Naming.INDEX, 1: Naming.START_SEGMENT, 2: Naming.POSITION, 3: Naming.POSITION}
"""How segment files are named, by major version."""

LAST_OLD_MAJOR = 2
"""The last major version whose entries have the fixed size ``OLD_ENTRY_BYTES``."""

ALIGNMENT = 64
OLD_ENTRY_BYTES = OldCatalogHeader.size
MAX_ALIGNMENT = 4096
LENGTH_PREFIX_BYTES = RecordingDescriptor.var_data[0].data_offset
MIN_DESCRIPTOR_BYTES = RecordingDescriptor.size + len(RecordingDescriptor.var_data) * LENGTH_PREFIX_BYTES
_NOT_ZERO = re.compile(rb"[^\0]")
STATES = {0: "INVALID", 1: "VALID", 2: "DELETED"}


@dataclass(slots=True)
class CatalogEntry:
    """One recording's entry in the catalog: ``offset`` and fields of the entry's header, the descriptor's ``values`` in
    the order of its layout, and its strings. A catalog may have very many entries, so strings are decoded lazily."""

    data: bytes = field(repr=False)
    offset: int
    length: int
    state: str
    checksum: int
    values: tuple[int, ...]

    @property
    def texts(self) -> dict[str, str]:
        """The descriptor's strings by name."""
        start = self.offset + DescriptorHeader.size
        end = start + self.length
        return decode_texts(RecordingDescriptor.var_data, self.data, start + RecordingDescriptor.size, end)[0]

    @property
    def recording_id(self) -> int:
        """The descriptor's recording id."""
        return self.values[2]

    @property
    def start_position(self) -> int:
        """The descriptor's start position."""
        return self.values[5]

    @property
    def stop_position(self) -> int:
        """The descriptor's stop position; ``NULL_POSITION`` while the recording is active."""
        return self.values[6]

    @property
    def head(self) -> bytes:
        """The bytes of the entry's header."""
        return self.data[self.offset : self.offset + DescriptorHeader.size]

    @property
    def body(self) -> bytes:
        """The bytes that the checksum covers."""
        start = self.offset + DescriptorHeader.size
        return self.data[start : start + self.length]


@dataclass(slots=True)
class Catalog:
    """A decoded catalog; ``faults`` lists what could not be read. ``is_damaged``: recordings may be missing. Only zeros
    follow the first ``used`` bytes."""

    header: CatalogHeader
    size: int
    alignment: int
    is_old: bool
    naming: Naming
    entries: list[CatalogEntry] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    is_damaged: bool = False
    used: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the header as plain values."""
        header = self.header
        return {
            "version": version_text(header.version),
            "length": header.length,
            "next_recording_id": None if self.is_old else header.next_recording_id,
            "alignment": self.alignment,
            "capacity": self.size,
            "entry_count": len(self.entries),
        }


def read_catalog(data: bytes, name: str = CATALOG_NAME, size: int | None = None) -> Catalog:
    """Decode a catalog. ``size`` is the size of its file if ``data`` omits trailing zeros. Raises
    :class:`CorruptData` if it has no header, :class:`UnsupportedVersion` for a version above 3."""
    # The oldest catalogs have version 0: only the length in their header is not zero.
    if len(data) < CatalogHeader.size or not any(data[: CatalogHeader.size]):
        found = f"{len(data)} bytes" if len(data) < CatalogHeader.size else "zeros"
        raise CorruptData(name, offset=0, found=found, expected=f"a header of {CatalogHeader.size} bytes")
    header = CatalogHeader.unpack_from(data)
    naming = NAMING.get(header.version >> 16)
    if naming is None:
        expected = f"{min(NAMING)}.x to {max(NAMING)}.x"
        raise UnsupportedVersion(name, offset=0, found=f"version {version_text(header.version)}", expected=expected)
    is_old = _is_old(header)
    alignment = OLD_ENTRY_BYTES if is_old else header.alignment
    catalog = Catalog(header, len(data) if size is None else size, alignment, is_old, naming)
    catalog.used = len(data.rstrip(b"\0"))
    _check_header(catalog, name)
    if is_old:
        _read_old_entries(catalog, data, name)
    else:
        _read_entries(catalog, data, CatalogHeader.size, name)
    _check_ids(catalog, name)
    return catalog


def _is_old(header: CatalogHeader) -> bool:
    """Decide by a majority of version, length and alignment, so that one damaged field does not matter."""
    signs = (header.version >> 16 <= LAST_OLD_MAJOR, header.length == OLD_ENTRY_BYTES, header.alignment == 0)
    return sum(signs) > 1


def _check_header(catalog: Catalog, name: str) -> None:
    """Report header fields that contradict the others."""
    header, is_old = catalog.header, catalog.is_old
    if is_old != (header.version >> 16 <= LAST_OLD_MAJOR):
        expected = "0.x to 2.x" if is_old else "3.x"
        found = f"version {version_text(header.version)}"
        _fault(catalog, name, 0, "catalog-header", found, f"{expected}, by its length and alignment")
        catalog.naming = Naming.POSITION
    alignment_at = CatalogHeader.field("alignment").offset
    if is_old and header.alignment:
        _fault(catalog, name, alignment_at, "catalog-header", f"alignment {header.alignment}", "0")
    alignment = catalog.alignment
    if not is_power_of_two(alignment) or not FRAME_ALIGNMENT <= alignment <= MAX_ALIGNMENT:
        _fault(catalog, name, alignment_at, "catalog-header", f"alignment {alignment}", f"{ALIGNMENT}")
        catalog.alignment = ALIGNMENT
    length = OLD_ENTRY_BYTES if is_old else CatalogHeader.size
    if header.length != length:
        at = CatalogHeader.field("length").offset
        _fault(catalog, name, at, "catalog-header", f"length {header.length}", str(length))


def _read_old_entries(catalog: Catalog, data: bytes, name: str) -> None:
    """Read entries of fixed size: a damaged one does not affect the others. A run of empty entries is one fault."""
    at = OLD_ENTRY_BYTES
    while at + OldDescriptorHeader.size <= len(data):
        next_at = at + OLD_ENTRY_BYTES
        entry = _old_entry(data, at)
        if isinstance(entry, CatalogEntry):
            catalog.entries.append(entry)
        else:
            code, offset, found, expected = entry
            if code == "catalog-end":
                following = _NOT_ZERO.search(data, at)
                if following is None:
                    return
                code, next_at = "catalog-entry", max(next_at, following.start() // OLD_ENTRY_BYTES * OLD_ENTRY_BYTES)
            lost = "the entry" if next_at == at + OLD_ENTRY_BYTES else f"the entries before offset {next_at}"
            _fault(catalog, name, offset, code, found, expected, lost)
            catalog.is_damaged = True
        at = next_at
    rest = len(data) % OLD_ENTRY_BYTES
    if 0 < rest < OldDescriptorHeader.size and any(data[-rest:]):
        found, expected = f"{rest} bytes", f"an entry of {OLD_ENTRY_BYTES} bytes"
        _fault(catalog, name, len(data) - rest, "catalog-entry", found, expected, "the entries from here on")
        catalog.is_damaged = True


def _read_entries(catalog: Catalog, data: bytes, at: int, name: str) -> None:
    while at + DescriptorHeader.size <= len(data):
        entry = read_entry(data, at)
        if isinstance(entry, CatalogEntry):
            catalog.entries.append(entry)
            at += align(entry.length + DescriptorHeader.size, catalog.alignment)
            continue
        code, offset, found, expected = entry
        if code == "catalog-end" and _NOT_ZERO.search(data, at) is None:
            return
        next_at = _next_entry(catalog, data, at)
        if code == "catalog-end" and next_at >= len(data) and _is_unfinished(catalog, data, at):
            _unfinished(catalog, name, at)
            return
        lost = "the entries up to the next intact one" if next_at < len(data) else "the entries from here on"
        _fault(catalog, name, offset, "catalog-entry" if code == "catalog-end" else code, found, expected, lost)
        catalog.is_damaged = True
        at = next_at
    _check_end(catalog, data, min(at, len(data)), name)


def _check_end(catalog: Catalog, data: bytes, at: int, name: str) -> None:
    """Check for a truncated file: it ends at ``at``, or too close to it for an entry, without an empty entry."""
    last = catalog.entries[-1].recording_id if catalog.entries else -1
    following = catalog.header.next_recording_id
    if _NOT_ZERO.search(data, at) is not None:
        found, expected = f"{len(data) - at} bytes", f"an entry's header of {DescriptorHeader.size} bytes"
    elif not catalog.is_damaged and following > last + 1:
        found, expected = "the file's end", f"an entry with an id up to {following - 1}, or zeros"
    else:
        return
    _fault(catalog, name, at, "catalog-entry", found, expected, "the entries from here on")
    catalog.is_damaged = True


def _is_unfinished(catalog: Catalog, data: bytes, at: int) -> bool:
    """Whether the bytes after the last entry are an interrupted addition: an entry's header is written last. The next
    recording id shows that no other entries are missing; where ids were left out before, by compaction or by an earlier
    addition that was interrupted, the id in the bytes does."""
    body = at + DescriptorHeader.size
    if any(data[at:body]) or catalog.is_damaged:
        return False
    last = catalog.entries[-1].recording_id if catalog.entries else -1
    following = catalog.header.next_recording_id
    return following <= last + 2 or max(last + 1, following - 1) <= _recording_id(data, body) <= following


def _recording_id(data: bytes, body: int) -> int:
    at = body + RecordingDescriptor.field("recording_id").offset
    return int.from_bytes(data[at : at + 8], "little", signed=True)


def _unfinished(catalog: Catalog, name: str, at: int) -> None:
    found, expected = "a descriptor after a header of zeros", "zeros"
    lost = "the recording, if it was ever started: then it has segment files"
    repair = "none needed: the next writer overwrites it"
    catalog.faults.append(Fault("catalog-unfinished", name, at, found, expected, lost, repair, Severity.NOTE))
    catalog.is_damaged = True  # so that the recording's files, if any, are read


def _next_entry(catalog: Catalog, data: bytes, at: int) -> int:
    """The offset of the next intact entry after ``at``, or the end of the data."""
    at += catalog.alignment
    while at + DescriptorHeader.size <= len(data):
        if data[at] | data[at + 1] and isinstance(read_entry(data, at), CatalogEntry):
            return at
        at += catalog.alignment
    return len(data)


_unpack_head = DescriptorHeader.struct.unpack_from
_unpack_old_head = OldDescriptorHeader.struct.unpack_from
_unpack_descriptor = RecordingDescriptor.struct.unpack_from

Problem = tuple[str, int, str, str]
"""Fault code, offset, found, expected."""


def read_entry(data: bytes, at: int) -> CatalogEntry | Problem:
    """Decode the entry at an offset of a catalog of version 3, or return what is wrong with it."""
    length, state_code, checksum = _unpack_head(data, at)
    state = STATES.get(state_code)
    if length and state is None:
        return "catalog-entry", at + DescriptorHeader.field("state").offset, f"state {state_code}", "0, 1 or 2"
    return _descriptor(data, at, length, len(data), state or "", checksum)


def _old_entry(data: bytes, at: int) -> CatalogEntry | Problem:
    length, valid = _unpack_old_head(data, at)
    if length and valid not in (0, 1):
        return "catalog-entry", at + OldDescriptorHeader.field("valid").offset, f"valid {valid}", "0 or 1"
    entry = _descriptor(data, at, length, min(at + OLD_ENTRY_BYTES, len(data)), STATES[valid & 1], 0)
    number = at // OLD_ENTRY_BYTES - 1
    if isinstance(entry, CatalogEntry) and entry.recording_id != number:
        offset = at + OldDescriptorHeader.size + RecordingDescriptor.field("recording_id").offset
        return "catalog-entry", offset, f"recording id {entry.recording_id}", f"{number}, by its offset"
    return entry


def _descriptor(data: bytes, at: int, length: int, limit: int, state: str, checksum: int) -> CatalogEntry | Problem:
    """The descriptor of the entry at ``at``, which ends before ``limit``."""
    body = at + DescriptorHeader.size
    room = limit - body
    if length == 0:
        return "catalog-end", at, "length 0", "an entry"
    if not MIN_DESCRIPTOR_BYTES <= length <= room:
        return "catalog-entry", at, f"length {length}", f"{MIN_DESCRIPTOR_BYTES} to {room}"
    values = _unpack_descriptor(data, body)
    problem = descriptor_problem(values)
    if problem is not None:
        name, found, expected = problem
        offset = body + RecordingDescriptor.field(name).offset
        return "catalog-descriptor", offset, f"{name} {found}", expected
    end = body + length
    texts_end = body + RecordingDescriptor.size
    for _ in RecordingDescriptor.var_data:
        if texts_end + LENGTH_PREFIX_BYTES > end:
            break
        texts_end += LENGTH_PREFIX_BYTES + int.from_bytes(data[texts_end : texts_end + LENGTH_PREFIX_BYTES], "little")
    else:
        if end - texts_end >= ALIGNMENT and _NOT_ZERO.search(data, texts_end, end) is not None:
            # More than padding: a damaged length would hide the entries after it.
            return "catalog-entry", at, f"length {length}", f"{texts_end - body}, rounded up, by its strings"
        if texts_end <= end:
            return CatalogEntry(data, at, length, state, checksum, values)
    try:
        decode_texts(RecordingDescriptor.var_data, data, body + RecordingDescriptor.size, end)
    except CorruptData as error:
        return "catalog-strings", error.offset or body, error.found or "", error.expected or ""
    raise AssertionError("strings that do not fit can be decoded")


def descriptor_problem(values: tuple[int, ...]) -> tuple[str, int, str] | None:
    """Return the first invalid field's name, its value, and what is valid. ``values`` are those of a
    :class:`RecordingDescriptor`."""
    _, _, recording_id, _, _, start, stop, _, segment_length, term_length, mtu_length, _, _ = values
    if recording_id < 0:
        return "recording_id", recording_id, "0 or more"
    if start < 0 or start % FRAME_ALIGNMENT:
        return "start_position", start, f"a multiple of {FRAME_ALIGNMENT}"
    if stop != NULL_POSITION and (stop < start or stop % FRAME_ALIGNMENT):
        return "stop_position", stop, f"-1 or a multiple of {FRAME_ALIGNMENT} from {start} on"
    if term_length & (term_length - 1) or not MIN_TERM_LENGTH <= term_length <= MAX_TERM_LENGTH:
        return "term_buffer_length", term_length, f"a power of two from {MIN_TERM_LENGTH} to {MAX_TERM_LENGTH}"
    if segment_length & (segment_length - 1) or not term_length <= segment_length <= MAX_SEGMENT_LENGTH:
        return "segment_file_length", segment_length, f"a power of two from {term_length} to {MAX_SEGMENT_LENGTH}"
    if not 0 < mtu_length <= MAX_FRAME_LENGTH or mtu_length % FRAME_ALIGNMENT:
        return "mtu_length", mtu_length, f"a multiple of {FRAME_ALIGNMENT} up to {MAX_FRAME_LENGTH}"
    return None


def _check_ids(catalog: Catalog, name: str) -> None:
    """Check that recording ids rise, without duplicates, and stay below the header's next id."""
    last = -1
    kept = []
    for entry in catalog.entries:
        recording_id = entry.values[2]
        if recording_id <= last:
            offset = entry.offset + DescriptorHeader.size + RecordingDescriptor.field("recording_id").offset
            _fault(catalog, name, offset, "catalog-entry", f"recording id {recording_id}", f"more than {last}")
            catalog.is_damaged = True
            continue
        last = recording_id
        kept.append(entry)
    catalog.entries = kept
    following = catalog.header.next_recording_id
    if not catalog.is_old and following < last + 1:
        offset = CatalogHeader.field("next_recording_id").offset
        _fault(catalog, name, offset, "catalog-header", f"next recording id {following}", f"{last + 1} or more")


def _fault(
    catalog: Catalog, name: str, offset: int, code: str, found: str, expected: str, loses: str = "nothing"
) -> None:
    repair = "everlog repair; recordings can still be read from their segment files"
    if catalog.is_old:
        repair = "none before a migration; recordings can still be read from their segment files"
    catalog.faults.append(Fault(code, name, offset, found, expected, loses, repair))
