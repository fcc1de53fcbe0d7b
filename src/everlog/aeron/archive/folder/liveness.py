"""Detects a running archive, so that tools don't change its folder."""

from __future__ import annotations

from everlog.aeron.archive.format.catalog import CATALOG_NAME
from everlog.aeron.archive.format.mark_place import MARK_NAME, mark_storage
from everlog.aeron.mark_file import ArchiveMark, Clock, now_ms, read_archive_mark
from everlog.core.files.storage import Storage
from everlog.core.files.writable import WritableStorage
from everlog.errors import EverlogError, StoreUnavailable

MARK_HEAD_BYTES = 4096
"""The header and texts of a mark file are within this many bytes."""


def load_mark_head(storage: Storage) -> ArchiveMark | None:
    """Read the header and texts of the mark file; ``None`` if there is no mark file. Raises :class:`CorruptData`,
    :class:`StoreUnavailable`."""
    place = mark_storage(storage)
    if not place.exists(MARK_NAME):
        return None
    with place.open(MARK_NAME) as file:
        return read_archive_mark(file.read_at(0, MARK_HEAD_BYTES), MARK_NAME)


def refuse_running(
    storage: WritableStorage, clock: Clock = now_ms, *, files: tuple[str, ...] = (CATALOG_NAME,)
) -> None:
    """Raise :class:`StoreUnavailable` if an archive's last heartbeat is less than ten seconds old, or a process has
    one of ``files`` open, as a running archive does. An archive that starts at this very moment is not detected."""
    try:
        mark = load_mark_head(storage)
    except EverlogError:
        mark = None  # a damaged mark file does not block changes, but a process with the catalog open does
    if mark is not None and mark.is_live(clock()):
        age_ms = clock() - mark.header.activity_timestamp
        process = f"process {mark.header.pid}, active {age_ms} ms ago"
        raise StoreUnavailable(
            f"{storage.root}/{MARK_NAME}",
            found=f"a running archive ({process})",
            expected="none while the folder is changed",
            hint="stop it first; one that was killed counts as running for 10 seconds; nothing was changed",
            message=f"an archive is running in {storage.root} ({process})",
        )
    for name in files:
        if storage.exists(name) and storage.is_open_elsewhere(name):
            raise StoreUnavailable(
                f"{storage.root}/{name}",
                found="another process has it open",
                expected="none while the folder is changed",
                hint="stop the archive and other tools first; nothing was changed",
                message=f"{storage.root}/{name} is open in another process",
            )
