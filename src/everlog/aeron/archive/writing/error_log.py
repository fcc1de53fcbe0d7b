"""The distinct error log in an archive's mark file, which tools show. Source: ArchiveMarkFile, Agrona's
DistinctErrorLog."""

from __future__ import annotations

from everlog.aeron.error_log import end_of_errors
from everlog.aeron.transport.memory.error_log_writer import DistinctErrorLog
from everlog.core.files.writable import WritableFile


class FileWords:
    """A part of a file as a memory. The writes reach the file in the order in which they are made; the caller is the
    only writer of the part."""

    def __init__(self, file: WritableFile, start: int, length: int) -> None:
        self.length = length
        self._file = file
        self._start = start

    def read(self) -> bytes:
        """The whole part. Raises :class:`StoreUnavailable`."""
        return self._file.read_at(self._start, self.length)

    def write(self, offset: int, data: bytes) -> None:
        """Write bytes. Raises :class:`WriteFailed`."""
        self._file.write_at(self._start + offset, data)

    def put_i64(self, offset: int, value: int) -> None:
        """Write a number. Raises :class:`WriteFailed`."""
        self.write(offset, value.to_bytes(8, "little", signed=True))

    put_i64_release = put_i64

    def put_i32_release(self, offset: int, value: int) -> None:
        """Write a number. Raises :class:`WriteFailed`."""
        self.write(offset, value.to_bytes(4, "little", signed=True))

    def get_and_add_i32(self, offset: int, delta: int) -> int:
        """Add to a number. Returns the number before. Raises :class:`WriteFailed`."""
        before = int.from_bytes(self._file.read_at(self._start + offset, 4), "little", signed=True)
        self.put_i32_release(offset, before + delta)
        return before


def open_error_log(file: WritableFile, start: int, length: int) -> DistinctErrorLog:
    """Continue the log in ``length`` bytes of a file. Errors of earlier owners stay, until they fill half of it: then
    they are removed. Raises :class:`StoreUnavailable`, :class:`WriteFailed`."""
    words = FileWords(file, start, length)
    data = words.read()
    end = end_of_errors(data)
    if end > length // 2:
        end = 0
    # An owner that was killed may have left a part of an entry, which must not look like one after the next.
    if any(data[end:]):
        words.write(end, bytes(length - end))
    return DistinctErrorLog(words, end)
