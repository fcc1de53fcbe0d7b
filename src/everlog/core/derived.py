"""Columns that every family has, derived from the columns that a walk returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from everlog.core.batch import Batch
from everlog.core.columns import Column, ColumnData, ColumnType, null_column
from everlog.kernel import derived as kernel

STORE = Column("store", ColumnType.UTF8, "path of the store", nullable=False)
FAMILY = Column("family", ColumnType.UTF8, "aeron-archive, jlog, nats-streaming, ...", nullable=False)
STREAM = Column("stream", ColumnType.UTF8, "name of the stream", nullable=False)
ADDRESS = Column(
    "address", ColumnType.UTF8, "identifies the record; ordered within a stream by its integer columns", nullable=False
)
TIMESTAMP = Column("timestamp", ColumnType.TIMESTAMP_US, "time of the record, rounded down to microseconds")
CRC32 = Column("crc32", ColumnType.INT64, "CRC-32 of the payload, as zlib computes it", nullable=False)
DERIVED = (ADDRESS, TIMESTAMP, CRC32)
_SOURCES = {TIMESTAMP.name: "timestamp_ns", CRC32.name: "payload"}
"""The family's column from which each derived one is made; an address is made from the family's address columns."""


def needed_names(wanted: Iterable[Column], address_columns: tuple[str, ...]) -> set[str]:
    """The names of the ``wanted`` columns and of those from which the derived ones among them are made."""
    names = {column.name for column in wanted}
    if ADDRESS.name in names:
        names.update(address_columns)
    return names | {source for name, source in _SOURCES.items() if name in names}


def derive(
    batch: Batch, wanted: tuple[Column, ...], constants: Mapping[str, str], address_columns: tuple[str, ...]
) -> Batch:
    """A batch with exactly the ``wanted`` columns: those of ``batch``, and derived ones."""
    rows = batch.row_count
    data: dict[str, ColumnData] = {}
    for column in wanted:
        if column.name in batch.data:
            data[column.name] = batch.data[column.name]
        elif column.name in constants:
            data[column.name] = constant_text(constants[column.name], rows)
        elif column.name == ADDRESS.name:
            data[column.name] = _address(batch, address_columns)
        else:
            data[column.name] = _MAKERS[column.name](batch)
    return Batch(wanted, rows, data)


def _address(batch: Batch, columns: tuple[str, ...]) -> ColumnData:
    values = [batch.data[name].values for name in columns]
    if len(values) == 1:
        offsets, text = kernel.decimal_text(values[0], batch.row_count)
    else:
        offsets, text = kernel.hex_pair_text(values[0], values[1], batch.row_count)
    return ColumnData(ColumnType.UTF8, text, offsets)


def _timestamp(batch: Batch) -> ColumnData:
    source = batch.data[_SOURCES[TIMESTAMP.name]]
    if source.null_count == batch.row_count:
        return null_column(ColumnType.TIMESTAMP_US, batch.row_count)
    values = kernel.floor_divide(source.values, 1000, batch.row_count)
    return ColumnData(ColumnType.TIMESTAMP_US, values, None, source.validity, source.null_count)


def _crc32(batch: Batch) -> ColumnData:
    payload = batch.data[_SOURCES[CRC32.name]]
    assert payload.offsets is not None
    return ColumnData(ColumnType.INT64, kernel.crc32_of_values(payload.offsets, payload.values, batch.row_count))


_MAKERS: dict[str, Callable[[Batch], ColumnData]] = {TIMESTAMP.name: _timestamp, CRC32.name: _crc32}

_KEPT_CONSTANTS = 16
_LEAST_ROWS = 64
_constants: dict[str, tuple[int, ColumnData]] = {}


def constant_text(text: str, row_count: int) -> ColumnData:
    """A column with the same text in every row. What is not valid UTF-8, such as in a folder's name, is escaped. The
    buffers of the last few texts are cached and shared by batches."""
    kept = _constants.get(text)
    if kept is None or kept[0] < row_count:
        rows = max(row_count, _LEAST_ROWS)
        offsets, values = kernel.repeated_text(text.encode(errors="backslashreplace"), rows)
        kept = rows, ColumnData(ColumnType.UTF8, values, offsets)
        while len(_constants) >= _KEPT_CONSTANTS:
            _constants.pop(next(iter(_constants)))
        _constants[text] = kept
    return kept[1]
