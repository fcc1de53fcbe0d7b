"""The checksum of a catalog's entry: which one it is, and whether it is of the entry as it is.

The real archive does not renew it when it recovers a stop position: then it is of the entry as it was before. Source:
Catalog.
"""

from __future__ import annotations

from everlog.aeron.archive.format.catalog import CatalogEntry
from everlog.aeron.archive.format.catalog_bytes import CHECKSUMS
from everlog.aeron.layouts import RecordingDescriptor


def stored_checksum(entry: CatalogEntry) -> int:
    """Unsigned; 0 for none."""
    return entry.checksum & 0xFFFFFFFF


def kind_of(entry: CatalogEntry) -> str | None:
    """``none``, ``crc32`` or ``crc32c`` for a checksum that is right, ``None`` for one that is not."""
    return "none" if stored_checksum(entry) == 0 else _fitting(entry.body, stored_checksum(entry))


def stale_kind_of(entry: CatalogEntry) -> str | None:
    """The kind of a checksum that was right while the recording was active, ``None`` for any other."""
    return _fitting(as_active(entry), stored_checksum(entry))


def as_active(entry: CatalogEntry) -> bytes:
    """The entry's body as it was while the recording was active."""
    body = bytearray(entry.body)
    for name in ("stop_timestamp", "stop_position"):
        part = RecordingDescriptor.field(name)
        body[part.offset : part.end] = b"\xff" * part.size
    return bytes(body)


def _fitting(body: bytes, stored: int) -> str | None:
    return next((kind for kind, crc in CHECKSUMS.items() if crc.checksum(body) == stored), None)
