"""Decodes the payloads of compressed journals, each one raw LZ4 block, a batch at a time.

The walker delivers stored payloads as a batch; decoding makes one call into C per message. A payload decodes to at most
``MAX_MESSAGE_BYTES`` (:mod:`everlog.jlog.format.framing` rejects headers with more), and batches are split at their
size limit.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import Any

from everlog.core.batch import Batch
from everlog.core.columns import Column, ColumnData, ColumnType
from everlog.core.report import Fault
from everlog.errors import MissingDependency
from everlog.jlog.format.faults import fault
from everlog.jlog.format.names import segment_name

Decode = Callable[[Any, int], bytes]
NEEDED = ("payload", "length", "log", "marker", "offset")
"""Columns that :func:`decompress` needs in addition to the requested ones."""


def lz4_decoder() -> Decode:
    """``decode(stored, length)`` returns the payload or raises :class:`ValueError`. Raises :class:`MissingDependency`
    without lz4."""
    try:
        from lz4.block import LZ4BlockError, decompress
    except ImportError as error:
        raise MissingDependency(
            "LZ4", found="lz4 is not installed", message="needs lz4: pip install 'everlog[lz4]'"
        ) from error

    def decode(stored: Any, length: int) -> bytes:
        try:
            payload: bytes = decompress(stored, uncompressed_size=length)
        except LZ4BlockError as error:
            raise ValueError(str(error)) from error
        if len(payload) != length:
            raise ValueError(f"{len(payload)} bytes decoded")
        return payload

    return decode


def lz4_encoder() -> Callable[[Any], bytes]:
    """``encode(payload)`` returns one raw block; that of an empty payload is one zero byte. Raises
    :class:`MissingDependency` without lz4."""
    lz4_decoder()
    from lz4.block import compress

    def encode(payload: Any) -> bytes:
        block: bytes = compress(payload, store_size=False)
        return block

    return encode


def decompress(
    batch: Batch, wanted: tuple[Column, ...], decode: Decode, max_bytes: int, on_fault: Callable[[Fault], None]
) -> Iterator[Batch]:
    """The batch with decoded payloads, in parts of about ``max_bytes``. Messages that don't decode are left out and
    reported."""
    stored = batch.column("payload")
    assert stored.offsets is not None
    ends = stored.offsets[: batch.row_count + 1].tolist()
    lengths = batch.column("length").values.tolist()
    kept: list[int] = []
    payloads: list[bytes] = []
    size = 0
    for row in range(batch.row_count):
        try:
            payload = decode(stored.values[ends[row] : ends[row + 1]], lengths[row])
        except ValueError as error:
            if kept:
                yield _select(batch, wanted, kept, payloads)
                kept, payloads, size = [], [], 0
            on_fault(_undecodable(batch, row, lengths[row], error))
            continue
        if kept and size + len(payload) > max_bytes:
            yield _select(batch, wanted, kept, payloads)
            kept, payloads, size = [], [], 0
        kept.append(row)
        payloads.append(payload)
        size += len(payload)
    if kept:
        yield _select(batch, wanted, kept, payloads)


def _select(batch: Batch, wanted: tuple[Column, ...], rows: list[int], payloads: list[bytes]) -> Batch:
    first, last = rows[0], rows[-1] + 1  # rows are adjacent: a batch is split at each message that is left out
    data = {}
    for column in wanted:
        if column.name == "payload":
            offsets = array("i", [0])
            for payload in payloads:
                offsets.append(offsets[-1] + len(payload))
            data["payload"] = ColumnData(ColumnType.BINARY, memoryview(b"".join(payloads)), memoryview(offsets))
        else:
            data[column.name] = ColumnData(column.type, batch.column(column.name).values[first:last])
    return Batch(wanted, len(rows), data)


def _undecodable(batch: Batch, row: int, length: int, error: ValueError) -> Fault:
    log, marker, offset = (batch.column(name).values[row] for name in ("log", "marker", "offset"))
    return fault(
        "undecodable-payload",
        segment_name(log),
        offset,
        f"an LZ4 block that does not decode ({error})",
        f"a block of {length} decoded bytes",
        loses=f"message {log:08x}:{marker:08x}; the C library returns stale bytes instead",
        repair="cut the message out and delete the segment's index",
        address=f"{log:08x}:{marker:08x}",
    )
