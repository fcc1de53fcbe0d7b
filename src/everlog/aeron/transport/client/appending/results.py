"""Result codes and errors of appends, shared by the compiled appenders and their twins.

Source: Publication (its constants, and the checks of lengths).
"""

from __future__ import annotations

from typing import Final

from everlog.errors import CorruptData, UsageError

NOT_CONNECTED: Final = -1
"""The publication has no subscriber. Try again later."""
BACK_PRESSURED: Final = -2
"""The subscribers or the driver are too slow. Try again."""
ADMIN_ACTION: Final = -3
"""The log has rotated to the next term. Try again at once."""
CLOSED: Final = -4
"""The publication is closed."""
MAX_POSITION_EXCEEDED: Final = -5
"""The last term is full. Close the publication and add another."""

MAX_TURNS: Final = 4
"""Rotations in a row without an appended message after which a call for many messages stops. Only damaged metadata
causes more."""

OFFSET_WIDTHS: Final = {"i": 4, "l": 8, "q": 8}


def offset_width(offsets: memoryview) -> int:
    """Bytes of each offset of a column. Raises :class:`UsageError` unless they are int32 or int64."""
    width = OFFSET_WIDTHS.get(offsets.format)
    if width is None or offsets.ndim != 1:
        raise UsageError("offsets", found=f"format {offsets.format!r}", expected="an int32 or int64 column")
    return width


def check_rows(first: int, last: int | None, offset_count: int) -> int:
    """The end of the rows to append, by default the column's. Raises :class:`UsageError` if they are out of range."""
    end = offset_count - 1 if last is None else last
    if not 0 <= first <= end <= offset_count - 1:
        raise UsageError("rows", found=f"{first} to {end}", expected=f"0 to {offset_count - 1}")
    return end


def wrong_start(start: int) -> UsageError:
    """The error for a negative index of the first message."""
    return UsageError("start", found=str(start), expected="0 or more")


def in_use() -> UsageError:
    """The error for a second thread in an exclusive publication."""
    hint = "only one thread at a time may use an exclusive publication; add_publication is for several"
    return UsageError("publication", found="in use by another thread", hint=hint)


def bad_offsets(row: int) -> UsageError:
    """The error for decreasing offsets, or offsets beyond the column's data."""
    text = f"offsets of row {row} decrease or exceed the data"
    return UsageError("offsets", found=f"row {row}", expected="offsets that never decrease", message=text)


def too_long(longest: int) -> UsageError:
    """The error for a message over the limit."""
    hint = "the limit is an eighth of the term length, at most 16 MiB; set the channel's term-length= to raise it"
    return UsageError("message", expected=f"at most {longest} bytes", hint=hint)


def bad_claim(length: int, longest: int) -> UsageError:
    """The error for a claim longer than a frame's payload."""
    hint = "offer fragments longer messages"
    return UsageError("claim", found=str(length), expected=f"0 to {longest} bytes", hint=hint)


def bad_padding(length: int, longest: int) -> UsageError:
    """The error for padding longer than the longest message with its headers."""
    return UsageError("padding", found=str(length), expected=f"0 to {longest} bytes")


def bad_block(offset: int) -> UsageError:
    """The error for a block that does not continue the publication."""
    expected = "frames of this publication at its term id and term offset, within the term"
    text = f"block must be {expected}; the frame at offset {offset} is not"
    return UsageError("block", offset=offset, expected=expected, message=text)


def bad_tail() -> CorruptData:
    """The error for an invalid raw tail."""
    return CorruptData("log buffer metadata", found="invalid raw tail", expected="an offset that is a multiple of 32")


def no_claim() -> UsageError:
    """The error for a use of a claim that is not open."""
    return UsageError("claim", found="not open", hint="it is open from a successful try_claim to commit or abort")


def open_claim() -> UsageError:
    """The error for a second claim with an object that is still open: readers would wait at the first."""
    return UsageError("claim", found="still open", hint="commit or abort it before another try_claim")


def release(payload: memoryview | None) -> None:
    """Release the view of a claim's payload, unless the program holds a slice of it."""
    if payload is not None:
        try:
            payload.release()
        except BufferError:
            return
