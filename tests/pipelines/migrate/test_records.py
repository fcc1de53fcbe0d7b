"""Records of all families moved into journals and archives: each once, in order, with its time, whatever breaks off."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import everlog
import tests
from everlog.aeron.archive.migrating import RecordingTarget
from everlog.core.family.migrating import Row, TargetOptions
from everlog.discovery import FoundStore
from everlog.errors import CorruptData, UnknownStream, UsageError
from everlog.jlog.migrating import JournalTarget
from everlog.pipelines.migrate.notes import Note
from everlog.spark.jobs.migrate import RecordTarget, move_streams, plan_streams, rehearse
from everlog.testing.series import Series

GOLDEN = tests.GOLDEN
KILLS = int(os.environ.get("EVERLOG_MIGRATE_KILLS", "2"))
KINDS = ("jlog", "aeron-archive")
SMALL = TargetOptions(term_length=1 << 16, segment_bytes=1 << 16)


def truth(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((GOLDEN / "nats_streaming" / f"{name}.truth.json").read_text(encoding="utf-8"))
    return loaded["channels"]


def move(store: Path | str, target: RecordTarget, family: str, **reading: Any) -> list[dict[str, Any]]:
    """Without Spark, as one task would."""
    moves = plan_streams([FoundStore(str(store), family)], target, **reading)
    return list(move_streams(list(enumerate(moves)), target))


def rows_of(place: str) -> list[tuple[str, str, int | None, int | None]]:
    """Address, CRC-32, time and reserved value of what a target (``FOLDER`` or ``FOLDER:RECORDING``) holds."""
    folder, _, stream = place.partition(":")
    with everlog.open_store(folder) as store:
        name = stream or store.streams()[0].name
        return [
            (r.address, f"{zlib.crc32(r.payload):08x}", r.timestamp_ns, r.fields.get("reserved_value"))
            for r in store.read(name)
        ]


def manifest_of(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(row["manifest"]).read_text().splitlines()]


def test_channels_become_journals_with_their_messages_times(golden: Callable[[str], Path], tmp_path: Path) -> None:
    store = golden("nats_streaming/basic_sigterm") / "basic_sigterm"
    rows = move(store, RecordTarget(kind="jlog", folder=str(tmp_path / "to")), "nats-streaming")
    expected = truth("basic_sigterm")
    assert {row["stream"] for row in rows} == set(expected)
    for row in rows:
        messages = expected[row["stream"]]["messages"]
        found = rows_of(row["target"])
        # A journal's times are microseconds.
        assert [(crc, ns) for _, crc, ns, _ in found] == [
            (m["data_crc32"], m["timestamp"] // 1000 * 1000) for m in messages
        ]
        told = manifest_of(row)
        assert [(t["address"], t["new_address"], t["timestamp_ns"], t["crc32"], t["subject"]) for t in told] == [
            (str(m["seq"]), address, m["timestamp"], crc, row["stream"])
            for m, (address, crc, _, _) in zip(messages, found, strict=True)
        ]
        assert (row["moved"], row["total"], row["outcome"]) == (len(messages), len(messages), "moved")


def test_channels_become_recordings_with_times_as_reserved_values(
    golden: Callable[[str], Path], tmp_path: Path
) -> None:
    store = golden("nats_streaming/basic_sigterm") / "basic_sigterm"
    rows = move(store, RecordTarget(kind="aeron-archive", folder=str(tmp_path / "to")), "nats-streaming")
    expected = truth("basic_sigterm")
    for row in rows:
        messages = expected[row["stream"]]["messages"]
        found = rows_of(row["target"])
        assert [(crc, value) for _, crc, _, value in found] == [(m["data_crc32"], m["timestamp"]) for m in messages]
        assert [t["new_address"] for t in manifest_of(row)] == [address for address, *_ in found]
    with everlog.open_store(tmp_path / "to") as archive:
        infos = archive.streams()
        assert sorted(i.details["source_identity"] for i in infos) == sorted(
            f"nats-streaming:{c}" for c in map(quote, expected)
        )
        assert all(i.details["stop_position"] is not None for i in infos)
        assert archive.verify().ok


def test_an_archives_reserved_values_are_kept_and_run_again_only_the_rest_is_moved(tmp_path: Path) -> None:
    from everlog.aeron import archive

    with archive.create(tmp_path / "from", segment_length=1 << 17) as source:
        recorder = source.start_recording("aeron:ipc", 7, term_length=1 << 16)
        recorder.append_many([bytes([n]) * n * 30 for n in range(200)], [n - 100 for n in range(200)])
        recorder.stop()
    for kind in KINDS:
        target = RecordTarget(kind=kind, folder=str(tmp_path / kind), options=SMALL)
        (row,) = move(tmp_path / "from", target, "aeron-archive")
        assert row["moved"] == 200
        assert [t["reserved_value"] for t in manifest_of(row)] == [n - 100 for n in range(200)]
        (again,) = move(tmp_path / "from", target, "aeron-archive")
        assert (again["outcome"], again["moved"], again["total"]) == ("up to date", 0, 200)
    with archive.open_archive(tmp_path / "from", segment_length=1 << 17) as source:
        recorder = source.extend_recording(0)
        recorder.append_many([b"more %d" % n for n in range(5)], [200 + n for n in range(5)])
    for kind in KINDS:
        target = RecordTarget(kind=kind, folder=str(tmp_path / kind), options=SMALL)
        (row,) = move(tmp_path / "from", target, "aeron-archive")
        assert (row["moved"], row["total"]) == (5, 205)
        found = rows_of(row["target"])
        sent = [bytes([n]) * n * 30 for n in range(200)] + [b"more %d" % n for n in range(5)]
        assert [crc for _, crc, _, _ in found] == [f"{zlib.crc32(p):08x}" for p in sent]
        if kind == "aeron-archive":
            assert [value for *_, value in found] == [*range(-100, 100), *range(200, 205)]


def test_two_stores_with_the_same_stream_get_two_places(toy: Callable[..., str], tmp_path: Path) -> None:
    one, two = (toy(name, {"s": [(n, n, "t", name.encode() * n) for n in range(1, 9)]}) for name in ("one", "two"))
    target = RecordTarget(kind="jlog", folder=str(tmp_path / "to"))
    (first,) = move(one, target, "toy")
    (second,) = move(two, target, "toy")
    assert first["target"] != second["target"]
    for name, row in (("one", first), ("two", second)):
        assert [crc for _, crc, _, _ in rows_of(row["target"])] == [
            f"{zlib.crc32(name.encode() * n):08x}" for n in range(1, 9)
        ]
    assert move(one, target, "toy")[0]["outcome"] == "up to date"


def test_names_of_streams_can_not_leave_the_folder(toy: Callable[..., str], tmp_path: Path) -> None:
    from everlog.pipelines.migrate.notes import assign

    names = ["..", ".", "a/b", "a%2Fb", "x" * 300, "ä"]
    places = assign(str(tmp_path / "n"), "jlog", [("/s", "toy", name) for name in names])
    assert [p.name for p in places][:4] == ["%2E.", "%2E", "a%2Fb", "a%252Fb"]
    assert len({p.name for p in places}) == len(names)
    assert all(len(p.name) < 120 and "/" not in p.name for p in places)
    assert assign(str(tmp_path / "n"), "jlog", [("/s", "toy", name) for name in reversed(names)]) == places[::-1]


def test_a_stream_may_have_the_name_of_the_notes_own_file(toy: Callable[..., str], tmp_path: Path) -> None:
    source = toy("from", {"moves": numbered(5), "s": numbered(3)})
    target = RecordTarget(kind="jlog", folder=str(tmp_path / "to"))
    for outcome in ("moved", "up to date"):
        rows = move(source, target, "toy")
        assert [(r["stream"], r["outcome"], r["total"]) for r in rows] == [("moves", outcome, 5), ("s", outcome, 3)]
    notes = tmp_path / "to.everlog-migrate" / "moves.json"
    # As it was noted before this name was taken.
    notes.write_text(notes.read_text().replace(Path(rows[0]["target"]).name, "moves"))
    assert move(source, RecordTarget(kind="jlog", folder=str(tmp_path / "to")), "toy")[0]["error"] is None


class Killed(BaseException):
    pass


def numbered(count: int) -> list[tuple[int, int, str, bytes]]:
    return [(n, 10**15 * n, "t", b"record %d " % n * (n % 5)) for n in range(1, count + 1)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_migration_that_breaks_off_anywhere_is_completed_by_the_next_one(
    kind: str, toy: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, series: Series
) -> None:
    sent = numbered(15)
    source = toy("from", {"s": sent})
    monkeypatch.setattr("everlog.pipelines.migrate.moving.BATCH_ROWS", 10)
    monkeypatch.setattr("everlog.aeron.archive.recording.options.LIVENESS_TIMEOUT_MS", 1)
    cls: Any = JournalTarget if kind == "jlog" else RecordingTarget
    append, publish, accept = cls.append, Note.publish, Note.accept
    steps = 0
    for step in series.numbers():
        target = RecordTarget(kind=kind, folder=str(tmp_path / f"to{step}"), options=SMALL)
        left = step

        def at(part: Callable[[], None]) -> None:
            """Before it, within it, after it."""
            nonlocal left
            for when in ("before", "within", "after"):
                if left == 0:
                    if when == "within":
                        part()
                    left = -1
                    raise Killed
                left -= 1
                if when == "within":
                    break

        def broken_append(self: Any, rows: Sequence[Row]) -> None:
            at(lambda: append(self, rows[: len(rows) // 2]))
            append(self, rows)
            at(lambda: None)

        def broken_publish(self: Any) -> None:
            at(lambda: None)
            publish(self)
            at(lambda: None)

        def broken_accept(self: Any, *arguments: Any) -> None:
            accept(self, *arguments)
            at(lambda: None)

        with monkeypatch.context() as patch:
            patch.setattr(cls, "append", broken_append)
            patch.setattr(Note, "publish", broken_publish)
            patch.setattr(Note, "accept", broken_accept)
            try:
                move(source, target, "toy")
                is_whole = True
            except Killed:
                is_whole = False
        (row,) = move(source, target, "toy")
        assert row["error"] is None, row
        found = rows_of(row["target"])
        assert [crc for _, crc, _, _ in found] == [f"{zlib.crc32(p):08x}" for *_, p in sent], step
        told = manifest_of(row)
        assert [t["address"] for t in told] == [str(n) for n, *_ in sent], step
        assert [t["new_address"] for t in told] == [address for address, *_ in found], step
        assert row["total"] == 15
        steps = step
        if is_whole:
            break
    assert steps > 14


@pytest.mark.parametrize("kind", KINDS)
def test_who_writes_into_the_target_meanwhile_is_found_out(
    kind: str, toy: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = toy("from", {"s": numbered(20)})
    target = RecordTarget(kind=kind, folder=str(tmp_path / "to"), options=SMALL)
    cls: Any = JournalTarget if kind == "jlog" else RecordingTarget
    append = cls.append

    def with_another(self: Any, rows: Sequence[Row]) -> None:
        append(self, [*rows[:5], Row(b"another's", None, None)])
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(cls, "append", with_another)
        with pytest.raises(Killed):
            move(source, target, "toy")
    (row,) = move(source, target, "toy")
    assert row["outcome"] == "failed"
    assert "record that this migration did not write" in row["error"]


def test_a_target_that_lost_records_is_refused(toy: Callable[..., str], tmp_path: Path) -> None:
    import shutil

    source = toy("from", {"s": numbered(20)})
    target = RecordTarget(kind="jlog", folder=str(tmp_path / "to"))
    move(source, target, "toy")
    shutil.rmtree(tmp_path / "to")
    (row,) = move(source, target, "toy")
    assert "the target has lost records" in row["error"]


def test_what_others_append_afterwards_stays_and_the_rest_comes_behind_it(
    toy: Callable[..., str], tmp_path: Path
) -> None:
    from everlog import jlog

    target = RecordTarget(kind="jlog", folder=str(tmp_path / "to"))
    source = toy("from", {"s": numbered(5)})
    (row,) = move(source, target, "toy")
    with jlog.Writer(row["target"]) as writer:
        writer.append(b"theirs")
    from everlog.testing.toy.store import toy_line

    with open(Path(source) / "s.toy", "ab") as file:
        file.write(toy_line(6, 6, "t", b"six"))
    (later,) = move(source, target, "toy")
    assert (later["moved"], later["total"]) == (1, 6)
    payloads = [p for *_, p in numbered(5)] + [b"theirs", b"six"]
    assert [crc for _, crc, _, _ in rows_of(row["target"])] == [f"{zlib.crc32(p):08x}" for p in payloads]


def test_damage_is_an_error_or_left_out_and_counted(golden: Callable[[str], Path], tmp_path: Path) -> None:
    store = golden("nats_streaming/broken/msgs_bad_crc_mid") / "broken" / "msgs_bad_crc_mid"
    target = RecordTarget(kind="jlog", folder=str(tmp_path / "to"))
    (row,) = move(store, target, "nats-streaming", streams=["foo"])
    assert f"{store}/foo/msgs.2.dat" in row["error"]
    assert "onFault=skip moves the rest" in row["error"]
    (row,) = move(store, target, "nats-streaming", streams=["foo"], on_fault="skip")
    whole = truth("basic_sigterm")["foo"]["messages"]
    assert [crc for _, crc, _, _ in rows_of(row["target"])] == [m["data_crc32"] for m in whole if m["seq"] != 13]
    assert (row["faults"], row["total"]) == (1, 36)


def test_encrypted_messages_are_moved_as_they_are_without_a_key_and_a_warning_says_so(
    golden: Callable[[str], Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = golden("nats_streaming/encrypted_AES") / "encrypted_AES"
    move(store, RecordTarget(kind="jlog", folder=str(tmp_path / "sealed")), "nats-streaming")
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(f"{store}: enc.ch: 6 of 6 payloads that look encrypted, and no key was given")
    caplog.clear()
    key = {"nats-streaming": {"encryption_key": "mykey"}}
    move(store, RecordTarget(kind="jlog", folder=str(tmp_path / "open")), "nats-streaming", options=key)
    assert not caplog.records


def test_wrong_wishes_and_damaged_notes(toy: Callable[..., str], tmp_path: Path) -> None:
    source = toy("from", {"s": numbered(5), "big": [(1, 1, "t", bytes(9000))]})
    found = [FoundStore(source, "toy")]
    with pytest.raises(UsageError, match="inside the store"):
        plan_streams(found, RecordTarget(kind="jlog", folder=source + "/to"))
    target = RecordTarget(kind="jlog", folder=str(tmp_path / "to"))
    with pytest.raises(UnknownStream):
        plan_streams(found, target, streams=["nothing"])
    assert not (tmp_path / "to.everlog-migrate").exists()
    rows = rehearse(plan_streams(found, target, dry_run=True), target)
    assert [(r["moved"], r["outcome"]) for r in rows] == [(1, "would move"), (5, "would move")]
    assert not (tmp_path / "to.everlog-migrate").exists()
    assert not (tmp_path / "to").exists()
    small = RecordTarget(kind="aeron-archive", folder=str(tmp_path / "a"), options=SMALL)
    (row,) = move(source, small, "toy", streams=["big"])
    assert "9000 bytes; a message of this recording has at most 8192" in row["error"]
    move(source, target, "toy")
    with pytest.raises(CorruptData, match="expected aeron-archive"):
        plan_streams(found, RecordTarget(kind="aeron-archive", folder=str(tmp_path / "to")))
    path = tmp_path / "to.everlog-migrate" / "s.json"
    note = json.loads(path.read_text())
    for wrong in ("{", "[]", json.dumps(note | {"end": "x"}), json.dumps(note | {"manifest_bytes": 1.5})):
        path.write_text(wrong)
        assert "expected a migration's note" in move(source, target, "toy", streams=["s"])[0]["error"]


def test_a_manifest_can_be_parquet(toy: Callable[..., str], tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    source = toy("from", {"s": numbered(5)})
    (row,) = move(source, RecordTarget(kind="jlog", folder=str(tmp_path / "to"), manifest="parquet"), "toy")
    table = pq.read_table(row["manifest"])
    assert table["address"].to_pylist() == ["1", "2", "3", "4", "5"]
    assert table["new_address"].to_pylist() == [address for address, *_ in rows_of(row["target"])]


PROGRAM = """
import sys
from everlog.discovery import FoundStore
from everlog.testing.series import Series
from everlog.spark.jobs import migrate
from everlog.pipelines.migrate import moving as migrate_moving
migrate_moving.BATCH_ROWS = 100
target = migrate.RecordTarget(kind=sys.argv[2], folder=sys.argv[3])
moves = migrate.plan_streams([FoundStore(sys.argv[1], "jlog")], target)
for row in migrate.move_streams(list(enumerate(moves)), target):
    sys.exit(row["error"])
