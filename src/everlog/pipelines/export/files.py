"""Files of an export as a task writes them: one for each hour of a split, with size and checksum computed while
writing."""

from __future__ import annotations

import contextlib
import json
import math
import os
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from everlog.core.files.writable import write_failed
from everlog.pipelines.choices import ExportFormat

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES: dict[ExportFormat, str] = {"parquet": "parquet", "arrow": "arrow", "jsonl": "jsonl", "delta": "parquet"}
ROW_GROUP_ROWS = 256 << 10
ROW_GROUP_BYTES = 64 << 20
"""A Parquet row group ends at either limit: large groups are faster to read, small ones need less memory."""
JSON_LEFT_OUT = frozenset({"timestamp"})
"""In JSON, ``timestamp_ns`` gives the same time exactly."""


class SummedFile:
    """A new file that is written sequentially. A crash leaves a partial file under a name that no commit has."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.byte_count = 0
        self.crc32 = 0
        self.closed = False
        self._is_abandoned = False
        try:
            self._file = open(path, "xb")  # noqa: SIM115 - closed by close
        except OSError as error:
            raise write_failed(path, error) from error

    def write(self, data: Any) -> int:
        """Write all of ``data``; returns its size. Raises :class:`WriteFailed`."""
        view = memoryview(data).cast("B")
        if self._is_abandoned:  # format writers write their footers when garbage-collected
            return len(view)
        try:
            self._file.write(view)
        except OSError as error:
            raise write_failed(self.path, error) from error
        self.crc32 = zlib.crc32(view, self.crc32)
        self.byte_count += len(view)
        return len(view)

    def tell(self) -> int:
        """Bytes written so far."""
        return self.byte_count

    def flush(self) -> None:
        """Do nothing: :meth:`close` flushes."""

    def readable(self) -> bool:
        """False."""
        return False

    def writable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """False."""
        return False

    def close(self) -> None:
        """Sync and close. Raises :class:`WriteFailed`; then the file is unusable."""
        if self.closed:
            return
        self.closed = True
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise write_failed(self.path, error) from error
        finally:
            self._file.close()

    def abandon(self) -> None:
        """Close and remove the file; later writes are ignored."""
        self.closed = self._is_abandoned = True
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            os.unlink(self.path)


class RowWriter(Protocol):
    """Writes rows to one file of a format."""

    def write(self, batch: pa.RecordBatch) -> None: ...
    def close(self) -> None: ...


class ParquetRows:
    """Writes Parquet: large, compressed row groups."""

    def __init__(self, file: SummedFile, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self._schema = schema
        self._held: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._writer = pq.ParquetWriter(file, schema, compression="zstd")

    def write(self, batch: pa.RecordBatch) -> None:
        """Buffer the batch until a row group is full."""
        self._held.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.get_total_buffer_size()
        if self._rows >= ROW_GROUP_ROWS or self._bytes >= ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held, self._schema))
            self._held.clear()
            self._rows = self._bytes = 0

    def close(self) -> None:
        """Write the buffered rows and the footer."""
        self._flush()
        self._writer.close()


class ArrowRows:
    """Writes an Arrow IPC file batch by batch."""

    def __init__(self, file: SummedFile, schema: pa.Schema) -> None:
        import pyarrow as pa

        self._writer = pa.ipc.new_file(file, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the batch unchanged."""
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Write the footer."""
        self._writer.close()


class JsonRows:
    """Writes one JSON object per line, in the form of ``everlog read --json``: payload in base64, ``crc32`` as 8 hex
    digits, numbers that JSON lacks as ``"NaN"``, ``"Infinity"``, ``"-Infinity"``; without ``timestamp``, since
    ``timestamp_ns`` is exact."""

    def __init__(self, file: SummedFile, schema: pa.Schema) -> None:
        self._file = file
        self._names = [name for name in schema.names if name not in JSON_LEFT_OUT]

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a line for each row."""
        columns = [_json_values(name, batch.column(name).to_pylist()) for name in self._names]
        rows = (dict(zip(self._names, row, strict=True)) for row in zip(*columns, strict=True))
        lines = [json.dumps(row, allow_nan=False) for row in rows]
        self._file.write(("\n".join(lines) + "\n").encode("ascii"))

    def close(self) -> None:
        """Do nothing: no rows are buffered."""


