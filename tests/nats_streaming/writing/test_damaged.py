"""Stores that the real server left, and were then damaged: a writer goes on after the last message, or refuses and
changes no message; at most it has rebuilt the index of another slice."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import tests
from everlog import nats_streaming, open_store
from everlog.errors import CorruptData

BROKEN = sorted(file.name.removesuffix(".tar.gz") for file in (tests.GOLDEN / "nats_streaming/broken").glob("*.tar.gz"))


def contents(path: Path, channel: str) -> dict[int, bytes]:
    with open_store(path, family="nats-streaming") as store:
        return {
            record.fields["sequence"]: record.payload for record in store.read(channel, on_fault=lambda fault: None)
        }


@pytest.mark.parametrize("name", BROKEN)
def test_what_could_be_read_can_be_read_after_a_writer_went_on_or_refused(
    golden: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    path = tmp_path / "store"
    shutil.copytree(golden(f"broken/{name}"), path)
    before = contents(path, "foo")
    files = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    try:
        with nats_streaming.open_channel(path, "foo") as writer:
            sequence = writer.append(b"ours")
    except CorruptData:
        assert contents(path, "foo") == before
        changed = {file for file, data in files.items() if not file.exists() or file.read_bytes() != data}
        assert {file.suffix for file in changed} <= {".idx"}
        return
    after = contents(path, "foo")
    assert after.pop(sequence) == b"ours"
    # Whole records that no index counted are counted now.
    assert before.items() <= after.items()
    assert sequence > max(after, default=0)
