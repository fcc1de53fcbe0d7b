"""What an append gives instead of a position, and what appenders refuse. Shared by the compiled ones and their twins.

Source: Publication (its constants, and the checks of lengths).
"""

from __future__ import annotations

from typing import Final

from everlog.errors import CorruptData, UsageError

NOT_CONNECTED: Final = -1
"""No subscriber is there. One may come: try again later."""
BACK_PRESSURED: Final = -2
"""The subscribers or the driver are behind: try again."""
ADMIN_ACTION: Final = -3
"""The log went on to its next term: try again at once."""
CLOSED: Final = -4
"""The publication is closed."""
MAX_POSITION_EXCEEDED: Final = -5
"""The last term is full: nothing can be published any more; close the publication and add another."""

MAX_TURNS: Final = 4
"""Turns to the next term in a row, without a message appended, after which a call for many gives up: there are more
only in metadata that somebody damaged."""

OFFSET_WIDTHS: Final = {"i": 4, "l": 8, "q": 8}


def offset_width(offsets: memoryview) -> int:
    """Bytes of each offset of a column. Raises :class:`UsageError` unless they are int32 or int64."""
    width = OFFSET_WIDTHS.get(offsets.format)
    if width is None or offsets.ndim != 1:
        raise UsageError("offsets", found=f"format {offsets.format!r}", expected="a column of int32 or int64")
    return width


def check_rows(first: int, last: int | None, offset_count: int) -> int:
    """The end of the rows to append, by default of the column's."""
    end = offset_count - 1 if last is None else last
    if not 0 <= first <= end <= offset_count - 1:
        raise UsageError("rows", found=f"{first} to {end}", expected=f"0 to {offset_count - 1}")
    return end


def wrong_start(start: int) -> UsageError:
    """For a negative index of the first message."""
    return UsageError("start", found=str(start), expected="0 or more")


def in_use() -> UsageError:
    """For a second thread in an exclusive publication."""
    hint = "an exclusive publication is for one thread at a time; add_publication is for several"
    return UsageError("publication", found="a call from another thread", hint=hint)


def bad_offsets(row: int) -> UsageError:
    """For offsets that run backwards, or out of the column's data."""
    return UsageError("offsets", found=f"row {row} outside of the data", expected="offsets that never decrease")


def too_long(longest: int) -> UsageError:
    """For a message over the limit."""
    hint = "an eighth of the term's length, at most 16 MiB: a channel's term-length= makes it longer"
    return UsageError("message", found="a longer one", expected=f"at most {longest} bytes", hint=hint)


def bad_claim(length: int, longest: int) -> UsageError:
    """For a claim longer than a frame's payload."""
    hint = "longer messages are fragmented by offer"
    return UsageError("claim", found=f"{length} bytes", expected=f"0 to {longest}", hint=hint)


def bad_padding(length: int, longest: int) -> UsageError:
    """For padding longer than the longest message with its headers."""
    return UsageError("padding", found=f"{length} bytes", expected=f"0 to {longest}")


def bad_block(offset: int) -> UsageError:
    """For a block that does not fit where it is to go."""
    expected = "frames of this publication, made for its term id and term offset, within the rest of the term"
    return UsageError("block", offset=offset, found="something else", expected=expected)


def bad_tail() -> CorruptData:
    """For a raw tail that no publisher leaves."""
    expected = "a term of the log, and a multiple of 32"
    return CorruptData("log buffer metadata", found="a raw tail out of its place", expected=expected)


def no_claim() -> UsageError:
    """For a claim that was committed or aborted, or never made."""
    return UsageError("claim", found="none that is open", expected="try_claim gave a position, no commit or abort yet")


def open_claim() -> UsageError:
    """For a second claim with one that was neither committed nor aborted: readers would wait at the first."""
    return UsageError("claim", found="one that is open", expected="its commit or abort before another claim")


def release(payload: memoryview | None) -> None:
    """Make the view of a claim unusable, unless somebody holds a part of it."""
    if payload is not None:
        try:
            payload.release()
        except BufferError:
            return
