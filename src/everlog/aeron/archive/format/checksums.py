"""Detects which checksum replaces the session ids of a recording's frames. The catalog does not record it, so a few
frames are tried.

Source: Checksum, RecordingWriter: CRC-32 or CRC-32C over what follows a data frame's header, including the padding to
32 bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from everlog.aeron.archive.format.catalog_bytes import CHECKSUMS
from everlog.aeron.archive.format.segments import SegmentReader
from everlog.aeron.family_options import Checksum
from everlog.aeron.frames.constants import HEADER_LENGTH, TYPE_DATA, align
from everlog.aeron.layouts import DataHeader

SAMPLE_BYTES = 128 << 10
SAMPLE_FRAMES = 24
MAX_PLAIN_SESSIONS = 8


def detect_checksum(reader: SegmentReader, starts: list[int]) -> tuple[Checksum, tuple[int, ...]]:
    """Return ``none``, ``crc32`` or ``crc32c``, and the session ids of frames without a checksum.

    ``starts`` are positions at which frames begin. A checksum matches by chance once in 4 billion frames, so a single
    match decides.
    """
    matches: Counter[Checksum] = Counter()
    others: Counter[int] = Counter()
    for start in starts:
        for session_id, body in _frames(reader.sample(start, SAMPLE_BYTES)):
            stored = session_id & 0xFFFFFFFF
            kind = next((kind for kind, crc in CHECKSUMS.items() if body and crc.checksum(body) == stored), None)
            if kind is not None:
                matches[kind] += 1
            elif body:
                others[session_id] += 1
    if not matches:
        return "none", ()
    plain = tuple(session_id for session_id, count in others.most_common(MAX_PLAIN_SESSIONS) if count > 1)
    return matches.most_common(1)[0][0], plain


def _frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield session id and body, including padding, of the first data frames."""
    at = count = 0
    while at + HEADER_LENGTH <= len(data) and count < SAMPLE_FRAMES:
        header = DataHeader.unpack_from(data, at)
        next_at = at + align(header.frame_length)
        if header.frame_length < HEADER_LENGTH or next_at > len(data):
            return
        if header.type == TYPE_DATA:
            count += 1
            yield header.session_id, data[at + HEADER_LENGTH : next_at]
        at = next_at
