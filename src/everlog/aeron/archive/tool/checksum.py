"""``checksum``: writes the CRC-32 or CRC-32C of each data frame in place of its session id, and those of catalog
entries. Source: ArchiveTool.checksum, checksumSegmentFile.

A frame's checksum covers what follows its header, so it does not depend on the session id: running it again changes
nothing. A crash leaves some files with checksums and the others unchanged, as the original's default of only the last
file does.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from everlog.aeron.archive.folder.archive import FAMILY
from everlog.aeron.archive.folder.recordings import recording_of
from everlog.aeron.archive.format.catalog import CATALOG_NAME, CatalogEntry
from everlog.aeron.archive.format.catalog_bytes import CHECKSUMS, to_int32
from everlog.aeron.archive.tool.folder import CatalogedArchive, open_folder
from everlog.aeron.archive.tool.orphans import segment_files
from everlog.aeron.archive.tool.steps import ToolStep, WriteBytes
from everlog.aeron.family_options import Checksum
from everlog.aeron.frames.constants import HEADER_LENGTH, MAX_FRAME_LENGTH, TYPE_DATA, TYPE_PADDING, align
from everlog.aeron.frames.position import term_offset_of, term_start
from everlog.aeron.layouts import DataHeader, DescriptorHeader
from everlog.core.files.storage import ReadableFile, Storage
from everlog.core.files.writable import DRAFT_PREFIX, WritableFile
from everlog.core.files.zeros import nonzero_blocks
from everlog.core.options import check_choice
from everlog.core.plan.backup import Backup
from everlog.core.plan.changed import changed
from everlog.core.plan.plan import RepairPlan
from everlog.core.plan.step import RepairStep
from everlog.core.report import Progress
from everlog.errors import EverlogError, UsageError
from everlog.kernel.crc32 import Crc32

WINDOW_BYTES = 4 << 20
"""How much of a segment is read and written back at once; no data frame is longer."""
KEPT = struct.Struct("<QI")
"""One frame in the backup: the offset of its session id in the file, and the session id."""
KEPT_SUFFIX = ".session-ids"
_SESSION_ID = DataHeader.field("session_id")


def checksum_kind(name: str) -> Checksum:
    """Return ``crc32`` for ``org.agrona.checksum.Crc32``; the package is ignored. Raises :class:`UsageError`."""
    for kind in CHECKSUMS:
        if kind == name.rpartition(".")[2].lower():
            return kind
    raise UsageError("CLASS", found=repr(name), expected="org.agrona.checksum.Crc32 or ...Crc32c")


@dataclass(frozen=True, slots=True)
class FrameFault:
    """A segment file whose frames can't be followed beyond ``offset``."""

    recording_id: int
    file: str
    offset: int
    found: str


@dataclass(slots=True)
class Block:
    """Whole frames of a segment at ``offset``, with their new contents; ``old`` has the overwritten session ids by
    their offset in the file."""

    offset: int
    data: bytearray
    old: list[tuple[int, int]]


