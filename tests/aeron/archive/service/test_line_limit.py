"""How many lines pass."""

from __future__ import annotations

from everlog.aeron.archive.service.line_limit import LineLimit


def test_lines_beyond_the_limit_are_counted() -> None:
    limit = LineLimit(2, 10.0)
    assert [limit.take(at) for at in (0.0, 1.0, 2.0, 9.9)] == [0, 0, None, None]
    assert [limit.take(at) for at in (10.0, 10.0, 10.0)] == [2, 0, None]
    assert limit.take(25.0) == 1
