"""The catalog, open for writing: recordings are added, their positions and states change in place.

The writes of each change are ordered so that the catalog is readable after a crash between any two of them:

==========================  =======================================================================================
after                       a crash leaves
==========================  =======================================================================================
a longer file               zeros after the last entry
a new entry's descriptor    bytes after the last entry, hidden by a header of zeros
the next recording id       an id that nobody gets
a new entry's header        the recording
an extension's session id   the old recording with the new session's id, which says nothing while it is stopped
no checksum of an entry     the entry as before, without its checksum, if it had one
positions, ids and times    the change, and no checksum of the entry, if it had one
an entry's checksum         the change
other channels              the old catalog or the new one
==========================  =======================================================================================

One thread at a time may use a writer. Source: Catalog.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from everlog.aeron.archive.folder.recordings import Recording, recording_of
from everlog.aeron.archive.format import catalog_file
from everlog.aeron.archive.format.catalog import CATALOG_NAME, Catalog, CatalogEntry, read_entry
from everlog.aeron.archive.format.catalog_bytes import (
    CHECKSUMS,
    MAX_CATALOG_BYTES,
    STATE_CODES,
    Descriptor,
    encode_body,
    encode_entry,
    encode_entry_header,
    encode_header,
    to_int32,
)
from everlog.aeron.archive.format.catalog_file import load_catalog, too_large
from everlog.aeron.archive.format.entry_checksums import kind_of
from everlog.aeron.family_options import CHECKSUM_KINDS, Checksum
from everlog.aeron.frames.constants import NULL_POSITION, NULL_TIMESTAMP, align
from everlog.aeron.layouts import CatalogHeader, DescriptorHeader, RecordingDescriptor
from everlog.core.files.writable import WritableFile, WritableStorage
from everlog.core.options import check_choice
from everlog.core.report import Severity
from everlog.errors import CorruptData, StoreExists, UnknownStream, UnsupportedVersion, UsageError

DEFAULT_CAPACITY = 1 << 20
MIN_CAPACITY = CatalogHeader.size
WRITABLE_MAJOR = 3


@dataclass(frozen=True, kw_only=True)
class CatalogOptions:
    """``capacity``: the least size of the catalog's file in bytes; a shorter one is lengthened to it, and a full one
    grows by half. ``checksum`` of the entries: ``none``, ``crc32`` or ``crc32c``. ``sync_level``: 0 leaves it to the
    system when changes reach the disk, 1 waits for them, 2 for the file's times too (Aeron's
    ``catalogFileSyncLevel``)."""

    capacity: int = DEFAULT_CAPACITY
    checksum: Checksum = "none"
    sync_level: int = 0

    def __post_init__(self) -> None:
        if not MIN_CAPACITY <= self.capacity <= MAX_CATALOG_BYTES:
            raise UsageError("capacity", found=str(self.capacity), expected=f"{MIN_CAPACITY} to {MAX_CATALOG_BYTES}")
        check_choice("checksum", self.checksum, CHECKSUM_KINDS)
        if self.sync_level not in (0, 1, 2):
            raise UsageError("catalog_file_sync_level", found=str(self.sync_level), expected="0, 1 or 2")


class CatalogWriter:
    """The catalog of an archive, open for writing. ``create`` and ``open`` make one."""

    def __init__(self, storage: WritableStorage, file: WritableFile, catalog: Catalog, options: CatalogOptions) -> None:
        self._storage = storage
        self._options = options
        self._is_closed = False
        self._file = file
        self.alignment = catalog.alignment
        self.version = catalog.header.version
        self.capacity = catalog.size
        self.next_recording_id = catalog.header.next_recording_id
        self._entries = {entry.recording_id: entry for entry in catalog.entries}
        self._offsets = {entry.recording_id: entry.offset for entry in catalog.entries}
        self._ids = sorted(self._entries)
        self._end = CatalogHeader.size
        if catalog.entries:
            last = catalog.entries[-1]
            self._end = last.offset + align(DescriptorHeader.size + last.length, self.alignment)
            self.next_recording_id = max(self.next_recording_id, last.recording_id + 1)
        self._dirty_end = max(catalog.used, self._end)
        self._is_on_disk = False

    @classmethod
    def create(cls, storage: WritableStorage, options: CatalogOptions) -> Self:
        """Make a catalog without recordings, on disk on return. Raises :class:`StoreExists`, :class:`WriteFailed`.

        A crash leaves none, or a whole one that is too short, which ``open`` lengthens.
        """
        if not storage.publish(CATALOG_NAME, encode_header(0), replace=False, mode=0o644, sync=True):
            message = f"{storage.root} is already an archive"
            raise StoreExists(storage.root, found="an archive", expected="a folder without a catalog", message=message)
        return cls.open(storage, options)

    @classmethod
    def open(cls, storage: WritableStorage, options: CatalogOptions) -> Self:
        """Open the existing catalog. Raises :class:`UnsupportedVersion` if it has to be migrated first, and
        :class:`CorruptData` if it is damaged: writing would overwrite what may still be rescued."""
        catalog, fault = load_catalog(storage)
        if catalog is None:
            assert fault is not None
            raise CorruptData(CATALOG_NAME, offset=fault.offset, found=fault.found, expected=fault.expected)
        if catalog.is_old or catalog.header.version >> 16 != WRITABLE_MAJOR:
            found = f"version {catalog.to_dict()['version']}"
            raise UnsupportedVersion(
                CATALOG_NAME, found=found, expected="3.x", hint="everlog archive DIR migrate converts it"
            )
        first = next((fault for fault in catalog.faults if fault.severity is Severity.FAULT), None)
        if first is not None:
            hint = "everlog verify lists all faults, everlog repair mends what it can"
            raise CorruptData(CATALOG_NAME, offset=first.offset, found=first.found, expected=first.expected, hint=hint)
        file = storage.open_writable(CATALOG_NAME)
        try:
            writer = cls(storage, file, catalog, options)
            if writer.capacity < options.capacity:
                writer._grow(options.capacity)
        except BaseException:
            file.close()
            raise
        return writer

    # Reading

    def __contains__(self, recording_id: int) -> bool:
        return recording_id in self._entries

    def recording_ids(self) -> list[int]:
        """Return the ids of all recordings in order, whatever their state."""
        return list(self._entries)

    def ids_from(self, recording_id: int, count: int) -> list[int]:
        """Return the ids of at most ``count`` recordings from an id on, in order, whatever their state."""
        first = bisect.bisect_left(self._ids, recording_id)
        return self._ids[first : first + count]

    def ids_backwards(self, least: int) -> Iterator[int]:
        """Yield the ids of all recordings down to ``least``, whatever their state."""
        first = bisect.bisect_left(self._ids, least)
        return (self._ids[at] for at in range(len(self._ids) - 1, first - 1, -1))

    def entry(self, recording_id: int) -> CatalogEntry:
        """Raises :class:`UnknownStream`."""
        entry = self._entries.get(recording_id)
        if entry is None:
            raise UnknownStream(
                self._storage.root, found=f"no recording {recording_id}", expected="a recording id, as ls lists them"
            )
        return entry

    def recording(self, recording_id: int) -> Recording:
        """Return the recording's present state. Raises :class:`UnknownStream`."""
        return recording_of(self.entry(recording_id))

    # Changes

    def add(self, descriptor: Descriptor) -> int:
        """Add a recording and return its id, which is ``next_recording_id`` whatever the descriptor says. Raises
        :class:`UsageError`, :class:`LimitExceeded` (the catalog is full) or :class:`WriteFailed`; nothing is added
        then."""
        recording_id = self.next_recording_id
        descriptor = replace(descriptor, recording_id=recording_id)
        body = encode_body(descriptor, self.alignment)
        header = encode_entry_header(body, "VALID", self._options.checksum)
        start = self._end
        end = start + len(header) + len(body)
        if end > catalog_file.MAX_USED_BYTES:
            raise too_large(end)
        if end > self.capacity:
            self._grow(self._capacity_for(end))
        # An unfinished addition may have left bytes after the last entry.
        self._file.write_at(start, bytes(max(self._dirty_end - start, len(header))))
        self._dirty_end = max(self._dirty_end, end)
        self._file.write_at(start + len(header), body)
        next_id = (recording_id + 1).to_bytes(8, "little")
        self._file.write_at(CatalogHeader.field("next_recording_id").offset, next_id)
        self._sync()
        self._file.write_at(start, header)
        self._sync()
        self._remember(recording_id, start, header + body)
        self._ids.append(recording_id)
        self._end = self._dirty_end = end
        self.next_recording_id = recording_id + 1
        return recording_id

    def set_stop(self, recording_id: int, position: int, timestamp_ms: int | None = None) -> None:
        """Set a recording's stop position and, if given, its stop time. Raises :class:`WriteFailed`."""
        changes = {"stop_position": position}
        if timestamp_ms is not None:
            changes["stop_timestamp"] = timestamp_ms
        self._change(recording_id, changes)

    def set_start(self, recording_id: int, position: int) -> None:
        """Set a recording's start position. Raises :class:`WriteFailed`."""
        self._change(recording_id, {"start_position": position})

    def extend(self, recording_id: int, session_id: int, control_session_id: int = 0, correlation_id: int = 0) -> None:
        """Make a stopped recording active again, for a new session. Raises :class:`WriteFailed`."""
        self._change(recording_id, {"session_id": session_id})
        changes = {"control_session_id": control_session_id, "correlation_id": correlation_id}
        self._change(recording_id, {**changes, "stop_timestamp": NULL_TIMESTAMP, "stop_position": NULL_POSITION})

    def set_state(self, recording_id: int, state: str) -> None:
        """Set a recording's state: ``VALID``, ``INVALID`` or ``DELETED``. Raises :class:`WriteFailed`."""
        entry = self.entry(recording_id)
        at = self._offsets[recording_id] + DescriptorHeader.field("state").offset
        self._file.write_at(at, STATE_CODES[state].to_bytes(4, "little"))
        self._sync()
        entry.state = state

    def replace_channels(self, recording_id: int, stripped_channel: str, original_channel: str) -> None:
        """Change a recording's channels. The entries behind it move if its length changes, so the whole catalog is
        written anew and then takes the old one's place.

        A crash before the new one has its name leaves the old catalog, and so does a power cut until the folder is
        synced; after that the new one is there. Raises :class:`UsageError` for a text that is not ASCII,
        :class:`LimitExceeded` if the catalog would become too long, :class:`WriteFailed`; nothing is changed then,
        except that the change stands if only the sync of the folder failed."""
        entry = self.entry(recording_id)
        start = self._offsets[recording_id]
        after = start + align(DescriptorHeader.size + entry.length, self.alignment)
        descriptor = replace(Descriptor.of(entry), stripped_channel=stripped_channel, original_channel=original_channel)
        kind = self._options.checksum if self._options.checksum != "none" else kind_of(entry) or "none"
        changed = encode_entry(descriptor, entry.state, kind, self.alignment)
        shift = len(changed) - (after - start)
        end = self._end + shift
        if end > catalog_file.MAX_USED_BYTES:
            raise too_large(end)
        used = bytes(self._file.read_at(0, self._end))
        capacity = self._capacity_for(end)
        data = (used[:start] + changed + used[after:]).ljust(capacity, b"\0")
        self._storage.publish(CATALOG_NAME, data, replace=True, mode=0o644)
        old = self._file
        try:
            self._file = self._storage.open_writable(CATALOG_NAME)
        finally:
            old.close()  # it has no name any more: if there is no other file, later writes must fail, not be lost
        for other, offset in self._offsets.items():
            if offset > start:
                self._offsets[other] = offset + shift
        self._remember(recording_id, start, changed)
        self._end = self._dirty_end = end
        self.capacity = capacity
        self._storage.sync_folder()

    def set_checksum(self, recording_id: int) -> None:
        """Write an entry's checksum of the kind in the options; 0 for ``none``. Raises :class:`WriteFailed`."""
        self._write_checksum(recording_id, self._options.checksum)

    def _write_checksum(self, recording_id: int, kind: Checksum) -> None:
        entry = self.entry(recording_id)
        crc = CHECKSUMS.get(kind)
        value = 0 if crc is None else to_int32(crc.checksum(entry.body))
        at = self._offsets[recording_id] + DescriptorHeader.field("checksum").offset
        self._file.write_at(at, value.to_bytes(4, "little", signed=True))
        self._is_on_disk = False
        entry.checksum = value & 0xFFFFFFFF

    def _change(self, recording_id: int, changes: dict[str, int]) -> None:
        """Change fields of one descriptor in one write: it is a single field, or all lie within 64 bytes that cross no
        page boundary. The entry's checksum is cleared first, because a stale one would look like damage. If the options
        name no kind of checksum, the entry keeps its kind."""
        entry = self.entry(recording_id)
        kind = self._options.checksum
        if kind == "none":
            kind = kind_of(entry) or "none"
        if entry.checksum:
            self._write_checksum(recording_id, "none")
            self._sync()
            entry = self.entry(recording_id)
        body = bytearray(entry.body)
        fields = [RecordingDescriptor.field(name) for name in changes]
        for field, value in zip(fields, changes.values(), strict=True):
            body[field.offset : field.end] = value.to_bytes(field.size, "little", signed=True)
        first, end = min(f.offset for f in fields), max(f.end for f in fields)
        offset = self._offsets[recording_id]
        self._file.write_at(offset + DescriptorHeader.size + first, body[first:end])
        self._remember(recording_id, offset, entry.head + bytes(body))
        self._entries[recording_id].checksum = entry.checksum
        if kind != "none":
            self._sync()
            self._write_checksum(recording_id, kind)
        self._sync()

    def _remember(self, recording_id: int, offset: int, data: bytes) -> None:
        entry = read_entry(data, 0)
        assert isinstance(entry, CatalogEntry), "an entry that was written can be read"
        self._entries[recording_id], self._offsets[recording_id] = entry, offset

    # The file

    def _capacity_for(self, needed: int) -> int:
        capacity = self.capacity
        while capacity < needed:
            capacity = min(max(capacity + capacity // 2, MIN_CAPACITY + 1), catalog_file.MAX_USED_BYTES)
        return capacity

    def _grow(self, capacity: int) -> None:
        self._file.truncate(capacity)
        self._file.sync()
        self.capacity = capacity

    def _sync(self) -> None:
        self._is_on_disk = False
        if self._options.sync_level:
            self.sync()

    def sync(self) -> None:
        """Return when all changes are on disk, whatever the sync level. Raises :class:`WriteFailed`."""
        if not self._is_on_disk:
            self._file.sync(times=self._options.sync_level > 1)
            self._is_on_disk = True

    def close(self) -> None:
        """Sync, as the original does, and give the file back; a second call does nothing. Raises
        :class:`WriteFailed`."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._file.sync()
        finally:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
