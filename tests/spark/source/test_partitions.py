"""Partitions: every record once, evenly dealt, and all that a task needs in them."""

from __future__ import annotations

import pickle
from collections import Counter

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

from everlog.errors import CorruptData, StoreUnavailable, UnknownStream, UsageError
from everlog.pipelines.scan.planning import MAX_PARTITION_BYTES, MIN_PARTITION_BYTES, partition_count
from everlog.spark.source import EverlogDataSource


def reader_of(path: str, columns: tuple[str, ...] = (), **options: str):
    given = {"path": path, **({"columns": ",".join(columns)} if columns else {}), **options}
    source = EverlogDataSource(CaseInsensitiveDict(given))
    return source.reader(source.schema())


def rows_of(reader, partitions=None) -> list[tuple]:
    """What tasks would read, each on copies of reader and partition that went through pickle."""
    out = []
    for partition in reader.partitions() if partitions is None else partitions:
        copy, sent = pickle.loads(pickle.dumps((reader, partition)))
        for batch in copy.read(sent):
            batch.validate(full=True)
            out += [tuple(row.values()) for row in batch.to_pylist()]
    return out


@pytest.fixture
def stores(toy, tmp_path):
    """Three stores of two streams of 50 records."""
    for store in range(3):
        streams = {f"s{k}": [(i, i * 10**9, f"t{k}", b"%d" % i) for i in range(50)] for k in range(2)}
        toy(f"store{store}", streams)
    return str(tmp_path)


@pytest.mark.parametrize("partitions", [None, "1", "2", "4", "6", "100"])
def test_partitions_hold_every_record_once(stores, partitions):
    options = {"partitions": partitions} if partitions else {}
    reader = reader_of(stores, ("store", "stream", "number"), **options)
    parts = reader.partitions()
    assert len(parts) == min(int(partitions or 1), 6)
    found = Counter(rows_of(reader, parts))
    expected = {(f"{stores}/store{s}", f"s{k}", i) for s in range(3) for k in range(2) for i in range(50)}
    assert found == Counter(expected)


def test_rows_of_a_partition_keep_the_order_of_streams(stores):
    rows = rows_of(reader_of(stores, ("store", "stream", "number"), partitions="1"))
    assert rows == sorted(rows)


def test_work_is_dealt_out_evenly(toy, tmp_path):
    toy("store", {f"s{size}": [(0, None, None, b"x" * size * 1000)] for size in (9, 7, 6, 5, 4, 3, 1, 1)})
    sizes = [p.task.byte_count for p in reader_of(str(tmp_path), partitions="3").partitions()]
    assert max(sizes) < 1.2 * min(sizes)


@pytest.mark.parametrize(
    ("byte_count", "splits", "cores", "expected"),
    [
        (0, 1, 2, 1),
        (MIN_PARTITION_BYTES, 10, 8, 1),
        (4 * MIN_PARTITION_BYTES, 10, 8, 4),
        (1 << 30, 16, 2, 2),
        (1 << 30, 16, 8, 8),
        (1 << 30, 3, 8, 3),
        (100 * MAX_PARTITION_BYTES, 1000, 8, 100),
    ],
)
def test_the_count_of_partitions_is_near_the_count_of_cores(byte_count, splits, cores, expected):
    assert partition_count(byte_count, splits, cores=cores) == expected


def test_no_records_make_no_partitions_and_an_empty_read(toy):
    path = toy("store", {"s": [(1, None, None, b"")]})
    reader = reader_of(path, stream="s", startTime="2020-01-01")
    assert list(reader.read(None)) == []


def test_streams_are_chosen_by_name_or_pattern(stores):
    assert {r[0] for r in rows_of(reader_of(stores, ("stream",), stream="s1"))} == {"s1"}
    assert {r[0] for r in rows_of(reader_of(stores, ("stream",), stream="s*"))} == {"s0", "s1"}
    with pytest.raises(UnknownStream, match=r"'t\*'.*s0, s1"):
        reader_of(stores, stream="s1,t*").partitions()


