"""Parses the values of Aeron's properties: sizes (``64k``), durations (``10s``), choices by Aeron's class names.

Each parser takes the text and the property's name, and raises :class:`UsageError` with that name.
Source: Agrona, SystemUtil.parseSize and parseDuration; Aeron, Configuration, WildcardPortManager.parsePortRange."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

from everlog.errors import UsageError

INT32_MAX, INT64_MAX = (1 << 31) - 1, (1 << 63) - 1
SIZES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
DURATIONS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
PORT_MAX = 65535
DIGITS_MAX = 19
"""Most digits of an int64."""


def parse_size(text: str, name: str) -> int:
    """Parse bytes: digits, then optionally ``k``, ``m`` or ``g`` in either case."""
    digits, unit = (text[:-1], text[-1].lower()) if text and not text[-1].isdigit() else (text, "")
    if not _is_number(digits) or (unit and unit not in SIZES):
        _refuse(text, name, "a size such as 1408, 64k, 16m or 1g")
    return _bounded(int(digits) * SIZES.get(unit, 1), text, name, INT64_MAX)


def parse_length(text: str, name: str) -> int:
    """Parse a size that fits into a Java int."""
    return _bounded(parse_size(text, name), text, name, INT32_MAX)


def parse_duration_ns(text: str, name: str) -> int:
    """Parse a duration to nanoseconds: digits, then ``ns``, ``us``, ``ms`` or ``s`` in either case. The default unit is
    ``ns``."""
    unit = text.lstrip("0123456789").lower()
    digits = text[: len(text) - len(unit)]
    if not _is_number(digits) or (unit and unit not in DURATIONS_NS):
        _refuse(text, name, "a duration such as 500us, 200ms or 10s")
    return _bounded(int(digits) * DURATIONS_NS.get(unit, 1), text, name, INT64_MAX)


def parse_milliseconds(text: str, name: str) -> int:
    """Parse milliseconds: a bare number, or a duration with its unit."""
    if _is_number(text):
        return _bounded(int(text), text, name, INT64_MAX)
    return parse_duration_ns(text, name) // DURATIONS_NS["ms"]


def parse_int(text: str, name: str) -> int:
    """Parse a decimal or hexadecimal (``0x``) number that fits into a Java int."""
    return _number(text, name, INT32_MAX)


def parse_long(text: str, name: str) -> int:
    """Parse a decimal or hexadecimal (``0x``) number that fits into a Java long."""
    return _number(text, name, INT64_MAX)


def parse_boolean(text: str, name: str) -> bool:
    """Parse ``true`` or ``false``, in either case."""
    found = {"true": True, "false": False}.get(text.lower())
    if found is None:
        _refuse(text, name, "true or false")
    return found


def parse_inferable(text: str, name: str) -> bool | None:
    """Parse ``true``, ``false`` or ``infer``; the last gives ``None``."""
    return None if text.lower() == "infer" else parse_boolean(text, name)


def parse_text(text: str, name: str) -> str:
    """Accept any text except an empty one."""
    if not text:
        _refuse(text, name, "a non-empty text")
    return text


def parse_port_range(text: str, name: str) -> tuple[int, int]:
    """Parse two ports separated by spaces: the lowest and the highest."""
    words = text.split()
    if len(words) != 2 or not all(_is_number(word) for word in words):
        _refuse(text, name, "two ports such as '20000 20100'")
    low, high = int(words[0]), int(words[1])
    if not 0 <= low <= high <= PORT_MAX:
        _refuse(text, name, f"two ascending ports from 0 to {PORT_MAX}")
    return low, high


def choice(names: Mapping[str, str]) -> Callable[[str, str], str]:
    """Make a parser for the keys of ``names``, which maps accepted names (short names, and Aeron's classes with or
    without their package) to everlog's choices. Other classes can't run here and are refused."""

    def parse(text: str, name: str) -> str:
        found = names.get(text) or names.get(text.rpartition(".")[2])
        if found is None:
            shorts = ", ".join(sorted(set(names.values())))
            _refuse(text, name, f"one of {shorts}, or Aeron's own class or function for one of them")
        return found

    return parse


def _number(text: str, name: str, maximum: int) -> int:
    digits = text.removeprefix("-")
    base = 16 if digits[:2].lower() == "0x" else 10
    try:
        value = int(text, base) if len(digits) <= DIGITS_MAX and text.isascii() and "_" not in text else None
    except ValueError:
        value = None
    if value is None or not -maximum - 1 <= value <= maximum:
        _refuse(text, name, f"a number from {-maximum - 1} to {maximum}")
    return value


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX


def _bounded(value: int, text: str, name: str, maximum: int) -> int:
    if value > maximum:
        _refuse(text, name, f"at most {maximum}")
    return value


def _refuse(text: str, name: str, expected: str) -> NoReturn:
    raise UsageError(name, found=repr(text), expected=expected)
