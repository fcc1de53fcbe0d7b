"""The fixed-size structs of the NATS Streaming file store (server 0.25), all little-endian.

Every file starts with a :class:`FileVersion`. In ``msgs.N.dat``, ``subs.dat``, ``clients.dat`` and ``server.dat``
records follow: each is a :class:`RecordHeader` and a protobuf message
(:mod:`everlog.nats_streaming.format.messages`). In ``msgs.N.idx`` one :class:`IndexRecord` follows for each record of
``msgs.N.dat``."""

from __future__ import annotations

from everlog.layout import Layout, i64, u32, u64

SUPPORTED_VERSION = 1
MAX_RECORD_BYTES = (64 << 20) + (64 << 10)
"""Largest record payload that is accepted: a NATS message is below 64 MiB (``max_pending``), plus 64 KiB for its
envelope."""

MAX_TYPED_BYTES = 0xFFFFFF
"""Largest payload of a record in ``clients.dat`` and ``subs.dat``: its size has 24 bits."""

RECORD_OVERHEAD = 40
"""Bytes that the server counts for each message in addition to its payload: the record header and the index record."""


class FileVersion(Layout, size=4, title="File version", source="stores/filestore.go: fileVersion, checkFileVersion"):
    """The first bytes of every file, including index files."""

    version: int = u32(0, "1; anything else is refused")


class RecordHeader(Layout, size=8, title="Record header", source="stores/filestore.go: writeRecord, readRecord"):
    """Precedes each payload. If it is all zero, the rest of the file is padding."""

    length: int = u32(0, "payload bytes; in clients.dat and subs.dat the upper 8 bits are the record's type")
    crc: int = u32(4, "CRC-32 of the payload")


class IndexRecord(Layout, size=32, title="Index record", source="stores/filestore.go: addIndex, readIndexFromBuffer"):
    """Describes one message of the slice; the order is that of the ``.dat`` file. If it is all zero, the rest of the
    file is padding."""

    sequence: int = u64(0, "the message's sequence")
    offset: int = i64(8, "offset of the record header in the .dat file; the first is 4")
    timestamp: int = i64(16, "nanoseconds since 1970")
    length: int = u32(24, "payload bytes of the record, without its header")
    crc: int = u32(28, "CRC-32 of the preceding 28 bytes")
