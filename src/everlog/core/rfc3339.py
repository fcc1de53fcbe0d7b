"""Formats times as RFC 3339, in UTC with nanoseconds."""

from __future__ import annotations

from datetime import UTC, datetime

from everlog.time_units import NS_PER_S


def rfc3339(timestamp_ns: int) -> str | None:
    """``2024-05-06T07:08:09.123456789Z``, as Go prints times; ``None`` for a time outside the calendar."""
    seconds, rest = divmod(timestamp_ns, NS_PER_S)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
    except (OverflowError, ValueError, OSError):
        return None
