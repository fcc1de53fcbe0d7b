"""A channel's limits, and the parsers for their texts.

Limits are not stored on disk: the reader supplies them. Without limits every message on disk is visible. Sizes and
durations are written as on the server's command line. Source: ``stores/filestore.go`` (enforceLimits, expireMsgs)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from everlog.errors import UsageError, WrongType

_SIZE = re.compile(r"\s*(-?[0-9]+)\s*([A-Za-z]*)\s*", re.ASCII)
_UNITS = {"": 1, "b": 1} | {
    f"{letter}{suffix}": base ** (i + 1)
    for i, letter in enumerate("kmgtp")
    for suffix, base in (("", 1000), ("b", 1024), ("ib", 1024))
}
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_NANOSECONDS = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
MAX_DIGITS = 1000
"""Longest text of a size or duration. Python converts at most 4300 digits to an integer."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of each channel; 0 means no limit. As in the server, ``max_bytes`` counts each message's payload plus
    40 bytes."""

    max_msgs: int = 0
    max_bytes: int = 0
    max_age_ns: int = 0

    def __bool__(self) -> bool:
        return self.max_msgs > 0 or self.max_bytes > 0 or self.max_age_ns > 0


def parse_count(name: str, value: Any) -> int:
    """Parse a number of messages; ``None``, 0 and negative numbers mean no limit. Raises :class:`UsageError`."""
    if value is None:
        return 0
    try:
        return max(int(value), 0)
    except TypeError:
        raise WrongType(name, found=repr(value), expected="a whole number") from None
    except (ValueError, OverflowError):  # int() refuses NaN and infinity
        raise UsageError(name, found=repr(value), expected="a whole number") from None


def parse_size(name: str, value: Any) -> int:
    """Parse a number of bytes, or a text such as ``64MB``. Units with a B are powers of 1024, those without are powers
    of 1000 (``64K`` is 64000). Raises :class:`UsageError`."""
    if value is None or isinstance(value, int):
        return max(int(value or 0), 0)
    expected = "a number of bytes such as 1000000 or 64MB"
    if not isinstance(value, str):
        raise WrongType(name, found=repr(value), expected=expected)
    match = _SIZE.fullmatch(value)
    if match is None or match[2].lower() not in _UNITS or len(match[1]) > MAX_DIGITS:
        raise UsageError(name, found=repr(value), expected=expected)
    unit: int = _UNITS[match[2].lower()]
    return max(int(match[1]) * unit, 0)


def parse_duration(name: str, value: Any) -> int:
    """Parse a duration to nanoseconds: a number of seconds, or a text such as ``1h30m``, ``500ms`` or ``90``. Raises
    :class:`UsageError`."""
    if value is None:
        return 0
    text = str(value).strip().lower()
    if len(text) > MAX_DIGITS:
        raise UsageError(name, found=repr(value), expected="a duration such as 24h, 90s or 1h30m")
    try:
        return max(round(float(text) * 10**9), 0)
    except (ValueError, OverflowError):
        pass
    parts = list(_DURATION_PART.finditer(text.removeprefix("-")))
    try:
        total = sum(round(float(p[1]) * _NANOSECONDS[p[2]]) for p in parts)
    except OverflowError:  # the digits overflow to infinity
        parts = []
    if not parts or "".join(p[0] for p in parts) != text.removeprefix("-"):
        raise UsageError(name, found=repr(value), expected="a duration such as 24h, 90s or 1h30m")
    return 0 if text.startswith("-") else total
