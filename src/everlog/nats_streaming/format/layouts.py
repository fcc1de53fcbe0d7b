"""Fixed structs of the NATS Streaming file store (server 0.25), all little-endian.

Every file starts with a :class:`FileVersion`. ``msgs.N.dat``, ``subs.dat``, ``clients.dat`` and ``server.dat`` go on
with records: a :class:`RecordHeader` and a protobuf message (:mod:`everlog.nats_streaming.format.messages`).
``msgs.N.idx`` goes on with one :class:`IndexRecord` for each record of ``msgs.N.dat``."""

from __future__ import annotations

from everlog.layout import Layout, i64, u32, u64

SUPPORTED_VERSION = 1
MAX_RECORD_BYTES = (64 << 20) + (64 << 10)
"""Largest payload that is believed. NATS keeps a message below 64 MiB (``max_pending``); the rest is for its
envelope."""

MAX_TYPED_BYTES = 0xFFFFFF
"""Largest payload of a record in ``clients.dat`` and ``subs.dat``: its size has 24 bits."""

RECORD_OVERHEAD = 40
"""What the server counts for a message besides its payload: the record header and the index record."""


class FileVersion(Layout, size=4, title="File version", source="stores/filestore.go: fileVersion, checkFileVersion"):
    """First bytes of every file, index files too."""

    version: int = u32(0, "1; anything else is refused")


class RecordHeader(Layout, size=8, title="Record header", source="stores/filestore.go: writeRecord, readRecord"):
    """Before each payload. All zero: the rest of the file is padding."""

    length: int = u32(0, "payload bytes; in clients.dat and subs.dat the upper 8 bits are the record's type")
    crc: int = u32(4, "CRC-32 of the payload")


class IndexRecord(Layout, size=32, title="Index record", source="stores/filestore.go: addIndex, readIndexFromBuffer"):
    """One for each message of the slice, in the same order. All zero: the rest of the file is padding."""

    sequence: int = u64(0, "the message's sequence")
    offset: int = i64(8, "of the record header in the .dat file; the first is 4")
    timestamp: int = i64(16, "nanoseconds since 1970")
    length: int = u32(24, "payload bytes of the record, without its header")
    crc: int = u32(28, "CRC-32 of the 28 bytes before")
