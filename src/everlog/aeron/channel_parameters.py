"""Values of a channel's parameters; errors name the parameter. Source: Aeron, CommonContext; Agrona, SystemUtil
(sizes and durations)."""

from __future__ import annotations

import re

from everlog.aeron.channel_uri import ChannelUri, InvalidChannel

_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,19})([kmg]?)", re.ASCII | re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30}
_DURATION = re.compile(r"([0-9]{1,19})(ns|us|ms|s|)", re.ASCII | re.IGNORECASE)
_NANOSECONDS = {"": 1, "ns": 1, "us": 1000, "ms": 1_000_000, "s": 1_000_000_000}
INT32 = range(-(1 << 31), 1 << 31)
INT64 = range(-(1 << 63), 1 << 63)
MAX_INT32, MAX_INT64 = INT32[-1], INT64[-1]


def wrong(parameter: str, found: str, expected: str) -> InvalidChannel:
    """An error for a parameter's value."""
    return InvalidChannel(f"channel parameter {parameter}", found=found, expected=expected)


def parse_size(parameter: str, text: str, most: int = MAX_INT64) -> int:
    """Bytes: digits, and perhaps k, m or g (1024, its square, its cube)."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise wrong(parameter, repr(text), "bytes, with k, m or g for more")
    size = int(match[1]) << _UNITS[match[2].lower()]
    if size > most:
        raise wrong(parameter, repr(text), f"{most} bytes at most")
    return size


def parse_duration_ns(parameter: str, text: str) -> int:
    """Nanoseconds: digits, and perhaps ns, us, ms or s."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise wrong(parameter, repr(text), "a time with ns, us, ms or s")
    # Java's TimeUnit stops at the largest long; a time that long is for ever anyway.
    return min(int(match[1]) * _NANOSECONDS[match[2].lower()], MAX_INT64)


def parse_number(parameter: str, text: str, within: range = INT64) -> int:
    """A decimal number."""
    if not _NUMBER.fullmatch(text) or int(text) not in within:
        raise wrong(parameter, repr(text), f"a number from {within[0]} to {within[-1]}")
    return int(text)


def duration_ns(uri: ChannelUri, parameter: str) -> int | None:
    """A parameter's nanoseconds; ``None`` without it. Raises :class:`InvalidChannel`."""
    text = uri.get(parameter)
    return None if text is None else parse_duration_ns(parameter, text)


def int64(uri: ChannelUri, parameter: str) -> int | None:
    """A parameter's number; ``None`` without it. Raises :class:`InvalidChannel`."""
    text = uri.get(parameter)
    return None if text is None else parse_number(parameter, text, INT64)
