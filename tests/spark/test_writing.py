"""DataFrames appended to journals and recordings through Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from everlog import jlog, open_store
from everlog.aeron import archive

T0 = 1_700_000_000_000_000_000


def records(path: Path, stream: str) -> list[tuple[bytes, int | None, Any]]:
    """Payload, time, reserved value, in the store's order."""
    with open_store(path) as store:
        return [(r.payload, r.timestamp_ns, r.fields.get("reserved_value")) for r in store.read(stream)]


def payloads(path: Path, stream: str) -> list[bytes]:
    return [payload for payload, _, _ in records(path, stream)]


def staged(path: Path) -> list[str]:
    folder = Path(f"{path}.everlog-staging")
    return sorted(p.name for p in folder.iterdir() if p.suffix == ".staged") if folder.exists() else []


def numbers(spark: Any, count: int, *columns: str, partitions: int = 3) -> Any:
    return spark.range(0, count, 1, partitions).selectExpr("concat('message ', id) AS payload", *columns)


def write(frame: Any, path: Path, **options: Any) -> None:
    frame.write.format("everlog").options(**options).mode("append").save(str(path))


@pytest.mark.long
def test_a_frame_is_appended_to_a_journal_in_the_order_of_its_partitions(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    jlog.create(path, segment_bytes=3000)
    frame = numbers(spark, 200, f"{T0} + id * 1000 AS timestamp_ns", "timestamp_micros(5) AS timestamp")
    write(frame, path)
    expected = [(b"message %d" % n, T0 + n * 1000, None) for n in range(200)]
    assert records(path, "journal") == expected
    write(frame, path)
    assert records(path, "journal") == expected * 2, "without a transaction each write appends"
    assert staged(path) == []


@pytest.mark.long
def test_a_frame_without_times_gets_that_of_the_commit(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    write(numbers(spark, 2, "if(id = 1, timestamp_micros(5), null) AS timestamp"), path, family="jlog", create=True)
    (_, first, _), (_, second, _) = records(path, "journal")
    assert second == 5000
    assert first is not None
    assert first > T0


def test_a_frame_is_appended_to_a_recording_that_is_made_and_extended(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "archive"
    made = {"family": "aeron-archive", "create": True, "termLength": "64k", "segmentLength": "64k", "streamId": 7}
    frame = numbers(spark, 3000, "id * 2 AS reserved_value")
    write(frame, path, **made)
    write(frame.where("id < 2"), path, **made)
    expected = [(b"message %d" % n, None, n * 2) for n in [*range(3000), 0, 1]]
    assert records(path, "0") == expected
    write(numbers(spark, 1), path, recording=0)
    assert records(path, "0") == [*expected, (b"message 0", None, 0)]
    with open_store(path) as store:
        assert store.verify().faults == []
        assert [(s.details["stream_id"], s.details["active"]) for s in store.streams()] == [(7, False)]


def test_a_write_with_the_same_transaction_again_appends_nothing(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    jlog.create(path)
    for version in (0, 0, 1, 0):
        write(numbers(spark, 2), path, txnAppId="nightly run", txnVersion=version)
    assert payloads(path, "journal") == [b"message 0", b"message 1"] * 2
    assert staged(path) == []


def test_rows_are_ordered_over_all_tasks_by_the_column_asked_for(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    jlog.create(path)
    frame = numbers(spark, 50, "(id * 37) % 50 AS rank", partitions=4)
    write(frame, path, orderBy="rank")
    expected = sorted(range(50), key=lambda n: n * 37 % 50)
    assert payloads(path, "journal") == [b"message %d" % n for n in expected]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (["id AS other"], {}, "holds .*, not other.*select"),
        (["id AS reserved_value"], {}, "holds .*, not reserved_value"),
        (["'x' AS timestamp_ns"], {}, "column timestamp_ns must be bigint, not string"),
        ([], {"streamId": "7"}, "unknown option streamId"),
        ([], {"orderBy": "rank"}, "option orderBy must be one of .*, not rank"),
        ([], {"durability": "buffered"}, "option durability must be .*, not 'buffered'"),
        ([], {"txnAppId": "x"}, "txnAppId and txnVersion must be given together"),
    ],
)
def test_what_a_journal_does_not_take_is_refused_when_the_write_is_planned(
    spark: Any, tmp_path: Path, columns: list[str], options: dict[str, str], message: str
) -> None:
    from everlog.errors import UsageError
    from everlog.spark.source import EverlogDataSource

    path = tmp_path / "journal"
    jlog.create(path)
    frame = numbers(spark, 1, *columns)
    with pytest.raises(UsageError, match=message):
        EverlogDataSource({"path": str(path), **options}).writer(frame.schema, False)
    with pytest.raises(UsageError, match="overwrite and complete are not supported; use append"):
        EverlogDataSource({"path": str(path)}).writer(numbers(spark, 1).schema, True)


def test_a_path_without_a_store_and_a_null_are_refused_and_nothing_is_appended(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with pytest.raises(Exception, match="create=true with family=aeron-archive or jlog"):
        write(numbers(spark, 1), path)
    jlog.create(path)
    with pytest.raises(Exception, match="column payload has a null"):
        # One task: another one that still runs when the write is given up may leave its part.
        write(spark.range(0, 20, 1, 1).selectExpr("if(id = 19, null, 'x') AS payload"), path)
    with pytest.raises(Exception, match="a time from 1970 to 2106"):
        write(numbers(spark, 9, "if(id = 8, -1L, 1L) AS timestamp_ns", partitions=1), path)
    assert payloads(path, "journal") == []
    assert staged(path) == []


def test_a_message_too_long_for_the_recording_fails_the_write_before_anything_is_appended(
    spark: Any, tmp_path: Path
) -> None:
    path = tmp_path / "archive"
    options = {"family": "aeron-archive", "create": True, "termLength": "64k"}
    frame = spark.range(0, 40, 1, 2).selectExpr("repeat('x', if(id = 39, 8193, 10)) AS payload")
    with pytest.raises(Exception, match="at most 8192 in this recording, not 8193 bytes"):
        write(frame, path, **options)
    assert payloads(path, "0") == []
    assert staged(path) == []


def test_an_archive_that_is_open_elsewhere_fails_the_write_with_its_owner(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "archive"
    with archive.create(path), pytest.raises(Exception, match="already open in another everlog process"):
        write(numbers(spark, 1), path, ownerTimeout="0.2")
    assert staged(path) == []


def test_a_stream_is_appended_batch_by_batch_and_goes_on_from_its_checkpoint(spark: Any, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    targets = {"journal": tmp_path / "journal", "0": tmp_path / "archive"}
    jlog.create(targets["journal"])

    def run() -> None:
        rows = spark.readStream.option("maxFilesPerTrigger", 1).text(str(source)).selectExpr("value AS payload")
        for stream, path in targets.items():
            options = {"checkpointLocation": f"{path}.checkpoint"}
            if stream == "0":
                options |= {"family": "aeron-archive", "create": "true", "termLength": "64k"}
            sink = rows.writeStream.format("everlog").options(**options).queryName(f"to {stream}")
            sink.trigger(availableNow=True).start(str(path)).awaitTermination()

    expected = []
    for turn in range(2):
        for number in (2 * turn, 2 * turn + 1):
            lines = [f"file {number} line {line}" for line in range(20)]
            (source / f"{number}.txt").write_text("\n".join(lines))
            # Spark takes the oldest file first.
            os.utime(source / f"{number}.txt", (T0 // 10**9 + number,) * 2)
            expected += [line.encode() for line in lines]
        run()
        for stream, path in targets.items():
            assert payloads(path, stream) == expected
            assert staged(path) == []
