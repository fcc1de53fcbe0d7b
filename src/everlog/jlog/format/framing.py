"""The framing of a segment's messages: header magic, header size, compression provider, and which headers are
plausible.

Messages have no checksum. A header is plausible if

* its magic is the journal's;
* its microseconds are below a million;
* the payload has at most ``MAX_MESSAGE_BYTES``, and its stored length fits: equal without compression (or 16,384 for an
  empty message); with LZ4 at least one byte, at most what the encoder may need, and at least what the decoder can
  expand;
* with magic 0 (1.x), its seconds are not 0, so that zeros are not messages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import IntEnum

from everlog.jlog.format.layouts import (
    COMPRESSED_MAGIC,
    LEGACY_MAGIC,
    NULL_EMPTY_BYTES,
    PLAIN_MAGIC,
    JlogCompressedHeader,
    JlogHeader,
)
from everlog.layout import Readable

MAX_MESSAGE_BYTES = (1 << 30) - (1 << 16)
"""A longer payload counts as damage. The C library allows 4 GiB, in a segment of any size."""
MICROSECONDS = 1_000_000
LZ4_MAX_EXPANSION = 255
"""Each byte of an LZ4 block decodes to fewer than 255 bytes."""


class Provider(IntEnum):
    """How payloads are encoded. The numbers of the compressed ones are the low byte of the magic."""

    PLAIN = -1
    NULL = 0
    LZ4 = 1
    UNKNOWN = 2

    @property
    def label(self) -> str:
        """Name as shown by ``info``."""
        return {-1: "none", 0: "null", 1: "lz4"}.get(self.value, "unknown")


@dataclass(frozen=True, slots=True)
class Header:
    """A plausible header: its offset, its fields, and where its message ends."""

    offset: int
    end: int
    timestamp_us: int
    length: int


@dataclass(frozen=True, slots=True)
class Framing:
    """The framing that belongs to a magic."""

    magic: int
    header_bytes: int = field(init=False)
    provider: Provider = field(init=False)

    def __post_init__(self) -> None:
        compressed = self.magic & COMPRESSED_MAGIC == COMPRESSED_MAGIC and self.magic != PLAIN_MAGIC
        provider = Provider.PLAIN
        if compressed:
            known = self.magic in (COMPRESSED_MAGIC | Provider.NULL, COMPRESSED_MAGIC | Provider.LZ4)
            provider = Provider(self.magic & 0xFF) if known else Provider.UNKNOWN
        object.__setattr__(self, "header_bytes", JlogCompressedHeader.size if compressed else JlogHeader.size)
        object.__setattr__(self, "provider", provider)

    @property
    def magic_bytes(self) -> bytes:
        """The magic as on disk."""
        return self.magic.to_bytes(4, "little")

    @property
    def pattern(self) -> re.Pattern[bytes]:
        """Finds possible headers: the magic, then seconds and microseconds in range."""
        seconds = rb"(?!\0\0\0\0)...." if self.magic == LEGACY_MAGIC else rb"...."
        return re.compile(re.escape(self.magic_bytes) + seconds + rb"..[\x00-\x0f]\x00", re.DOTALL)

    def parse(self, data: Readable, at: int, offset: int) -> Header | None:
        """The header at ``data[at:]``, at ``offset`` in its file; ``None`` if it is incomplete or not plausible."""
        if len(data) - at < self.header_bytes:
            return None
        layout = JlogHeader if self.provider is Provider.PLAIN else JlogCompressedHeader
        values = layout.struct.unpack_from(data, at)
        magic, seconds, microseconds, length = values[:4]
        stored = values[-1]
        if magic != self.magic or microseconds >= MICROSECONDS or not self._fits(length, stored):
            return None
        if magic == LEGACY_MAGIC and seconds == 0:
            return None
        end = offset + self.header_bytes + stored
        return Header(offset, end, seconds * MICROSECONDS + microseconds, length)

    def pack(self, timestamp_us: int, length: int, stored: int) -> bytes:
        """The header of a message of ``length`` bytes, stored in ``stored`` bytes."""
        seconds, microseconds = divmod(timestamp_us, MICROSECONDS)
        if self.provider is Provider.PLAIN:
            return JlogHeader.struct.pack(self.magic, seconds, microseconds, length)
        return JlogCompressedHeader.struct.pack(self.magic, seconds, microseconds, length, stored)

    def _fits(self, length: int, stored: int) -> bool:
        if length > MAX_MESSAGE_BYTES or stored > MAX_MESSAGE_BYTES:
            return False
        if self.provider is Provider.NULL:
            return stored == length or (length == 0 and stored == NULL_EMPTY_BYTES)
        if self.provider is Provider.LZ4:
            return 1 <= stored <= length + length // 255 + 16 and length <= stored * LZ4_MAX_EXPANSION
        return True


PLAIN = Framing(PLAIN_MAGIC)
LEGACY = Framing(LEGACY_MAGIC)
NULL = Framing(COMPRESSED_MAGIC | Provider.NULL)
LZ4 = Framing(COMPRESSED_MAGIC | Provider.LZ4)
KNOWN = (PLAIN, LZ4, NULL, LEGACY)
"""The framings that a segment may start with, in the order in which they are tried."""


def is_valid_magic(magic: int) -> bool:
    """Whether the C library accepts the magic in a metastore."""
    return magic == PLAIN_MAGIC or magic & COMPRESSED_MAGIC == COMPRESSED_MAGIC