def test_streams_marked_as_deleted_are_read_only_when_asked_for(toy):
    path = toy("store", {"s": [(1, None, None, b"")], "deleted-t": [(1, None, None, b"")]})
    assert rows_of(reader_of(path, ("stream",))) == [("s",)]
    assert {r[0] for r in rows_of(reader_of(path, ("stream",), includeAll="true"))} == {"s", "deleted-t"}


def test_a_range_of_addresses_leaves_out_its_end(toy):
    path = toy("store", {"s": [(i, None, None, b"") for i in range(10)]})
    assert rows_of(reader_of(path, ("number",), start="3", end="6")) == [(3,), (4,), (5,)]
    with pytest.raises(UsageError, match="address"):
        reader_of(path, start="x").partitions()


def test_a_range_of_times_is_kept_to_the_nanosecond_without_asking_for_the_column(toy):
    times = [999, 1_000, 1_001, 1_999, 2_000, None]
    path = toy("store", {"s": [(i, time and time + 10**18, None, b"") for i, time in enumerate(times)]})
    begin, end = str(10**18 + 1_000), str(10**18 + 2_000)
    # Record 5 has no time: nothing says that it is outside.
    assert [r[0] for r in rows_of(reader_of(path, ("number",), startTime=begin, endTime=end))] == [1, 2, 3, 5]
    assert [r[0] for r in rows_of(reader_of(path, ("number",), startTime=end))] == [4, 5]
    assert [r[0] for r in rows_of(reader_of(path, ("number",), endTime=begin))] == [0, 5]


def test_a_stream_without_times_is_read_whole_with_a_warning(toy, caplog):
    path = toy("store", {"s": [(i, None, None, b"") for i in range(3)]})
    assert len(rows_of(reader_of(path, ("number",), startTime="2030-01-01"))) == 3
    assert "has no times of records" in caplog.text


def damage(path: str) -> None:
    with open(f"{path}/s.toy", "ab") as file:
        file.write(b"rubbish\n")
        file.write(b'[9, null, null, ""]\n')


def test_damage_fails_and_names_file_and_offset(toy):
    path = toy("store", {"s": [(1, None, None, b"")]})
    damage(path)
    with pytest.raises(CorruptData) as error:
        rows_of(reader_of(path))
    assert error.value.where == f"{path}/s.toy"
    assert error.value.offset == len(b'[1, null, null, ""]\n')
    assert "onFault=skip" in str(error.value)


def test_damage_is_skipped_with_a_warning(toy, caplog):
    path = toy("store", {"s": [(1, None, None, b"")]})
    damage(path)
    assert rows_of(reader_of(path, ("number",), onFault="skip")) == [(1,), (9,)]
    assert "toy-bad-line" in caplog.text


def test_many_faults_are_counted_not_all_told(toy, caplog):
    path = toy("store", {"s": [(1, None, None, b"")]})
    for _ in range(50):
        damage(path)
    assert len(rows_of(reader_of(path, ("number",), onFault="skip"))) == 2
    assert len(caplog.records) < 30
    assert "more faults" in caplog.text


def test_what_vanished_since_the_plan_is_an_error_unless_loss_is_allowed(toy, tmp_path):
    path = toy("store", {"s": [(1, None, None, b"")], "t": [(1, None, None, b"")]})
    for allowed in ("true", "false"):
        reader = reader_of(path, ("stream",), failOnDataLoss=allowed)
        parts = reader.partitions()
        (tmp_path / "store" / "s.toy").rename(tmp_path / "aside")
        if allowed == "true":
            with pytest.raises((StoreUnavailable, UnknownStream), match="failOnDataLoss"):
                rows_of(reader, parts)
        else:
            assert ("s",) not in rows_of(reader, parts)
        (tmp_path / "aside").rename(tmp_path / "store" / "s.toy")


def test_batches_stay_within_their_bounds(toy):
    path = toy("store", {"s": [(i, None, None, bytes(1000)) for i in range(20_000)]})
    reader = reader_of(path, ("payload",))
    for partition in reader.partitions():
        for batch in reader.read(partition):
            assert batch.num_rows <= 16_384
            assert batch.nbytes < 5 << 20
