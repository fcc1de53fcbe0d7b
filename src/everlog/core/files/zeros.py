"""Finds non-zero bytes in files, which may be sparse: holes are skipped without reading, whatever their length."""

from __future__ import annotations

from collections.abc import Iterator

from everlog.core.files.storage import ReadableFile

FIRST_BLOCK_BYTES = 4 << 10
LARGEST_BLOCK_BYTES = 1 << 20
_ZEROS = bytes(LARGEST_BLOCK_BYTES)


def nonzero_blocks(file: ReadableFile, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Blocks of the file from ``start`` up to ``end``, each with its offset, in order. Everything between them is
    zeros, as is anything beyond the end of a file that was cut. Blocks begin small, so that callers who need only the
    first one pay little."""
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
    """The offset of the first non-zero byte from ``start`` on; ``end`` if all bytes before it are zero."""
    for at, block in nonzero_blocks(file, start, end):
        return at + len(block) - len(block.lstrip(b"\0"))
    return end
