"""``everlog spark export --purge-exported``: only what is safely exported goes, and only with ``--yes``."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tests
from everlog import jlog
from everlog.cli.app import run
from everlog.errors import UsageError
from everlog.spark.jobs.export import Export, export, purge
from everlog.stores import open_store
from tests.spark.exported import journal, numbers, once, options, record

if TYPE_CHECKING:
    from deltalake import DeltaTable

SBE_SCHEMA = tests.GOLDEN / "sbe" / "every-feature.xml"


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def segmented(path: Path, first: int, end: int) -> Path:
    """A journal whose segments hold a few messages each."""
    if not path.exists():
        jlog.create(path, segment_bytes=1000)
    return journal(path, first, end)


def left(path: Path, stream: str) -> list[int]:
    with open_store(path) as store:
        return [int(bytes(record.payload).rstrip(b"x")) for record in store.read(stream)]


@pytest.fixture
def stores(tmp_path: Path) -> tuple[Path, Path, Path]:
    return segmented(tmp_path / "journal", 0, 200), record(tmp_path / "trades", 200, 600), tmp_path / "out"


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "arrow"])
def test_a_dry_run_changes_nothing_and_tells_what_would_go(spark, stores, kind):
    path, trades, out = stores
    wish = Export(options=options(path, trades), folder=str(out), kind=kind)
    export(spark, wish)
    before = content(path), content(trades)
    plans = {plan.family: plan for plan in purge(spark, wish)}
    assert (content(path), content(trades)) == before
    assert [plan.refused for plan in plans.values()] == [None, None]
    # 400 messages of 736 bytes, 89 in a segment: the fifth one has the last of them, and stays.
    assert plans["aeron-archive"].files == tuple(f"0-{65536 * number}.rec" for number in range(4))
    with open_store(path) as store:
        last = int(store.streams()[0].last.split(":")[0], 16)
    assert plans["jlog"].files == tuple(f"{number:08x}" for number in range(last))
    assert [plan.freed for plan in plans.values()] == [None, None]


def test_what_is_exported_is_freed_and_the_next_export_goes_on(spark, stores):
    path, trades, out = stores
    wish = Export(options=options(path, trades), folder=str(out))
    export(spark, wish)
    plans = {plan.family: plan for plan in purge(spark, wish, do_it=True)}
    assert plans["aeron-archive"].freed == 4
    assert plans["jlog"].freed == len(plans["jlog"].files) == 3
    assert left(trades, "0") == list(range(200 + 4 * 89, 600))
    assert left(path, "journal")[-1] == 199
    assert len(left(path, "journal")) < 100
    segmented(path, 600, 700), record(trades, 700, 900)
    assert export(spark, wish).rows == 300
    assert numbers(out) == once(900)
    for plan in purge(spark, wish, do_it=True):
        assert plan.refused is None
    assert numbers(out) == once(900)
    with open_store(path) as store, open_store(trades) as other:
        assert store.verify().ok
        assert other.verify().ok


def test_another_subscriber_keeps_what_it_has_not_read(spark, stores):
    path, _, out = stores
    jlog.add_subscriber(path, "slow", at="00000002:00000005")
    with open_store(path) as store:
        waiting = [int(bytes(record.payload)) for record in store.read("journal", start="00000002:00000006")]
    wish = Export(options=options(path), folder=str(out))
    export(spark, wish)
    (plan,) = purge(spark, wish, do_it=True)
    assert (plan.freed, plan.files) == (2, ("00000000", "00000001"))
    assert len(waiting) > 20
    assert set(waiting) <= set(left(path, "journal"))


def test_a_file_that_is_not_as_it_was_written_keeps_its_stream(spark, stores):
    path, trades, out = stores
    wish = Export(options=options(path, trades), folder=str(out))
    export(spark, wish)
    (file,) = out.glob("store=*journal/*/*/*.parquet")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    shutil.rmtree(next(iter(out.glob("store=*trades"))))
    before = content(path), content(trades)
    plans = purge(spark, wish, do_it=True)
    assert all("exported file" in plan.refused and plan.damaged for plan in plans)
    assert (content(path), content(trades)) == before


@pytest.mark.parametrize("yes", [[], ["--yes"]])
def test_the_command_ends_with_1_where_exported_files_have_gone(spark, stores, capsys, yes):
    path, _, out = stores
    export(spark, Export(options=options(path), folder=str(out)))
    shutil.rmtree(next(iter(out.glob("store=*"))))
    assert run(["spark", "export", str(path), str(out), "--purge-exported", *yes]) == 1
    assert "an exported file was changed or damaged" in capsys.readouterr().out
    assert left(path, "journal") == list(range(200))


def two_recordings(path: Path) -> Path:
    from everlog.aeron import archive

    with archive.create(path, segment_length=65536) as store:
        for stream in (1, 2):
            with store.start_recording("aeron:ipc", stream, term_length=65536) as recorder:
                for number in range(400):
                    recorder.append(b"%d" % number + b"x" * 700)
    return path


@pytest.mark.parametrize(("chosen", "freed"), [("0", {"0"}), ("[1-9],5", {"1"}), ("*", {"0", "1"})])
def test_only_streams_that_were_asked_for_are_freed(spark, tmp_path, chosen, freed):
    path, out = two_recordings(tmp_path / "archive"), tmp_path / "out"
    export(spark, Export(options=options(path), folder=str(out)))
    plans = purge(spark, Export(options=options(path, stream=chosen), folder=str(out)), do_it=True)
    assert {plan.stream: plan.freed for plan in plans} == dict.fromkeys(freed, 4)
    for stream in ("0", "1"):
        assert left(path, stream) == list(range(356 if stream in freed else 0, 400))


@pytest.mark.parametrize("name", ["start", "end", "startTime", "endTime"])
def test_a_range_does_not_choose_what_is_freed_and_is_refused(spark, stores, capsys, name):
    _, trades, out = stores
    value = "65536" if name.islower() else "2024-05-01"
    wish = Export(options=options(trades, **{name: value}), folder=str(out))
    with pytest.raises(UsageError, match=name):
        purge(spark, wish, do_it=True)
    arguments = ["spark", "export", str(trades), str(out), "-o", f"{name}={value}", "--purge-exported", "--yes"]
    assert run(arguments) == 2
    assert f"option {name} does not apply to a purge" in capsys.readouterr().err
    assert not out.exists()
    assert left(trades, "0") == list(range(200, 600))


def restored(table: DeltaTable) -> None:
    table.restore(0)


def emptied(table: DeltaTable) -> None:
    table.delete()


def written_over(table: DeltaTable) -> None:
    from deltalake import write_deltalake

    write_deltalake(table, table.to_pyarrow_table().slice(0, 1), mode="overwrite")


def optimized(table: DeltaTable) -> None:
    table.optimize.compact()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "why"),
    [(restored, "restore"), (emptied, "delete"), (written_over, "write"), (optimized, "optimize, vacuum end")],
)
def test_of_a_delta_table_only_what_it_still_has_in_the_files_as_written_is_freed(spark, stores, change, why):
    from deltalake import DeltaTable

    path, trades, out = stores
    wish = Export(options=options(path, trades), folder=str(out), kind="delta")
    export(spark, wish)
    segmented(path, 600, 650), record(trades, 650, 900)
    export(spark, wish)
    change(DeltaTable(str(out)))
    before = content(path), content(trades)
    plans = purge(spark, wish, do_it=True)
    assert [plan.damaged for plan in plans] == [True, True]
    assert all(f"changed by {why}" in plan.refused for plan in plans)
    assert (content(path), content(trades)) == before


def test_what_a_delta_table_has_is_freed(spark, stores):
    path, trades, out = stores
    wish = Export(options=options(path, trades), folder=str(out), kind="delta")
    export(spark, wish)
    assert [plan.freed for plan in purge(spark, wish, do_it=True)] == [3, 4]
    assert numbers(out) == once(600)


def test_a_delta_table_whose_files_may_hold_deleted_rows_is_refused(spark, stores):
    """A protocol as Spark's DELETE with deletion vectors makes it."""
    path, _, out = stores
    wish = Export(options=options(path), folder=str(out), kind="delta")
    export(spark, wish)
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    (out / "_delta_log" / f"{2:020}.json").write_text(json.dumps({"protocol": protocol}))
    with pytest.raises(UsageError, match="deletion vectors"):
        purge(spark, wish, do_it=True)
    assert left(path, "journal") == list(range(200))


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"columns": "length,crc32"}, "payload"),
        ({"startTime": "2000-01-01"}, "time"),
        ({"start": "65536"}, "first record"),
        ({"level": "frame"}, "frames"),
        ({"sbeSchema": str(SBE_SCHEMA), "sbeMessage": "Small", "sbeOnly": "true"}, "other messages"),
    ],
)
def test_what_is_not_exported_in_whole_is_kept(spark, tmp_path, more, why):
    trades, out = record(tmp_path / "trades", 0, 400), tmp_path / "out"
    wish = Export(options=options(trades, **more), folder=str(out))
    export(spark, wish)
    (plan,) = purge(spark, Export(options=options(trades), folder=str(out)), do_it=True)
    assert why in plan.refused
    assert not plan.damaged
    assert left(trades, "0") == list(range(400))


