"""Reads an export's files batch by batch, in any format, and checks that they are as written."""

from __future__ import annotations

import base64
import itertools
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everlog.core.counting import counted
from everlog.core.files.regular_files import NotRegular, check_regular, open_regular, unreadable
from everlog.core.json_text import parse_json
from everlog.errors import CorruptData, StoreUnavailable
from everlog.kernel.crc32 import IEEE, Crc32
from everlog.pipelines.export.folder import placed
from everlog.pipelines.export.manifest import ExportedFile, Manifest, StreamKey

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 16_384
CHUNK_BYTES = 1 << 20
READ = ("length", "crc32", "payload")


@dataclass(frozen=True, slots=True)
class FileToRead:
    """A file of a manifest, and its current path."""

    key: StreamKey
    place: str
    file: ExportedFile
    kind: str


def files_of(path: str, manifest: Manifest, keys: Sequence[StreamKey]) -> list[FileToRead]:
    """The files of some streams."""
    return [
        FileToRead(key, placed(path, manifest, file.path), file, manifest.kind)
        for key in keys
        for file in manifest.streams[key].files
    ]


def batches_of(place: str, kind: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Some columns of a file. JSON values are decoded: payloads to bytes, checksums to numbers. Raises
    :class:`CorruptData` or :class:`StoreUnavailable`."""
    import pyarrow as pa

    try:
        check_regular(place)
        if kind == "jsonl":
            yield from _json_batches(place, columns)
        elif kind == "arrow":
            with pa.OSFile(place) as file:
                reader = pa.ipc.open_file(file)
                for number in range(reader.num_record_batches):
                    yield reader.get_batch(number).select(list(columns))
        else:
            import pyarrow.parquet as pq

            with pq.ParquetFile(place) as file:
                yield from file.iter_batches(BATCH_ROWS, columns=list(columns))
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            message = f"exported file is missing: {place}"
            raise StoreUnavailable(place, found="no such file", expected="an exported file", message=message) from error
        if isinstance(error, NotRegular):
            raise unreadable(place, error) from error
        raise CorruptData(place, found=str(error)[:200], expected=f"a file of {kind}") from error
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise CorruptData(place, found=str(error)[:200], expected=f"a file of {kind}") from error


def _json_batches(place: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    with open(place, encoding="ascii") as file:
        while lines := list(itertools.islice(file, BATCH_ROWS)):
            rows = [parse_json(line) for line in lines]
            yield pa.RecordBatch.from_pydict({name: [_value(name, row[name]) for row in rows] for name in columns})


def _value(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name == "payload":
        return base64.b64decode(value)
    return int(value, 16) if name == "crc32" else value


def check_files(group: list[FileToRead]) -> Iterator[tuple[StreamKey, str]]:
    """The damaged files among ``group``, each with what is wrong."""
    for file in group:
        try:
            problem = check_file(file)
        except (CorruptData, StoreUnavailable) as error:
            problem = str(error)
        if problem is not None:
            yield file.key, problem


def check_file(wanted: FileToRead) -> str | None:
    """What is wrong with a file, or ``None``."""
    place, file = wanted.place, wanted.file
    size, crc = _sum(place)
    if (size, crc) != (file.byte_count, file.crc32):
        return (
            f"{place}: {counted(size, 'byte')} with CRC-32 {crc:08x}, expected {file.byte_count} with {file.crc32:08x}"
        )
    rows = 0
    ieee = Crc32(IEEE)
    for batch in batches_of(place, wanted.kind, READ):
        rows += batch.num_rows
        lengths, sums, payloads = (batch.column(number).to_pylist() for number in range(3))
        for length, crc32, payload in zip(lengths, sums, payloads, strict=True):
            if payload is None or len(payload) != length or ieee.checksum(payload) != crc32:
                return f"{place}: a payload does not match its length and CRC-32"
    if rows != file.rows:
        return f"{place}: {counted(rows, 'row')}, expected {file.rows}"
    return None


def _sum(place: str) -> tuple[int, int]:
    size = crc = 0
    try:
        with os.fdopen(open_regular(place, os.O_RDONLY), "rb", buffering=0) as file:
            while data := file.read(CHUNK_BYTES):
                size += len(data)
                crc = zlib.crc32(data, crc)
    except OSError as error:
        raise unreadable(place, error) from error
    return size, crc
