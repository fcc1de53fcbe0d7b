"""The catalog's file: what of it is in use, and what is wrong when there is none."""

from __future__ import annotations

from everlog.aeron.archive.catalog import CATALOG_NAME, Catalog, read_catalog
from everlog.core.report import Fault
from everlog.core.storage import MAX_SMALL_FILE_BYTES, ReadableFile, Storage
from everlog.errors import CorruptData

CATALOG_STEP_BYTES = 1 << 20


def load_catalog(storage: Storage) -> tuple[Catalog | None, Fault | None]:
    """The catalog, or what is wrong with it."""
    if not storage.exists(CATALOG_NAME):
        return None, _no_catalog("no file", None)
    with storage.open(CATALOG_NAME) as file:
        size = file.size()
        data = _written_part(file, min(size, MAX_SMALL_FILE_BYTES))
    try:
        return read_catalog(data, size=size), None
    except CorruptData as error:
        return None, _no_catalog(error.found or "", error.offset)


def _written_part(file: ReadableFile, size: int) -> bytes:
    """The file's first ``size`` bytes without most of the zeros behind what is in use: Aeron 1.7 made a catalog of
    2 GiB at once."""
    zeros = bytes(CATALOG_STEP_BYTES)
    parts: list[bytes] = []
    used = 0
    for at in range(0, size, CATALOG_STEP_BYTES):
        part = file.read_at(at, min(CATALOG_STEP_BYTES, size - at))
        parts.append(zeros if part == zeros else part)  # so that a sparse gigabyte takes no memory
        if parts[-1] is not zeros:
            used = len(parts)
    return b"".join(parts[: used + 1])


def _no_catalog(found: str, offset: int | None) -> Fault:
    return Fault(
        "catalog-missing" if offset is None else "catalog-header",
        CATALOG_NAME,
        offset,
        found,
        "a catalog",
        "channels, times and stop positions; recordings are found by their segment files",
        "restore it from a copy; else everlog repair makes one by the files",
    )