def test_a_store_that_was_replaced_is_kept(spark, stores):
    path, _, out = stores
    wish = Export(options=options(path), folder=str(out))
    export(spark, wish)
    shutil.rmtree(path)
    segmented(path, 5000, 5300)
    (plan,) = purge(spark, wish, do_it=True)
    assert plan.refused is not None
    assert left(path, "journal") == list(range(5000, 5300))


def test_damage_that_was_passed_over_keeps_the_stream(spark, tmp_path):
    trades, out = record(tmp_path / "trades", 0, 400), tmp_path / "out"
    file = trades / "0-0.rec"
    data = bytearray(file.read_bytes())
    data[736 + 16] ^= 1
    file.write_bytes(data)
    wish = Export(options=options(trades, onFault="skip"), folder=str(out))
    export(spark, wish)
    (plan,) = purge(spark, wish, do_it=True)
    assert "damage" in plan.refused


def test_stores_of_others_and_archives_in_use_are_kept(spark, golden, tmp_path):
    from everlog.aeron import archive

    path, trades, out = golden("nats_streaming/lim_max_msgs"), record(tmp_path / "trades", 0, 400), tmp_path / "out"
    wish = Export(options=options(path, trades), folder=str(out))
    export(spark, wish)
    with archive.open_archive(trades):
        plans = purge(spark, wish, do_it=True)
    refused = {plan.family: plan.refused for plan in plans}
    assert "does not write" in refused["nats-streaming"]
    assert "already open in another everlog process" in refused["aeron-archive"]
    assert left(trades, "0") == list(range(400))


