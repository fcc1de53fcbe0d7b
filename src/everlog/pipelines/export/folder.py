"""The folder of an export: its lock, its manifest, and how files become part of it.

====================  ==============================================================================================
``store=.../...``     the exported files, for all readers
``_everlog/``         everlog's own; Spark and Delta ignore names that begin with ``_``
``manifest.json``     what is exported; this is authoritative
``next.json``         the next manifest, during a commit to a Delta table
``lock``              locked while a process exports to the folder
``staging-*/``        files that are not committed yet
====================  ==============================================================================================

A commit without a Delta table: (1) the files are written and synced in staging; (2) the manifest that lists them
atomically replaces the previous one; (3) the files are renamed to their final names. A crash before (2) leaves staged
files, which the next opening removes; a crash after it leaves staged files that the manifest lists, and the next
opening renames them. So readers that ignore the manifest never see a record twice.

With a Delta table: (1) as above; (2) ``next.json`` is written; (3) the files get their final names, where readers of
the table do not see them yet; (4) the table's commit adds them, with the generation of ``next.json`` as its application
transaction; (5) ``next.json`` becomes the manifest. After a crash, the next opening asks the table whether it has the
generation: if so, (5) is done, otherwise the files are removed.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from everlog.core.files.regular_files import read_small_file
from everlog.core.files.writable import LocalWritableStorage, WritableFile, WritableStorage, make_folder, write_failed
from everlog.errors import CorruptData, StoreUnavailable, UsageError
from everlog.pipelines.export.manifest import Manifest, decode, encode

OURS = "_everlog"
MANIFEST, NEXT, LOCK = f"{OURS}/manifest.json", f"{OURS}/next.json", f"{OURS}/lock"
STAGING = "staging-"
MAX_MANIFEST_BYTES = 256 << 20
"""The limit of :meth:`everlog.core.files.storage.Storage.read_all`: some million files."""

TableVersion = Callable[[], int | None]
"""Returns the Delta table's generation, ``None`` if it has none."""


