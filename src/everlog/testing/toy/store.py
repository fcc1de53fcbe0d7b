"""The toy store: a folder of files ``NAME.toy``, one stream each.

Each line is a record: a JSON array of its number (the address, which rises), its time in nanoseconds or null, its topic
or null, and its payload in base64. Any other line is a fault."""

from __future__ import annotations

import base64
import json
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from everlog.core.batch import Batch
from everlog.core.columns import Column, ColumnData, ColumnType
from everlog.core.files.storage import Storage
from everlog.core.options import fill
from everlog.core.report import Fault, Progress, Report
from everlog.core.splits import Split
from everlog.core.store import DEFAULT_SPLIT_BYTES, LENGTH, PAYLOAD, TIMESTAMP_NS, Level, ScanRequest, Store, StreamInfo
from everlog.errors import UnknownStream, UsageError

SUFFIX = ".toy"
NUMBER = Column("number", ColumnType.INT64, "the record's address", nullable=False)
TOPIC = Column("topic", ColumnType.UTF8, "what it is about, or null")

ToyRow = tuple[int, int | None, str | None, bytes]


@dataclass(frozen=True, kw_only=True)
class ToyOptions:
    """``first_number``: records before it are skipped."""

    first_number: int = 0


def toy_line(number: int, timestamp_ns: int | None, topic: str | None, payload: bytes) -> bytes:
    """Return a record's line in a file."""
    return json.dumps([number, timestamp_ns, topic, base64.b64encode(payload).decode()]).encode() + b"\n"


class ToyStore(Store):
    """A folder of ``.toy`` files."""

    family = "toy"
    options_class = ToyOptions

    def __init__(self, storage: Storage, options: ToyOptions) -> None:
        super().__init__(storage)
        self.options = options

    @classmethod
    def open(cls, storage: Storage, options: Mapping[str, Any]) -> Self:
        """Open a folder."""
        return cls(storage, fill(ToyOptions, options))

    @classmethod
    def detect(cls, storage: Storage) -> bool:
        """Whether the folder has a ``.toy`` file."""
        return any(name.endswith(SUFFIX) for name in storage.names())

    def streams(self, *, include_all: bool = False) -> list[StreamInfo]:
        """Return one stream per file; those whose names begin with ``deleted-`` only with ``include_all``."""
        names = sorted(name.removesuffix(SUFFIX) for name in self.storage.names() if name.endswith(SUFFIX))
        return [self._describe(name) for name in names if include_all or not name.startswith("deleted-")]

    def _describe(self, name: str) -> StreamInfo:
        numbers = [row[0] for row in self._rows(name, lambda fault: None)]
        first, last = (str(numbers[0]), str(numbers[-1])) if numbers else (None, None)
        end = str(numbers[-1] + 1) if numbers else None
        size = self.storage.size(name + SUFFIX)
        return StreamInfo(name, self.family, first, last, end, None, size, {"kind": "toy"})

    def family_columns(self, level: Level = Level.RECORD) -> tuple[Column, ...]:
        """Return the columns, which are the same on both levels."""
        return (TIMESTAMP_NS, LENGTH, PAYLOAD, NUMBER, TOPIC)

    @property
    def address_columns(self) -> tuple[str, ...]:
        """The column with the number."""
        return ("number",)

    def parse_address(self, text: str) -> int:
        """Parse a number of at most 18 digits. Raises :class:`UsageError` for other texts."""
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise UsageError("address", found=repr(text), expected="a number")
        return int(text)

    def format_address(self, address: int) -> str:
        """Return the number in decimal."""
        return str(address)

    def walk(self, stream: str, request: ScanRequest) -> Iterator[Batch]:
        """Yield batches of the rows in the range."""
        rows: list[ToyRow] = []
        size = 0
        for row in self._rows(stream, request.on_fault):
            if request.end is not None and row[0] >= request.end:
                break
            if request.start is not None and row[0] < request.start:
                continue
            if rows and (len(rows) == request.max_rows or size + len(row[3]) > request.max_bytes):
                yield _batch(request.columns, rows)
                rows, size = [], 0
            rows.append(row)
            size += len(row[3])
        if rows:
            yield _batch(request.columns, rows)

    def splits(
        self, stream: str, *, start: int | None = None, end: int | None = None, split_bytes: int = DEFAULT_SPLIT_BYTES
    ) -> list[Split]:
        """Return the range as one split."""
        return [Split(stream, start, end, self.storage.size(stream + SUFFIX))]

    def info(self) -> dict[str, Any]:
        """Return the streams' names and the options."""
        return {"family": self.family, "streams": [s.name for s in self.streams()], "first": self.options.first_number}

    def verify(self, progress: Progress | None = None) -> Report:
        """Report every line that is not a record."""
        report = Report(self.path, self.family)
        for info in self.streams(include_all=True):
            if progress:
                progress(info.name, 0, info.byte_count)
            count = sum(1 for _ in self._rows(info.name, report.add))
            report.stream_count += 1
            report.segment_count += 1
            report.record_count += count
            report.byte_count += info.byte_count
        return report

    def _rows(self, stream: str, on_fault: Any) -> Iterator[ToyRow]:
        name = stream + SUFFIX
        if "/" in stream or "\0" in stream or not self.storage.exists(name):
            raise UnknownStream("stream", found=repr(stream), expected="the name of a .toy file")
        offset, last = 0, -1
        for line in self.storage.read_all(name).splitlines(keepends=True):
            row = _parse(line)
            if row is None or row[0] <= last:
                on_fault(Fault("toy-bad-line", name, offset, repr(line[:20]), "a record", "one record", stream=stream))
            else:
                last = row[0]
                if last >= self.options.first_number:
                    yield row
            offset += len(line)