class Checksummed:
    """Adds checksums to the frames of a segment file from ``start`` on. ``fault`` is set if they can't be followed."""

    def __init__(self, file: ReadableFile, start: int, term_length: int, crc: Crc32) -> None:
        self._file = file
        self._start = start
        self._term_length = term_length
        self._crc = crc
        self.fault: tuple[int, str] | None = None

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks with changes, in order, up to the first frame that was never written, as in the original."""
        at = self._start
        while True:
            data = bytearray(self._file.read_at(at, WINDOW_BYTES))
            block, next_at = self._block(at, data)
            if block.old:
                del block.data[next_at - at :]
                yield block
            if next_at == at:
                return
            at = next_at

    def _block(self, base: int, data: bytearray) -> tuple[Block, int]:
        """Process the whole frames in ``data``; return them and the offset after them."""
        block = Block(base, data, [])
        at = 0
        while at + HEADER_LENGTH <= len(data) and self.fault is None:
            length, _, _, kind, _, session_id, *_ = DataHeader.struct.unpack_from(data, at)
            if length == 0:
                break
            self.fault = self._check(base + at, length, kind)
            next_at = at + align(length)
            if self.fault is not None or (kind == TYPE_DATA and next_at > len(data)):
                if self.fault is None and at == 0:
                    self.fault = base, f"a frame of {length} bytes at the file's end"
                break
            if kind == TYPE_DATA:
                value = to_int32(self._crc.checksum(data, at + HEADER_LENGTH, next_at))
                if value != session_id:
                    place = at + _SESSION_ID.offset
                    data[place : place + _SESSION_ID.size] = value.to_bytes(_SESSION_ID.size, "little", signed=True)
                    block.old.append((base + place, session_id & 0xFFFFFFFF))
            at = next_at
        return block, base + at

    def _check(self, offset: int, length: int, kind: int) -> tuple[int, str] | None:
        room = self._term_length - term_offset_of(offset, self._term_length)
        most = MAX_FRAME_LENGTH if kind == TYPE_DATA else room
        if kind not in (TYPE_DATA, TYPE_PADDING) or not HEADER_LENGTH <= length <= min(room, most):
            return offset, f"a frame of {length} bytes and type {kind}"
        return None


@dataclass(frozen=True, kw_only=True)
class WriteChecksums(ToolStep):
    """Writes checksums into the frames of one segment file: into a draft, which then replaces the file. A crash leaves
    the old file or the new one; the next run deletes a left-over draft."""

    after_crash = "the old file or the new one, and maybe a draft, which the next run deletes"

    kind: Checksum
    start: int
    term_length: int
    frame_count: int
    size: int

    def compare(self) -> None:
        self.expect_size(self.file, self.size)

    def apply(self, backup: Backup | None) -> str:
        """See :class:`RepairStep`. The session ids are in the backup before the file is replaced."""
        self.check()
        draft = f"{DRAFT_PREFIX}checksum-{self.file}"
        self.storage.remove(draft)
        with self.storage.open_writable(self.file) as file:
            if backup is not None:
                backup.save(f"{self.file}{KEPT_SUFFIX}", _kept(self._work(file)))
            try:
                with self.storage.open_writable(draft, create=True, exclusive=True, mode=file.mode()) as new:
                    count = self._fill(file, new)
                self.storage.rename(draft, self.file)
            except BaseException:
                with contextlib.suppress(EverlogError):
                    self.storage.remove(draft)
                raise
        self.storage.sync_folder()
        return f"{self.file}: {count} checksums"

    def _fill(self, file: ReadableFile, draft: WritableFile) -> int:
        """Copy the file, with holes for zeros, and write the checksums; return their count."""
        for at, data in nonzero_blocks(file, 0, self.size):
            draft.write_at(at, data)
        if draft.size() < self.size:
            draft.truncate(self.size)
        work, count = self._work(file), 0
        for block in work.blocks():
            draft.write_at(block.offset, block.data)
            count += len(block.old)
        if work.fault is not None:
            raise changed(self.file, work.fault[1], "frames")
        draft.sync()
        return count

    def _work(self, file: ReadableFile) -> Checksummed:
        return Checksummed(file, self.start, self.term_length, CHECKSUMS[self.kind])

    def undo(self) -> dict[str, object]:
        return {"kind": "session-ids", "from": f"{self.file}{KEPT_SUFFIX}"}


def _kept(work: Checksummed) -> Iterator[bytes]:
    for block in work.blocks():
        yield b"".join(KEPT.pack(offset, old) for offset, old in block.old)


def plan_checksum(
    storage: Storage,
    kind: Checksum,
    recording_id: int | None = None,
    *,
    every: bool = False,
    progress: Progress | None = None,
) -> tuple[RepairPlan, list[FrameFault]]:
    """Plan to write checksums into catalog entries and segment files, of one recording or of all, of each recording's
    last file or with ``every`` of all files. Files whose frames can't be followed are returned as faults instead.

    ``kind``: ``crc32`` or ``crc32c``. Raises :class:`UsageError`, :class:`UnknownStream`, and as
    :func:`~.folder.open_folder`.
    """
    check_choice("checksum", kind, CHECKSUMS)
    folder = open_folder(storage)
    entries = folder.entries(recording_id)
    files = segment_files(folder.storage)
    steps: list[RepairStep] = []
    faults: list[FrameFault] = []
    for number, entry in enumerate(entries):
        steps += set_entry_checksum(folder, entry, kind)
        own = files.get(entry.recording_id, [])
        for position, name, size in own if every else own[-1:]:
            if progress is not None:
                progress(f"read {name}", number, len(entries))
            step = _plan_file(folder, entry, kind, (position, name, size))
            if isinstance(step, FrameFault):
                faults.append(step)
            elif step.frame_count:
                steps.append(step)
    return RepairPlan(folder.storage.root, FAMILY, tuple(steps)), faults


def set_entry_checksum(folder: CatalogedArchive, entry: CatalogEntry, kind: Checksum) -> list[WriteBytes]:
    """Return the step that writes an entry's checksum; empty if it is right already."""
    value = to_int32(CHECKSUMS[kind].checksum(entry.body))
    old = to_int32(entry.checksum & 0xFFFFFFFF)
    if value == old:
        return []
    field = DescriptorHeader.field("checksum")
    step = WriteBytes(
        file=CATALOG_NAME,
        before=f"recording {entry.recording_id} with checksum {old}",
        after=f"recording {entry.recording_id} with checksum {value}",
        storage=folder.storage,
        offset=entry.offset + field.offset,
        old=old.to_bytes(4, "little", signed=True),
        new=value.to_bytes(4, "little", signed=True),
    )
    return [step]


def _plan_file(
    folder: CatalogedArchive, entry: CatalogEntry, kind: Checksum, segment: tuple[int, str, int]
) -> WriteChecksums | FrameFault:
    position, name, size = segment
    recording = recording_of(entry)
    term = recording.term_buffer_length
    is_first = position == term_start(recording.start_position, term)
    start = term_offset_of(recording.start_position, term) if is_first else 0
    with folder.storage.open(name) as file:
        work = Checksummed(file, start, term, CHECKSUMS[kind])
        count = sum(len(block.old) for block in work.blocks())
    if work.fault is not None:
        return FrameFault(entry.recording_id, name, *work.fault)
    return WriteChecksums(
        file=name,
        before=f"{size} bytes",
        after=f"{kind} of {count} data frames",
        loses="their session ids, which a replay does not use",
        storage=folder.storage,
        kind=kind,
        start=start,
        term_length=term,
        frame_count=count,
        size=size,
    )
