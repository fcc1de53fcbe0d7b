"""Stores that lose records between planning and reading: an error or a warning, as ``failOnDataLoss`` says. And times
that are not those of the recording."""

from __future__ import annotations

import errno

import pytest

from everlog import jlog
from everlog.aeron import archive
from everlog.errors import CorruptData, DataLost, StoreUnavailable
from everlog.stores import open_store
from tests.spark.source.test_partitions import reader_of, rows_of

COUNT = 2000
PAYLOAD = bytes(990)


@pytest.fixture
def journal(tmp_path):
    """2,000 messages in segments of 64 KiB, and a subscriber that has read none."""
    path = tmp_path / "journal"
    jlog.create(path, segment_bytes=65536)
    jlog.add_subscriber(path, "s")
    with jlog.Writer(path) as writer:
        for number in range(COUNT):
            writer.append(b"%06d" % number + PAYLOAD)
    return path


def purge(path) -> int:
    """Have the subscriber give up the oldest segments; how many messages they had."""
    with jlog.Subscriber(path, "s") as subscriber:
        messages = iter(subscriber)
        last = next(message for message in messages if message.address.log == 5)
        subscriber.checkpoint(last.address)
    with open_store(path) as store:
        return COUNT - sum(1 for _ in store.read("journal"))


@pytest.mark.parametrize("split_bytes", ["64k", "1g"])
def test_segments_purged_since_the_query_was_planned_are_lost_data(journal, split_bytes, caplog):
    reader = reader_of(str(journal), ("log", "marker"), splitBytes=split_bytes)
    lenient = reader_of(str(journal), ("log", "marker"), splitBytes=split_bytes, failOnDataLoss="false")
    partitions, others = reader.partitions(), lenient.partitions()
    lost = purge(journal)
    assert 0 < lost < COUNT
    with pytest.raises(DataLost, match=r"journal/00000000.*purged.*failOnDataLoss=false continues without it"):
        rows_of(reader, partitions)
    caplog.clear()
    assert len(rows_of(lenient, others)) == COUNT - lost
    assert "removed after the query was planned" in caplog.text


def test_one_segment_that_was_deleted_is_lost_data(journal):
    reader = reader_of(str(journal), ("log",), splitBytes="64k")
    partitions = reader.partitions()
    (journal / "00000003").unlink()
    with pytest.raises(DataLost, match="00000003"):
        rows_of(reader, partitions)


def test_a_recording_truncated_since_the_query_was_planned_is_no_damage(tmp_path, caplog):
    path = tmp_path / "archive"
    with archive.create(path, segment_length=65536) as store:
        with store.start_recording("aeron:ipc", 1, term_length=65536) as recorder:
            for number in range(300):
                recorder.append(b"%06d" % number + PAYLOAD)
        reader = reader_of(str(path), ("position",))
        lenient = reader_of(str(path), ("position",), failOnDataLoss="false")
        partitions, others = reader.partitions(), lenient.partitions()
        store.truncate_recording(0, 65536)
    kept = rows_of(reader_of(str(path), ("position",)))
    assert 0 < len(kept) < 300
    with pytest.raises(DataLost, match=r"truncated.*failOnDataLoss=false continues without it"):
        rows_of(reader, partitions)
    caplog.clear()
    assert rows_of(lenient, others) == kept
    assert "removed after the query was planned" in caplog.text


@pytest.mark.parametrize("on_fault", ["fail", "skip"])
def test_a_server_that_does_not_answer_is_no_loss(journal, monkeypatch, caplog, on_fault):
    from fsspec.implementations.memory import MemoryFileSystem

    files = MemoryFileSystem()
    files.put(str(journal), "/far/journal", recursive=True)
    try:
        reader = reader_of("memory://far/journal", ("log",), failOnDataLoss="false", onFault=on_fault)
        table = reader_of("memory://far/journal", faults="true", failOnDataLoss="false", onFault=on_fault)
        partitions, parts = reader.partitions(), table.partitions()

        def failing(error):
            def cat_file(self, path, start=None, end=None, **others):
                raise error

            return cat_file

        for error in (
            ConnectionResetError(errno.ECONNRESET, "reset"),
            PermissionError(errno.EACCES, "denied"),
            ValueError(),
        ):
            monkeypatch.setattr(MemoryFileSystem, "cat_file", failing(error))
            with pytest.raises(
                StoreUnavailable, match=f"memory://far/journal.*{type(error).__name__}.*may still exist"
            ):
                rows_of(reader, partitions)
            with pytest.raises(StoreUnavailable, match="may still exist"):
                rows_of(table, parts)
        monkeypatch.setattr(MemoryFileSystem, "cat_file", failing(FileNotFoundError(errno.ENOENT, "gone")))
        assert rows_of(reader, partitions) == []
        assert {row[4] for row in rows_of(table, parts)} == {"store-gone"}
        assert "removed after the query was planned" in caplog.text
    finally:
        files.rm("/far", recursive=True)


def test_zeros_inside_of_a_recording_are_damage_all_the_same(tmp_path):
    path = tmp_path / "archive"
    with (
        archive.create(path, segment_length=65536) as store,
        store.start_recording("aeron:ipc", 1, term_length=65536) as recorder,
    ):
        for number in range(300):
            recorder.append(b"%06d" % number + PAYLOAD)
    with open(path / "0-65536.rec", "r+b") as file:
        file.truncate(0)
        file.truncate(65536)
    for lenient in ("true", "false"):
        with pytest.raises(CorruptData, match="onFault=skip"):
            rows_of(reader_of(str(path), ("position",), failOnDataLoss=lenient))


def test_times_in_records_count_and_not_when_they_were_recorded(tmp_path):
    second = 10**9
    path = tmp_path / "archive"
    with (
        archive.create(path, segment_length=65536) as store,
        store.start_recording("aeron:ipc", 1, term_length=65536) as recorder,
    ):
        for number in range(300):
            recorder.append(PAYLOAD, reserved_value=number * second)
    for asked, expected in (
        ({"endTime": str(100 * second)}, 100),
        ({"startTime": str(100 * second), "endTime": str(150 * second)}, 50),
        ({"startTime": str(200 * second)}, 100),
    ):
        found = rows_of(reader_of(str(path), ("timestamp_ns",), timestampFrom="reserved_value:ns", **asked))
        assert len(found) == expected, asked
    # Without times of their own records are taken as the recording's descriptor says: it was made long after 1970.
    assert rows_of(reader_of(str(path), ("position",), endTime=str(100 * second))) == []