def _json_values(name: str, values: list[Any]) -> list[Any]:
    if name == "crc32":
        return [None if value is None else f"{value:08x}" for value in values]
    if name == "sbe":
        return [None if value is None else json.loads(value) for value in values]
    sample = next((value for value in values if value is not None), None)
    if isinstance(sample, bytes):
        return [None if value is None else b64encode(value).decode("ascii") for value in values]
    if isinstance(sample, float):
        return [value if value is None or math.isfinite(value) else _no_number(value) for value in values]
    if sample is not None and not isinstance(sample, int | float | str):  # an unsigned 64-bit number, as a decimal
        return [None if value is None else int(value) for value in values]
    return values


def _no_number(value: float) -> str:
    """A number that JSON lacks, in the form used for decoded messages."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


ROWS: dict[str, Callable[[SummedFile, Any], RowWriter]] = {
    "parquet": ParquetRows,
    "delta": ParquetRows,
    "arrow": ArrowRows,
    "jsonl": JsonRows,
}


@dataclass(slots=True)
class OpenFile:
    """A file being written, and what it holds so far."""

    file: SummedFile
    rows: RowWriter
    row_count: int = 0
    first: str = ""
    last: str = ""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that is written and synced, under its staged name. ``hour``: hours since 1970, ``None`` for rows without a
    time."""

    name: str
    hour: int | None
    rows: int
    byte_count: int
    crc32: int
    first: str
    last: str


@dataclass(slots=True)
class HourFiles:
    """The files of one split: rows go to the file of their hour. Few files are open at a time; the one written to least
    recently is closed, and its hour continues in another file."""

    MAX_OPEN = 24

    folder: str
    prefix: str
    kind: ExportFormat
    schema: pa.Schema
    done: list[StagedFile] = field(default_factory=list)
    _open: dict[int | None, OpenFile] = field(default_factory=dict)
    _count: int = 0

    def write(self, hour: int | None, batch: pa.RecordBatch, addresses: tuple[str, str]) -> None:
        """Write rows of one hour; ``addresses`` are those of the first and the last row."""
        held = self._open.pop(hour, None)
        if held is None:
            if len(self._open) >= self.MAX_OPEN:
                self._finish(next(iter(self._open)))
            held = self._begin()
            held.first = addresses[0]
        self._open[hour] = held
        held.rows.write(batch)
        held.row_count += batch.num_rows
        held.last = addresses[1]

    def _begin(self) -> OpenFile:
        self._count += 1
        file = SummedFile(os.path.join(self.folder, f"{self.prefix}-{self._count}.{SUFFIXES[self.kind]}"))
        try:
            return OpenFile(file, ROWS[self.kind](file, self.schema))
        except BaseException:
            file.abandon()
            raise

    def _finish(self, hour: int | None) -> None:
        held = self._open[hour]
        held.rows.close()
        held.file.close()
        file = held.file
        name = os.path.basename(file.path)
        self.done.append(StagedFile(name, hour, held.row_count, file.byte_count, file.crc32, held.first, held.last))
        del self._open[hour]  # only now: a file that could not be finished must be abandoned

    def close(self) -> list[StagedFile]:
        """Finish all files; on return they are on disk."""
        for hour in list(self._open):
            self._finish(hour)
        return self.done

    def abandon(self) -> None:
        """Remove all files, since the split could not be read."""
        for held in self._open.values():
            held.file.abandon()
        self._open.clear()
        for file in self.done:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self.folder, file.name))


def by_hour(rows: pa.RecordBatch, times: pa.Array) -> Iterator[tuple[int | None, pa.RecordBatch]]:
    """Group rows by hours since 1970, in their order within an hour; ``times`` are nanoseconds or null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from everlog.pipelines.export.names import HOUR_NS

    if times.null_count == len(times):
        yield None, rows
        return
    bounds = pc.min_max(times).as_py()
    # Python's division rounds down, Arrow's towards zero: times before 1970 need the former.
    first, last = bounds["min"] // HOUR_NS, bounds["max"] // HOUR_NS
    if times.null_count == 0 and first == last:
        yield first, rows
        return
    hours = [None if value is None else value // HOUR_NS for value in times.to_pylist()]
    for hour in dict.fromkeys(hours):
        yield hour, rows.filter(pa.array([one == hour for one in hours]))
