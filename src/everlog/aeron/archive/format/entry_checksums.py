"""Checks the checksums of catalog entries: their kind, and whether they match.

The real archive does not update the checksum when it recovers a stop position: it then still matches the entry before
the recovery. Source: Catalog.
"""

from __future__ import annotations

from everlog.aeron.archive.format.catalog import CatalogEntry
from everlog.aeron.archive.format.catalog_bytes import CHECKSUMS
from everlog.aeron.family_options import Checksum
from everlog.aeron.layouts import RecordingDescriptor


def stored_checksum(entry: CatalogEntry) -> int:
    """Return the entry's checksum, unsigned; 0 if it has none."""
    return entry.checksum & 0xFFFFFFFF


def kind_of(entry: CatalogEntry) -> Checksum | None:
    """Return ``none``, ``crc32`` or ``crc32c`` if the checksum is right, ``None`` if it is wrong."""
    return "none" if stored_checksum(entry) == 0 else _fitting(entry.body, stored_checksum(entry))


def stale_kind_of(entry: CatalogEntry) -> Checksum | None:
    """Return the kind of a checksum that was right while the recording was active, ``None`` for any other."""
    return _fitting(as_active(entry), stored_checksum(entry))


def as_active(entry: CatalogEntry) -> bytes:
    """Return the entry's body as it was while the recording was active."""
    body = bytearray(entry.body)
    for name in ("stop_timestamp", "stop_position"):
        part = RecordingDescriptor.field(name)
        body[part.offset : part.end] = b"\xff" * part.size
    return bytes(body)


def _fitting(body: bytes, stored: int) -> Checksum | None:
    return next((kind for kind, crc in CHECKSUMS.items() if crc.checksum(body) == stored), None)
