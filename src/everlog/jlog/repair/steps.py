"""The steps of a journal's repair. :mod:`everlog.jlog.repair.planning` explains their order."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from everlog.core.files.storage import ReadableFile
from everlog.core.files.writable import WritableFile, WritableStorage, locked
from everlog.core.plan.backup import COPY_BYTES, Backup, keep_part
from everlog.core.plan.changed import changed
from everlog.core.plan.step import FolderStep
from everlog.errors import EverlogError, FileChanged, StoreUnavailable
from everlog.jlog.format.framing import PLAIN, Framing
from everlog.jlog.format.index import SegmentIndex, read_index
from everlog.jlog.format.layouts import JlogCheckpoint, JlogMetastore
from everlog.jlog.format.names import METASTORE, index_name
from everlog.jlog.repair.segments import KeptBytes, SegmentState, scan, stays_readable

DRAFT_PREFIX = ".everlog-repair-"
"""A rewritten segment's name starts with this until it is complete."""
FILE_MODE = 0o640


def refuse_open(storage: WritableStorage, name: str) -> None:
    """Raises :class:`StoreUnavailable` if a process has the file open. If the system can't show that, the file counts
    as closed."""
    if storage.exists(name) and storage.is_open_elsewhere(name):
        raise StoreUnavailable(
            name,
            found="a process has it open",
            expected="no process while it is changed",
            hint="stop the journal's writers and readers first, then repair again; nothing was changed",
            message=f"{name} is open in another process",
        )


@contextlib.contextmanager
def journal_locked(storage: WritableStorage) -> Iterator[None]:
    """Hold the metastore's lock, under which writers open segments and segments are deleted."""
    if not storage.exists(METASTORE):
        yield
        return
    with storage.open_writable(METASTORE) as file, locked(file):
        yield


