"""Limits of a channel. They are not on disk: a reader is given them, and without them everything on disk is there.

Source: ``stores/filestore.go`` (enforceLimits, expireMsgs); sizes and durations as the server's command line takes
them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from everlog.errors import UsageError

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
"""Of a number of bytes, or a time. Python takes no more than 4300 in a text."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Per channel; 0 is no limit. ``max_bytes`` counts payload and 40 for each message, as the server does."""

    max_msgs: int = 0
    max_bytes: int = 0
    max_age_ns: int = 0

    def __bool__(self) -> bool:
        return self.max_msgs > 0 or self.max_bytes > 0 or self.max_age_ns > 0


def parse_count(name: str, value: Any) -> int:
    """A number of messages; ``None``, 0 and below are no limit. Raises :class:`UsageError`."""
    if value is None:
        return 0
    try:
        return max(int(value), 0)
    except (TypeError, ValueError, OverflowError):  # infinity has no whole number
        raise UsageError(name, found=repr(value), expected="a whole number") from None


def parse_size(name: str, value: Any) -> int:
    """Bytes: a number, or text such as ``64MB`` (with B 1024-based, ``64K`` is 64000). Raises :class:`UsageError`."""
    if value is None or isinstance(value, int):
        return max(int(value or 0), 0)
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2].lower() not in _UNITS or len(match[1]) > MAX_DIGITS:
        raise UsageError(name, found=repr(value), expected="bytes such as 1000000 or 64MB")
    unit: int = _UNITS[match[2].lower()]
    return max(int(match[1]) * unit, 0)


def parse_duration(name: str, value: Any) -> int:
    """Nanoseconds: a number of seconds, or text such as ``1h30m``, ``500ms``, ``90``. Raises :class:`UsageError`."""
    if value is None:
        return 0
    text = str(value).strip().lower()
    if len(text) > MAX_DIGITS:
        raise UsageError(name, found=repr(value), expected="a time such as 24h, 90s or 1h30m")
    try:
        return max(round(float(text) * 10**9), 0)
    except (ValueError, OverflowError):
        pass
    parts = list(_DURATION_PART.finditer(text.removeprefix("-")))
    try:
        total = sum(round(float(p[1]) * _NANOSECONDS[p[2]]) for p in parts)
    except OverflowError:  # so many digits that it is infinity
        parts = []
    if not parts or "".join(p[0] for p in parts) != text.removeprefix("-"):
        raise UsageError(name, found=repr(value), expected="a time such as 24h, 90s or 1h30m")
    return 0 if text.startswith("-") else total
