"""Actions of controlled polls and errors of image readers, shared by the compiled reader and its twin. Source:
ControlledFragmentHandler, Image."""

from __future__ import annotations

from enum import Enum

from everlog.errors import Closed, CorruptData, UsageError


class Action(Enum):
    """What a poll does after a fragment. A handler that returns ``None`` means ``CONTINUE``."""

    ABORT = 1
    """End the poll before the fragment; the next poll delivers it again."""
    BREAK = 2
    """End the poll after the fragment."""
    COMMIT = 3
    """Publish the position after the fragment at once, and continue."""
    CONTINUE = 4
    """Continue; the poll publishes the position at its end."""


def bad_frame(offset: int, length: int, rest: int) -> CorruptData:
    """The error for an invalid frame length."""
    return CorruptData("image", offset=offset, found=f"frame_length {length}", expected=f"32 to {rest}, or 0")


def bad_counter(position: int) -> CorruptData:
    """The error for an invalid subscriber position."""
    expected = "a multiple of 32, 0 or more"
    return CorruptData("subscriber position", found=str(position), expected=expected)


def bad_position(position: int, first: int, last: int) -> UsageError:
    """The error for a position that an image can't be moved to."""
    return UsageError("position", found=str(position), expected=f"a multiple of 32, {first} to {last}")


def too_long(limit: int) -> CorruptData:
    """The error for a fragmented message over the limit."""
    return CorruptData("image", found=f"message longer than {limit} bytes")


def read_in_use() -> UsageError:
    """The error for a second thread in an image."""
    return UsageError("image", found="in use by another thread", hint="only one thread at a time may poll an image")


def closed_image() -> UsageError:
    """The error for moving a closed image."""
    return Closed("image")


def release(block: memoryview) -> None:
    """Release a block after its handler, unless the handler has kept a slice of it."""
    try:
        block.release()
    except BufferError:
        return
