"""``everlog spark compare``: the same records or not, the first difference, the extent."""

from __future__ import annotations

import json
import shutil
import zlib
from pathlib import Path

import pytest

import tests
from everlog.aeron import archive
from everlog.cli.app import run
from everlog.errors import CorruptData, UnknownStream, UsageError
from everlog.spark.jobs.compare import compare
from everlog.spark.jobs.export import Export, export
from everlog.stores import open_store
from tests.spark.exported import journal, options, record

SBE_SCHEMA = tests.GOLDEN / "sbe" / "every-feature.xml"


def copy(path: Path, name: str) -> Path:
    return Path(shutil.copytree(path, path.with_name(name)))


def counts(stream) -> tuple[int, int, int, int]:
    return stream.same, stream.only_a, stream.only_b, stream.different


def crc(payload: bytes) -> str:
    return f"{zlib.crc32(payload):08x}"


@pytest.mark.long
def test_a_copy_is_the_same_and_its_records_are_counted(spark, tmp_path):
    path = record(tmp_path / "a", 0, 300)
    found = compare(spark, str(path), str(copy(path, "b")))
    assert found.is_same
    assert [counts(stream) for stream in found.streams] == [(300, 0, 0, 0)]
    assert (found.streams[0].records_a, found.streams[0].records_b, found.streams[0].difference) == (300, 300, None)


@pytest.mark.long
def test_a_replica_that_is_behind_lacks_the_last_records(spark, tmp_path):
    """Message 300 begins behind three full segments and 33 messages: 3 * 65,536 + 33 * 736."""
    path = record(tmp_path / "a", 0, 300)
    other = copy(path, "b")
    record(path, 300, 310)
    found = compare(spark, str(path), str(other))
    (stream,) = found.streams
    assert not found.is_same
    assert counts(stream) == (300, 10, 0, 0)
    assert (stream.first, stream.last) == (str(3 * 65536 + 33 * 736), str(3 * 65536 + 42 * 736))
    first = stream.difference
    payload = b"300" + b"x" * 700
    assert (first.state, first.address_a, first.length_a) == ("only_a", stream.first, 703)
    assert (first.crc32_a, first.address_b, first.crc32_b) == (crc(payload), None, None)
    assert counts(compare(spark, str(other), str(path)).streams[0]) == (300, 0, 10, 0)


@pytest.mark.long
def test_one_bit_of_one_payload_is_found(spark, tmp_path):
    path = record(tmp_path / "a", 0, 300)
    other = copy(path, "b")
    file = other / "0-65536.rec"
    data = bytearray(file.read_bytes())
    assert data[736 * 7 + 32 :][:2] == b"96"
    data[736 * 7 + 32] ^= 0x40
    file.write_bytes(data)
    (stream,) = compare(spark, str(path), str(other)).streams
    assert counts(stream) == (299, 0, 0, 1)
    assert stream.first == stream.last == str(65536 + 736 * 7)
    assert stream.difference.crc32_a == crc(b"96" + b"x" * 700)
    assert stream.difference.crc32_b == crc(b"y6" + b"x" * 700)
    by_payload = compare(spark, str(path), str(other), by="payload").streams[0]
    assert counts(by_payload) == (299, 1, 1, 0), "as payload, one is only here and one only there"
    assert by_payload.difference.address_a == by_payload.difference.address_b == str(65536 + 736 * 7)


@pytest.mark.long
def test_records_at_other_addresses_are_the_same_by_order_and_by_payload(spark, tmp_path):
    """A journal and a recording of the same messages; and one whose order is another."""
    trades = record(tmp_path / "a", 0, 50)
    path = tmp_path / "b"
    from everlog import jlog

    jlog.create(path)
    with jlog.Writer(path) as writer:
        for number in range(50):
            writer.append(b"%d" % number + b"x" * 700)
    names = {"0": "journal"}
    with pytest.raises(UsageError, match="addresses differ"):
        compare(spark, str(trades), str(path), names=names)
    for way in ("order", "payload"):
        found = compare(spark, str(trades), str(path), by=way, names=names)
        assert found.is_same
        assert counts(found.streams[0]) == (50, 0, 0, 0)
    with jlog.Writer(path) as writer:
        writer.append(b"one more")
    found = compare(spark, str(trades), str(path), by="order", names=names)
    assert counts(found.streams[0]) == (50, 0, 1, 0)
    assert (found.streams[0].first, found.streams[0].difference.crc32_b) == ("51", crc(b"one more"))


