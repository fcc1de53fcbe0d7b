"""Staged parts: what the tasks of a write hand to its commit, one file for each task.

A part is an Arrow IPC stream with the columns of :data:`FIELDS` and at most :data:`PIECE_BYTES` in a batch (a longer
message is a batch of its own). Its name, size and checksum are in the task's commit message. A task that crashes leaves
a file that no commit message names; it is deleted with the batch's other files.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from everlog.core.files.writable import WritableFile, WritableStorage
from everlog.errors import CorruptData, EverlogError, StoreUnavailable

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIX = ".staged"
PIECE_BYTES = 4 << 20
CHECK_BYTES = 1 << 20
PAYLOAD, NUMBER, ORDER = "payload", "number", "order"
FIELDS = (PAYLOAD, NUMBER, ORDER)
"""The message; its time in nanoseconds or its reserved value (null for the default); its sort key, if the write is
ordered."""
_HINT = "the option stagingPath must be a folder that driver and executors share"


@dataclass(frozen=True, slots=True)
class Part:
    """One task's rows: a file of the staging folder. ``crc`` is the CRC-32 of its ``byte_count`` bytes, ``longest`` the
    longest payload in bytes. ``is_ordered``: it has the column :data:`ORDER` and is sorted by it."""

    partition: int
    name: str
    rows: int
    byte_count: int
    crc: int
    longest: int
    is_ordered: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The fields as a note stores them."""
        return asdict(self)


def part_name(batch_key: str, partition: int, attempt: str) -> str:
    """``<query>.<batch>.<partition>.<attempt>.staged``; ``batch_key`` is the first two."""
    return f"{batch_key}.{partition}.{attempt}{SUFFIX}"


class _Sink(io.RawIOBase):
    """A file object over a :class:`WritableFile` that computes the size and CRC-32 of the data."""

    def __init__(self, file: WritableFile) -> None:
        super().__init__()
        self.size = self.crc = 0
        self._file = file

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._file.write_at(self.size, view)
        self.crc = zlib.crc32(view, self.crc)
        self.size += len(view)
        return len(view)


def stage(storage: WritableStorage, name: str, partition: int, batches: Iterable[pa.RecordBatch]) -> Part | None:
    """Write record batches of :data:`FIELDS`; returns ``None`` and leaves no file if there are no rows. On return the
    file and its name are on disk. Raises :class:`WriteFailed`; then the file is deleted."""
    import pyarrow.ipc

    rows = longest = 0
    is_ordered = False
    writer = None
    try:
        with storage.open_writable(name, create=True, exclusive=True) as file:
            sink = _Sink(file)
            for batch in batches:
                if writer is None:
                    writer = pyarrow.ipc.new_stream(sink, batch.schema)
                    is_ordered = ORDER in batch.schema.names
                rows += batch.num_rows
                longest = max(longest, longest_payload(batch))
                for piece in _pieces(batch):
                    writer.write_batch(piece)
            if writer is not None:
                writer.close()
            file.sync()
        if rows:
            storage.sync_folder()
            return Part(partition, name, rows, sink.size, sink.crc, longest, is_ordered)
    except BaseException:
        _discard(storage, name)
        raise
    _discard(storage, name)
    return None


def longest_payload(batch: pa.RecordBatch) -> int:
    """Bytes of the longest payload of a batch; 0 for no rows."""
    import pyarrow.compute as pc

    return pc.max(pc.binary_length(batch.column(PAYLOAD))).as_py() or 0


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = batch.num_rows
    step = max(1, rows * PIECE_BYTES // max(batch.nbytes, 1))
    for start in range(0, rows, step):
        yield batch.slice(start, step)


def _discard(storage: WritableStorage, name: str) -> None:
    try:
        storage.remove(name)
    except EverlogError:
        return  # the next commit of the query tries again


def check(storage: WritableStorage, part: Part) -> None:
    """Read a whole part. Raises :class:`StoreUnavailable` if it is missing, :class:`CorruptData` if it is not what the
    task wrote."""
    if not storage.exists(part.name):
        where = f"{storage.root}/{part.name}"
        raise StoreUnavailable(where, found="no such file", expected="a task's staged part", hint=_HINT)
    crc = size = 0
    with storage.open(part.name) as file:
        while data := file.read_at(size, CHECK_BYTES):
            crc, size = zlib.crc32(data, crc), size + len(data)
    if (size, crc) != (part.byte_count, part.crc):
        found, expected = f"{size} bytes with CRC {crc:08x}", f"{part.byte_count} bytes with CRC {part.crc:08x}"
        raise CorruptData(part.name, found=found, expected=expected)


class _Source(io.RawIOBase):
    """A file object over a part."""

    def __init__(self, storage: WritableStorage, part: Part) -> None:
        super().__init__()
        self._file = storage.open(part.name)
        self._at = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._file.read_at(self._at, self._file.size() - self._at if size < 0 else size)
        self._at += len(data)
        return data

    def close(self) -> None:
        self._file.close()
        super().close()


def read(storage: WritableStorage, part: Part) -> Iterator[pa.RecordBatch]:
    """The batches of a part, which the caller has checked."""
    import pyarrow.ipc

    with _Source(storage, part) as source, pyarrow.ipc.open_stream(source) as reader:
        yield from reader
