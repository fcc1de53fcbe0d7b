"""Locates an archive's mark file: in the archive's folder, or in the folder that a link file there names (Aeron's
``mark.file.dir``).

Source: ArchiveMarkFile, Agrona's MarkFile.ensureMarkFileLink.
"""

from __future__ import annotations

import os

from everlog.core.files.storage import LocalStorage, Storage
from everlog.core.files.writable import LocalWritableStorage, WritableStorage, make_folder
from everlog.errors import StoreUnavailable

MARK_NAME = "archive-mark.dat"
LINK_NAME = "archive-mark.lnk"
"""Holds the path of the mark file's folder, if that is not the archive's."""
MAX_PATH_BYTES = 4096


def linked_folder(storage: Storage) -> str | None:
    """Return the path in the link file; ``None`` without a link file. Raises :class:`StoreUnavailable`."""
    if not storage.exists(LINK_NAME):
        return None
    with storage.open(LINK_NAME) as file:
        return file.read_at(0, MAX_PATH_BYTES).decode("utf-8", "surrogateescape").strip()


def mark_storage(storage: Storage) -> Storage:
    """Return the folder that the mark file is read from. It is the archive's own if the link's target has no mark file,
    as in a copy on another machine, or if the archive is read through a URL. Raises :class:`StoreUnavailable`."""
    path = linked_folder(storage)
    if path is None or "://" in storage.root or not os.path.isabs(path) or not os.path.isdir(path):
        return storage
    linked = LocalStorage(path)
    return linked if linked.exists(MARK_NAME) else storage


def writable_mark_storage(storage: WritableStorage) -> WritableStorage:
    """Return the folder in which an owner keeps its mark file. A missing one, such as a memory-backed folder after a
    reboot, is created, because a Java archive would use it. Raises :class:`StoreUnavailable`, :class:`WriteFailed`."""
    path = linked_folder(storage)
    if path is None:
        return storage
    if not os.path.isabs(path) or "\0" in path:
        raise StoreUnavailable(
            f"{storage.root}/{LINK_NAME}",
            found=f"the path {path!r}",
            expected="the path of the folder that has the mark file",
            hint="delete the link file if the mark file is in the archive's folder",
        )
    make_folder(path)
    return LocalWritableStorage(path)
