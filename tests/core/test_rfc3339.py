"""Times as text."""

from __future__ import annotations

from everlog.core.rfc3339 import rfc3339


def test_times_are_told_with_nanoseconds() -> None:
    assert rfc3339(1_700_000_000_123_456_789) == "2023-11-14T22:13:20.123456789Z"
    assert rfc3339(-1) == "1969-12-31T23:59:59.999999999Z"
    assert rfc3339(1 << 62) == "2116-02-20T23:53:38.427387904Z"
    assert rfc3339(10**30) is None
