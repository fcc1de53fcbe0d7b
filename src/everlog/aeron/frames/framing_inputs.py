"""Checks a framer's inputs: the common properties of a recording's frames, payloads, columns and blocks.

Shared by the compiled framer and its twin. Source: PublicationParams (MTU and term length), FrameDescriptor
(computeMaxMessageLength), LogBufferDescriptor (computeFragmentedFrameLength).
"""

from __future__ import annotations

import operator
import struct
import sys
from dataclasses import dataclass
from typing import Any, Final

from everlog.aeron.family_options import Checksum
from everlog.aeron.frames.constants import (
    FRAME_ALIGNMENT,
    HEADER_LENGTH,
    MAX_FRAME_LENGTH,
    MAX_TERM_LENGTH,
    MIN_TERM_LENGTH,
    TYPE_DATA,
    TYPE_PADDING,
    align,
    is_power_of_two,
)
from everlog.aeron.frames.position import FOREVER, term_id_of, term_offset_of, wrap_int32
from everlog.aeron.layouts import DataHeader
from everlog.core.options import MAX_INT64, MIN_INT64, check_choice, check_type
from everlog.errors import CorruptData, UsageError, WrongType
from everlog.kernel.crc32 import CASTAGNOLI, IEEE

MAX_MESSAGE_LENGTH: Final = 16 << 20
MAX_MTU_LENGTH: Final = 65_504
MAX_CAPACITY: Final = 1 << 30
"""Most bytes in a framer's buffer."""
CHECKSUMS: Final[dict[Checksum, int | None]] = {"none": None, "crc32": IEEE, "crc32c": CASTAGNOLI}
"""The polynomials of the checksums that an archive can record with."""
_HEADER: Final = DataHeader.struct
_BYTES: Final = ("B", "b", "c")


def framed_length(length: int, max_payload_length: int) -> int:
    """Total length of the frames of a message of ``length`` bytes, cut into fragments of ``max_payload_length``, which
    with a header is a multiple of 32."""
    whole, rest = divmod(length, max_payload_length)
    last = align(HEADER_LENGTH + rest) if rest or not whole else 0
    return whole * (max_payload_length + HEADER_LENGTH) + last


