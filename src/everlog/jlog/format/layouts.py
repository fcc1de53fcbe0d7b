"""What a JLog journal's folder holds.

| file | what |
| --- | --- |
| `metastore` | 16 bytes (12 in 1.x): the segment now written, the segment size limit, safety, header magic |
| `%08x` | a segment: messages back to back from byte 0, no padding, no checksum |
| `%08x.idx` | index of a segment: the offset of message 1, 2, 3, ...; a final 0 says that the segment is finished |
| `cp.<hex of the name>` | a subscriber's checkpoint: the last message that it is done with |
| `pre_commit` | bytes in use, then framed messages that wait to be written to the segment |

Integers are in the byte order of the machine that wrote them; everlog reads little-endian journals. Messages of a
compressed journal have the longer header, and its provider is the low byte of the magic: 0 stores payloads as they are,
1 as one LZ4 block each. The provider 0 stores an empty message as 16,384 zero bytes.
"""

from __future__ import annotations

from everlog.layout import Layout, u32, u64

PLAIN_MAGIC = 0x663A7318
"""Header magic of a journal without compression. Source: jlog_private.h, DEFAULT_HDR_MAGIC."""
COMPRESSED_MAGIC = 0x15106A00
"""Bits of the header magic of a compressed journal; the low byte is the provider. Source: jlog_private.h."""
LEGACY_MAGIC = 0
"""Header field of 1.x, where it was reserved."""
NULL_EMPTY_BYTES = 16_384
"""What the provider 0 stores for an empty message. Source: jlog.c, jlog_ctx_write_message (its buffer on the stack)."""


class JlogMetastore(Layout, size=16, title="metastore", source="jlog_private.h, struct _jlog_meta_info"):
    """One for the journal, shared by all its processes through a memory map."""

    storage_log: int = u32(0, "number of the segment that is written now")
    unit_limit: int = u32(4, "a segment is finished when it has at least so many bytes")
    safety: int = u32(8, "0 unsafe, 1 almost safe, 2 safe")
    magic: int = u32(12, "first field of each message header")


class JlogLegacyMetastore(Layout, size=12, title="metastore of 1.x", source="jlog.c, __jlog_restore_metastore"):
    """Message headers of such a journal begin with 0."""

    storage_log: int = u32(0, "number of the segment that is written now")
    unit_limit: int = u32(4, "a segment is finished when it has at least so many bytes")
    safety: int = u32(8, "0 unsafe, 1 almost safe, 2 safe")


class JlogHeader(Layout, size=16, title="Message header", source="jlog.h, jlog_message_header"):
    """Before each message of a plain journal; the payload follows directly."""

    magic: int = u32(0, "equals the metastore's magic")
    tv_sec: int = u32(4, "seconds since 1970, by the writer's clock or as its caller said")
    tv_usec: int = u32(8, "microseconds")
    length: int = u32(12, "payload bytes")


class JlogCompressedHeader(
    Layout, size=20, title="Message header, compressed journal", source="jlog.h, jlog_message_header_compressed"
):
    """Before each message of a compressed journal; the stored payload follows directly."""

    magic: int = u32(0, "equals the metastore's magic")
    tv_sec: int = u32(4, "seconds since 1970, by the writer's clock or as its caller said")
    tv_usec: int = u32(8, "microseconds")
    length: int = u32(12, "payload bytes, uncompressed")
    stored_length: int = u32(16, "payload bytes as stored")


class JlogIndexEntry(Layout, size=8, title="Index entry", source="jlog.c, ___jlog_resync_index"):
    """Entry `m - 1` is of message `m`. Written by readers only."""

    offset: int = u64(
        0, "of the message in its segment; the first is 0; a last 0 behind others: the segment is finished"
    )


class JlogCheckpoint(Layout, size=8, title="Checkpoint", source="jlog.h, jlog_id"):
    """The last message that a subscriber is done with. The file is empty for a moment while a subscriber is added."""

    log: int = u32(0, "segment")
    marker: int = u32(4, "number of the message in its segment, from 1; 0: none of it")


class JlogPreCommit(Layout, size=4, title="pre_commit", source="jlog.c, __jlog_map_pre_commit"):
    """Followed by `used` bytes of messages, framed as in a segment, then by what was there before, or zeros."""

    used: int = u32(0, "bytes of messages that wait; at most the file's size less 4")


class JlogFlushNote(
    Layout, size=16, title="Flush note", source="everlog's own; the C library takes it for unused bytes"
):
    """The last bytes of a pre-commit file that everlog writes: where its messages are about to be written. Zeros when
    they are not."""

    magic: int = u32(0, "0x464c5645")
    log: int = u32(4, "segment")
    offset: int = u64(8, "the messages are there or behind it, if they are in the segment")


FLUSH_NOTE_MAGIC = int.from_bytes(b"EVLF", "little")
