"""Columns and batches of bulk polls, shared by the compiled reader and its twin."""

from __future__ import annotations

from typing import Final, Protocol

from everlog.core.batch import Batch
from everlog.core.columns import Column, ColumnData, ColumnType
from everlog.errors import UsageError

MAX_ROWS: Final = 1 << 24
MAX_BYTES: Final = 1 << 30

POSITION: Final = Column("position", ColumnType.INT64, "of the first byte of the message's first frame", nullable=False)
RESERVED_VALUE: Final = Column("reserved_value", ColumnType.INT64, "the publisher's own", nullable=False)
PAYLOAD: Final = Column("payload", ColumnType.BINARY, "the message", nullable=False)


class Columns(Protocol):
    """The part of :class:`everlog.aeron.transport.client.images.message_columns_twin.MessageColumns` that batches
    use."""

    @property
    def row_count(self) -> int: ...

    @property
    def data(self) -> memoryview: ...

    @property
    def offsets(self) -> memoryview: ...

    @property
    def positions(self) -> memoryview | None: ...

    @property
    def reserved_values(self) -> memoryview | None: ...


def check_limits(max_rows: int, max_bytes: int) -> None:
    """Raises :class:`UsageError` for limits out of range."""
    if not 1 <= max_rows <= MAX_ROWS:
        raise UsageError("max_rows", found=str(max_rows), expected=f"1 to {MAX_ROWS}")
    if not 1 <= max_bytes <= MAX_BYTES:
        raise UsageError("max_bytes", found=str(max_bytes), expected=f"1 to {MAX_BYTES}")


def batch_of(columns: Columns) -> Batch:
    """The rows as a batch, without a copy: the next poll fills other buffers."""
    found: list[tuple[Column, ColumnData]] = []
    if columns.positions is not None:
        found.append((POSITION, ColumnData(POSITION.type, columns.positions)))
    if columns.reserved_values is not None:
        found.append((RESERVED_VALUE, ColumnData(RESERVED_VALUE.type, columns.reserved_values)))
    found.append((PAYLOAD, ColumnData(PAYLOAD.type, columns.data, columns.offsets)))
    schema = tuple(column for column, _ in found)
    return Batch(schema, columns.row_count, {column.name: data for column, data in found})
