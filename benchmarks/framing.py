"""Framing messages for a recording, in memory, against memcpy of the frames in the same chunks.

The messages are a list of ``bytes`` objects, or a column as Arrow lays it out, or frames as a log buffer has them, and
larger than any cache; the destination is one buffer, which is used again as soon as it is full. memcpy reads what was
framed, a list's messages lie apart in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.generate import INITIAL_TERM_ID, SESSION_ID, STREAM_ID, TERM_BYTES
from benchmarks.lines import Line, median_seconds, paired
from benchmarks.walks import memcpy
from everlog.aeron.frames.framing import Framer

FRAMED_BYTES = 256 << 20
BUFFER_BYTES = 1 << 20
MTU_LENGTH = 1408
Take = Callable[[Framer, int], int]


def framer(checksum: str = "none", capacity: int = BUFFER_BYTES) -> Framer:
    """Of the stream that is framed here."""
    return Framer(
        initial_term_id=INITIAL_TERM_ID,
        term_length=TERM_BYTES,
        mtu_length=MTU_LENGTH,
        session_id=SESSION_ID,
        stream_id=STREAM_ID,
        checksum=checksum,
        capacity=capacity,
    )


def framing(take: Take, count: int, checksum: str = "none") -> Callable[[], None]:
    """Frames ``count`` messages (or bytes of a block), of which each call takes some."""
    target = framer(checksum)

    def work() -> None:
        at = position = 0
        while at < count:
            target.begin(position, (position // TERM_BYTES + 1) * TERM_BYTES)
            at += take(target, at)
            position = target.position

    return work


def frames_of(payloads: list[bytes]) -> np.ndarray:
    """All frames of the messages, behind each other; of a padding frame the whole length."""
    target, parts, at, position = framer(), [], 0, 0
    while at < len(payloads):
        target.begin(position, (position // TERM_BYTES + 1) * TERM_BYTES)
        at += target.frame_many(payloads, at)
        position = target.position
        parts.append(bytes(target.view()).ljust(position - target.start_position, b"\0"))
    return np.frombuffer(b"".join(parts), dtype=np.uint8)


def from_list(payloads: list[bytes]) -> Take:
    """Messages of a list."""
    return lambda target, at: target.frame_many(payloads, at)


def from_column(data: bytes, length: int) -> Take:
    """Messages of equal length, one behind the other, with offsets."""
    offsets = np.arange(0, len(data) + 1, length, dtype=np.int32)
    count = len(offsets) - 1
    return lambda target, at: target.frame_column(data, offsets, at, count)


def from_block(frames: np.ndarray) -> Take:
    """Frames as they are."""
    block = frames.data
    return lambda target, at: target.frame_block(block[at:])


def lines() -> Iterator[Line]:
    """Two lengths of messages, each from a list, a column and a block; and with checksums."""
    for name, length, slowest, fast in (("32B", 32, 0.4, 40.0), ("1KiB", 1024, 0.7, 6.0)):
        count = FRAMED_BYTES // ((32 + length + 31) & -32)
        data = np.random.default_rng(length).bytes(count * length)
        payloads = [data[at : at + length] for at in range(0, len(data), length)]
        frames = frames_of(payloads)
        peer = memcpy(frames, BUFFER_BYTES)
        ways = {
            "list": framing(from_list(payloads), count),
            "column": framing(from_column(data, length), count),
            "block": framing(from_block(frames), len(frames)),
        }
        for way, work in ways.items():
            took, ratio = paired(work, peer)
            value, unit = (count / took / 1e6, "M/s") if length == 32 else (len(frames) / took / 1e9, "GB/s")
            yield Line(f"frame-{way}-{name}", value, unit, f">={slowest}", ratio, or_value_at_least=fast)
        for checksum in ("crc32", "crc32c"):
            took = median_seconds(framing(from_list(payloads), count, checksum))
            yield Line(f"frame-list-{name}-{checksum}", len(frames) / took / 1e9, "GB/s", ">=0.8")
