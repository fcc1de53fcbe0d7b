"""Fixtures: golden stores, and toy ones whose rows a test chooses."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests import GOLDEN


@pytest.fixture(scope="session")
def golden(tmp_path_factory):
    """``golden("jlog/basic/log")`` unpacks that archive once and gives its folder."""
    root = tmp_path_factory.mktemp("golden")

    def unpack(name: str) -> Path:
        folder = root / name
        if not folder.exists():
            with tarfile.open(GOLDEN / f"{name}.tar.gz") as tar:
                tar.extractall(folder, filter="data")
        return folder

    return unpack


@pytest.fixture
def toy(tmp_path):
    """``toy("name", {"stream": [(number, time, topic, payload), ...]})`` writes a toy store and gives its path."""
    from everlog.testing.toy.store import toy_line

    def write(name: str, streams: dict[str, list[tuple]]) -> str:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        for stream, rows in streams.items():
            (folder / f"{stream}.toy").write_bytes(b"".join(toy_line(*row) for row in rows))
        return str(folder)

    return write
