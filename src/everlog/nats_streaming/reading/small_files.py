"""Small files of a slice, read once: most channels of a store with many have one slice of a few records, which is
surveyed and then walked."""

from __future__ import annotations

from dataclasses import dataclass

from everlog.core.files.storage import FileBase, ReadableFile
from everlog.nats_streaming.reading.slices import SliceState

SMALL_FILE_BYTES = 16 << 10
"""What is not larger is read whole, at the price of a small read."""


class HeldFile(FileBase):
    """A file's bytes as they were when it was read."""

    __slots__ = ("_data", "name")

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self._data = data

    def size(self) -> int:
        """Bytes."""
        return len(self._data)

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; fewer only at the end."""
        return self._data[offset : offset + length]

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill ``buffer`` from ``offset``; the count of bytes."""
        part = self._data[offset : offset + len(buffer)]
        buffer[: len(part)] = part
        return len(part)


def held(file: ReadableFile) -> ReadableFile:
    """An open file, read whole if it is small; the caller closes ``file``."""
    size = file.size()
    return file if size > SMALL_FILE_BYTES else HeldFile(file.name, file.read_at(0, size))


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A slice's state, and the bytes of its small files that it was found in."""

    state: SliceState
    dat: HeldFile | None
    idx: HeldFile | None