SLOW_PATH, FRAMED = -1, -2
"""Why a message was not written to the file directly: nothing was done with it, or it is in the framer's buffer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Framing:
    """The common properties of a recording's frames. Raises :class:`UsageError` for values that Aeron would refuse: ids
    must be int32, the term length a power of two from 64 KiB to 1 GiB, the MTU a multiple of 32, longer than a header,
    at most 65,504 bytes and at most ``max_message_length``.
    """

    initial_term_id: int
    term_length: int
    mtu_length: int
    session_id: int
    stream_id: int
    checksum: Checksum = "none"

    def __post_init__(self) -> None:
        for name in ("initial_term_id", "session_id", "stream_id"):
            value = getattr(self, name)
            check_type(name, value, int, "an int32")
            if wrap_int32(value) != value:
                raise UsageError(name, found=repr(value), expected="an int32")
        length = self.term_length
        check_type("term_length", length, int, "a power of two from 64 KiB to 1 GiB")
        if not MIN_TERM_LENGTH <= length <= MAX_TERM_LENGTH or not is_power_of_two(length):
            raise UsageError("term_length", found=repr(length), expected="a power of two from 64 KiB to 1 GiB")
        mtu, longest = self.mtu_length, min(MAX_MTU_LENGTH, self.max_message_length)
        check_type("mtu_length", mtu, int, f"a multiple of 32 from 64 to {longest}")
        if not HEADER_LENGTH < mtu <= longest or mtu % FRAME_ALIGNMENT:
            raise UsageError("mtu_length", found=repr(mtu), expected=f"a multiple of 32 from 64 to {longest}")
        check_choice("checksum", self.checksum, CHECKSUMS)

    @property
    def max_message_length(self) -> int:
        """Longest allowed message: an eighth of a term, at most 16 MiB."""
        return min(self.term_length >> 3, MAX_MESSAGE_LENGTH)

    @property
    def max_payload_length(self) -> int:
        """Longest payload of one frame."""
        return self.mtu_length - HEADER_LENGTH

    def capacity(self, wanted: int) -> int:
        """Bytes of buffer: ``wanted``, or more if a message or a frame could be longer. Raises :class:`UsageError`."""
        if type(wanted) is not int or not 0 < wanted <= MAX_CAPACITY:
            raise UsageError("capacity", found=repr(wanted), expected=f"a number from 1 to {MAX_CAPACITY}")
        return max(wanted, framed_length(self.max_message_length, self.max_payload_length), MAX_FRAME_LENGTH)

    def check_range(self, position: int, end: int) -> None:
        """Raises :class:`UsageError` unless frames can be written from ``position`` to ``end``."""
        if type(end) is not int or not 0 <= end <= FOREVER or end % self.term_length:
            raise UsageError("end", found=repr(end), expected=f"a term's end, a multiple of {self.term_length}")
        if type(position) is not int or not 0 <= position <= end or position % FRAME_ALIGNMENT:
            raise UsageError("position", found=repr(position), expected=f"a multiple of 32 from 0 to {end}")

    def fault(self, header: bytes, position: int, offset: int, given: int) -> CorruptData | None:
        """The fault of a block's frame at ``offset``, destined for ``position``, or ``None``; the block has ``given``
        bytes from there on."""
        if len(header) < HEADER_LENGTH:
            return _corrupt(offset, f"{given} bytes", f"a header of {HEADER_LENGTH}")
        length, _, _, kind, term_offset, session_id, stream_id, term_id, _ = _HEADER.unpack_from(header)
        rest = self.term_length - term_offset_of(position, self.term_length)
        longest = min(rest, MAX_FRAME_LENGTH) if kind == TYPE_DATA else rest
        if kind not in (TYPE_DATA, TYPE_PADDING):
            return _corrupt(offset, f"frame type {kind}", "1 (data) or 0 (padding)")
        if not HEADER_LENGTH <= length <= longest:
            return _corrupt(offset, f"frame_length {length}", f"32 to {longest}")
        for name, found, expected in (
            ("term_offset", term_offset, term_offset_of(position, self.term_length)),
            ("term_id", term_id, term_id_of(position, self.initial_term_id, self.term_length)),
            ("stream_id", stream_id, self.stream_id),
            ("session_id", session_id, self.session_id),
        ):
            if found != expected:
                return _corrupt(offset, f"{name} {found}", str(expected))
        if given < align(length) and not (kind == TYPE_PADDING and given == HEADER_LENGTH):
            return _corrupt(offset, f"frame_length {length}", f"at most {given}, the rest of the block")
        return None


class Integers:
    """Integers of a buffer or a sequence, by index; all are 0 without values."""

    def __init__(self, values: Any, code: str) -> None:
        self._values = values
        self._struct = struct.Struct(f"={code}") if code else None

    def __getitem__(self, index: int) -> Any:
        if self._values is None:
            return 0
        if self._struct is None:
            return self._values[index] if index < len(self._values) else None
        return self._struct.unpack_from(self._values, index * self._struct.size)[0]

    @classmethod
    def of_reserved(cls, values: Any, count: int) -> Integers:
        """The reserved values of ``count`` messages. Raises :class:`UsageError`."""
        if values is None:
            return cls(None, "")
        is_sequence = isinstance(values, list | tuple)
        view = values if is_sequence else integer_view(values, "reserved_values", (8,))
        if len(view) < count:
            message = f"reserved_values has {len(view)} values for {count} messages"
            raise UsageError("reserved_values", found=f"{len(view)} values", expected=f"{count}", message=message)
        return cls(view, "" if is_sequence else "q")

    @classmethod
    def of_offsets(cls, values: Any, start: int, stop: int) -> Integers:
        """The offsets of a column that has the messages ``start`` to ``stop``. Raises :class:`UsageError`."""
        view = integer_view(values, "offsets", (4, 8))
        check_messages(start, stop, len(view) - 1)
        return cls(view, "i" if view.itemsize == 4 else "q")


def integer_view(values: Any, name: str, sizes: tuple[int, ...]) -> memoryview:
    """A contiguous buffer of signed integers of one of these ``sizes``, in host byte order. Raises
    :class:`UsageError`."""
    view = contiguous(values, name, is_cast=False)
    order = "@=<" if sys.byteorder == "little" else "@=>"
    if view.ndim != 1 or view.itemsize not in sizes or view.format.lstrip(order) not in ("i", "l", "q"):
        expected = " or ".join(f"int{8 * size}" for size in sizes)
        raise UsageError(name, found=f"one of format {view.format!r}", expected=f"a buffer of {expected}")
    return view


def contiguous(data: Any, name: str, *, is_cast: bool = True) -> memoryview:
    """The buffer of ``data``, as bytes. Raises :class:`WrongType` if it has none, :class:`UsageError` if the buffer is
    not contiguous or released."""
    try:
        view = memoryview(data)
        if not view.c_contiguous:
            raise BufferError("not contiguous")
        return memoryview(view.tobytes()) if is_cast and (view.ndim != 1 or view.format not in _BYTES) else view
    except TypeError:
        raise WrongType(name, found=type(data).__name__, expected="bytes or another object with a buffer") from None
    except (BufferError, ValueError) as error:
        found = f"this {type(data).__name__}: {error}"
        raise UsageError(name, found=found, expected="bytes or a contiguous buffer") from None


def payload_bytes(payload: Any, longest: int) -> bytes:
    """A copy of a payload. Raises :class:`UsageError` if it can't be framed."""
    try:
        data = payload if type(payload) is bytes else contiguous(payload, "message")
    except WrongType:
        raise wrong_message(payload) from None
    check_length(memoryview(data).nbytes, longest)
    return bytes(data)


