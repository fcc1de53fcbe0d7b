"""Archives as Aeron 1.7 to 1.32 wrote them, against what those releases replayed and what was published to them."""

from __future__ import annotations

import json
import os
import shutil
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import everlog
import tests
from everlog.aeron.archive.format.segments import Naming, SegmentMap, naming_by_files
from everlog.core.report import Fault, Severity

Unpack = Callable[[str], Path]
Truth = Callable[[str], dict[str, Any]]
Row = tuple[Any, ...]

FOLDER = "archive-old-releases"
PUBLISHED = json.loads((tests.GOLDEN / "aeron" / FOLDER / "published.json").read_text())
VERSIONS = {
    # release: catalog, mark file; by the constants in the releases' sources, and what was found on disk
    "1.7.0": ("0.0.0", None),
    "1.9.3": ("0.0.0", "0.0.1"),
    "1.20.0": ("0.2.1", "0.2.1"),
    "1.22.1": ("1.0.0", "1.0.0"),
    "1.24.0": ("2.1.0", "2.1.0"),
    "1.32.0": ("3.1.0", "3.1.0"),
}
ALL = [f"{release}-{how}" for release in VERSIONS for how in ("stopped", "killed")]
STOPPED = [name for name in ALL if name.endswith("stopped")]
KILLED = [name for name in ALL if name.endswith("killed")]
REPLAYED = ["end_position", "length", "reserved_value", "flags", "term_id", "term_offset", "crc32"]
LENGTHS = (1, 31, 32, 33, 1000, 1376, 1377, 3000, 0, 8000, 64, 1408)
TRUNCATED, PURGED = "5", "6"


def rows(path: Path, stream: str, columns: list[str], level: str) -> tuple[list[Row], list[Fault]]:
    faults: list[Fault] = []
    found: list[Row] = []
    with everlog.open_store(path) as store:
        for batch in store.scan(stream, columns=columns, level=level, on_fault=faults.append):
            found += batch.rows()
    return found, faults


def everything(path: Path) -> dict[str, list[Row]]:
    with everlog.open_store(path) as store:
        names = [info.name for info in store.streams()]
    return {name: rows(path, name, ["position", "length", "crc32"], "record")[0] for name in names}


def findings(path: Path, severity: Severity = Severity.FAULT) -> list[tuple[str, str, int | None]]:
    with everlog.open_store(path) as store:
        return [(f.code, f.file, f.offset) for f in store.verify().faults if f.severity is severity]


def message(seed: int, number: int) -> Row:
    """Length, CRC and reserved value of a message, by the formula in the golden folder's README."""
    length = LENGTHS[number % len(LENGTHS)]
    data = bytes((seed * 31 + number * 7 + length + j * (1 + (number & 3))) & 0xFF for j in range(length))
    return length, zlib.crc32(data), seed << 32 | number


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


@pytest.mark.parametrize("name", ALL)
def test_every_fragment_that_its_own_release_replayed_is_read(
    golden_archive: Unpack, golden_truth: Truth, name: str
) -> None:
    path = golden_archive(f"{FOLDER}/{name}")
    for recording in golden_truth(f"{FOLDER}/{name}-truth")["recordings"]:
        found, faults = rows(path, str(recording["recordingId"]), REPLAYED, "frame")
        assert found == [tuple(row) for row in recording["replay"]["fragments"]]
        assert faults == []


@pytest.mark.parametrize("name", ALL)
def test_every_message_that_was_published_is_read_from_its_start_position_on(golden_archive: Unpack, name: str) -> None:
    path = golden_archive(f"{FOLDER}/{name}")
    published = PUBLISHED[name]
    for stream in (stream for stream in published if stream.isdecimal()):
        parts = [published[stream], *([published[f"{stream}-extended"]] if f"{stream}-extended" in published else [])]
        expected = [message(part["seed"], number) for part in parts for number in range(part["count"])]
        found, faults = rows(path, stream, ["position", "length", "crc32", "reserved_value"], "record")
        assert faults == []
        values = [row[1:] for row in found]
        if stream == TRUNCATED and name != "1.7.0-stopped":
            assert values == expected[: len(values)]
            assert len(values) == 200 * 2 // 3 + 1
        elif stream == PURGED:
            # Its first message begins before the new start position, 262144, and was cut in two.
            assert values == expected[-len(values) :]
            assert len(values) < 300
            assert 262144 <= found[0][0] < 262144 + 8000 + 6 * 32
        else:
            assert values == expected
            assert not expected or found[0][0] == published[stream]["startPosition"]


