"""A store that was replaced, cut or purged between two runs of a migration: told, never passed over."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog import jlog
from everlog.aeron import archive
from everlog.core.family.migrating import TargetOptions
from everlog.discovery import FoundStore
from everlog.errors import UsageError
from everlog.spark.jobs.migrate import RecordTarget, move_streams, plan_streams, rehearse
from everlog.testing.made.channel import Channel, make_store
from everlog.testing.toy.store import toy_line

REPLACED = "the store was replaced or truncated"


def move(store: Path | str, target: RecordTarget, family: str, **reading: Any) -> list[dict[str, Any]]:
    """Without Spark, as one task would."""
    moves = plan_streams([FoundStore(str(store), family)], target, **reading)
    return list(move_streams(list(enumerate(moves)), target))


def tried(store: Path | str, target: RecordTarget, family: str) -> list[dict[str, Any]]:
    """A dry run."""
    return rehearse(plan_streams([FoundStore(str(store), family)], target, dry_run=True), target)


def payloads(folder: str) -> list[bytes]:
    with everlog.open_store(folder) as store:
        return [record.payload for record in store.read(store.streams()[0].name)]


def journal(folder: Path, messages: list[bytes], **stream_options: Any) -> Path:
    """Made if need be; the messages come behind what is there."""
    jlog.create(folder, exist_ok=True, **stream_options)
    with jlog.Writer(folder, durability="written") as writer:
        writer.append_many(messages)
    return folder


def to_journals(folder: Path) -> RecordTarget:
    return RecordTarget(kind="jlog", folder=str(folder))


def test_a_journal_that_was_made_anew_is_refused(tmp_path: Path) -> None:
    source, target = journal(tmp_path / "s", [b"old %d" % n for n in range(300)]), to_journals(tmp_path / "to")
    assert move(source, target, "jlog")[0]["moved"] == 300
    shutil.rmtree(source)
    journal(source, [b"new %d" % n for n in range(400)])
    for row in (*tried(source, target, "jlog"), *move(source, target, "jlog")):
        assert REPLACED in row["error"], row
    assert tried(source, target, "jlog")[0]["outcome"] == "would fail"
    assert len(payloads(str(tmp_path / "to" / "journal"))) == 300


def test_another_message_of_the_same_length_and_sum_is_told_by_its_time(tmp_path: Path) -> None:
    source, target = tmp_path / "s", to_journals(tmp_path / "to")
    for hour in (1, 2):
        shutil.rmtree(source, ignore_errors=True)
        jlog.create(source)
        with jlog.Writer(source) as writer:
            writer.append_many([b"alive"] * 5, [hour * 3600 * 10**9] * 5)
        (row,) = move(source, target, "jlog")
    assert "timestamp_ns 7200000000000 at 00000000:00000005; expected timestamp_ns 3600000000000" in row["error"]


def test_a_recording_of_another_session_is_another_one(tmp_path: Path) -> None:
    source, target = tmp_path / "s", to_journals(tmp_path / "to")
    for session_id in (1, 2):
        shutil.rmtree(source, ignore_errors=True)
        with archive.create(source, segment_length=65536) as opened:
            recorder = opened.start_recording("aeron:ipc", 1, term_length=65536, session_id=session_id)
            recorder.append_many([b"alive"] * 5)
            recorder.stop()
        (row,) = move(source, target, "aeron-archive")
    assert "a record with session_id 2 at 256; expected session_id 1" in row["error"]


def test_times_that_an_option_says_may_be_others_in_the_next_run(tmp_path: Path) -> None:
    source, target = tmp_path / "s", to_journals(tmp_path / "to")
    with archive.create(source, segment_length=65536) as opened:
        recorder = opened.start_recording("aeron:ipc", 1, term_length=65536)
        recorder.append_many([b"alive"] * 5, [n * 1000 for n in range(5)])
        recorder.stop()
    for unit in ("us", "ms"):
        options = {"aeron-archive": {"timestamp_from": f"reserved_value:{unit}"}}
        assert move(source, target, "aeron-archive", options=options)[0]["error"] is None
    assert move(source, target, "aeron-archive")[0]["outcome"] == "up to date"


def test_a_journal_that_was_cut_is_refused_also_when_it_has_grown(tmp_path: Path) -> None:
    for size in (100, 9 << 20):  # of the larger one, no index tells the end
        folder = tmp_path / str(size)
        folder.mkdir()
        messages = [b"%04d" % n + bytes(size // 100) for n in range(100)]
        source, target = journal(folder / "s", messages, segment_bytes=64 << 20), to_journals(folder / "to")
        move(source, target, "jlog")
        file = source / "00000000"
        os.truncate(file, file.stat().st_size * 3 // 10)
        assert REPLACED in move(source, target, "jlog")[0]["error"]
        journal(source, [b"more"] * 20)
        assert REPLACED in move(source, target, "jlog")[0]["error"]
        assert REPLACED in tried(source, target, "jlog")[0]["error"]
        journal(source, [b"more"] * 200)
        assert REPLACED in move(source, target, "jlog")[0]["error"]


def test_a_journal_without_messages_is_purged_or_made_anew(tmp_path: Path) -> None:
    source, target = journal(tmp_path / "s", [b"m"] * 5), to_journals(tmp_path / "to")
    move(source, target, "jlog")
    shutil.rmtree(source)
    jlog.create(source)
    assert "no records" in move(source, target, "jlog")[0]["error"]


@pytest.mark.parametrize("is_lost", [False, True])
def test_segments_that_were_purged_before_they_were_moved_are_missed(is_lost: bool, tmp_path: Path) -> None:
    source = journal(tmp_path / "s", [bytes(300)] * 10, segment_bytes=1000)
    target = to_journals(tmp_path / "to")
    (row,) = move(source, target, "jlog")
    journal(source, [bytes(300)] * 10)
    segments = sorted(path for path in source.iterdir() if len(path.name) == 8)
    with everlog.open_store(source) as store:
        addresses = [record.fields["log"] for record in store.read("journal")]
    gone = addresses[9] + 1 + is_lost
    for path in segments[:gone]:
        path.unlink()
    (row,) = move(source, target, "jlog")
    if not is_lost:
        assert (row["error"], row["moved"]) == (None, sum(log >= gone for log in addresses))
        return
    assert "removed before they were moved; failOnDataLoss=false" in row["error"]
    assert row["error"] == tried(source, target, "jlog")[0]["error"]
    (row,) = move(source, target, "jlog", fail_on_data_loss=False)
    assert (row["error"], row["moved"], len(row["losses"])) == (None, sum(log >= gone for log in addresses), 1)
    assert move(source, target, "jlog")[0]["outcome"] == "up to date"


def test_messages_of_a_channel_that_expired_before_they_were_moved_are_missed(tmp_path: Path) -> None:
    store, target = make_store(tmp_path / "stan"), to_journals(tmp_path / "to")
    channel = Channel(store, "x")
    for number in range(15):
        if number and number % 5 == 0:
            channel.roll()
        channel.append(b"%d" % number)
        if number in (4, 9):
            move(store, target, "nats-streaming")
    for suffix in ("dat", "idx"):  # all of it was moved
        (store / "x" / f"msgs.1.{suffix}").unlink()
    assert move(store, target, "nats-streaming")[0]["moved"] == 5
    for number in range(15, 25):
        if number % 5 == 0:
            channel.roll()
        channel.append(b"%d" % number)
    for part in (2, 3, 4):
        for suffix in ("dat", "idx"):
            (store / "x" / f"msgs.{part}.{suffix}").unlink()
    (row,) = move(store, target, "nats-streaming")
    assert "the first record at 21; expected it at 16 or before" in row["error"]
    (row,) = move(store, target, "nats-streaming", fail_on_data_loss=False)
    assert (row["moved"], len(row["losses"])) == (5, 1)
    assert payloads(row["target"]) == [b"%d" % n for n in (*range(15), *range(20, 25))]


def test_a_recording_that_was_purged_up_to_what_was_moved_goes_on(tmp_path: Path) -> None:
    source, target = tmp_path / "s", to_journals(tmp_path / "to")
    with archive.create(source, segment_length=65536) as opened:
        recorder = opened.start_recording("aeron:ipc", 1, term_length=65536)
        recorder.append_many([bytes(992)] * 64)  # a frame of 1,024 bytes each: a whole segment
        recorder.stop()
    assert move(source, target, "aeron-archive")[0]["moved"] == 64
    with archive.open_archive(source, segment_length=65536) as opened:
        recorder = opened.extend_recording(0)
        recorder.append_many([bytes(992)] * 100)
        recorder.stop()
        opened.purge_segments(0, 65536)
    (row,) = move(source, target, "aeron-archive")
    assert (row["error"], row["moved"], row["losses"]) == (None, 100, [])
    with archive.open_archive(source, segment_length=65536) as opened:
        recorder = opened.extend_recording(0)
        recorder.append_many([bytes(992)] * 100)
        recorder.stop()
        opened.purge_segments(0, 3 * 65536)
    (row,) = move(source, target, "aeron-archive")
    assert "removed before they were moved" in row["error"]


def test_a_note_of_before_that_does_not_tell_the_last_record_is_read(toy: Callable[..., str], tmp_path: Path) -> None:
    source = toy("from", {"s": [(n, n, "t", b"%d" % n) for n in range(1, 6)]})
    target = to_journals(tmp_path / "to")
    move(source, target, "toy")
    note = tmp_path / "to.everlog-migrate" / "s.json"
    told = json.loads(note.read_text())
    note.write_text(json.dumps({name: told[name] for name in told if name not in ("identity", "following")}))
    with open(Path(source) / "s.toy", "ab") as file:
        file.write(toy_line(6, 6, "t", b"six"))
    (row,) = move(source, target, "toy")
    assert (row["error"], row["moved"], row["total"]) == (None, 1, 6)
    assert json.loads(note.read_text())["identity"]["length"] == 3


def test_a_target_whose_last_segment_is_large_is_found_again(tmp_path: Path) -> None:
    source = journal(tmp_path / "s", [b"%03d" % n + bytes(100_000) for n in range(100)])
    wide = RecordTarget(kind="jlog", folder=str(tmp_path / "to"), options=TargetOptions(segment_bytes=64 << 20))
    assert move(source, wide, "jlog")[0]["moved"] == 100
    (again,) = move(source, wide, "jlog")
    assert (again["error"], again["outcome"]) == (None, "up to date")
    shutil.copytree(tmp_path / "to" / "journal", tmp_path / "used" / "journal")
    small = journal(tmp_path / "small", [b"behind"] * 3)
    (row,) = move(small, to_journals(tmp_path / "used"), "jlog")
    assert (row["error"], row["moved"]) == (None, 3)
    assert payloads(row["target"])[100:] == [b"behind"] * 3


def test_what_waits_in_a_journals_buffer_is_not_moved(tmp_path: Path) -> None:
    source = journal(tmp_path / "s", [b"m"] * 5)
    with pytest.raises(UsageError, match="no address before the flush"):
        move(source, to_journals(tmp_path / "to"), "jlog", options={"jlog": {"pre_commit": True}})