@pytest.mark.long
def test_payloads_are_counted_as_often_as_they_come(spark, tmp_path):
    from everlog import jlog

    for name, messages in (("a", [b"x", b"x", b"y", b"z"]), ("b", [b"y", b"x", b"w", b"w"])):
        jlog.create(tmp_path / name)
        with jlog.Writer(tmp_path / name) as writer:
            for message in messages:
                writer.append(message)
    (stream,) = compare(spark, str(tmp_path / "a"), str(tmp_path / "b"), by="payload").streams
    assert counts(stream) == (2, 2, 2, 0)
    assert (stream.difference.address_a, stream.difference.crc32_a) == ("00000000:00000001", crc(b"x"))
    (stream,) = compare(spark, str(tmp_path / "a"), str(tmp_path / "b")).streams
    assert counts(stream) == (1, 0, 0, 3)
    assert (stream.first, stream.last) == ("00000000:00000001", "00000000:00000004")


@pytest.mark.parametrize(
    "kind", ["parquet", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("arrow", "jsonl"))]
)
def test_a_store_and_its_export_hold_the_same_until_one_changes(spark, tmp_path, kind):
    path, trades, out = journal(tmp_path / "journal", 0, 200), record(tmp_path / "trades", 0, 30), tmp_path / "out"
    export(spark, Export(options=options(path, trades), folder=str(out), kind=kind))
    for store in (path, trades):
        found = compare(spark, str(store), str(out))
        assert found.is_same
        assert sum(stream.same for stream in found.streams) in (200, 30)
    journal(path, 200, 203)
    found = compare(spark, str(out), str(path))
    assert counts(found.streams[0]) == (200, 0, 3, 0)
    assert found.streams[0].first == "00000000:000000c9"
    with pytest.raises(UsageError, match="2 stores"):
        compare(spark, str(out), str(tmp_path / "out"))


@pytest.mark.long
def test_of_a_delta_table_what_it_has_now_is_compared(spark, tmp_path):
    from deltalake import DeltaTable

    path, trades, out = journal(tmp_path / "journal", 0, 200), record(tmp_path / "trades", 0, 30), tmp_path / "out"
    wish = Export(options=options(path, trades), folder=str(out), kind="delta")
    for end in (250, 300):
        export(spark, wish)
        journal(path, end - 50, end)
    export(spark, wish)
    assert compare(spark, str(path), str(out)).is_same
    table = DeltaTable(str(out))
    table.optimize.compact()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert [counts(stream) for stream in compare(spark, str(path), str(out)).streams] == [(300, 0, 0, 0)]
    assert [counts(stream) for stream in compare(spark, str(trades), str(out)).streams] == [(30, 0, 0, 0)]
    table.delete("stream = 'journal' AND length = 1")
    assert [counts(stream) for stream in compare(spark, str(path), str(out)).streams] == [(290, 10, 0, 0)]
    shutil.rmtree(out / "_delta_log")
    with pytest.raises(CorruptData, match="no Delta table"):
        compare(spark, str(path), str(out))


