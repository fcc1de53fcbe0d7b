"""Where an archive's mark file is: in its folder, or in the one that a link file there names (Aeron's
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
"""Holds the path of the folder that the mark file is in, where that is another one."""
MAX_PATH_BYTES = 4096


def linked_folder(storage: Storage) -> str | None:
    """What the link file says; ``None`` where there is none. Raises :class:`StoreUnavailable`."""
    if not storage.exists(LINK_NAME):
        return None
    with storage.open(LINK_NAME) as file:
        return file.read_at(0, MAX_PATH_BYTES).decode("utf-8", "surrogateescape").strip()


def mark_storage(storage: Storage) -> Storage:
    """The folder that the mark file is read from. Where the link leads to none, as for a copy on another machine, or
    one behind a URL, that is the archive's own. Raises :class:`StoreUnavailable`."""
    path = linked_folder(storage)
    if path is None or "://" in storage.root or not os.path.isabs(path) or not os.path.isdir(path):
        return storage
    linked = LocalStorage(path)
    return linked if linked.exists(MARK_NAME) else storage


def writable_mark_storage(storage: WritableStorage) -> WritableStorage:
    """The folder in which an owner has its mark file. One that is gone, as memory's are after a start of the machine,
    is made: an archive in Java that is started goes there. Raises :class:`StoreUnavailable`, :class:`WriteFailed`."""
    path = linked_folder(storage)
    if path is None:
        return storage
    if not os.path.isabs(path) or "\0" in path:
        raise StoreUnavailable(
            f"{storage.root}/{LINK_NAME}",
            found=f"the path {path!r}",
            expected="the path of the folder that has the mark file",
            hint="without a link file the mark file is in the archive's folder",
        )
    make_folder(path)
    return LocalWritableStorage(path)
