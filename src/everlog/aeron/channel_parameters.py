"""Parses the values of channel parameters. Errors name the parameter and carry the exception that Java's driver throws.
Source: Aeron, CommonContext; Agrona, SystemUtil (sizes and durations)."""

from __future__ import annotations

import re

from everlog.aeron.channel_uri import ChannelUri, InvalidChannel
from everlog.aeron.java_exception import ILLEGAL_ARGUMENT, NUMBER_FORMAT, JavaException, ascii_number, for_input

_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_DIGITS = frozenset("0123456789")
_SIZES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_NANOSECONDS = {"ns": 1, "us": 1000, "ms": 1_000_000, "s": 1_000_000_000}
INT32 = range(-(1 << 31), 1 << 31)
INT64 = range(-(1 << 63), 1 << 63)
MAX_INT32, MAX_INT64 = INT32[-1], INT64[-1]


def wrong(parameter: str, found: str, expected: str, java: JavaException | None = None) -> InvalidChannel:
    """Make the error for a parameter's invalid value."""
    return InvalidChannel(f"channel parameter {parameter}", found=found, expected=expected, java=java)


def parse_size(parameter: str, text: str, most: int = MAX_INT64) -> int:
    """Parse a number of bytes: digits, optionally followed by k, m or g (powers of 1024). Raises
    :class:`InvalidChannel`."""
    expected = "a size such as 64k: bytes, or with unit k, m or g"
    _check_not_negative(parameter, text, expected)
    if text[-1] in _DIGITS:
        size = _long(parameter, text, text, expected)
    else:
        size = _long(parameter, text, text[:-1], expected)
        unit = _SIZES.get(text[-1].lower())
        if unit is None:
            java = JavaException(NUMBER_FORMAT, f"{parameter}: {text} should end with: k, m, or g.")
            raise wrong(parameter, repr(text), expected, java)
        size *= unit
    if size > MAX_INT64:
        java = JavaException(NUMBER_FORMAT, f"{parameter} would overflow a long: {text}")
        raise wrong(parameter, repr(text), f"at most {most} bytes", java)
    if size > most:
        java = JavaException(ILLEGAL_ARGUMENT, f"Invalid {parameter} length: {size}")
        raise wrong(parameter, repr(text), f"at most {most} bytes", java)
    return size


def parse_duration_ns(parameter: str, text: str, java_name: str | None = None) -> int:
    """Parse a duration into nanoseconds: digits, optionally followed by ns, us, ms or s. ``java_name`` is Java's name
    of the parameter, if different. Raises :class:`InvalidChannel`."""
    name, expected = java_name or parameter, "a time such as 5s, with unit ns, us, ms or s"
    _check_not_negative(parameter, text, expected, name)
    if text[-1] in _DIGITS:
        return _long(parameter, text, text, expected)
    unit = next((unit for unit in _NANOSECONDS if text.lower().endswith(unit)), None)
    if unit is None or len(text) == len(unit):
        java = JavaException(NUMBER_FORMAT, f"{name}: {text} should end with: s, ms, us, or ns.")
        raise wrong(parameter, repr(text), expected, java)
    # Java's TimeUnit saturates at the largest long.
    return min(_long(parameter, text, text[: -len(unit)], expected) * _NANOSECONDS[unit], MAX_INT64)


def _check_not_negative(parameter: str, text: str, expected: str, name: str | None = None) -> None:
    if not text:
        java = JavaException(NUMBER_FORMAT, f"{name or parameter} must be non-empty: {text}")
        raise wrong(parameter, "empty", expected, java)
    if text.startswith("-"):
        java = JavaException(NUMBER_FORMAT, f"{name or parameter} must be positive: {text}")
        raise wrong(parameter, repr(text), expected, java)


def _long(parameter: str, text: str, digits: str, expected: str) -> int:
    value = java_int(digits, INT64[0], MAX_INT64) if digits[:1] in _DIGITS else None
    if value is None:
        raise wrong(parameter, repr(text), expected, ascii_number(digits, "long"))
    return value


def java_int(text: str, low: int = INT32[0], high: int = MAX_INT32) -> int | None:
    """Parse a number as ``Integer.parseInt`` does; ``None`` if it would throw."""
    value = int(text) if _NUMBER.fullmatch(text) else None
    return value if value is not None and low <= value <= high else None


def parse_number(parameter: str, text: str, within: range = INT64, java: JavaException | None = None) -> int:
    """Parse a decimal number. ``java`` is the exception of Java's driver, if not ``For input string``. Raises
    :class:`InvalidChannel`."""
    value = java_int(text, within[0], within[-1])
    if value is None:
        expected = f"a number from {within[0]} to {within[-1]}"
        raise wrong(parameter, repr(text), expected, java or for_input(text))
    return value


def duration_ns(uri: ChannelUri, parameter: str) -> int | None:
    """A parameter's duration in nanoseconds; ``None`` if it is missing. Raises :class:`InvalidChannel`."""
    text = uri.get(parameter)
    return None if text is None else parse_duration_ns(parameter, text)


def int64(uri: ChannelUri, parameter: str) -> int | None:
    """A parameter's number; ``None`` if it is missing. Raises :class:`InvalidChannel`."""
    text = uri.get(parameter)
    if text is None:
        return None
    java = JavaException(ILLEGAL_ARGUMENT, f"'{parameter}' does not contain a valid long value")
    return parse_number(parameter, text, INT64, java)
