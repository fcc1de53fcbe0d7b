"""The messages of a batch in the order of appending: by partition and row, or by a column."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from everlog.core.appending.messages import Messages
from everlog.core.files.writable import WritableStorage
from everlog.pipelines.append.staging import NUMBER, ORDER, PAYLOAD, Part, read

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_BYTES = 8 << 20
CHUNK_ROWS = 1 << 16
"""Most that is appended under one note; a longer message forms a chunk of its own."""
Row = tuple[Any, bytes, int | None]
"""Sort key, payload, number."""


def chunks(storage: WritableStorage, parts: Sequence[Part], start: int) -> Iterator[Messages]:
    """The messages of a batch from number ``start`` on, always in the same order, in bounded and non-empty chunks."""
    chunk, size = Messages(), 0
    for _, payload, number in islice(_in_order(storage, parts), start, None):
        if chunk.payloads and (size + len(payload) > CHUNK_BYTES or len(chunk) >= CHUNK_ROWS):
            yield chunk
            chunk, size = Messages(), 0
        chunk.payloads.append(payload)
        chunk.numbers.append(number)
        size += len(payload)
    if chunk.payloads:
        yield chunk


def _in_order(storage: WritableStorage, parts: Sequence[Part]) -> Iterator[Row]:
    rows = [_rows(storage, part) for part in sorted(parts, key=lambda part: part.partition)]
    if not any(part.is_ordered for part in parts):
        return chain.from_iterable(rows)
    # Each task sorted its own rows. Among equal keys the lower partition's rows come first.
    return heapq.merge(*rows, key=itemgetter(0))


def _rows(storage: WritableStorage, part: Part) -> Iterator[Row]:
    for batch in read(storage, part):
        payloads, numbers = batch.column(PAYLOAD).to_pylist(), batch.column(NUMBER).to_pylist()
        keys = _keys(batch.column(ORDER)) if part.is_ordered else [None] * len(payloads)
        yield from zip(keys, payloads, numbers, strict=True)


def _keys(column: pa.Array) -> list[Any]:
    """Times as integers, as the tasks sorted them. Python compares times of one zone by wall clock, which gives another
    order when clocks are set back, and it has no times after the year 9999."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    return list(column.to_pylist())
