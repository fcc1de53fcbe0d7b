"""Zeros in files, which may be sparse: a hole is asked for and not read, whatever its length."""

from __future__ import annotations

from collections.abc import Iterator

from everlog.core.files.storage import ReadableFile

FIRST_BLOCK_BYTES = 4 << 10
LARGEST_BLOCK_BYTES = 1 << 20
_ZEROS = bytes(LARGEST_BLOCK_BYTES)


def nonzero_blocks(file: ReadableFile, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Blocks of the file from ``start`` up to ``end``, each with its offset, in order. What lies between them is zeros,
    and so is what a file that was cut no longer has. Blocks begin small, so that a caller who needs the first one only
    pays little."""
    at, size = start, FIRST_BLOCK_BYTES
    while at < end:
        data = file.next_data(at)
        if data > at:
            at, size = data, FIRST_BLOCK_BYTES
            if at >= end:
                return
        block = file.read_at(at, min(size, end - at))
        if not block:
            return
        if block != _ZEROS[: len(block)]:
            yield at, block
        at += len(block)
        size = min(2 * size, LARGEST_BLOCK_BYTES)


def first_nonzero(file: ReadableFile, start: int, end: int) -> int:
    """The offset of the first byte from ``start`` on that is not 0; ``end`` if there is none before it."""
    for at, block in nonzero_blocks(file, start, end):
        return at + len(block) - len(block.lstrip(b"\0"))
    return end