@pytest.mark.parametrize("name", STOPPED)
def test_descriptors_are_what_the_release_lists(golden_archive: Unpack, golden_truth: Truth, name: str) -> None:
    with everlog.open_store(golden_archive(f"{FOLDER}/{name}")) as store:
        infos = {info.name: info.details for info in store.streams()}
    listed = golden_truth(f"{FOLDER}/{name}-truth")["recordings"]
    assert set(infos) == {str(recording["recordingId"]) for recording in listed}
    keys = {
        "startTimestamp": "start_timestamp",
        "stopTimestamp": "stop_timestamp",
        "startPosition": "start_position",
        "stopPosition": "stop_position",
        "initialTermId": "initial_term_id",
        "segmentFileLength": "segment_file_length",
        "termBufferLength": "term_buffer_length",
        "mtuLength": "mtu_length",
        "sessionId": "session_id",
        "streamId": "stream_id",
        "strippedChannel": "stripped_channel",
        "originalChannel": "original_channel",
        "sourceIdentity": "source_identity",
    }
    if name.startswith("1.9.3"):
        del keys["sourceIdentity"]  # cut off by that release when it lists
        assert {details["source_identity"] for details in infos.values()} == {"aeron:ipc"}
    for recording in listed:
        details = infos[str(recording["recordingId"])]
        assert {ours: details[ours] for ours in keys.values()} == {o: recording[t] for t, o in keys.items()}


@pytest.mark.parametrize("name", ALL)
def test_info_tells_the_versions(golden_archive: Unpack, name: str) -> None:
    with everlog.open_store(golden_archive(f"{FOLDER}/{name}")) as store:
        info = store.info()
    catalog, mark = VERSIONS[name.split("-")[0]]
    assert info["catalog"]["version"] == catalog
    assert (info["mark_file"] or {"version": None})["version"] == mark
    if mark is not None:
        assert info["mark_file"]["control_channel"] == "aeron:udp?endpoint=localhost:28010"
        assert info["mark_file"]["aeron_directory"].startswith("/dev/shm/aeron-old-")
    assert info["errors"] == []


@pytest.mark.parametrize("name", ALL)
def test_what_a_release_left_behind_has_no_faults(golden_archive: Unpack, name: str) -> None:
    path = golden_archive(f"{FOLDER}/{name}")
    expected = {"mark-file-missing"} if name.startswith("1.7.0") else set()
    expected |= {"recording-active"} if name in KILLED else set()
    assert findings(path) == []
    assert {code for code, _, _ in findings(path, Severity.NOTE)} == expected


@pytest.mark.parametrize("name", KILLED)
def test_the_end_of_an_active_recording_is_that_of_the_last_fragment(
    golden_archive: Unpack, golden_truth: Truth, name: str
) -> None:
    with everlog.open_store(golden_archive(f"{FOLDER}/{name}")) as store:
        ends = {info.name: int(info.first or 0) + (info.byte_count or 0) for info in store.streams()}
    for recording in golden_truth(f"{FOLDER}/{name}-truth")["recordings"]:
        assert ends[str(recording["recordingId"])] == recording["replay"]["fragments"][-1][0]


def test_a_stop_position_that_an_old_release_recovered_too_high_costs_no_record(golden_archive: Unpack) -> None:
    active, recovered = (golden_archive(f"{FOLDER}/1.20.0-killed{kind}") for kind in ("", "-recovered"))
    assert everything(recovered) == everything(active)
    assert findings(recovered) == [
        ("unset-frame", "1-2.rec", 161376 - 2 * 65536),
        ("unset-frame", "2-2.rec", 306432 - 131072 - 2 * 65536),
    ]


# Migration by the real tool


@pytest.mark.parametrize(("name", "misnamed"), [("1.9.3-stopped", {"3"}), ("1.22.1-killed", set())])
def test_migration_changes_no_record_but_where_the_real_tool_misnames_the_files(
    golden_archive: Unpack, name: str, misnamed: set[str]
) -> None:
    before, after = (everything(golden_archive(f"{FOLDER}/{name}{kind}")) for kind in ("", "-migrated"))
    assert {stream for stream in before if before[stream] != after[stream]} == misnamed


def test_a_recording_whose_files_the_real_tool_misnamed_is_a_fault(golden_archive: Unpack) -> None:
    # It starts at 230848: its first file begins at 196608, is named 131072 in version 1, and 327680 by the tool.
    assert findings(golden_archive(f"{FOLDER}/1.9.3-stopped-migrated")) == [
        ("segment-beyond-stop", "3-589824.rec", 0),
        ("segment-missing", "3-196608.rec", None),
        ("unset-frame", "3-327680.rec", 0),
    ]


# Names


