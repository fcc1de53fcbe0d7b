"""Opens a service's folder. If the settings ask for it, old recordings are deleted and the mark file moves first.

What a crash after each step leaves:

===========================  ========================================================================================
after                        the folder
===========================  ========================================================================================
the catalog is removed       segment files without a catalog, from which ``everlog repair`` makes one
a segment file is removed    the same, or no recording at all
the link file is written     an archive whose mark file is in the new place; nobody owns it
===========================  ========================================================================================

Source: Archive.Context.conclude, Agrona's MarkFile.ensureMarkFileLink.
"""

from __future__ import annotations

import os

from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.format.catalog import CATALOG_NAME
from everlog.aeron.archive.format.mark_place import LINK_NAME, linked_folder
from everlog.aeron.archive.format.segments import RENAMED_SUFFIX, parse_segment_name
from everlog.aeron.archive.recording.options import ArchiveOptions
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.archive.writing.ownership import Ownership, ServiceAddress
from everlog.core.files.writable import WritableStorage


def open_folder(
    storage: WritableStorage,
    settings: ArchiveSettings,
    *,
    driver_folder: str,
    archive_id: int,
    liveness_timeout_s: float,
) -> Archive:
    """Open the archive of a service, or make it. ``liveness_timeout_s``: how long the folder stays locked after its
    owner was killed. Raises :class:`StoreUnavailable` while another archive owns the folder, :class:`WriteFailed`, and
    the errors of :func:`~everlog.aeron.archive.opening.open_archive`."""
    options = ArchiveOptions(
        file_sync_level=settings.file_sync_level,
        catalog_file_sync_level=settings.catalog_file_sync_level,
        segment_length=settings.segment_file_length,
        checksum=settings.record_checksum,
        catalog_capacity=settings.catalog_capacity,
        liveness_timeout_s=liveness_timeout_s,
    )
    address = ServiceAddress(
        control_channel=settings.control_channel or "",
        control_stream_id=settings.control_stream_id,
        local_control_channel=settings.local_control_channel,
        local_control_stream_id=settings.local_control_stream_id,
        events_channel=settings.recording_events_channel or "",
        events_stream_id=settings.recording_events_stream_id,
        aeron_directory=driver_folder,
        archive_id=archive_id,
    )
    moves = settings.mark_file_dir is not None and not _is_marked_in(storage, settings.mark_file_dir)
    if moves or settings.dir_delete_on_start:
        owner = Ownership.take(storage, timeout_ms=round(liveness_timeout_s * 1000))
        try:
            if settings.dir_delete_on_start:
                delete_recordings(storage)
            if moves and settings.mark_file_dir is not None:
                link_mark_folder(storage, settings.mark_file_dir)
        finally:
            owner.release()
    return Archive.create(storage, options, exist_ok=True, address=address)


def delete_recordings(storage: WritableStorage) -> None:
    """Delete the catalog and the segment files; other files stay. The caller owns the folder. Raises
    :class:`WriteFailed`."""
    if storage.remove(CATALOG_NAME):
        storage.sync_folder()
    for name in storage.names():
        if parse_segment_name(name.removesuffix(RENAMED_SUFFIX)) is not None:
            storage.remove(name)
    storage.sync_folder()


def link_mark_folder(storage: WritableStorage, path: str) -> None:
    """Keep the mark file in the folder ``path`` from now on. A link file names that folder, unless it is the archive's
    own. The caller owns the archive by the mark file in its old place. Raises :class:`WriteFailed`."""
    if _same(path, storage.root):
        storage.remove(LINK_NAME)
    else:
        text = os.fsencode(os.path.realpath(path))
        storage.publish(LINK_NAME, text, replace=True, mode=0o644, sync=True)
    storage.sync_folder()


def _is_marked_in(storage: WritableStorage, path: str) -> bool:
    return _same(linked_folder(storage) or storage.root, path)


def _same(path: str, other: str) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)
