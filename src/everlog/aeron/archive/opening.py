"""Creates an archive, and opens one for writing."""

from __future__ import annotations

import os
from typing import Unpack

from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.recording.options import ArchiveOptions, OptionKeywords
from everlog.core.files.writable import LocalWritableStorage, make_folder
from everlog.core.options import fill


def create(path: str | os.PathLike[str], *, exist_ok: bool = False, **options: Unpack[OptionKeywords]) -> Archive:
    """Create an archive in a folder, which is made if it is missing, and open it. ``options`` are those of
    :class:`ArchiveOptions`. With ``exist_ok`` an existing archive is opened.

    Raises :class:`StoreExists`, :class:`UsageError`, :class:`WriteFailed`, and as :func:`open_archive`. A crash
    leaves no catalog, or one without recordings.
    """
    chosen = fill(ArchiveOptions, options)
    root = os.fspath(path)
    make_folder(root)
    return Archive.create(LocalWritableStorage(root), chosen, exist_ok=exist_ok)


def open_archive(path: str | os.PathLike[str], **options: Unpack[OptionKeywords]) -> Archive:
    """Open an archive's folder for writing; ``options`` are those of :class:`ArchiveOptions`.

    If the last owner was killed, its active recordings are recovered first: each gets its stop position, after its last
    good frame; torn bytes after that become zeros. ``Archive.recovered`` lists what was done; ``everlog repair
    --dry-run`` shows it without doing it.

    Raises :class:`NotAStore` if the folder has no catalog, :class:`StoreUnavailable` while another archive owns the
    folder, :class:`UnsupportedVersion` for a catalog that must be migrated first, :class:`CorruptData` for a damaged
    one.
    """
    return Archive.open(LocalWritableStorage(path), fill(ArchiveOptions, options))