@pytest.mark.parametrize(
    ("start", "naming", "numbers"),
    [
        (0, Naming.INDEX, [0, 1, 2]),
        (0, Naming.START_SEGMENT, [0, 131072, 262144]),
        (0, Naming.POSITION, [0, 131072, 262144]),
        (92416, Naming.INDEX, [0, 1, 2]),
        (92416, Naming.START_SEGMENT, [0, 131072, 262144]),
        (92416, Naming.POSITION, [65536, 196608, 327680]),
        (230848, Naming.INDEX, [0, 1, 2]),
        (230848, Naming.START_SEGMENT, [131072, 262144, 393216]),
        (230848, Naming.POSITION, [196608, 327680, 458752]),
    ],
)
def test_files_are_named_by_the_catalogs_version(start: int, naming: Naming, numbers: list[int]) -> None:
    segments = SegmentMap(7, start, 65536, 131072, naming)
    bases = [start // 65536 * 65536 + n * 131072 for n in range(3)]
    assert [segments.number(base) for base in bases] == numbers
    assert [segments.base_of(number) for number in numbers] == bases
    assert segments.place(start) == (f"7-{numbers[0]}.rec", start % 65536)
    assert segments.base_of(numbers[1] + 4096) == (None if naming is not Naming.INDEX else bases[1] + 4096 * 131072)


def test_files_tell_how_they_are_named_only_when_all_agree() -> None:
    assert naming_by_files({0: [0, 1, 2]}) is Naming.INDEX
    assert naming_by_files({0: [0, 65536]}, Naming.INDEX) is Naming.POSITION
    assert naming_by_files({0: [0, 65536]}, Naming.START_SEGMENT) is Naming.START_SEGMENT
    assert naming_by_files({0: [0, 1, 65536]}, Naming.POSITION) is Naming.POSITION
    assert naming_by_files({0: [0]}, Naming.INDEX) is Naming.INDEX


def test_a_file_left_behind_by_a_migration_that_broke_off_is_a_fault(archive_copy: Unpack) -> None:
    path = archive_copy(f"{FOLDER}/1.20.0-stopped")
    (path / "0-1.rec").rename(path / "0-131072.rec")
    assert findings(path) == [("segment-name", "0-131072.rec", None), ("segment-missing", "0-1.rec", None)]


# Damage


@pytest.mark.parametrize("name", ["1.7.0-stopped", "1.20.0-stopped", "1.22.1-stopped", "1.24.0-stopped"])
@pytest.mark.parametrize("version", [0x040000, 0x7FFFFFFF, -1])
def test_a_version_that_never_was_is_refused_with_one_line(archive_copy: Unpack, name: str, version: int) -> None:
    path = archive_copy(f"{FOLDER}/{name}")
    overwrite(path / "archive.catalog", 0, struct.pack("<i", version))
    with pytest.raises(everlog.UnsupportedVersion, match=r"archive\.catalog.*expected 0\.x to 3\.x"):
        everlog.open_store(path)


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("1.7.0-stopped", 0x030100, ["catalog-header"] * 2),
        ("1.20.0-stopped", 0x030000, ["catalog-header"] * 2),
        ("1.24.0-stopped", 0x030000, ["catalog-header"]),
        ("1.7.0-stopped", 0x020000, ["catalog-header"]),
        ("1.20.0-stopped", 0x010000, ["catalog-header"]),
        ("1.24.0-stopped", 0x000201, ["catalog-header"]),
        ("1.32.0-stopped", 0, ["catalog-header"]),
        ("1.32.0-stopped", 0x020100, ["catalog-header"]),
    ],
)
def test_a_version_that_the_rest_contradicts_is_a_fault_and_costs_nothing(
    archive_copy: Unpack, name: str, version: int, expected: list[str]
) -> None:
    path = archive_copy(f"{FOLDER}/{name}")
    before = everything(path)
    overwrite(path / "archive.catalog", 0, struct.pack("<i", version))
    assert everything(path) == before
    found = [finding for finding in findings(path) if finding[0] != "mark-file"]
    assert found == [(code, "archive.catalog", 0) for code in expected]


@pytest.mark.parametrize(
    ("offset", "data", "code"),
    [
        (0, struct.pack("<i", -1), "catalog-entry"),
        (0, struct.pack("<i", 993), "catalog-entry"),
        (0, struct.pack("<i", 0), "catalog-entry"),
        (4, b"\2", "catalog-entry"),
        (32 + 16, struct.pack("<q", 65), "catalog-entry"),
        (32 + 64, struct.pack("<i", 65537), "catalog-descriptor"),
        (32 + 80, struct.pack("<i", 1 << 20), "catalog-strings"),
    ],
)
@pytest.mark.parametrize("name", ["1.7.0-stopped", "1.20.0-stopped"])
def test_a_damaged_entry_is_a_fault_and_its_recording_is_read_by_its_files(
    archive_copy: Unpack, name: str, offset: int, data: bytes, code: str
) -> None:
    path = archive_copy(f"{FOLDER}/{name}")
    before = everything(path)
    overwrite(path / "archive.catalog", 2 * 1024 + offset, data)
    found = [(c, o) for c, file, o in findings(path) if file == "archive.catalog"]
    assert found == [(code, found[0][1])]
    assert 2 * 1024 <= (found[0][1] or 0) < 3 * 1024
    after = everything(path)
    assert after == before
    with everlog.open_store(path) as store:
        assert {info.name: info.details["in_catalog"] for info in store.streams()}["1"] is False


