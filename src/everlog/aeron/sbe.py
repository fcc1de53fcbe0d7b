"""SBE messages: a fixed block, declared as a :class:`~everlog.layout.Layout`, and the length-prefixed strings behind
it.

Source: FIX Simple Binary Encoding 1.0; the Aeron schemas name uint32 lengths and little-endian order.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Any, Generic, TypeVar

from everlog.errors import CorruptData
from everlog.layout import Layout, Readable

B = TypeVar("B", bound=Layout)

_LENGTH = Struct("<I")
LENGTH_PREFIX_BYTES = _LENGTH.size


@dataclass(frozen=True, slots=True)
class Decoded(Generic[B]):
    """A message: its block, its strings by name, and the offset of the first byte behind it."""

    block: B
    texts: dict[str, str]
    end: int

    def as_dict(self) -> dict[str, Any]:
        """Fields and strings together, in the order of the schema."""
        return {**self.block.as_dict(), **self.texts}


def decode(
    layout: type[B], data: Readable, at: int, end: int, *, block_length: int | None = None, where: str = ""
) -> Decoded[B]:
    """Decode the message at ``data[at:end]``.

    ``block_length`` is that of the writer's schema where it is not this one's: a longer block is skipped over, a
    shorter one reads as zeros in the fields that it lacks. Raises :class:`CorruptData` when the message does not fit.
    """
    length = layout.size if block_length is None else block_length
    if at < 0 or at + length > end or end > len(data):
        raise CorruptData(where, offset=at, found=f"{max(0, end - at)} bytes", expected=f"a block of {length} bytes")
    if length >= layout.size:
        block = layout.unpack_from(data, at)
    else:
        block = layout.unpack_from(bytes(data[at : at + length]) + bytes(layout.size - length))
    texts, behind = decode_texts(layout.var_data, data, at + length, end, where=where)
    return Decoded(block, texts, behind)


def decode_texts(
    names: tuple[str, ...], data: Readable, at: int, end: int, *, where: str = ""
) -> tuple[dict[str, str], int]:
    """The strings at ``data[at:end]`` and the offset behind them. Bytes outside ASCII become ``\\xNN``, so that
    nothing is lost."""
    texts = {}
    for name in names:
        if at + LENGTH_PREFIX_BYTES > end:
            raise CorruptData(where, offset=at, found=f"{max(0, end - at)} bytes", expected=f"the length of {name}")
        (length,) = _LENGTH.unpack_from(data, at)
        at += LENGTH_PREFIX_BYTES
        if length > end - at:
            raise CorruptData(where, offset=at, found=f"{name} of {length} bytes", expected=f"at most {end - at}")
        texts[name] = str(data[at : at + length], "ascii", "backslashreplace")
        at += length
    return texts, at