class ExportFolder:
    """An export's folder, opened for writing. Raises :class:`UsageError` for a folder with other content,
    :class:`StoreUnavailable` while another process exports to it, and :class:`WriteFailed`."""

    def __init__(self, path: str, storage: WritableStorage | None = None) -> None:
        if "://" in path:
            message = "the export's folder can't be a URL; give a folder that driver and tasks see under the same path"
            raise UsageError("folder", found="a URL", expected="a folder", message=message)
        self.path = os.path.abspath(path)
        if os.path.isdir(self.path) and not is_export(self.path) and _names(self.path) - {OURS}:
            message = f"{self.path} contains other files; export to a new or empty folder"
            raise UsageError(self.path, found="other files", expected="a new or empty folder", message=message)
        make_folder(os.path.join(self.path, OURS))
        self._storage = storage or LocalWritableStorage(self.path)
        self._lock: WritableFile = self._storage.open_writable(LOCK, create=True, mode=0o640)
        if not self._lock.lock(wait=False):
            self._lock.close()
            message = f"another process is exporting to {self.path}"
            raise StoreUnavailable(self.path, found="another export", expected="one at a time", message=message)

    def load(self, table: TableVersion | None = None) -> Manifest | None:
        """The manifest, or ``None`` if nothing is exported yet. First finishes or removes what an interrupted run left.
        Raises :class:`CorruptData`."""
        manifest = read_manifest(self.path)
        if self._storage.exists(NEXT):
            following = decode(self._storage.read_all(NEXT), os.path.join(self.path, NEXT))
            if table is None:
                expected, hint = "none", "export to it again with --format delta"
                message = f"{self.path} has an unfinished Delta commit"
                raise UsageError(self.path, found="a Delta commit", expected=expected, message=message, hint=hint)
            if table() == following.generation:
                self._storage.rename(NEXT, MANIFEST)
                manifest = following
            elif manifest is None or manifest.generation < following.generation:
                self._remove([path for _, path in following.placing.files])
                self._storage.remove(NEXT)
        elif manifest is not None and self._is_folder(manifest.placing.staging):  # else the run finished
            self._place(manifest)
        for name in _names(os.path.join(self.path, OURS)):
            if name.startswith(STAGING):
                shutil.rmtree(os.path.join(self.path, OURS, name), ignore_errors=True)
        if manifest is None and next(Path(self.path).glob("store=*/*/*/*"), None) is not None:
            # Their records are unknown and would be exported twice.
            expected = f"{MANIFEST}, or an empty folder"
            raise CorruptData(self.path, found="exported files without a manifest", expected=expected)
        return manifest

    def stage(self, run: str) -> str:
        """Make a folder for files that are not committed yet; returns its name."""
        name = f"{OURS}/{STAGING}{run}"
        try:
            os.makedirs(os.path.join(self.path, name), exist_ok=True)
        except OSError as error:
            raise write_failed(self.path, error) from error
        return name

    def unstage(self, name: str) -> None:
        """Remove a folder of staged files that are no longer needed."""
        shutil.rmtree(os.path.join(self.path, name), ignore_errors=True)

    def commit(self, manifest: Manifest, table: Callable[[Manifest], None] | None = None) -> None:
        """Make the staged files of ``manifest.placing`` part of the export: all of them, or after a crash none.
        ``table`` commits them to a Delta table."""
        for folder in _upwards(manifest.placing.staging):
            self._sync(folder)
        data = encode(manifest)
        if len(data) > MAX_MANIFEST_BYTES:
            expected = f"at most {MAX_MANIFEST_BYTES}"
            message = (
                f"the manifest of {self.path} would have {len(data)} bytes, over the limit of {MAX_MANIFEST_BYTES}"
            )
            hint = "export to another folder"
            raise UsageError(self.path, found=f"{len(data)} bytes", expected=expected, message=message, hint=hint)
        if table is None:
            self._storage.publish(MANIFEST, data, replace=True, sync=True)
            self._place(manifest)
            return
        self._storage.publish(NEXT, data, replace=True, sync=True)
        self._place(manifest)
        table(manifest)
        self._storage.rename(NEXT, MANIFEST)
        self._sync(OURS)

    def _place(self, manifest: Manifest) -> None:
        """Give the last commit's files their final names. A file that is no longer in staging already has its name, but
        a killed run may not have synced it, and the next commit's manifest no longer lists it: so all folders are
        synced."""
        folders = {posixpath.dirname(path) for _, path in manifest.placing.files}
        made: set[str] = set()
        for staged, path in manifest.placing.files:
            source, folder = f"{manifest.placing.staging}/{staged}", posixpath.dirname(path)
            if not self._storage.exists(source):
                continue
            if folder not in made:
                self._make(folder)
                made.add(folder)
            self._storage.rename(source, path)
        for above in sorted({above for folder in folders for above in _upwards(folder)}):
            self._sync(above)

    def _make(self, folder: str) -> None:
        try:
            os.makedirs(os.path.join(self.path, folder), exist_ok=True)
        except OSError as error:
            raise write_failed(os.path.join(self.path, folder), error) from error

    def _sync(self, folder: str) -> None:
        if self._is_folder(folder):
            self._storage.sync_folder(folder)

    def _is_folder(self, name: str) -> bool:
        return os.path.isdir(os.path.join(self.path, name))

    def _remove(self, paths: list[str]) -> None:
        for path in paths:
            self._storage.remove(path)

    def close(self) -> None:
        """Release the lock. A second call does nothing."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def is_export(path: str) -> bool:
    """Whether a local folder holds an export, even one without a commit."""
    return os.path.isfile(os.path.join(path, MANIFEST)) or os.path.isfile(os.path.join(path, LOCK))


def read_manifest(path: str) -> Manifest | None:
    """Read an export's manifest; ``None`` if nothing is exported yet. Raises :class:`CorruptData`."""
    place = os.path.join(path, MANIFEST)
    try:
        data = read_small_file(place, MAX_MANIFEST_BYTES)
    except StoreUnavailable as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
    except UsageError as error:
        raise CorruptData(place, found=error.found, expected=error.expected, message=error.message) from None
    return decode(data, place)


def _names(path: str) -> set[str]:
    with contextlib.suppress(OSError):
        return set(os.listdir(path))
    return set()


def _upwards(folder: str) -> Iterator[str]:
    """A folder of the export and each above it, the export's own (an empty name) last.

    >>> list(_upwards("a/b"))
    ['a/b', 'a', '']
    """
    yield folder
    while folder:
        folder = posixpath.dirname(folder)
        yield folder


def placed(path: str, manifest: Manifest, file: str) -> str:
    """The current path of a manifest's file: its final name, or its staged name after a crash."""
    place = os.path.join(path, file)
    if os.path.exists(place):
        return place
    for staged, name in manifest.placing.files:
        if name == file and os.path.exists(found := os.path.join(path, manifest.placing.staging, staged)):
            return found
    return place
