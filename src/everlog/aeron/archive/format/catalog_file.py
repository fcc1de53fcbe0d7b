"""Reads the catalog's file: its used part, or the fault that explains why it has none."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import cached_property

from everlog.aeron.archive.format.catalog import CATALOG_NAME, Catalog, read_catalog
from everlog.aeron.layouts import CatalogHeader
from everlog.core.files.storage import MAX_SMALL_FILE_BYTES, ReadableFile, Storage
from everlog.core.files.zeros import nonzero_blocks
from everlog.core.report import Fault
from everlog.errors import CorruptData, LimitExceeded

CATALOG_STEP_BYTES = 1 << 20
MAX_USED_BYTES = MAX_SMALL_FILE_BYTES
"""How much of a catalog's file is read. Entries must end before this offset; only zeros may follow."""


@dataclass(frozen=True)
class CatalogBytes:
    """A snapshot of a catalog's file: its bytes, ``None`` if it was missing, and its size. Decoding is lazy, because it
    takes longer than reading."""

    data: bytes | None
    size: int

    @classmethod
    def read(cls, storage: Storage) -> CatalogBytes:
        """Read the file now. Raises :class:`LimitExceeded` if entries reach past ``MAX_USED_BYTES``, since without them
        the catalog would look complete."""
        if not storage.exists(CATALOG_NAME):
            return cls(None, 0)
        with storage.open(CATALOG_NAME) as file:
            size = file.size()
            data = _written_part(file, min(size, MAX_USED_BYTES))
            # Entries are far shorter than a step: if the last step is zeros, no entries follow.
            if size > MAX_USED_BYTES and any(data[MAX_USED_BYTES - CATALOG_STEP_BYTES :]):
                refuse_beyond(file, MAX_USED_BYTES)
            return cls(data, size)

    def check_version(self) -> None:
        """Raises :class:`UnsupportedVersion` for a version above 3."""
        with contextlib.suppress(CorruptData):
            read_catalog((self.data or b"")[: CatalogHeader.size], size=self.size)

    @cached_property
    def decoded(self) -> tuple[Catalog | None, Fault | None]:
        """The catalog, or the fault that prevents decoding it."""
        if self.data is None:
            return None, _no_catalog("no file", None)
        try:
            return read_catalog(self.data, size=self.size), None
        except CorruptData as error:
            return None, _no_catalog(error.found or "", error.offset)


def refuse_beyond(file: ReadableFile, limit: int) -> None:
    """Raises :class:`LimitExceeded` if anything but zeros follows ``limit``."""
    for at, block in nonzero_blocks(file, limit, file.size()):
        raise too_large(at + len(block.rstrip(b"\0")))


def too_large(used: int) -> LimitExceeded:
    """Return the error for a catalog whose entries need ``used`` bytes."""
    return LimitExceeded(
        CATALOG_NAME,
        found=f"{used} bytes of entries",
        expected=f"at most {MAX_USED_BYTES}",
        hint="compact removes deleted recordings; if the catalog is too large already, compact it with ArchiveTool",
    )


def load_catalog(storage: Storage) -> tuple[Catalog | None, Fault | None]:
    """Read the catalog; return it, or the fault that prevents reading it."""
    return CatalogBytes.read(storage).decoded


def _written_part(file: ReadableFile, size: int) -> bytes:
    """The file's first ``size`` bytes without most of the zeros after the used part: Aeron 1.7 preallocated 2 GiB."""
    data = bytearray()
    for at, block in nonzero_blocks(file, 0, size):
        data += bytes(at - len(data))
        data += block
    data += bytes(min(CATALOG_STEP_BYTES, size - len(data)))
    return bytes(data)


def _no_catalog(found: str, offset: int | None) -> Fault:
    return Fault(
        "catalog-missing" if offset is None else "catalog-header",
        CATALOG_NAME,
        offset,
        found,
        "a catalog",
        "channels, times and stop positions; recordings are found by their segment files",
        "restore it from a copy; otherwise everlog repair rebuilds it from the segment files",
    )
