"""Times as text for headers and manifests. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

_NS = 10**9


def rfc3339_ns(timestamp_ns: int) -> str:
    """``2024-05-06T07:08:09.123456789Z``, as Go prints times; the plain number of nanoseconds for a time that no
    calendar has."""
    seconds, rest = divmod(timestamp_ns, _NS)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ns)