def two_streams(path: Path) -> Path:
    for stream in (1, 2):
        with (
            archive.create(path, segment_length=65536, exist_ok=True) as store,
            store.start_recording("aeron:ipc", stream, term_length=65536) as recorder,
        ):
            recorder.append(b"message")
    return path


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--streams", "0=1", "-o", "stream=0"], "option stream"),
        (["--streams", "0=1", "--streams", "0=0"], "names stream 0 twice"),
        (["--streams", "0=1", "--streams", "1=1"], "several streams are called 1 in B"),
        (["-o", "stream=0", "-o", "onFault=skip", "-o", "onfault=fail"], "onfault is given twice"),
        (["-o", "maxMsgs=3"], "option maxMsgs"),
        (["-o", "faults=true"], "option faults"),
        (["-o", "startingOffsets=latest"], "option startingOffsets"),
        (["-o", 'aggregate={"by": ["stream"], "values": {"n": "count"}}'], "option aggregate"),
        (["-o", f"sbeSchema={SBE_SCHEMA}", "-o", "sbeMessage=Small", "-o", "sbeOnly=true"], "option sbeOnly"),
    ],
)
def test_what_would_be_passed_over_is_refused(spark, tmp_path, capsys, arguments, why):
    path = two_streams(tmp_path / "a")
    assert run(["spark", "compare", str(path), str(copy(path, "b")), *arguments]) == 2
    assert why in capsys.readouterr().err


def test_a_password_in_either_url_is_not_repeated(spark, tmp_path):
    path, secret = str(two_streams(tmp_path / "a")), "s3://user:SECRET@bucket/x"
    for both in ((path, secret), (secret, path)):
        with pytest.raises(UsageError, match="a password in a URL") as caught:
            compare(spark, *both)
        assert "SECRET" not in str(caught.value)


def test_an_option_of_one_side_s_family_is_taken(spark, tmp_path):
    path, other = two_streams(tmp_path / "a"), journal(tmp_path / "b", 0, 1)
    found = compare(spark, str(path), str(other), by="payload", options={"checksum": "none"}, names={"0": "journal"})
    assert counts(found.streams[0]) == (0, 1, 1, 0)


def test_streams_that_are_named_one_by_one_are_all_compared(spark, tmp_path, capsys):
    path = two_streams(tmp_path / "a")
    arguments = ["spark", "compare", str(path), str(copy(path, "b")), "--json"]
    assert run([*arguments, "-o", "stream=0", "-o", "stream=1"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert [stream["stream"] for stream in found["streams"]] == ["0", "1"]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"level": "frame"}, "frames, not records"),
        ({"startTime": "2000-01-01"}, "selected by their time"),
        ({"endTime": "2100-01-01"}, "selected by their time"),
        ({"sbeSchema": str(SBE_SCHEMA), "sbeMessage": "Small", "sbeOnly": "true"}, "sbeOnly"),
    ],
)
def test_an_export_that_left_records_out_is_refused(spark, tmp_path, more, why):
    path, out = record(tmp_path / "a", 0, 10), tmp_path / "out"
    export(spark, Export(options=options(path, **more), folder=str(out)))
    with pytest.raises(UsageError, match=why):
        compare(spark, str(path), str(out))


def test_damage_that_an_export_passed_over_is_refused_or_counted(spark, tmp_path):
    path, out = record(tmp_path / "a", 0, 200), tmp_path / "out"
    file = path / "0-65536.rec"
    data = bytearray(file.read_bytes())
    data[736 * 4 + 16] ^= 1
    file.write_bytes(data)
    export(spark, Export(options=options(path, onFault="skip"), folder=str(out)))
    data[736 * 4 + 16] ^= 1
    file.write_bytes(data)
    with pytest.raises(UsageError, match="skipped 1 fault "):
        compare(spark, str(path), str(out))
    (stream,) = compare(spark, str(path), str(out), options={"onFault": "skip"}).streams
    assert (stream.faults_a, stream.faults_b, counts(stream)) == (0, 1, (199, 1, 0, 0))


def test_streams_of_one_side_only_are_told(spark, tmp_path):
    path = record(tmp_path / "a", 0, 10)
    other = copy(path, "b")
    with archive.open_archive(path) as store, store.start_recording("aeron:ipc", 2, term_length=65536) as recorder:
        recorder.append(b"more")
    found = compare(spark, str(path), str(other))
    assert {stream.stream: counts(stream) for stream in found.streams} == {"0": (10, 0, 0, 0), "1": (0, 1, 0, 0)}
    assert compare(spark, str(path), str(other), options={"stream": "0"}).is_same
    with pytest.raises(UnknownStream):
        compare(spark, str(path), str(other), options={"stream": "7"})


