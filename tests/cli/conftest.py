"""A small store for the tests of the command line, and a way to run commands in this process."""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from everlog.cli.app import run
from everlog.testing.toy.store import toy_line


@dataclass
class Result:
    """What a command did."""

    code: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        return self.stdout.decode()

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stdout.splitlines()]


Everlog = Callable[..., Result]


@pytest.fixture
def everlog(monkeypatch: pytest.MonkeyPatch) -> Everlog:
    """Runs one command line."""

    def call(*arguments: object) -> Result:
        out, err = io.BytesIO(), io.StringIO()
        text = io.TextIOWrapper(out, encoding="utf-8", write_through=True)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", text)
            patch.setattr(sys, "stderr", err)
            code = run([str(argument) for argument in arguments])
            text.flush()
        return Result(code, out.getvalue(), err.getvalue())

    return call


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """Streams: ``a`` (3 records, one damaged line between), ``b`` (one record), ``deleted-c``."""
    folder = tmp_path / "store"
    folder.mkdir()
    (folder / "a.toy").write_bytes(
        toy_line(1, 1_700_000_000_123_456_789, "x", b"one")
        + b"damaged\n"
        + toy_line(2, None, None, b"\xff\x00two")
        + toy_line(5, 1_700_000_001_000_000_000, 'q"\\\x1b', b"three\n")
    )
    (folder / "b.toy").write_bytes(toy_line(7, 0, "y", b""))
    (folder / "deleted-c.toy").write_bytes(toy_line(1, 0, "y", b"gone"))
    return folder


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    """One stream of five records, nothing wrong."""
    folder = tmp_path / "clean"
    folder.mkdir()
    (folder / "s.toy").write_bytes(b"".join(toy_line(n, n * 10**9, "t", b"%d" % n) for n in range(10, 15)))
    return folder


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[int, list[str], str]]]:
    """Runs one command line in the zone of the golden output."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()

    def run_command(*arguments: object) -> tuple[int, list[str], str]:
        out, err = io.BytesIO(), io.StringIO()
        text = io.TextIOWrapper(out, encoding="utf-8", write_through=True)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", text)
            patch.setattr(sys, "stderr", err)
            code = run([str(argument) for argument in arguments])
            text.flush()
        return code, out.getvalue().decode().split("\n"), err.getvalue()

    yield run_command
    monkeypatch.undo()
    time.tzset()
