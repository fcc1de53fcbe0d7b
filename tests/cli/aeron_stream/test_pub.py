"""How ``everlog aeron pub`` cuts its input."""

from __future__ import annotations

import io

import pytest

from everlog.cli.aeron_stream.pub import blocks, lines
from everlog.errors import UsageError


class Endless(io.BytesIO):
    """Three lines, then bytes of one that never ends."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = 0

    def read1(self, size: int | None = -1, /) -> bytes:
        self.taken += 1
        return b"one\ntwo\n" + b"x" * 10 if self.taken == 1 else b"x" * 10


def test_blocks_are_whole_but_for_the_last_one() -> None:
    data = bytes(range(256)) * 1000
    for length in (1, 7, 65536, 100_000):
        found = [block for part in blocks(io.BytesIO(data), length) for block in part]
        assert b"".join(found) == data
        assert {len(block) for block in found[:-1]} <= {length}
    assert list(blocks(io.BytesIO(b""), 3)) == []


def test_a_line_without_an_end_is_refused_before_it_fills_memory() -> None:
    stdin = Endless()
    found = lines(stdin, b"\n", 30)
    assert next(found) == [b"one", b"two"]
    with pytest.raises(UsageError, match="at most 30 bytes"):
        next(found)
    assert stdin.taken == 4
    assert list(lines(io.BytesIO(b"x" * 30 + b"\r\n" + b"y" * 30), b"\r\n", 30)) == [[b"x" * 30], [b"y" * 30]]
