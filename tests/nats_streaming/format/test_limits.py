"""Limits as the server's configuration writes them."""

from __future__ import annotations

import pytest

from everlog.errors import UsageError
from everlog.nats_streaming.format.limits import parse_duration, parse_size


def test_sizes_and_times_are_read_as_the_server_reads_them() -> None:
    assert [parse_size("x", v) for v in (None, 5, "5", "1K", "1KB", "64MB", "2g", "-3")] == [
        0,
        5,
        5,
        1000,
        1024,
        64 << 20,
        2 * 10**9,
        0,
    ]
    second = 10**9
    assert [parse_duration("x", v) for v in (None, 3, 0.5, "3", "3s", "500ms", "1h30m", "2us", "-4s")] == [
        0,
        3 * second,
        second // 2,
        3 * second,
        3 * second,
        second // 2,
        5400 * second,
        2000,
        0,
    ]
    for bad in ("", "x", "1x", "64 apples"):
        with pytest.raises(UsageError):
            parse_size("x", bad)
        with pytest.raises(UsageError):
            parse_duration("x", bad)
