"""How the text of an option is read, for the options of the command line, of Spark, and of each family.

A reader takes the option's name and its text. It returns the value, or raises :class:`UsageError` with the name, the
text and what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from everlog.core.options import MAX_INT64, one_of, whole_number
from everlog.errors import UsageError

Reader = Callable[[str, str], Any]
MAX_SECONDS = 1e9
"""Some thirty years: of that many nanoseconds, 64 bits hold nine times."""
_TRUE, _FALSE = {"true", "1", "yes"}, {"false", "0", "no"}
_BYTES = re.compile(r"(\d{1,15})\s*([kmgt]?)(?:i?b)?")
_BYTE_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SECONDS = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(ms|s|m|h|)")
_SECOND_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


def read_text(name: str, value: str) -> str:
    """Text that is not blank, without the spaces around it."""
    if not value.strip():
        raise UsageError(name, found="empty", expected="a value", message=f"{name} must not be empty")
    return value.strip()


def read_flag(name: str, value: str) -> bool:
    """``true``, ``yes``, ``1`` or ``false``, ``no``, ``0``."""
    if value.strip().lower() in _TRUE | _FALSE:
        return value.strip().lower() in _TRUE
    raise UsageError(name, found=repr(value), expected="true or false")


def read_bytes(name: str, value: str, least: int = 1) -> int:
    """A number of bytes of at least ``least``, such as ``65536``, ``64k``, ``64m`` or ``1GiB``."""
    match = _BYTES.fullmatch(value.strip().lower())
    size = int(match[1]) * _BYTE_UNITS[match[2]] if match else -1
    if not least <= size <= MAX_INT64:
        raise UsageError(name, found=repr(value), expected=f"bytes, such as 64m, from {least} to {MAX_INT64}")
    return size


def read_seconds(name: str, value: str) -> float:
    """``10``, ``10s``, ``500ms``, ``2m``; at most :data:`MAX_SECONDS`."""
    match = _SECONDS.fullmatch(value.strip().lower())
    seconds = float(match[1]) * _SECOND_UNITS[match[2]] if match else -1.0
    if not 0 <= seconds <= MAX_SECONDS:
        expected = f"seconds, such as 10s or 500ms, at most {MAX_SECONDS:g}"
        raise UsageError(name, found=repr(value), expected=expected)
    return seconds


@dataclass(frozen=True, slots=True)
class OptionKind:
    """``read`` reads an option's text. ``choices`` are the texts allowed, if only some are. The command line takes a
    flag without a value, and completes the name of a file."""

    read: Reader
    choices: tuple[str, ...] = ()
    is_flag: bool = False
    is_file: bool = False


def choice(*choices: str) -> OptionKind:
    """One of some texts, in any case of letters."""

    def read(name: str, value: str) -> str:
        if value.strip().lower() not in choices:
            raise UsageError(name, found=repr(value), expected=one_of(choices))
        return value.strip().lower()

    return OptionKind(read, choices)


TEXT = OptionKind(read_text)
FLAG = OptionKind(read_flag, is_flag=True)
NUMBER = OptionKind(whole_number)
FILE = OptionKind(read_text, is_file=True)
BYTES = OptionKind(read_bytes)
SECONDS = OptionKind(read_seconds)
