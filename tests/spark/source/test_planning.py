"""What is planned: a range of times reads only what it needs, huge segments are cut, many stores are quick."""

from __future__ import annotations

import struct
import time

import pytest

from tests.spark.source.test_partitions import reader_of, rows_of

MAGIC = 0x663A7318
START = 1_700_000_000


def write_journal(folder, segments: int, per_segment: int = 1, payload: int = 100, index: bool = False) -> str:
    """A journal whose messages are a minute apart."""
    folder.mkdir(parents=True)
    (folder / "metastore").write_bytes(struct.pack("<IIII", segments - 1, 4 << 20, 1, MAGIC))
    for log in range(segments):
        times = range(log * per_segment, (log + 1) * per_segment)
        head = [struct.pack("<IIII", MAGIC, START + 60 * t, 0, payload) for t in times]
        (folder / f"{log:08x}").write_bytes(b"".join(h + bytes(payload) for h in head))
        if index:
            offsets = range(0, per_segment * (16 + payload), 16 + payload)
            (folder / f"{log:08x}.idx").write_bytes(struct.pack(f"<{per_segment}Q", *offsets))
    return str(folder)


def nanoseconds(minute: int) -> str:
    return str((START + 60 * minute) * 10**9)


@pytest.fixture
def journal(tmp_path):
    return write_journal(tmp_path / "journal", 1000, per_segment=10, payload=1000)


def logs_of(reader) -> set[int]:
    found: set[int] = set()
    for partition in reader.partitions():
        for part in partition.task.parts:
            for split in part.splits:
                found.update(split.context.logs)
    return found


@pytest.mark.parametrize(("first", "end"), [(0, 100), (5000, 5003), (9990, 99999), (20_000, 20_001)])
def test_a_range_of_times_reads_only_the_segments_it_needs(journal, first, end):
    asked = {"startTime": nanoseconds(first), "endTime": nanoseconds(end)}
    reader = reader_of(journal, ("timestamp_ns",), splitBytes="64k", timeSlack="1m", **asked)
    expected = [(START + 60 * m) * 10**9 for m in range(10_000) if first <= m < end]
    assert sorted(row[0] for row in rows_of(reader)) == expected
    # A split is at least 64 KiB, which is six segments, and one on each side for the slack.
    assert len(logs_of(reader)) <= len(expected) / 10 + 4 * 6


def test_a_clock_that_was_set_back_is_found_by_the_slack(tmp_path):
    folder = tmp_path / "journal"
    write_journal(folder, 100, per_segment=700, payload=100)
    # In the middle of segment 50, which covers 700 minutes, the clock was 12 hours ahead for a message: 370 minutes
    # behind the segment's end.
    path = folder / f"{50:08x}"
    data = bytearray(path.read_bytes())
    ahead = START + 60 * 35_350 + 12 * 3600
    data[350 * 116 + 4 : 350 * 116 + 8] = struct.pack("<I", ahead)
    path.write_bytes(data)
    asked = {"startTime": str((ahead - 1) * 10**9), "endTime": str((ahead + 1) * 10**9), "splitBytes": "64k"}
    whole = rows_of(reader_of(str(folder), ("log",), timeSlack="100000h", **asked))
    assert whole.count((50,)) == 1
    assert rows_of(reader_of(str(folder), ("log",), timeSlack="7h", **asked)).count((50,)) == 1
    assert rows_of(reader_of(str(folder), ("log",), timeSlack="6h", **asked)).count((50,)) == 0  # as said in the docs


def test_all_times_are_planned_like_no_range(journal):
    wide = reader_of(journal, ("log",), startTime="1970-01-02", splitBytes="4m")
    plain = reader_of(journal, ("log",), splitBytes="4m")
    assert [p.task.byte_count for p in wide.partitions()] == [p.task.byte_count for p in plain.partitions()]


def test_a_huge_segment_is_read_by_several_tasks(tmp_path):
    path = write_journal(tmp_path / "journal", 1, per_segment=40_000, payload=1000, index=True)
    reader = reader_of(path, ("marker",), splitBytes="1m", partitions="8")
    sizes = [partition.task.byte_count for partition in reader.partitions()]
    assert len(sizes) == 8
    assert max(sizes) < 1.3 * min(sizes)
    assert sorted(rows_of(reader)) == [(marker,) for marker in range(1, 40_001)]


def test_a_thousand_stores_are_one_load(tmp_path):
    for number in range(1000):
        write_journal(tmp_path / "stores" / f"{number:04}", 1)
    began = time.process_time()
    reader = reader_of(str(tmp_path / "stores"), ("store", "marker"), partitions="4")
    partitions = reader.partitions()
    assert time.process_time() - began < 5  # 0.2 on an idle machine
    counts = [len({part.store.path for part in partition.task.parts}) for partition in partitions]
    assert counts == [250] * 4
    assert len(set(rows_of(reader, partitions))) == 1000