def _parse(line: bytes) -> ToyRow | None:
    try:
        number, timestamp_ns, topic, payload = json.loads(line)
        row = int(number), timestamp_ns, topic, base64.b64decode(payload, validate=True)
    except (ValueError, TypeError):
        return None
    return row if line.endswith(b"\n") and row[0] >= 0 else None


def _batch(columns: tuple[Column, ...], rows: list[ToyRow]) -> Batch:
    data: dict[str, ColumnData] = {}
    for column in columns:
        if column is LENGTH:
            data["length"] = _numbers([len(row[3]) for row in rows])
        elif column is NUMBER:
            data["number"] = _numbers([row[0] for row in rows])
        elif column is TIMESTAMP_NS:
            data["timestamp_ns"] = _numbers([row[1] for row in rows])
        elif column is PAYLOAD:
            data["payload"] = _texts(ColumnType.BINARY, [row[3] for row in rows])
        else:
            data["topic"] = _texts(ColumnType.UTF8, [None if row[2] is None else row[2].encode() for row in rows])
    return Batch(columns, len(rows), data)


def _numbers(values: Iterable[int | None]) -> ColumnData:
    items = list(values)
    validity, nulls = _validity(items)
    return ColumnData(ColumnType.INT64, memoryview(array("q", [v or 0 for v in items])), None, validity, nulls)


def _texts(kind: ColumnType, items: list[bytes | None]) -> ColumnData:
    offsets, joined = array("i", [0]), bytearray()
    for item in items:
        joined += item or b""
        offsets.append(len(joined))
    validity, nulls = _validity(items)
    return ColumnData(kind, memoryview(bytes(joined)), memoryview(offsets), validity, nulls)


def _validity(items: list[Any]) -> tuple[memoryview | None, int]:
    nulls = sum(item is None for item in items)
    if not nulls:
        return None, 0
    bits = bytearray((len(items) + 7) // 8)
    for i, item in enumerate(items):
        if item is not None:
            bits[i >> 3] |= 1 << (i & 7)
    return memoryview(bytes(bits)), nulls