def chunks(file: ReadableFile, start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes of a part of a file. Raises :class:`FileChanged` if the file became shorter."""
    for at in range(start, end, COPY_BYTES):
        length = min(COPY_BYTES, end - at)
        data = file.read_at(at, length)
        if len(data) < length:
            raise FileChanged(file.name, offset=at, found=f"{len(data)} bytes", expected=f"{length}")
        yield data


def keep(backup: Backup | None, file: ReadableFile, start: int = 0, end: int | None = None) -> None:
    """Back up a whole file under its name, or a part of it under its name and offset."""
    if backup is None:
        return
    size = file.size() if end is None else end
    if size > start:
        keep_part(backup, file, file.name if end is None else f"{file.name}@{start}", start, size)


@dataclass(frozen=True, kw_only=True)
class WriteMetastore(FolderStep):
    """Writes the metastore's fields in place, in one write, because processes may have it mapped; a missing file is
    created atomically."""

    after_crash = "the old fields or the new ones, maybe with surplus bytes, which planning again cuts off"

    old: bytes | None
    new: bytes
    old_size: int = 0
    mode: int = FILE_MODE

    def check(self) -> None:
        if self.old is None:
            self.expect_none(METASTORE)
            return
        refuse_open(self.storage, METASTORE)
        with self.storage.open(METASTORE) as file:
            self._compare(file)

    def _compare(self, file: ReadableFile) -> None:
        found = file.read_at(0, JlogMetastore.size)
        if found != self.old or file.size() != self.old_size:
            raise changed(METASTORE, found.hex() or "0 bytes", (self.old or b"").hex() or "0 bytes")

    def apply(self, backup: Backup | None) -> str:
        self.check()
        if self.old is None:
            if not self.storage.publish(METASTORE, self.new, replace=False, mode=self.mode, sync=True):
                raise changed(METASTORE, "a file", "none")
            return f"wrote {METASTORE}: {self.after}"
        with self.storage.open_writable(METASTORE) as file, locked(file):
            self._compare(file)
            keep(backup, file)
            file.write_at(0, self.new)
            if self.old_size > len(self.new):
                file.truncate(len(self.new))
            file.sync()
        return f"wrote {METASTORE}: {self.after}"


@dataclass(frozen=True, kw_only=True)
class CreateSegment(FolderStep):
    """Creates the empty segment that the metastore names as the one being written."""

    after_crash = "the empty segment, or none"

    mode: int = FILE_MODE

    def check(self) -> None:
        self.expect_none(self.file)

    def apply(self, backup: Backup | None) -> str:
        with journal_locked(self.storage):
            self.check()
            self.storage.open_writable(self.file, create=True, mode=self.mode).close()
            self.storage.sync_folder()
        return f"created {self.file}"


@dataclass(frozen=True, kw_only=True)
class MoveCheckpoint(FolderStep):
    """Writes a checkpoint in place, in one write of eight bytes, under its lock, as its subscriber does; and under the
    metastore's lock, so that no segment that it moves back to is deleted in between."""

    after_crash = "the old position or the new one, maybe with surplus bytes, which planning again cuts off"

    old: bytes
    old_size: int
    new: tuple[int, int]

    def check(self) -> None:
        refuse_open(self.storage, self.file)
        if not self.storage.exists(self.file):
            raise changed(self.file, "no file", self.before)
        with self.storage.open(self.file) as file:
            self._compare(file)

    def _compare(self, file: ReadableFile) -> None:
        found = file.read_at(0, JlogCheckpoint.size)
        if found != self.old or file.size() != self.old_size:
            raise changed(self.file, found.hex() or "0 bytes", self.old.hex() or "0 bytes")

    def apply(self, backup: Backup | None) -> str:
        with journal_locked(self.storage):
            self.check()
            with self.storage.open_writable(self.file) as file, locked(file):
                self._compare(file)
                keep(backup, file)
                file.write_at(0, JlogCheckpoint.struct.pack(*self.new))
                if self.old_size > JlogCheckpoint.size:
                    file.truncate(JlogCheckpoint.size)
                file.sync()
        return f"set {self.file} to {self.new[0]:08x}:{self.new[1]:08x}"


@dataclass(frozen=True, kw_only=True)
class SegmentStep(FolderStep):
    """Changes a segment's data."""

    log: int
    framing: Framing
    state: SegmentState

    def index(self) -> SegmentIndex:
        """Return the segment's index, as reading uses it."""
        return read_index(self.storage, self.log, self.state.size, self.framing.header_bytes)

    def compare(self, file: ReadableFile) -> None:
        """Walk again, now that the file is locked. Raises :class:`FileChanged` if the result differs."""
        if file.size() != self.state.size:
            raise changed(self.file, f"{file.size()} bytes", f"{self.state.size} bytes")
        if scan(file, self.log, self.framing, self.index()) != self.state:
            raise changed(self.file, "other damage", "the damage found before")

    def keep_stretches(self, backup: Backup | None, file: ReadableFile) -> None:
        """Copy the bytes that are cut out into the backup."""
        for stretch in self.state.stretches:
            keep(backup, file, stretch.start, stretch.end)


@dataclass(frozen=True, kw_only=True)
class CutTail(SegmentStep):
    """Cuts damage after the last message in place, under the segment's lock. Writers may be active: after waiting for
    the lock they find the new end."""

    after_crash = "the segment cut or not; once cut, maybe index entries past its end, which planning again finds"

    def check(self) -> None:
        self.expect_size(self.file, self.state.size)

    def apply(self, backup: Backup | None) -> str:
        """See :class:`RepairStep`. The index is deleted after the cut, because it may be what shows the damage; a crash
        in between leaves entries past the end, which the next repair finds."""
        end = self.state.kept_bytes
        self.check()
        with self.storage.open_writable(self.file) as file, locked(file):
            self.compare(file)
            self.keep_stretches(backup, file)
            file.truncate(end)
            file.sync()
        remove_index(self.storage, self.log)
        return f"cut {self.file} at {end}: {self.state.size - end} bytes less; deleted its index"


@dataclass(frozen=True, kw_only=True)
class RewriteSegment(SegmentStep):
    """Rewrites a segment without its damaged stretches, or with the headers of version 2: writes a draft that replaces
    it atomically. No process may have it open, because a writer would continue in the old file."""

    after_crash = "the old segment or the new one, maybe without its index; maybe a draft, which planning again deletes"

    to_plain: bool = False

    @property
    def draft(self) -> str:
        """The new segment's name until it is complete."""
        return DRAFT_PREFIX + self.file

    def check(self) -> None:
        self.expect_size(self.file, self.state.size)
        refuse_open(self.storage, self.file)

    def apply(self, backup: Backup | None) -> str:
        with journal_locked(self.storage), index_locked(self.storage, self.log) as index:
            self.check()
            with self.storage.open_writable(self.file) as file, locked(file):
                self.compare(file)
                self.keep_stretches(backup, file)
                try:
                    self._write_draft(file)
                    if self.state.stretches:
                        drop_index(self.storage, self.log, index)
                    self.storage.rename(self.draft, self.file)
                except BaseException:
                    with contextlib.suppress(EverlogError):
                        self.storage.remove(self.draft)
                    raise
                self.storage.sync_folder()
        size = self.state.kept_bytes
        return f"rewrote {self.file}: {self.state.message_count} messages, {self.state.size - size} bytes less"

    def _write_draft(self, file: WritableFile) -> None:
        self.storage.remove(self.draft)
        kept = KeptBytes(file, self.state.kept)
        with self.storage.open_writable(self.draft, create=True, exclusive=True, mode=file.mode()) as draft:
            at = 0
            for chunk in chunks(kept, 0, kept.size()):
                draft.write_at(at, chunk)
                at += len(chunk)
            if self.to_plain:
                scan(file, self.log, self.framing, self.index(), _PlainHeaders(kept, draft))
            draft.sync()
            whole = SegmentState(self.log, at, self.state.message_count, (), False)
            if not stays_readable(draft, whole, PLAIN if self.to_plain else self.framing):
                raise changed(self.file, "a draft that reads differently", "a draft that reads like the segment")


class _PlainHeaders:
    """Gives each message in a draft the magic of version 2. Sizes and offsets stay."""

    def __init__(self, kept: KeptBytes, draft: WritableFile) -> None:
        self._kept = kept
        self._draft = draft

    def messages(self, markers: Sequence[int], offsets: Sequence[int]) -> None:
        """Give each message the plain magic."""
        for offset in offsets:
            self._draft.write_at(self._kept.place_of(offset), PLAIN.magic_bytes)

    def lost(self, *, is_counted: bool) -> None:
        """Damage needs no new header."""


@dataclass(frozen=True, kw_only=True)
class DeleteSegment(SegmentStep):
    """Deletes a finished segment without messages, and its index."""

    after_crash = "the segment, maybe without its index, or neither"

    def check(self) -> None:
        self.expect_size(self.file, self.state.size)
        refuse_open(self.storage, self.file)

    def apply(self, backup: Backup | None) -> str:
        with journal_locked(self.storage), index_locked(self.storage, self.log) as index:
            self.check()
            with self.storage.open_writable(self.file) as file, locked(file):
                if self.state.size:
                    self.compare(file)
                keep(backup, file)
                drop_index(self.storage, self.log, index)
                self.storage.remove(self.file)
                self.storage.sync_folder()
        return f"deleted {self.file}"


@dataclass(frozen=True, kw_only=True)
class DeleteIndex(FolderStep):
    """Deletes a wrong index; readers rebuild it. Readers may be active."""

    after_crash = "the index, empty or not, or none: readers rebuild it"

    log: int
    size: int

    def check(self) -> None:
        self.expect_size(self.file, self.size)

    def apply(self, backup: Backup | None) -> str:
        self.check()
        if backup is not None:
            with self.storage.open(self.file) as file:
                keep(backup, file)
        remove_index(self.storage, self.log)
        return f"deleted {self.file}"


@contextlib.contextmanager
def index_locked(storage: WritableStorage, log: int) -> Iterator[WritableFile | None]:
    """Lock a segment's index, if it has one. To lock both, lock the index before the segment, as the C library's
    readers do, and writers that cut a torn end."""
    name = index_name(log)
    if not storage.exists(name):
        yield None
        return
    with storage.open_writable(name) as file, locked(file):
        yield file


def drop_index(storage: WritableStorage, log: int, index: WritableFile | None) -> None:
    """Empty a locked index, then delete it: a reader that has it open refills it, all others create a new one. The
    deletion is on disk on return, so that an old index never meets new data. Raises :class:`FileChanged` if a reader
    has created one since: it can't be locked after the segment."""
    name = index_name(log)
    if index is not None:
        index.truncate(0)
        index.sync()
        storage.remove(name)
        storage.sync_folder()
    elif storage.exists(name):
        raise changed(name, "a file", "none")


def remove_index(storage: WritableStorage, log: int) -> None:
    """Empty an index under its lock, then delete it. Not while the segment is locked."""
    with index_locked(storage, log) as index:
        if index is not None:
            drop_index(storage, log, index)


@dataclass(frozen=True, kw_only=True)
class DeleteFile(FolderStep):
    """Deletes a file that no process needs."""

    after_crash = "the file, or none"

    size: int

    def check(self) -> None:
        self.expect_size(self.file, self.size)
        refuse_open(self.storage, self.file)

    def apply(self, backup: Backup | None) -> str:
        with journal_locked(self.storage):
            self.check()
            if backup is not None:
                with self.storage.open(self.file) as file:
                    keep(backup, file)
            self.storage.remove(self.file)
            self.storage.sync_folder()
        return f"deleted {self.file}"
