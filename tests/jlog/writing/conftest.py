"""Fixtures of the tests in this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from everlog.jlog import create
from everlog.jlog.writing import append, append_twin


@pytest.fixture(params=["compiled", "twin"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both appenders."""
    if request.param == "twin":
        monkeypatch.setattr(append, "Appender", append_twin.Appender)
        monkeypatch.setattr(append, "BufferAppender", append_twin.BufferAppender)
    else:
        assert append.Appender is not append_twin.Appender
    return str(request.param)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """An empty one with small segments."""
    create(tmp_path / "j", segment_bytes=4096)
    return tmp_path / "j"