def wrong_message(payload: object) -> WrongType:
    """The error for a message that is not bytes-like."""
    return WrongType("message", found=type(payload).__name__, expected="bytes")


def check_length(length: int, longest: int) -> None:
    """Raises :class:`UsageError` if a message is too long."""
    if length > longest:
        raise UsageError("message", found=str(length), expected=f"at most {longest} bytes long")


def checked_reserved(value: Any) -> int:
    """A reserved value as int. Raises :class:`WrongType` if it is no integer, :class:`UsageError` if it is no int64."""
    try:
        number = operator.index(value)
    except TypeError:
        raise WrongType("reserved value", found=repr(value), expected="an int64") from None
    if not MIN_INT64 <= number <= MAX_INT64:
        raise UsageError("reserved value", found=repr(value), expected="an int64")
    return number


def check_payloads(payloads: Any, start: Any) -> None:
    """Raises :class:`UsageError` unless ``payloads`` is a list or tuple and ``start`` is in it."""
    if not isinstance(payloads, list | tuple):
        raise WrongType("payloads", found=type(payloads).__name__, expected="a list or a tuple")
    if type(start) is not int or not 0 <= start <= len(payloads):
        raise UsageError("start", found=repr(start), expected=f"a number from 0 to {len(payloads)}")


def check_messages(start: Any, stop: Any, count: int) -> None:
    """Raises :class:`UsageError` unless ``start`` to ``stop`` are among ``count`` messages."""
    if type(stop) is not int or not 0 <= stop <= max(count, 0):
        raise UsageError("stop", found=repr(stop), expected=f"a number from 0 to {max(count, 0)}, the column's rows")
    if type(start) is not int or not 0 <= start <= stop:
        raise UsageError("start", found=repr(start), expected=f"a number from 0 to {stop}")


def column_range(first: int, last: int, length: int, index: int) -> tuple[int, int]:
    """Start and end of message ``index``. Raises :class:`UsageError` if it does not lie within the data."""
    if not 0 <= first <= last <= length:
        found = f"{first} to {last} for message {index}"
        raise UsageError("offsets", found=found, expected=f"ascending and within 0 to {length}")
    return first, last


def _corrupt(offset: int, found: str, expected: str) -> CorruptData:
    return CorruptData("block", offset=offset, found=found, expected=expected)
