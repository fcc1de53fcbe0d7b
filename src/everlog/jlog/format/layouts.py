"""The files of a JLog journal's folder.

| file | content |
| --- | --- |
| `metastore` | 16 bytes (12 in 1.x): the current segment, the segment size limit, safety, header magic |
| `%08x` | a segment: messages back to back from byte 0, without padding or checksum |
| `%08x.idx` | index of a segment: the offset of message 1, 2, 3, ...; a final 0 marks the segment as finished |
| `cp.<hex of the name>` | a subscriber's checkpoint: the last message it has consumed |
| `pre_commit` | bytes in use, then framed messages that are not in the segment yet |

Integers have the byte order of the machine that wrote them; everlog reads little-endian journals. Messages of a
compressed journal have the longer header, and its provider is the low byte of the magic: 0 stores payloads unchanged, 1
as one LZ4 block each. Provider 0 stores an empty message as 16,384 zero bytes.
"""

from __future__ import annotations

from everlog.layout import Layout, u32, u64

PLAIN_MAGIC = 0x663A7318
"""Header magic of a journal without compression. Source: jlog_private.h, DEFAULT_HDR_MAGIC."""
COMPRESSED_MAGIC = 0x15106A00
"""Header magic of a compressed journal, without its low byte, the provider. Source: jlog_private.h."""
LEGACY_MAGIC = 0
"""Header field of 1.x, where it is reserved."""
NULL_EMPTY_BYTES = 16_384
"""Bytes that provider 0 stores for an empty message. Source: jlog.c, jlog_ctx_write_message (its buffer on the
stack)."""


class JlogMetastore(Layout, size=16, title="metastore", source="jlog_private.h, struct _jlog_meta_info"):
    """One per journal, shared by all its processes through a memory map."""

    storage_log: int = u32(0, "number of the current segment")
    unit_limit: int = u32(4, "a segment is finished at this many bytes")
    safety: int = u32(8, "0 unsafe, 1 almost safe, 2 safe")
    magic: int = u32(12, "first field of each message header")


class JlogLegacyMetastore(Layout, size=12, title="metastore of 1.x", source="jlog.c, __jlog_restore_metastore"):
    """Message headers of such a journal start with 0."""

    storage_log: int = u32(0, "number of the current segment")
    unit_limit: int = u32(4, "a segment is finished at this many bytes")
    safety: int = u32(8, "0 unsafe, 1 almost safe, 2 safe")


class JlogHeader(Layout, size=16, title="Message header", source="jlog.h, jlog_message_header"):
    """Before each message of a plain journal; the payload follows directly."""

    magic: int = u32(0, "equals the metastore's magic")
    tv_sec: int = u32(4, "seconds since 1970, from the writer's clock or its caller")
    tv_usec: int = u32(8, "microseconds")
    length: int = u32(12, "payload bytes")


class JlogCompressedHeader(
    Layout, size=20, title="Message header, compressed journal", source="jlog.h, jlog_message_header_compressed"
):
    """Before each message of a compressed journal; the stored payload follows directly."""

    magic: int = u32(0, "equals the metastore's magic")
    tv_sec: int = u32(4, "seconds since 1970, from the writer's clock or its caller")
    tv_usec: int = u32(8, "microseconds")
    length: int = u32(12, "payload bytes, uncompressed")
    stored_length: int = u32(16, "payload bytes as stored")


class JlogIndexEntry(Layout, size=8, title="Index entry", source="jlog.c, ___jlog_resync_index"):
    """Entry `m - 1` belongs to message `m`. Written by readers only."""

    offset: int = u64(
        0, "of the message in its segment; the first is 0; a final 0 after others: the segment is finished"
    )


class JlogCheckpoint(Layout, size=8, title="Checkpoint", source="jlog.h, jlog_id"):
    """The last message that a subscriber has consumed. The file is briefly empty while a subscriber is added."""

    log: int = u32(0, "segment")
    marker: int = u32(4, "number of the message in its segment, from 1; 0: none consumed")


class JlogPreCommit(Layout, size=4, title="pre_commit", source="jlog.c, __jlog_map_pre_commit"):
    """Followed by `used` bytes of messages, framed as in a segment, then by older bytes or zeros."""

    used: int = u32(0, "bytes of messages; at most the file's size minus 4")


class JlogFlushNote(Layout, size=16, title="Flush note", source="everlog only; unused bytes to the C library"):
    """The last bytes of a pre-commit file written by everlog: where a flush writes its messages. Zeros if no flush is
    running."""

    magic: int = u32(0, "0x464c5645")
    log: int = u32(4, "segment")
    offset: int = u64(8, "if the messages are in the segment, they are at or after this offset")


FLUSH_NOTE_MAGIC = int.from_bytes(b"EVLF", "little")
