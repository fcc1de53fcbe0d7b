"""Column kernels in plain Python: the specification of ``_columns.pyx``, and what runs where that was not built.

A :class:`RowSink` collects rows from a walker into column buffers. Its columns are pairs of a name and a
:class:`Source`; their types come with them as :mod:`memoryview` codes (``h``, ``i``, ``q``; ``B`` for byte spans).
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Sequence
from itertools import pairwise

from everlog.kernel.sources import Bytes, FieldOf, Null, Source, Value
from everlog.layout import Readable

MAX_SINK_BYTES = (1 << 31) - 1
"""Offsets are 32-bit: more bytes than this do not fit one batch."""

Taken = tuple[memoryview, memoryview | None, memoryview | None, int]
"""Values, offsets, validity, null count."""


class RowSink:
    """Rows into column buffers, up to ``max_rows`` rows and about ``max_bytes`` bytes in its byte spans.

    A row larger than ``max_bytes`` is taken when it is the first. ``take`` hands the buffers over and starts anew;
    ``reset`` starts anew in the same buffers.
    """

    def __init__(self, columns: Sequence[tuple[str, str, Source]], max_rows: int, max_bytes: int) -> None:
        self.max_rows = max_rows
        self.max_bytes = max_bytes
        self._columns = list(columns)
        self.reset()

    def reset(self) -> None:
        """Forget all rows."""
        self.row_count = 0
        self.byte_count = 0
        self._values: dict[str, array[int]] = {}
        self._bytes: dict[str, bytearray] = {}
        for name, code, source in self._columns:
            if isinstance(source, Bytes):
                self._bytes[name] = bytearray()
                self._values[name] = array("i", [0])
            else:
                self._values[name] = array(code)

    def has_room(self, length: int) -> bool:
        """Whether a row with ``length`` bytes in its spans fits."""
        if not self._bytes:
            return self.row_count < self.max_rows
        if self.row_count == 0:
            return length <= MAX_SINK_BYTES
        return self.row_count < self.max_rows and self.byte_count + length <= self.max_bytes

    def add_row(
        self, data: Readable, frame: int, values: Sequence[int], spans: Sequence[Sequence[tuple[int, int]]]
    ) -> None:
        """Append a row: its header is at ``data[frame:]``; ``spans[k]`` lists the (start, end) pieces of byte span
        ``k``.
        """
        for name, _, source in self._columns:
            if isinstance(source, FieldOf):
                field = source.field
                (value,) = struct.unpack_from(
                    (">" if field.big_endian else "<") + field.code, data, frame + field.offset
                )
                self._values[name].append(value)
            elif isinstance(source, Value):
                self._values[name].append(values[source.index])
            elif isinstance(source, Bytes):
                held = self._bytes[name]
                for start, end in spans[source.index]:
                    held += data[start:end]
                self._values[name].append(len(held))
            elif isinstance(source, Null):
                self._values[name].append(0)
        if (
            self._bytes
        ):  # then all spans count, wanted or not: the bound is about the row, not about the choice of columns
            self.byte_count += sum(end - start for pieces in spans for start, end in pieces)
        self.row_count += 1

    def take(self) -> tuple[int, dict[str, Taken]]:
        """The rows so far: their count, and for each column values, offsets, validity and null count."""
        count = self.row_count
        out: dict[str, Taken] = {}
        for name, code, source in self._columns:
            if isinstance(source, Bytes):
                out[name] = memoryview(self._bytes[name]), memoryview(self._values[name]), None, 0
            elif isinstance(source, Null):
                validity = memoryview(bytes((count + 7) // 8))
                if code == "B":
                    out[name] = memoryview(b""), memoryview(bytes(4 * (count + 1))).cast("i"), validity, count
                else:
                    out[name] = memoryview(self._values[name]), None, validity, count
            else:
                out[name] = memoryview(self._values[name]), None, None, 0
        self.reset()
        return count, out


def decimal_text(values: memoryview, count: int) -> tuple[memoryview, memoryview]:
    """Each number as decimal text: offsets and UTF-8 bytes."""
    return _joined([b"%d" % v for v in values[:count].tolist()])


def hex_pair_text(high: memoryview, low: memoryview, count: int) -> tuple[memoryview, memoryview]:
    """Each pair as ``%08x:%08x``: offsets and UTF-8 bytes."""
    pairs = zip(high[:count].tolist(), low[:count].tolist(), strict=True)
    return _joined([b"%08x:%08x" % pair for pair in pairs])


def repeated_text(text: bytes, count: int) -> tuple[memoryview, memoryview]:
    """The same text ``count`` times: offsets and bytes."""
    return _joined([text] * count)


def _joined(items: list[bytes]) -> tuple[memoryview, memoryview]:
    offsets = array("i", [0])
    end = 0
    for item in items:
        end += len(item)
        offsets.append(end)
    return memoryview(offsets), memoryview(b"".join(items))


def floor_divide(values: memoryview, divisor: int, count: int) -> memoryview:
    """Each 64-bit number divided, rounded down."""
    return memoryview(array("q", [v // divisor for v in values[:count].tolist()]))


def multiply(values: memoryview, factor: int, count: int) -> memoryview:
    """Each 64-bit number times ``factor``, wrapped to 64 bits."""
    wrap = 1 << 64
    products = ((v * factor) % wrap for v in values[:count].tolist())
    return memoryview(array("q", [p - wrap if p >= wrap >> 1 else p for p in products]))


def crc32_of_values(offsets: memoryview, values: memoryview, count: int) -> memoryview:
    """CRC-32 (zlib's) of each byte string, as 64-bit numbers."""
    ends = offsets[: count + 1].tolist()
    return memoryview(array("q", [zlib.crc32(values[a:b]) for a, b in pairwise(ends)]))