def test_the_command_asks_for_yes(spark, stores, capsys):
    path, trades, out = stores
    arguments = ["spark", "export", str(path), str(trades), str(out)]
    before = content(path), content(trades)
    assert run([*arguments, "--purge-exported"]) == 0
    said = capsys.readouterr().out
    assert "dry run: nothing was freed; add --yes to free it" in said
    assert "0-0.rec to 0-196608.rec" in said
    assert (content(path), content(trades)) == before
    assert run([*arguments, "--yes"]) == 2
    capsys.readouterr()
    assert run([*arguments, "--purge-exported", "--yes", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["purged"]
    assert Counter(one["family"] for one in found["purge"]) == {"jlog": 1, "aeron-archive": 1}
    assert all(one["freed"] for one in found["purge"])
    assert not (trades / "0-0.rec").exists()


def test_what_a_late_writer_appends_to_a_segment_below_the_last_is_exported_and_not_freed_before(spark, tmp_path):
    """Of two writers of the C library that finish segments at the same time one can skip a number; the other goes on in
    the segment with that number."""
    path, out = tmp_path / "journal", tmp_path / "out"
    for number in range(3):
        journal(tmp_path / f"made{number}", number, number + 1)
    shutil.copytree(tmp_path / "made0", path)
    second = (tmp_path / "made1" / "00000000").read_bytes()
    (path / "00000001").write_bytes(second)
    (path / "00000002").write_bytes((tmp_path / "made2" / "00000000").read_bytes())
    metastore = (path / "metastore").read_bytes()
    (path / "metastore").write_bytes((2).to_bytes(4, "little") + metastore[4:])
    wish = Export(options=options(path), folder=str(out))
    with (path / "00000001").open("ab", buffering=0) as late:
        assert export(spark, wish).rows == 3
        assert [plan.refused for plan in purge(spark, wish, do_it=True)] == ["what is exported has gaps"]
        late.write(second.replace(b"1", b"3"))
        assert export(spark, wish).rows == 1
        assert [plan.refused for plan in purge(spark, wish, do_it=True)] == ["what is exported has gaps"]
        late.write(second.replace(b"1", b"4"))
    assert export(spark, wish).rows == 1
    assert export(spark, wish).rows == 0
    assert numbers(out) == once(5)
    assert [plan.freed for plan in purge(spark, wish, do_it=True)] == [2]
    assert left(path, "journal") == [2]
