"""Turns what goes wrong with a message into an error that names it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from everlog.core.files.writable import write_failed
from everlog.errors import EverlogError, UsageError, WriteFailed, WrongType
from everlog.jlog.format.framing import MAX_MESSAGE_BYTES
from everlog.jlog.writing.append import MAX_TIME_US, check_length


def raise_append_error(
    error: OSError | OverflowError | TypeError | BufferError | EverlogError,
    path: str,
    payloads: Iterable[Any] = (),
    appended: int = 0,
) -> NoReturn:
    """Raise ``error`` as an :class:`EverlogError`. ``path`` is the journal's, ``payloads`` are the messages of the
    call, of which the first ``appended`` are in the journal."""
    if isinstance(error, OverflowError):
        expected = f"at most {MAX_MESSAGE_BYTES} bytes, a time from 1970 to 2106"
        message = f"message or time out of range: {error}; expected {expected}"
        raise UsageError("message", found=str(error), expected=expected, message=message) from error
    if isinstance(error, TypeError | BufferError) and not isinstance(error, EverlogError):
        raise (_wrong_message(payloads) or error) from error
    if isinstance(error, OSError):
        failed = write_failed(str(error.filename or path), error)
        failed.appended = appended
        raise failed from error
    if isinstance(error, WriteFailed):
        error.appended = appended
    raise error


def check_messages(payloads: list[Any], times_us: list[int] | None) -> None:
    """Raise what appending each of them would."""
    for payload in payloads:
        view = memoryview(payload)
        if not view.c_contiguous:
            raise BufferError("memoryview: underlying buffer is not C-contiguous")
        check_length(view.nbytes)
    for time_us in times_us or ():
        if time_us > MAX_TIME_US:
            raise OverflowError(f"{time_us} microseconds since 1970")


def _wrong_message(payloads: Iterable[Any]) -> WrongType | None:
    """The error for the first payload that can't be a message; ``None`` if all can."""
    for payload in payloads:
        try:
            is_contiguous = memoryview(payload).c_contiguous
        except TypeError:
            return WrongType("message", found=type(payload).__name__, expected="bytes")
        if not is_contiguous:
            return WrongType("message", found="strided memory", expected="a contiguous buffer")
    return None
