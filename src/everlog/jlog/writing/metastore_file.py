"""The metastore, open for writing: the current segment and the settings.

The C library maps the file. everlog uses system calls, whose effect those processes see immediately. Every change is
one write of the changed bytes under the file's lock; a crash leaves the old or the new value.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from everlog.core.files.writable import WritableFile, WritableStorage, locked
from everlog.errors import CorruptData, NotAStore
from everlog.jlog.format.framing import is_valid_magic
from everlog.jlog.format.layouts import JlogMetastore
from everlog.jlog.format.metastore import SAFETY
from everlog.jlog.format.names import MAX_LOG, METASTORE, parse_segment_name, segment_name

SAFE = 2
"""The safety level at which metastore and checkpoints are synced."""
_HINT = "everlog repair rewrites it"


class MetastoreFile:
    """Raises :class:`NotAStore` if the metastore is missing, and :class:`CorruptData` if a writer must not use it."""

    def __init__(self, storage: WritableStorage) -> None:
        if not storage.exists(METASTORE) and METASTORE not in storage.names():  # names() raises if access is denied
            raise NotAStore(
                storage.root,
                found="no metastore",
                expected="a JLog journal",
                hint="everlog.jlog.create creates a journal; everlog repair rewrites a lost metastore",
            )
        self._storage = storage
        self.file: WritableFile = storage.open_writable(METASTORE)
        try:
            self.mode = self.file.mode()
            self.read()
        except BaseException:
            self.file.close()
            raise

    def read(self) -> JlogMetastore:
        """The current fields."""
        size = self.file.size()
        if size != JlogMetastore.size:
            raise CorruptData(
                METASTORE, found=f"the file has {size} bytes", expected=f"{JlogMetastore.size} bytes", hint=_HINT
            )
        values = JlogMetastore.unpack_from(self.file.read_at(0, JlogMetastore.size))
        if not is_valid_magic(values.magic) or not values.unit_limit or values.safety not in SAFETY:
            raise CorruptData(
                METASTORE,
                found=f"magic {values.magic:#010x}, segment limit {values.unit_limit}, safety {values.safety}",
                expected="a known magic, a limit of at least 1 and a safety of 0, 1 or 2",
                hint=_HINT,
            )
        return values

    @contextmanager
    def locked(self) -> Iterator[JlogMetastore]:
        """Context manager for a change: holds the lock and gives the fields."""
        with locked(self.file):
            yield self.read()

    def open_segment(self, *, sync: bool) -> tuple[int, WritableFile]:
        """Open the current segment, creating it if missing. With ``sync`` its name and the metastore are on disk on
        return, whoever created them."""
        with self.locked() as values:
            file = self._storage.open_writable(segment_name(values.storage_log), create=True, mode=self.mode)
            if sync:
                self.sync_names()
            return values.storage_log, file

    def sync_names(self) -> None:
        """Sync the folder's names and the metastore, whoever wrote them."""
        self._storage.sync_folder()
        self.file.sync()

    def advance(self, log: int, *, sync: bool) -> int:
        """Move to the segment after ``log``, unless another process has done so; returns the current segment.

        A crash between creating the segment and updating the metastore leaves an empty segment, which the next call or
        :meth:`catch_up` uses.
        """
        with self.locked() as values:
            if values.storage_log != log:
                return values.storage_log
            if log == MAX_LOG:
                raise CorruptData(
                    METASTORE, found=f"segment {log:08x} is the last possible one", hint="migrate to a new journal"
                )
            self._storage.open_writable(segment_name(log + 1), create=True, mode=self.mode).close()
            if sync:
                self._storage.sync_folder()
            self._set(JlogMetastore.storage_log.offset, log + 1)  # type: ignore[attr-defined]
            if sync or values.safety == SAFE:
                self.file.sync()
            return log + 1

    def catch_up(self) -> int:
        """Make the highest existing segment the current one, and return it. The metastore lags after a crash in
        :meth:`advance`, or a power cut that loses its last change. Readers treat a segment as finished when a later one
        exists, and the C library's readers see nothing appended to a finished one."""
        with self.locked() as values:
            return self._catch_up(values.storage_log)

    def _catch_up(self, storage_log: int) -> int:
        logs = [log for log in map(parse_segment_name, self._storage.names()) if log is not None]
        highest = max(logs, default=0)
        if highest <= storage_log:
            return storage_log
        self._set(JlogMetastore.storage_log.offset, highest)  # type: ignore[attr-defined]
        self.file.sync()
        return highest

    def alter(self, *, unit_limit: int | None = None, safety: int | None = None) -> None:
        """Change settings. Processes that have the journal open see them at their next append."""
        with self.locked() as values:
            self._catch_up(values.storage_log)  # else a larger limit could reopen a finished segment
            if unit_limit is not None:
                self._set(JlogMetastore.unit_limit.offset, unit_limit)  # type: ignore[attr-defined]
            if safety is not None:
                self._set(JlogMetastore.safety.offset, safety)  # type: ignore[attr-defined]
            if SAFE in (safety, values.safety):
                self.file.sync()

    def _set(self, offset: int, value: int) -> None:
        self.file.write_at(offset, value.to_bytes(4, "little"))

    def close(self) -> None:
        """Close the file."""
        self.file.close()
