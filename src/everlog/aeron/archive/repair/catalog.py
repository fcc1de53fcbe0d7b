"""Rebuilds a missing or damaged catalog: the readable entries, byte for byte, and a new one for each recording that is
known only by its segment files.

Channels, source, times and the requesting session of such recordings are lost. Their entries have ``UNKNOWN_CHANNEL``
as channel, and the MTU that a fragment shows, if any.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from everlog.aeron.archive.folder.archive import ArchiveFolder
from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.format import catalog_file
from everlog.aeron.archive.format.catalog import ALIGNMENT, CATALOG_NAME
from everlog.aeron.archive.format.catalog_bytes import Descriptor, encode_entry, encode_header
from everlog.aeron.archive.format.catalog_file import refuse_beyond
from everlog.aeron.archive.format.segments import SegmentReader
from everlog.aeron.archive.repair.ends import TailFingerprint, fingerprint_of
from everlog.aeron.archive.repair.steps import OfflineStep
from everlog.aeron.archive.writing.catalog_writer import DEFAULT_CAPACITY
from everlog.aeron.family_options import Checksum
from everlog.aeron.frames.constants import FLAG_BEGIN, FLAG_END, HEADER_LENGTH, TYPE_DATA, align
from everlog.aeron.layouts import DataHeader
from everlog.core.files.writable import WritableStorage
from everlog.core.plan.backup import Backup, keep_file
from everlog.core.plan.changed import changed
from everlog.kernel.crc32 import IEEE, Crc32

UNKNOWN_CHANNEL = "aeron:ipc?alias=unknown"
UNKNOWN_SOURCE = "unknown"
DEFAULT_MTU = 1408
SAMPLE_BYTES = 1 << 20
ZEROS_AFTER = 4096
"""Fewest zeros after the last entry, so that the catalog does not look cut off before it is lengthened."""
MAX_SKIPPED_IDS = 1 << 20
"""A next recording id further than this from the last id in use counts as damaged."""
CATALOG_MODE = 0o644


@dataclass(frozen=True, kw_only=True)
class RebuildCatalog(OfflineStep):
    """Replaces the catalog atomically: a crash leaves the old one, or the new one, possibly still too short; the next
    writer lengthens it."""

    after_crash = "the old catalog, or the new one, maybe too short: opening it for writing lengthens it"

    old: TailFingerprint | None
    new: bytes = field(repr=False)
    capacity: int

    def compare(self) -> None:
        is_there = self.storage.exists(CATALOG_NAME)
        if self.old is None or not is_there:
            if is_there or self.old is not None:
                raise changed(CATALOG_NAME, "a file" if is_there else "no file", "none" if is_there else "a file")
            return
        with self.storage.open(CATALOG_NAME) as file:
            if not self.old.is_there(file):
                raise changed(CATALOG_NAME, f"other contents, {file.size()} bytes", f"{self.old.size} bytes")

    def apply(self, backup: Backup | None) -> str:
        self.check()
        if self.old is not None:
            keep_file(backup, self.storage, CATALOG_NAME)
        self.storage.publish(CATALOG_NAME, self.new, replace=True, mode=CATALOG_MODE, sync=True)
        with self.storage.open_writable(CATALOG_NAME) as file:
            file.truncate(self.capacity)
            file.sync()
        return f"rebuilt {CATALOG_NAME}: {self.after}"


def rebuild_catalog(storage: WritableStorage, archive: ArchiveFolder) -> RebuildCatalog:
    """Plan to rebuild an archive's catalog, which is missing or of version 3. Recordings known only by their files are
    entered as active; recovery stops them. Raises :class:`LimitExceeded` if the catalog has bytes past the part that is
    read, because the new one would lose them."""
    if storage.exists(CATALOG_NAME):
        with storage.open(CATALOG_NAME) as file:
            refuse_beyond(file, catalog_file.MAX_USED_BYTES)
    recordings = archive.recordings()
    kept = [r for r in recordings.values() if r.entry is not None]
    found = [r for r in recordings.values() if r.entry is None]
    catalog = archive.catalog
    alignment = ALIGNMENT if catalog is None else catalog.alignment
    entries = b"".join(_entry(archive, recording, alignment) for recording in recordings.values())
    data = encode_header(_next_id(archive), alignment=alignment) + entries
    old = fingerprint_of(storage, CATALOG_NAME, 0) if storage.exists(CATALOG_NAME) else None
    after = f"{len(kept)} recordings as they were"
    if found:
        names = ", ".join(str(r.recording_id) for r in found[:8]) + (", ..." if len(found) > 8 else "")
        after += f", {len(found)} found by their files: {names}"
    return RebuildCatalog(
        file=CATALOG_NAME,
        before="no catalog" if old is None else "a damaged catalog",
        after=after,
        loses="channel, source, times and session of those found by their files" if found else "nothing",
        storage=storage,
        old=old,
        new=data + bytes(ZEROS_AFTER),
        capacity=max(len(data) + ZEROS_AFTER, DEFAULT_CAPACITY, 0 if old is None else old.size),
    )


def _entry(archive: ArchiveFolder, recording: Recording, alignment: int) -> bytes:
    entry = recording.entry
    if entry is not None:
        data = entry.head + entry.body
        return data.ljust(align(len(data), alignment), b"\0")
    descriptor = Descriptor(
        recording_id=recording.recording_id,
        start_timestamp=0,
        start_position=recording.start_position,
        initial_term_id=recording.initial_term_id,
        segment_file_length=recording.segment_file_length,
        term_buffer_length=recording.term_buffer_length,
        mtu_length=_mtu(archive, recording),
        session_id=recording.session_id,
        stream_id=recording.stream_id,
        stripped_channel=UNKNOWN_CHANNEL,
        original_channel=UNKNOWN_CHANNEL,
        source_identity=UNKNOWN_SOURCE,
    )
    return encode_entry(descriptor, alignment=alignment, checksum=_entry_checksum(archive))


def _entry_checksum(archive: ArchiveFolder) -> Checksum:
    """The checksum kind of the existing entries; new ones use the same."""
    for recording in archive.recordings().values():
        entry = recording.entry
        if entry is not None and entry.checksum:
            is_ieee = Crc32(IEEE).checksum(entry.body) == entry.checksum & 0xFFFFFFFF
            return "crc32" if is_ieee else "crc32c"
    return "none"


def _mtu(archive: ArchiveFolder, recording: Recording) -> int:
    """The length of a fragment that is not a message's last one; without one, the longest frame, but at least Aeron's
    default."""
    reader = SegmentReader(archive.storage, archive.segment_map(recording))
    try:
        data = reader.read(recording.start_position, SAMPLE_BYTES)
    finally:
        reader.close()
    at, longest = 0, DEFAULT_MTU
    while at + HEADER_LENGTH <= len(data):
        header = DataHeader.unpack_from(data, at)
        if header.frame_length < HEADER_LENGTH:
            break
        if header.type == TYPE_DATA:
            if header.flags & FLAG_BEGIN and not header.flags & FLAG_END:
                return align(header.frame_length)
            longest = max(longest, align(header.frame_length))
        at += align(header.frame_length)
    return longest


def _next_id(archive: ArchiveFolder) -> int:
    """The next recording id, above every id in the catalog or in a file's name, so that no new recording inherits old
    files."""
    ids = [*archive.recordings(), *archive.segment_index()]
    following = max((i for i in ids if i < 1 << 62), default=-1) + 1
    claimed = 0 if archive.catalog is None else archive.catalog.header.next_recording_id
    return claimed if following <= claimed <= following + MAX_SKIPPED_IDS else following
