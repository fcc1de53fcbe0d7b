"""Columns made of columns, in plain Python: the specification of ``_derived.pyx``, and what runs where that was not
built. Texts are given as Arrow has them: 32-bit offsets, and UTF-8 bytes one behind the other.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Mapping
from itertools import pairwise

from everlog.kernel.columns_twin import Taken

AS_NULL, AS_NUMBER, AS_UNSIGNED, AS_CHARACTER = range(4)
"""What becomes of a number that has no name: a null, its decimal digits, those of its 64 bits without a sign, or the
character of Latin-1 with that number (digits where there is none)."""


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


def named_text(
    values: memoryview, validity: memoryview | None, names: Mapping[int, bytes], others: int, count: int
) -> Taken:
    """The name of each 64-bit number, in UTF-8; of one without a name what ``others`` says. Nulls stay nulls."""
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