@pytest.mark.long
def test_damage_fails_naming_file_and_option_and_skip_counts_it(spark, tmp_path):
    path = record(tmp_path / "a", 0, 200)
    other = copy(path, "b")
    file = other / "0-65536.rec"
    data = bytearray(file.read_bytes())
    data[736 * 4 + 16] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptData) as caught:
        compare(spark, str(path), str(other))
    assert f"{file} at offset {736 * 4}" in str(caught.value)
    assert "onFault=skip" in str(caught.value)
    found = compare(spark, str(path), str(other), options={"onFault": "skip"})
    assert counts(found.streams[0]) == (199, 1, 0, 0)
    assert (found.streams[0].faults_a, found.streams[0].faults_b) == (0, 1)
    both = compare(spark, str(other), str(other), options={"onFault": "skip"})
    assert not both.is_same, "what was passed over on both sides may differ"


def test_members_of_a_real_cluster_have_the_same_log(spark, tmp_path):
    """Two nodes of a real cluster; each log decoded, message by message."""
    import tarfile

    golden = tests.GOLDEN / "aeron" / "cluster-3node"
    nodes = []
    for number in range(2):
        with tarfile.open(golden / f"node{number}.tar.gz") as tar:
            tar.extractall(tmp_path / str(number), filter="data")
        (cluster,) = [folder for folder in (tmp_path / str(number)).rglob("cluster") if folder.is_dir()]
        nodes.append(str(cluster))
    with open_store(nodes[0]) as store:
        count = sum(batch.row_count for batch in store.scan("log", columns=["position"]))
    assert count > 100
    for other in nodes[1:]:
        found = compare(spark, nodes[0], other, options={"stream": "log"})
        (log,) = found.streams
        assert (log.only_b, log.different) == (0, 0)
        assert log.same + log.only_a == count


def test_large_segment_numbers_keep_their_order():
    """Of two numbers of 32 bits, the whole range."""
    from everlog.pipelines.comparison import address_text

    assert address_text(-(1 << 63), True) == "00000000:00000000"
    assert address_text((1 << 63) - 1, True) == "ffffffff:ffffffff"
    assert address_text((0x80000000 << 32 | 5) - (1 << 63), True) == "80000000:00000005"
    assert address_text(4096, False) == "4096"


@pytest.mark.long
def test_the_command_prints_tables_or_json_and_ends_with_1_where_they_differ(spark, tmp_path, capsys):
    path = journal(tmp_path / "a", 0, 40)
    other = copy(path, "b")
    third = copy(path, "c")
    assert run(["spark", "compare", str(path), str(other), str(third)]) == 0
    assert capsys.readouterr().out.count("the same records, by address") == 2
    journal(third, 40, 42)
    assert run(["spark", "compare", str(path), str(other), str(third)]) == 1
    said = capsys.readouterr().out
    assert "not the same, by address" in said
    assert "A: none; B 00000000:00000029: 2 bytes" in said
    assert run(["spark", "compare", str(path), str(third), "--json", "--by", "order"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["same"]
    assert found["comparisons"][0]["streams"][0]["only_b"] == 2
    assert run(["spark", "compare", str(path), str(tmp_path / "nothing")]) == 2
    assert run(["spark", "compare", str(path), str(other), "--streams", "x"]) == 2


def test_the_pipelines_are_functions_of_a_session(spark, tmp_path):
    import everlog.spark

    path, out = journal(tmp_path / "a", 0, 20), str(tmp_path / "out")
    (row,) = everlog.spark.verify(spark, str(tmp_path)).collect()
    assert (row.store, row.ok, row.records) == (str(path), True, 20)
    assert everlog.spark.export(spark, str(path), folder=out, format="arrow").rows == 20
    assert everlog.spark.compare(spark, str(path), out, by="order").is_same
