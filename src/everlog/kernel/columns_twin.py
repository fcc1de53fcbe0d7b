"""Column kernels in plain Python: the specification of ``_columns.pyx``, and its replacement if that was not built.

A :class:`RowSink` collects rows from a walker into column buffers. Each column has a name, a type as
:mod:`memoryview` code (``h``, ``i``, ``q``; ``B`` for byte spans) and a :class:`Source`.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence

from everlog.kernel.sources import Bytes, FieldOf, Null, Source, Value
from everlog.layout import Readable

MAX_SINK_BYTES = (1 << 31) - 1
"""Most bytes in one batch: offsets are 32-bit."""

Taken = tuple[memoryview, memoryview | None, memoryview | None, int]
"""Values, offsets, validity, null count."""


class RowSink:
    """Collects rows into column buffers, up to ``max_rows`` rows and about ``max_bytes`` bytes in its byte spans.

    A row larger than ``max_bytes`` is accepted if it is the first. ``take`` hands the buffers over and starts again
    with new ones; ``reset`` starts again in the same buffers.
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
        """Append a row: its header is at ``data[frame:]``, and ``spans[k]`` lists the (start, end) pieces of byte span
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
        if self._bytes:  # all spans count, selected or not: the limit is on the row, not on the selected columns
            self.byte_count += sum(end - start for pieces in spans for start, end in pieces)
        self.row_count += 1

    def take(self) -> tuple[int, dict[str, Taken]]:
        """Hand over the rows so far: their count, and for each column values, offsets, validity and null count."""
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
