"""Values of a channel's parameters; errors name the parameter, and what Java's driver throws. Source: Aeron,
CommonContext; Agrona, SystemUtil (sizes and durations)."""

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
    """An error for a parameter's value."""
    return InvalidChannel(f"channel parameter {parameter}", found=found, expected=expected, java=java)


def parse_size(parameter: str, text: str, most: int = MAX_INT64) -> int:
    """Bytes: digits, and perhaps k, m or g (1024, its square, its cube)."""
    expected = "bytes, with k, m or g for more"
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
        raise wrong(parameter, repr(text), f"{most} bytes at most", java)
    if size > most:
        java = JavaException(ILLEGAL_ARGUMENT, f"Invalid {parameter} length: {size}")
        raise wrong(parameter, repr(text), f"{most} bytes at most", java)
    return size


def parse_duration_ns(parameter: str, text: str, java_name: str | None = None) -> int:
    """Nanoseconds: digits, and perhaps ns, us, ms or s. ``java_name``: what Java calls the parameter, where it does not
    by its name."""
    name, expected = java_name or parameter, "a time with ns, us, ms or s"
    _check_not_negative(parameter, text, expected, name)
    if text[-1] in _DIGITS:
        return _long(parameter, text, text, expected)
    unit = next((unit for unit in _NANOSECONDS if text.lower().endswith(unit)), None)
    if unit is None or len(text) == len(unit):
        java = JavaException(NUMBER_FORMAT, f"{name}: {text} should end with: s, ms, us, or ns.")
        raise wrong(parameter, repr(text), expected, java)
    # Java's TimeUnit stops at the largest long; a time that long is for ever anyway.
    return min(_long(parameter, text, text[: -len(unit)], expected) * _NANOSECONDS[unit], MAX_INT64)


def _check_not_negative(parameter: str, text: str, expected: str, name: str | None = None) -> None:
    if not text:
        java = JavaException(NUMBER_FORMAT, f"{name or parameter} must be non-empty: {text}")
        raise wrong(parameter, "nothing", expected, java)
    if text.startswith("-"):
        java = JavaException(NUMBER_FORMAT, f"{name or parameter} must be positive: {text}")
        raise wrong(parameter, repr(text), expected, java)


def _long(parameter: str, text: str, digits: str, expected: str) -> int:
    value = java_int(digits, INT64[0], MAX_INT64) if digits[:1] in _DIGITS else None
    if value is None:
        raise wrong(parameter, repr(text), expected, ascii_number(digits, "long"))
    return value


def java_int(text: str, low: int = INT32[0], high: int = MAX_INT32) -> int | None:
    """As ``Integer.parseInt``, or ``None``."""
    value = int(text) if _NUMBER.fullmatch(text) else None
    return value if value is not None and low <= value <= high else None


def parse_number(parameter: str, text: str, within: range = INT64, java: JavaException | None = None) -> int:
    """A decimal number. ``java``: what Java's driver throws, where it does not say ``For input string``."""
    value = java_int(text, within[0], within[-1])
    if value is None:
        expected = f"a number from {within[0]} to {within[-1]}"
        raise wrong(parameter, repr(text), expected, java or for_input(text))
    return value


def duration_ns(uri: ChannelUri, parameter: str) -> int | None:
    """A parameter's nanoseconds; ``None`` without it. Raises :class:`InvalidChannel`."""
    text = uri.get(parameter)
    return None if text is None else parse_duration_ns(parameter, text)


def int64(uri: ChannelUri, parameter: str) -> int | None:
    """A parameter's number; ``None`` without it. Raises :class:`InvalidChannel`."""
    text = uri.get(parameter)
    if text is None:
        return None
    java = JavaException(ILLEGAL_ARGUMENT, f"'{parameter}' does not contain a valid long value")
    return parse_number(parameter, text, INT64, java)
