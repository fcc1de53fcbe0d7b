"""Random reads of small pieces through one cached block."""

from __future__ import annotations

from everlog.core.files.storage import ReadableFile
from everlog.errors import FileChanged

BLOCK_BYTES = 64 << 10


class BlockReader:
    """Reads pieces of a file. Neighbouring pieces share one read of :data:`BLOCK_BYTES`."""

    __slots__ = ("_base", "_block", "file", "size")

    def __init__(self, file: ReadableFile, size: int | None = None) -> None:
        self.file = file
        self.size = file.size() if size is None else size
        self._base = 0
        self._block = b""

    def get(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset``, fewer only at the file's end. Raises :class:`FileChanged` if the
        file was cut."""
        start = offset - self._base
        if start < 0 or start + length > len(self._block):
            if offset >= self.size:
                return b""
            self._base, start = offset, 0
            expected = min(max(length, BLOCK_BYTES), self.size - offset)
            self._block = self.file.read_at(offset, expected)
            if len(self._block) < expected:
                found = f"the end of the file at {offset + len(self._block)}"
                raise FileChanged(self.file.name, offset=offset, found=found, expected=f"a file of {self.size} bytes")
        return self._block[start : start + length]
