"""Counts in messages."""

from __future__ import annotations

from everlog.core.counting import counted


def test_only_one_is_singular() -> None:
    texts = [counted(count, "fault") for count in (0, 1, 2)]
    assert texts == ["0 faults", "1 fault", "2 faults"]
