"""What handlers of controlled polls answer, and what readers of images refuse. Shared by the compiled reader and its
twin. Source: ControlledFragmentHandler, Image."""

from __future__ import annotations

from enum import Enum

from everlog.errors import CorruptData, UsageError


class Action(Enum):
    """What a poll does behind a fragment. Giving nothing is ``CONTINUE``."""

    ABORT = 1
    """End the poll before the fragment: it comes again."""
    BREAK = 2
    """End the poll behind the fragment."""
    COMMIT = 3
    """Publish the position behind the fragment at once, and go on."""
    CONTINUE = 4
    """Go on; the position is published at the poll's end."""


def bad_frame(offset: int, length: int, rest: int) -> CorruptData:
    """For a frame length that no publisher writes."""
    return CorruptData("image", offset=offset, found=f"frame_length {length}", expected=f"32..{rest}, or none yet")


def bad_counter(position: int) -> CorruptData:
    """For a position that no reader leaves."""
    expected = "a multiple of 32, 0 or more"
    return CorruptData("subscriber position", found=str(position), expected=expected)


def bad_position(position: int, first: int, last: int) -> UsageError:
    """For a position to which an image can't be moved."""
    return UsageError("position", found=str(position), expected=f"a multiple of 32, {first} to {last}")


def too_long(limit: int) -> CorruptData:
    """For fragments of one message that are together over a limit."""
    return CorruptData("image", found="a longer message", expected=f"at most {limit} bytes")


def read_in_use() -> UsageError:
    """For a second thread in an image."""
    return UsageError("image", found="a poll by another thread", hint="an image is for one thread at a time")


def closed_image() -> UsageError:
    """For moving an image that is gone."""
    return UsageError("image", found="it is closed", expected="an open one")


def release(block: memoryview) -> None:
    """Make a block unusable behind its handler, unless that holds a part of it."""
    try:
        block.release()
    except BufferError:
        return
