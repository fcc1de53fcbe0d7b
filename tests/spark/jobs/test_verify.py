"""``everlog spark verify``: many stores at once, large ones in parts."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import pytest

from everlog import jlog
from everlog.aeron import archive
from everlog.cli.app import run
from everlog.discovery import FoundStore, find_stores
from everlog.pipelines.balance import balance, task_count
from everlog.spark import verify
from everlog.spark.jobs.verify import StoreToVerify, check, plan, verify_stores
from everlog.stores import open_store


def recorded(path: Path, messages: int = 700) -> Path:
    with (
        archive.create(path, segment_length=65536) as store,
        store.start_recording("aeron:ipc", 1, term_length=65536) as recorder,
    ):
        for number in range(messages):
            recorder.append(b"%d" % number + b"x" * 700)
    return path


def journal(path: Path, messages: int = 90) -> Path:
    jlog.create(path)
    with jlog.Writer(path) as writer:
        for number in range(messages):
            writer.append(b"%d" % number)
    return path


def texts(faults: list[dict]) -> list[str]:
    return sorted(json.dumps(fault, sort_keys=True) for fault in faults)


def row_of(spark, store: FoundStore, **more: int) -> dict:
    (row,) = verify_stores(spark, [StoreToVerify(store)], **more)
    return row


def test_a_large_archive_is_checked_in_parts_and_told_as_one(spark, tmp_path):
    """By hand: 700 messages of 702 or 703 bytes are frames of 736; 89 of them fill a term of 65,536."""
    path = recorded(tmp_path / "archive")
    store = FoundStore(str(path), "aeron-archive")
    with open_store(path) as opened:
        assert len(opened.verify_parts(65536)) >= 8
    row = row_of(spark, store, split_bytes=65536)
    assert (row["ok"], row["streams"], row["segments"], row["records"]) == (True, 1, 8, 700)
    assert row["bytes"] == 7 * 65536 + (700 - 7 * 89) * 736
    assert (row["error"], row["faults"]) == (None, [])


def test_damage_of_a_large_archive_is_told_as_the_whole_tells_it(spark, tmp_path):
    path = recorded(tmp_path / "archive")
    (path / "0-131072.rec").unlink()
    data = bytearray((path / "0-262144.rec").read_bytes())
    data[736 * 3 : 736 * 3 + 4] = b"\xff\xff\xff\x7f"
    (path / "0-262144.rec").write_bytes(data)
    with open_store(path) as store:
        whole = store.verify().to_dict()
    row = row_of(spark, FoundStore(str(path), "aeron-archive"), split_bytes=65536)
    assert {fault["code"] for fault in row["faults"]} == {"segment-missing", "frame-length"}
    assert texts(row.pop("faults")) == texts(whole.pop("faults"))
    assert row.pop("error") is None
    assert row == whole


def test_golden_stores_of_all_families_are_told_as_verify_tells_them(spark, golden):
    folders = [golden(name) for name in ("jlog/basic/log", "aeron/archive-basic/archive", "nats_streaming/archive")]
    stores = find_stores(tuple(map(str, folders)))
    rows = {row["store"]: row for row in verify_stores(spark, map(StoreToVerify, stores))}
    assert {store.family for store in stores} == {"jlog", "aeron-archive", "nats-streaming"}
    for store in stores:
        with open_store(store.path) as opened:
            whole = opened.verify().to_dict()
        row = rows[store.path]
        assert texts(row.pop("faults")) == texts(whole.pop("faults"))
        assert row == whole | {"error": None}


def test_a_store_that_is_deleted_between_plan_and_check_is_a_row_with_an_error(spark, tmp_path):
    kept, gone = recorded(tmp_path / "kept"), recorded(tmp_path / "gone")
    todo = [StoreToVerify(FoundStore(str(path), "aeron-archive")) for path in (kept, gone)]
    planned = plan(todo, 65536)
    shutil.rmtree(gone)
    first, second = check(spark, planned)
    assert (first["store"], first["ok"], first["error"]) == (str(kept), True, None)
    assert (second["store"], second["ok"], second["faults"]) == (str(gone), False, [])
    assert str(gone) in second["error"]


def test_as_a_frame_the_report_is_what_was_found_when_it_was_asked_for(spark, tmp_path):
    kept, gone = journal(tmp_path / "kept"), journal(tmp_path / "gone")
    (kept / "metastore").write_bytes(b"")
    frame = verify(spark, str(tmp_path))
    shutil.rmtree(gone)
    rows = {row.store: row for row in frame.collect()}
    assert rows[str(gone)].ok
    assert rows[str(gone)].records == 90
    assert not rows[str(kept)].ok
    faults = frame.where("not ok").selectExpr("explode(faults) AS fault").select("fault.*").collect()
    assert ("metastore", "fault") in {(fault.file, fault.severity) for fault in faults}


def test_a_journal_that_is_being_written_has_no_fault(spark, tmp_path):
    path = journal(tmp_path / "journal")
    done = threading.Event()

    def write():
        with jlog.Writer(path) as writer:
            while not done.wait(0.001):
                writer.append(b"y" * 100)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        row = row_of(spark, FoundStore(str(path), "jlog"))
    finally:
        done.set()
        thread.join()
    assert row["ok"], row["faults"]
    assert row["records"] > 90


def test_the_command_tells_all_stores_and_ends_with_1_when_one_is_damaged(spark, tmp_path, capsys):
    recorded(tmp_path / "stores" / "archive")
    path = journal(tmp_path / "stores" / "journal")
    assert run(["spark", "verify", str(tmp_path / "stores")]) == 0
    said = capsys.readouterr().out
    assert "2 stores: 2 ok, 0 damaged; 0 faults" in said
    (path / "metastore").write_bytes(b"")
    assert run(["spark", "verify", str(tmp_path / "stores"), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["ok"]
    assert {Path(row["store"]).name: row["ok"] for row in found["stores"]} == {"archive": True, "journal": False}
    assert run(["spark", "verify", str(tmp_path / "stores")]) == 1
    said = capsys.readouterr().out
    assert f"{path}/metastore" in said
    assert "2 stores: 1 ok, 1 damaged; 1 fault, 1 note" in said


def test_wrong_usage_ends_with_2_and_one_line(spark, tmp_path, capsys):
    path = str(journal(tmp_path / "journal"))
    for arguments, said in (
        ([str(tmp_path / "nothing")], "nothing"),
        ([path, "--option", "encryptionKey=secret"], "encryptionKey is refused"),
        ([path, "--option", "nonsense=1"], "nonsense"),
        ([path, "--option", "nonsense"], "NAME=VALUE"),
        ([path, "--option", "path=/x"], "paths as arguments"),
        ([path, "--conf", "x"], "NAME=VALUE"),
        ([], "PATH"),
    ):
        assert run(["spark", "verify", *arguments]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line
        assert "secret" not in line


def test_work_is_dealt_out_as_evenly_as_it_can_be():
    """Largest first to the hand that has least: 8 | 7, 2 | 5, 4 by hand."""
    groups = balance([4, 8, 2, 7, 5], lambda size: size << 20, 3)
    assert sorted(sorted(group) for group in groups) == [[2, 7], [4, 5], [8]]
    assert sum(groups[0]) == 9, "the largest group is the first"
    assert balance([], len, 3) == []
    assert len(balance(["x"] * 5, lambda _: 0, 2)) == 2


@pytest.mark.parametrize(
    ("byte_count", "items", "cores", "tasks"),
    [
        (0, 1, 2, 2),
        (8 << 30, 33, 2, 4),
        (8 << 30, 33, 1, 4),
        (8 << 30, 33, 16, 16),
        (1 << 40, 4096, 2, 8),
        (0, 1500, 1, 2),
        (5 << 30, 1, 2, 2),
        (6 << 30, 1, 2, 4),
    ],
)
def test_tasks_are_as_many_as_there_is_work_for(byte_count, items, cores, tasks):
    """By hand: 8 GiB are four times 2 GiB, two for each of two cores; 1,500 parts of 4 MiB are 5.9 GiB."""
    assert task_count(byte_count, items, cores) == tasks
