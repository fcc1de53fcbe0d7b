"""Computes columns from other columns, in plain Python: the specification of ``_derived.pyx``, and its replacement if
that was not built. Text columns have Arrow's layout: 32-bit offsets, and concatenated UTF-8 bytes.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Mapping
from itertools import pairwise

from everlog.kernel.columns_twin import Taken

AS_NULL, AS_NUMBER, AS_UNSIGNED, AS_CHARACTER = range(4)
"""How a number without a name is shown: as null, in decimal digits, in decimal digits as an unsigned 64-bit number, or
as the Latin-1 character with that number (in digits if none has it)."""


def decimal_text(values: memoryview, count: int) -> tuple[memoryview, memoryview]:
    """Format each number as decimal text: offsets and UTF-8 bytes."""
    return _joined([b"%d" % v for v in values[:count].tolist()])


def hex_pair_text(high: memoryview, low: memoryview, count: int) -> tuple[memoryview, memoryview]:
    """Format each pair as ``%08x:%08x``: offsets and UTF-8 bytes."""
    pairs = zip(high[:count].tolist(), low[:count].tolist(), strict=True)
    return _joined([b"%08x:%08x" % pair for pair in pairs])


def repeated_text(text: bytes, count: int) -> tuple[memoryview, memoryview]:
    """Repeat a text ``count`` times: offsets and bytes."""
    return _joined([text] * count)


def named_text(
    values: memoryview, validity: memoryview | None, names: Mapping[int, bytes], others: int, count: int
) -> Taken:
    """Replace each 64-bit number by its name, in UTF-8; ``others`` says how a number without a name is shown. Nulls
    stay null."""
    items: list[bytes] = []
    bits = bytearray((count + 7) // 8)
    for i, value in enumerate(values[:count].tolist()):
        name = names.get(value, _other(value, others)) if validity is None or validity[i >> 3] >> (i & 7) & 1 else None
        bits[i >> 3] |= (name is not None) << (i & 7)
        items.append(name or b"")
    nulls = count - sum(byte.bit_count() for byte in bits)
    offsets, data = _joined(items)
    return data, offsets, memoryview(bytes(bits)) if nulls else None, nulls


def _other(value: int, others: int) -> bytes | None:
    if others == AS_NULL:
        return None
    if others == AS_CHARACTER and 0 <= value < 256:
        return chr(value).encode()
    return b"%d" % (value % (1 << 64) if others == AS_UNSIGNED else value)


def _joined(items: list[bytes]) -> tuple[memoryview, memoryview]:
    offsets = array("i", [0])
    end = 0
    for item in items:
        end += len(item)
        offsets.append(end)
    return memoryview(offsets), memoryview(b"".join(items))


def floor_divide(values: memoryview, divisor: int, count: int) -> memoryview:
    """Divide each 64-bit number, rounding down."""
    return memoryview(array("q", [v // divisor for v in values[:count].tolist()]))


def multiply(values: memoryview, factor: int, count: int) -> memoryview:
    """Multiply each 64-bit number by ``factor``, wrapping to 64 bits."""
    wrap = 1 << 64
    products = ((v * factor) % wrap for v in values[:count].tolist())
    return memoryview(array("q", [p - wrap if p >= wrap >> 1 else p for p in products]))


def crc32_of_values(offsets: memoryview, values: memoryview, count: int) -> memoryview:
    """Compute the CRC-32 (zlib's) of each byte string, as 64-bit numbers."""
    ends = offsets[: count + 1].tolist()
    return memoryview(array("q", [zlib.crc32(values[a:b]) for a, b in pairwise(ends)]))
