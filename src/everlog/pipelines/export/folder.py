"""The folder of an export, on disk: who writes it, its manifest, and how files become part of it.

====================  ==============================================================================================
``store=.../...``     the files, for everybody to read
``_everlog/``         ours; Spark and Delta look over names that begin with ``_``
``manifest.json``     what is exported: the truth
``next.json``         the next manifest, while a Delta table is told of its files
``lock``              locked while a process exports to the folder
``staging-*/``        files that no commit has yet
====================  ==============================================================================================

A commit without a Delta table: (1) the files are written and synced in staging; (2) the manifest that has them takes
the place of the one before, at once; (3) the files get their names. A crash before (2) leaves staged files, which the
next opening removes; one behind it leaves staged files that the manifest has, and the next opening gives them their
names. So whoever reads the folder without the manifest never sees a record twice.

With a Delta table: (1) as above; (2) ``next.json`` is written; (3) the files get their names, which nobody reads that
reads the table; (4) the table's commit has them, and the generation of ``next.json`` as its transaction of our
application; (5) ``next.json`` becomes the manifest. The next opening after a crash asks the table whether it has the
generation: then (5) is done, else the files are removed.
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
"""As much as :meth:`everlog.core.files.storage.Storage.read_all` gives: some million files."""

TableVersion = Callable[[], int | None]
"""The generation that a Delta table has, ``None`` for none."""


class ExportFolder:
    """An export's folder that this process writes. Raises :class:`UsageError` for a folder with something else in it,
    :class:`StoreUnavailable` while another process exports to it, :class:`WriteFailed`."""

    def __init__(self, path: str, storage: WritableStorage | None = None) -> None:
        if "://" in path:
            raise UsageError("folder", found="a URL", expected="a folder that driver and tasks see under the same path")
        self.path = os.path.abspath(path)
        if os.path.isdir(self.path) and not is_export(self.path) and _names(self.path) - {OURS}:
            raise UsageError(self.path, found="a folder with something else in it", expected="a new or empty folder")
        make_folder(os.path.join(self.path, OURS))
        self._storage = storage or LocalWritableStorage(self.path)
        self._lock: WritableFile = self._storage.open_writable(LOCK, create=True, mode=0o640)
        if not self._lock.lock(wait=False):
            self._lock.close()
            raise StoreUnavailable(self.path, found="another process that exports to it", expected="one at a time")

    def load(self, table: TableVersion | None = None) -> Manifest | None:
        """The manifest, ``None`` where nothing is exported yet. What a run that broke off left is finished or removed
        first. Raises :class:`CorruptData`."""
        manifest = read_manifest(self.path)
        if self._storage.exists(NEXT):
            following = decode(self._storage.read_all(NEXT), os.path.join(self.path, NEXT))
            if table is None:
                expected, hint = "none", "export to it again with --format delta"
                raise UsageError(self.path, found="a Delta commit that is not finished", expected=expected, hint=hint)
            if table() == following.generation:
                self._storage.rename(NEXT, MANIFEST)
                manifest = following
            elif manifest is None or manifest.generation < following.generation:
                self._remove([path for _, path in following.placing.files])
                self._storage.remove(NEXT)
        elif manifest is not None and self._is_folder(manifest.placing.staging):  # else the run came to its end
            self._place(manifest)
        for name in _names(os.path.join(self.path, OURS)):
            if name.startswith(STAGING):
                shutil.rmtree(os.path.join(self.path, OURS, name), ignore_errors=True)
        if manifest is None and next(Path(self.path).glob("store=*/*/*/*"), None) is not None:
            # Nobody knows which records they hold: they would come a second time.
            expected = f"{MANIFEST}, or an empty folder"
            raise CorruptData(self.path, found="exported files without a manifest", expected=expected)
        return manifest

    def stage(self, run: str) -> str:
        """Make a folder for files that no commit has yet; its name."""
        name = f"{OURS}/{STAGING}{run}"
        try:
            os.makedirs(os.path.join(self.path, name), exist_ok=True)
        except OSError as error:
            raise write_failed(self.path, error) from error
        return name

    def unstage(self, name: str) -> None:
        """Remove a folder of staged files; none of them is needed any more."""
        shutil.rmtree(os.path.join(self.path, name), ignore_errors=True)

    def commit(self, manifest: Manifest, table: Callable[[Manifest], None] | None = None) -> None:
        """Make the staged files of ``manifest.placing`` part of the export: all, or after a crash none. ``table`` tells
        a Delta table of them."""
        for folder in _upwards(manifest.placing.staging):
            self._sync(folder)
        data = encode(manifest)
        if len(data) > MAX_MANIFEST_BYTES:
            expected = f"at most {MAX_MANIFEST_BYTES}: export to another folder"
            raise UsageError(self.path, found=f"a manifest of {len(data)} bytes", expected=expected)
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
        """Give the last commit's files their names. One that has gone from staging has its name already, but a run that
        was killed may not have synced it: the next commit's manifest tells of staged files no more."""
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
        """Give the lock back. A second call does nothing."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def is_export(path: str) -> bool:
    """Whether a local folder holds an export, or the beginnings of one."""
    return os.path.isfile(os.path.join(path, MANIFEST)) or os.path.isfile(os.path.join(path, LOCK))


def read_manifest(path: str) -> Manifest | None:
    """An export's manifest, to read only; ``None`` where nothing is exported yet. Raises :class:`CorruptData`."""
    place = os.path.join(path, MANIFEST)
    try:
        data = read_small_file(place, MAX_MANIFEST_BYTES)
    except StoreUnavailable as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
    except UsageError as error:
        raise CorruptData(place, found=error.found, expected=error.expected) from None
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
    """Where a file of the manifest is now: under its name, or still staged, behind a crash."""
    place = os.path.join(path, file)
    if os.path.exists(place):
        return place
    for staged, name in manifest.placing.files:
        if name == file and os.path.exists(found := os.path.join(path, manifest.placing.staging, staged)):
            return found
    return place