"""


@pytest.mark.parametrize("kind", ["jlog", pytest.param("aeron-archive", marks=pytest.mark.long)])
def test_each_record_is_moved_once_however_often_the_migration_is_killed(kind: str, tmp_path: Path) -> None:
    from everlog import jlog

    kills = KILLS if kind == "jlog" else max(1, KILLS // 2)  # an archive keeps a dead owner's folder for 10 s
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    count = 2000 + 1000 * kills
    payloads = [b"record %d " % n * (n % 9) for n in range(count)]
    jlog.create(tmp_path / "from", segment_bytes=100_000)
    with jlog.Writer(tmp_path / "from") as writer:
        writer.append_many(payloads, [10**18 + n * 1000 for n in range(count)])
    arguments = [str(tmp_path / "from"), kind, str(tmp_path / "to")]
    manifest = tmp_path / "to.everlog-migrate" / "journal.jsonl"
    hits = 0
    for at in sorted(chance.sample(range(count), kills)):
        running = subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments])
        # About 120 bytes of the manifest for each record.
        while running.poll() is None and (not manifest.exists() or manifest.stat().st_size < at * 120):
            time.sleep(0.001)
        hits += running.poll() is None
        running.send_signal(signal.SIGKILL)
        running.wait()
    assert subprocess.run([sys.executable, "-c", PROGRAM, *arguments], check=False).returncode == 0, seed
    assert hits, seed
    target = RecordTarget(kind=kind, folder=str(tmp_path / "to"))
    (row,) = move(tmp_path / "from", target, "jlog")
    assert (row["outcome"], row["total"]) == ("up to date", count), (row, seed)
    found = rows_of(row["target"])
    assert [crc for _, crc, _, _ in found] == [f"{zlib.crc32(p):08x}" for p in payloads], seed
    if kind == "jlog":
        assert [ns for _, _, ns, _ in found] == [10**18 + n * 1000 for n in range(count)], seed
    assert [t["new_address"] for t in manifest_of(row)] == [address for address, *_ in found], seed
