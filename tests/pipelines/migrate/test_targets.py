"""What targets of a migration take, and that what they don't is refused before anything is made."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everlog.core.family.migrating import Row, TargetOptions
from everlog.discovery import FoundStore
from everlog.errors import UsageError
from everlog.jlog.migrating import JournalTarget
from everlog.spark.jobs.migrate import RecordTarget, move_streams, plan_streams


def move(store: str, target: RecordTarget) -> list[dict[str, Any]]:
    """Without Spark, as one task would."""
    moves = plan_streams([FoundStore(store, "toy")], target)
    return list(move_streams(list(enumerate(moves)), target))


@pytest.mark.parametrize("kind", ["jlog", "aeron-archive"])
def test_a_file_is_no_target_and_is_not_waited_for(
    kind: str, toy: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    source = toy("from", {"s": [(1, 1, "t", b"x")]})
    (tmp_path / "file").write_text("mine")
    before = sorted(path.name for path in tmp_path.iterdir())
    for target in (
        RecordTarget(kind=kind, folder=str(tmp_path / "file")),
        RecordTarget(kind=kind, folder=str(tmp_path / "to"), notes=str(tmp_path / "file")),
    ):
        with pytest.raises(UsageError, match="is a file; give a folder"):
            move(source, target)
    below = RecordTarget(kind=kind, folder=str(tmp_path / "file" / "below"), notes=str(tmp_path / "notes"))
    (row,) = move(source, below)
    assert f"{tmp_path / 'file'}" in row["error"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*before, "notes"])
    assert (tmp_path / "file").read_text() == "mine"
    assert not waits


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("jlog", {"segment_bytes": 0}),
        ("jlog", {"segment_bytes": -5}),
        ("jlog", {"segment_bytes": 1 << 32}),
        ("aeron-archive", {"segment_bytes": -5}),
        ("aeron-archive", {"segment_bytes": 100_000}),
        ("aeron-archive", {"term_length": 0}),
        ("aeron-archive", {"term_length": 1000}),
        ("aeron-archive", {"term_length": 1 << 31}),
    ],
)
def test_lengths_that_no_target_has_are_refused(kind: str, wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=str(next(iter(wrong.values())))):
        RecordTarget(kind=kind, folder="to", options=TargetOptions(**wrong))


def test_a_message_that_is_too_long_is_moved_where_the_error_says(toy: Callable[..., str], tmp_path: Path) -> None:
    source = toy("from", {"s": [(1, 1, "t", b"small"), (2, 2, "t", bytes(10_000))]})
    small = TargetOptions(term_length=1 << 16, segment_bytes=1 << 17)
    (row,) = move(source, RecordTarget(kind="aeron-archive", folder=str(tmp_path / "to"), options=small))
    assert f"{source}: stream s: record 2 has 10000 bytes; a message of this recording has at most 8192" in row["error"]
    told = re.search(r"move into a new target with --term-length (\d+)", row["error"])
    assert told is not None
    large = TargetOptions(term_length=int(told[1]), segment_bytes=1 << 17)
    (row,) = move(source, RecordTarget(kind="aeron-archive", folder=str(tmp_path / "new"), options=large))
    assert (told[1], row["error"], row["moved"]) == ("131072", None, 2)


@pytest.mark.parametrize("time_ns", [-5, 2**32 * 10**9])
def test_a_time_that_a_journal_has_no_room_for_names_the_record(
    time_ns: int, toy: Callable[..., str], tmp_path: Path
) -> None:
    source = toy("from", {"s": [(1, 7, "t", b"x"), (9, time_ns, "t", b"y"), (10, 2**32 * 10**9 - 1, "t", b"z")]})
    (row,) = move(source, RecordTarget(kind="jlog", folder=str(tmp_path / "to")))
    assert f"{source}: stream s: record 9 has a time of {time_ns} ns" in row["error"]
    note = tmp_path / "to.everlog-migrate" / "s.json"
    assert not note.exists() or json.loads(note.read_text())["pending"] == []
    (row,) = move(source, RecordTarget(kind="aeron-archive", folder=str(tmp_path / "a")))
    assert (row["error"], row["moved"]) == (None, 3)


def test_what_a_killed_run_left_of_a_message_is_no_damage_to_the_next_run(tmp_path: Path) -> None:
    rows = [Row(b"%d" % number * 40, number, None) for number in range(5)]
    killed = JournalTarget(str(tmp_path / "to"), TargetOptions())
    killed.append(rows)
    killed.close()
    segment = tmp_path / "to" / "00000000"
    whole = segment.read_bytes()
    segment.write_bytes(whole + whole[:30])  # a write that was cut off
    target = JournalTarget(str(tmp_path / "to"), TargetOptions())
    assert [found.length for found in target.after(0)] == [40] * 5
    target.append(rows[:1])
    assert [found.length for found in target.after(5)] == [40] * 2
    target.close()
