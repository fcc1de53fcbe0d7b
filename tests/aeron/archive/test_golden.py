"""Every message, fragment and frame of the golden archives, against what the real archive replayed from them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.core.report import Fault

Unpack = Callable[[str], Path]
Truth = Callable[[str], dict[str, Any]]

REPLAYED = ["end_position", "length", "reserved_value", "flags", "term_id", "term_offset", "crc32"]
ON_DISK = [
    "position",
    "length",
    "flags",
    "term_offset",
    "session_id",
    "stream_id",
    "term_id",
    "reserved_value",
    "crc32",
]
WHOLE = [
    ("archive-basic/archive", "archive-basic/truth"),
    ("archive-basic/archive-checksum-crc32", "archive-basic/truth"),
    ("archive-basic/archive-checksum-crc32c", "archive-basic/truth"),
    ("archive-old/v2-before", "archive-old/truth-after-migrate-restart"),
    ("archive-old/v3-after-migrate", "archive-old/truth-after-migrate-restart"),
    ("archive-crash/crash-plain", "archive-crash/truth-plain-after-restart"),
    ("archive-crash/crash-plain-recovered", "archive-crash/truth-plain-after-restart"),
    ("archive-crash/crash-crc", "archive-crash/truth-crc-after-restart"),
    ("archive-crash/torn-half-plain", "archive-crash/truth-torn-half-plain-after-restart"),
    ("archive-crash/torn-page-plain", "archive-crash/truth-torn-page-plain-after-verify-y-and-restart"),
    ("archive-crash/torn-page-crc", "archive-crash/truth-torn-page-crc-after-verify-y-and-restart"),
]


def rows(
    store: everlog.Store, stream: str, columns: list[str], level: str
) -> tuple[list[tuple[Any, ...]], list[Fault]]:
    faults: list[Fault] = []
    found: list[tuple[Any, ...]] = []
    for batch in store.scan(stream, columns=columns, level=level, on_fault=faults.append):
        found += batch.rows()
    return found, faults


@pytest.mark.parametrize(("name", "truth"), WHOLE)
@pytest.mark.parametrize(("level", "key"), [("record", "messages"), ("frame", "fragments")])
def test_every_replayed_message_and_fragment_is_read(
    golden_archive: Unpack, golden_truth: Truth, name: str, truth: str, level: str, key: str
) -> None:
    with everlog.open_store(golden_archive(name)) as store:
        for recording in golden_truth(truth)["recordings"]:
            found, _ = rows(store, str(recording["recordingId"]), REPLAYED, level)
            assert found == [tuple(row) for row in recording["replay"][key]], recording["recordingId"]


@pytest.mark.parametrize(("name", "truth"), WHOLE[:1] + WHOLE[3:4])
def test_every_data_frame_on_disk_is_read_with_its_header(
    golden_archive: Unpack, golden_truth: Truth, name: str, truth: str
) -> None:
    with everlog.open_store(golden_archive(name)) as store:
        for recording in golden_truth(truth)["recordings"]:
            frames = recording["files"]["frames"]
            expected = [(f[0], f[1] - 32, f[3], f[5], f[6], f[7], f[8], f[9], f[10]) for f in frames if f[4] == 1]
            found, faults = rows(store, str(recording["recordingId"]), ON_DISK, "frame")
            assert found == expected
            assert faults == []


def test_the_session_id_is_null_where_a_checksum_lies_over_it(golden_archive: Unpack) -> None:
    with everlog.open_store(golden_archive("archive-basic/archive-checksum-crc32")) as store:
        found, _ = rows(store, "1", ["session_id"], "record")
        assert set(found) == {(None,)}
        assert len(found) == 118


def test_a_checksummed_tail_torn_inside_a_page_is_not_given(golden_archive: Unpack, golden_truth: Truth) -> None:
    truth = golden_truth("archive-crash/truth-torn-half-crc-after-restart")["recordings"][2]["replay"]
    with everlog.open_store(golden_archive("archive-crash/torn-half-crc")) as store:
        found, faults = rows(store, "2", REPLAYED, "record")
        # The real archive accepts the torn fragment and replays the message that it ends with wrong bytes.
        assert found == [tuple(row) for row in truth["messages"][:-1]]
        assert [(f.code, f.file, f.offset) for f in faults] == [("torn-frame", "2-655360.rec", 731072 - 655360)]


def test_an_extra_segment_of_zeros_does_not_keep_the_records_before_it_from_being_read(
    golden_archive: Unpack, golden_truth: Truth
) -> None:
    whole = golden_truth("archive-crash/truth-plain-after-restart")["recordings"][2]["replay"]["messages"]
    with everlog.open_store(golden_archive("archive-crash/torn-zeroseg-plain")) as store:
        found, faults = rows(store, "2", REPLAYED, "record")
        assert found == [tuple(row) for row in whole]
        assert faults == []


@pytest.mark.parametrize(("name", "truth"), WHOLE[:5] + WHOLE[6:7])
def test_descriptors_are_what_the_real_archive_lists(
    golden_archive: Unpack, golden_truth: Truth, name: str, truth: str
) -> None:
    with everlog.open_store(golden_archive(name)) as store:
        infos = {info.name: info for info in store.streams()}
        for recording in golden_truth(truth)["recordings"]:
            info = infos[str(recording["recordingId"])]
            details = info.details
            for theirs, ours in {
                "startTimestamp": "start_timestamp",
                "initialTermId": "initial_term_id",
                "segmentFileLength": "segment_file_length",
                "termBufferLength": "term_buffer_length",
                "mtuLength": "mtu_length",
                "sessionId": "session_id",
                "streamId": "stream_id",
                "strippedChannel": "stripped_channel",
                "originalChannel": "original_channel",
                "sourceIdentity": "source_identity",
                "startPosition": "start_position",
                "stopPosition": "stop_position",
            }.items():
                assert details[ours] == recording[theirs], (info.name, ours)
            assert info.end == str(recording["stopPosition"])
            empty = recording["stopPosition"] == recording["startPosition"]
            assert info.first == (None if empty else str(recording["startPosition"]))
            assert info.byte_count == recording["stopPosition"] - recording["startPosition"]


def test_deleted_recordings_are_listed_only_on_request(golden_archive: Unpack) -> None:
    with everlog.open_store(golden_archive("archive-basic/archive")) as store:
        assert "8" not in {info.name for info in store.streams()}
        deleted = {info.name: info for info in store.streams(include_all=True)}["8"]
        assert deleted.details["state"] == "DELETED"
        with pytest.raises(everlog.UnknownStream):
            list(store.scan("8"))


@pytest.mark.parametrize("name", ["x", "-1", "03", "9" * 20, "9" * 5000])
def test_a_name_that_is_no_recording_is_an_unknown_stream(golden_archive: Unpack, name: str) -> None:
    with everlog.open_store(golden_archive("archive-basic/archive")) as store, pytest.raises(everlog.UnknownStream):
        list(store.scan(name))


def test_reading_a_deleted_recording_whose_files_are_gone_gives_nothing_and_no_fault(golden_archive: Unpack) -> None:
    faults: list[Fault] = []
    with everlog.open_store(golden_archive("archive-basic/archive"), include_all=True) as store:
        assert [batch.row_count for batch in store.scan("8", on_fault=faults.append) if batch.row_count] == []
    assert faults == []


def test_compacting_leaves_only_what_is_valid(golden_archive: Unpack) -> None:
    with everlog.open_store(golden_archive("archive-basic/archive-compacted")) as store:
        names = [info.name for info in store.streams(include_all=True)]
        assert names == [str(n) for n in range(14) if n not in (8, 12)]


def test_an_active_recording_knows_what_was_recorded(golden_archive: Unpack) -> None:
    with everlog.open_store(golden_archive("archive-crash/crash-plain")) as store:
        sizes = {info.name: (info.first, info.end, info.byte_count) for info in store.streams()}
        assert sizes == {
            "0": ("0", "30048", 30048),
            "1": ("0", None, 192224),
            "2": ("0", None, 821728),
            "3": (None, None, 0),
        }


def test_info_shows_mark_file_catalog_and_recordings(golden_archive: Unpack) -> None:
    with everlog.open_store(golden_archive("archive-basic/archive")) as store:
        info = store.info()
    assert info["catalog"]["version"] == "3.1.0"
    assert info["catalog"]["next_recording_id"] == 14
    mark = info["mark_file"]
    assert (mark["version"], mark["pid"], mark["archive_id"]) == ("3.1.0", 24047, 4711)
    assert mark["control_channel"] == "aeron:udp?endpoint=localhost:18010"
    assert mark["aeron_directory"] == "/dev/shm/aeron-gold-24047"
    assert (mark["header_length"], mark["error_buffer_length"]) == (8192, 1048576)
    assert info["errors"] == []
    assert len(info["recordings"]) == 14


def test_the_time_can_be_taken_from_the_reserved_value(golden_archive: Unpack) -> None:
    path = golden_archive("archive-basic/archive")
    with everlog.open_store(path, timestamp_from="reserved_value:us") as store:
        found, _ = rows(store, "13", ["timestamp_ns", "reserved_value"], "record")
        assert [time for time, _ in found] == [value * 1000 for _, value in found]
    with everlog.open_store(path) as store:
        assert set(rows(store, "13", ["timestamp_ns"], "record")[0]) == {(None,)}


@pytest.mark.parametrize("split_bytes", [1, 131072, 1 << 30])
def test_splits_cover_each_record_once(golden_archive: Unpack, split_bytes: int) -> None:
    with everlog.open_store(golden_archive("archive-basic/archive")) as store:
        for stream in ("0", "1", "4", "6", "7", "10", "11"):
            whole, _ = rows(store, stream, ["position", "crc32"], "record")
            parts: list[tuple[Any, ...]] = []
            for split in store.splits(stream, split_bytes=split_bytes):
                for batch in store.scan_split(split, columns=["position", "crc32"]):
                    parts += batch.rows()
            assert parts == whole


def test_a_range_begins_at_the_next_record_and_ends_before_its_end(golden_archive: Unpack) -> None:
    with everlog.open_store(golden_archive("archive-basic/archive")) as store:
        whole = [r.fields["position"] for r in store.read("1")]
        for start in (0, 1, 4224, 4225, 60000, 65536, 131072, 176639):
            found = [r.fields["position"] for r in store.read("1", start=str(start), end="140000")]
            assert found == [p for p in whole if start <= p < 140000]