def test_a_stray_byte_behind_thousands_of_empty_entries_is_one_fault_found_at_once(archive_copy: Unpack) -> None:
    path = archive_copy(f"{FOLDER}/1.24.0-killed")
    before = everything(path)
    overwrite(path / "archive.catalog", 7_156_056, b"\1")
    begin = time.monotonic()
    with everlog.open_store(path) as store:
        faults = [fault for fault in store.verify().faults if fault.severity is Severity.FAULT]
    assert time.monotonic() - begin < 5
    # Entries 0 to 2 are there; the byte lies in entry 6987, whose length is 0.
    entries = 4 * 1024, 6988 * 1024
    assert [(f.code, f.offset, f.loses) for f in faults] == [
        ("catalog-entry", entries[0], f"the entries before offset {entries[1]}"),
        ("catalog-entry", entries[1], "the entry"),
    ]
    assert everything(path) == before


@pytest.mark.parametrize("name", ["1.7.0-stopped", "1.20.0-stopped"])
def test_without_a_catalog_files_that_are_counted_are_read_from_their_first_term_on(
    archive_copy: Unpack, name: str
) -> None:
    path = archive_copy(f"{FOLDER}/{name}")
    before = everything(path)
    (path / "archive.catalog").unlink()
    after = everything(path)
    # Recording 3 began in the fourth term, which nothing says any more.
    shift = PUBLISHED[name]["3"]["startPosition"] // 65536 * 65536
    assert after["1"] == before["1"]
    assert after["3"] == [(row[0] - shift, *row[1:]) for row in before["3"]]


def test_without_its_first_file_an_uncatalogued_recording_has_a_gap(archive_copy: Unpack) -> None:
    path = archive_copy(f"{FOLDER}/1.20.0-stopped")
    before = everything(path)
    (path / "archive.catalog").unlink()
    (path / "0-0.rec").unlink()
    found, faults = rows(path, "0", ["position", "length", "crc32"], "record")
    assert found == before["0"][-len(found) :]
    assert found[0][0] >= 131072
    assert faults[0].code == "segment-missing"
    assert faults[0].file == "0-0.rec"


def test_a_frame_that_was_damaged_is_named_by_its_counted_file(archive_copy: Unpack) -> None:
    path = archive_copy(f"{FOLDER}/1.20.0-stopped")
    before = everything(path)
    position = next(row[0] for row in before["2"] if row[0] > 65536 + 131072)
    overwrite(path / "2-1.rec", position - 65536 - 131072 + 8, struct.pack("<i", -17))
    assert findings(path) == [("frame-term-offset", "2-1.rec", position - 65536 - 131072)]
    assert everything(path)["2"] == [row for row in before["2"] if row[0] != position]


def test_the_catalog_of_two_gigabytes_that_the_oldest_made_is_read(archive_copy: Unpack) -> None:
    path = archive_copy(f"{FOLDER}/1.7.0-stopped")
    before = everything(path)
    os.truncate(path / "archive.catalog", 2**31 - 1)
    with everlog.open_store(path) as store:
        assert store.info()["catalog"]["capacity"] == 2**31 - 1
        assert store.info()["catalog"]["entry_count"] == 6
    assert everything(path) == before
    assert findings(path) == []


@pytest.mark.parametrize("name", ["1.20.0-stopped", "1.22.1-stopped", "1.32.0-stopped"])
def test_a_stop_position_at_the_end_of_all_positions_ends(archive_copy: Unpack, name: str) -> None:
    path = archive_copy(f"{FOLDER}/{name}")
    before = everything(path)
    entry = 1024 if not name.startswith("1.32") else 32
    overwrite(path / "archive.catalog", entry + 32 + 48, struct.pack("<q", 2**62))
    assert everything(path)["0"] == before["0"]
    assert ("unset-frame", "0-2.rec" if name < "1.22" else "0-262144.rec") in {f[:2] for f in findings(path)}
    with everlog.open_store(path) as store:
        assert 0 < len(store.splits("0")) < 70_000


@pytest.mark.parametrize("name", ["1.20.0-killed", "1.22.1-killed", "1.32.0-killed"])
def test_a_file_at_the_end_of_all_positions_does_not_hold_up_an_active_recording(
    archive_copy: Unpack, name: str
) -> None:
    path = archive_copy(f"{FOLDER}/{name}")
    before = everything(path)
    shutil.copy(path / "0-0.rec", path / f"1-{2**62}.rec")
    assert everything(path) == before
    assert {file for _, file, _ in findings(path)} <= {f"1-{2**62}.rec"}
