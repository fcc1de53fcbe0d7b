"""What verify says of golden and of damaged archives, and that the records around the damage are read."""

from __future__ import annotations

import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import everlog
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.layouts import (
    ArchiveMarkHeader,
    CatalogHeader,
    DescriptorHeader,
    RecordingDescriptor,
    SbeMessageHeader,
)
from everlog.core.report import Fault, Severity

Unpack = Callable[[str], Path]
SEGMENT = 131072


def faults_of(path: Path, **options: str) -> list[Fault]:
    with everlog.open_store(path, **options) as store:
        report = store.verify()
    assert report.exit_code == int(any(f.severity is Severity.FAULT for f in report.faults))
    return report.faults


def hard(path: Path, **options: str) -> list[tuple[str, str, int | None]]:
    return [(f.code, f.file, f.offset) for f in faults_of(path, **options) if f.severity is Severity.FAULT]


def notes(path: Path) -> set[str]:
    return {f.code for f in faults_of(path) if f.severity is Severity.NOTE}


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def addresses(path: Path, stream: str) -> tuple[list[int], list[str]]:
    faults: list[Fault] = []
    with everlog.open_store(path) as store:
        found = [r.fields["position"] for r in store.read(stream, on_fault=faults.append)]
    return found, [f.code for f in faults if f.severity is Severity.FAULT]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("archive-basic/archive", {"segment-detached"}),
        ("archive-basic/archive-checksum-crc32", {"segment-detached"}),
        ("archive-basic/archive-compacted", {"segment-detached"}),
        ("archive-crash/crash-plain", {"recording-active"}),
        ("archive-crash/crash-crc", {"recording-active"}),
        ("archive-crash/crash-plain-recovered", set()),
        ("archive-old/v2-before", {"segment-detached", "recording-purged", "mark-file"}),
        ("archive-old/v3-after-migrate", {"segment-detached", "recording-purged", "mark-file"}),
    ],
)
def test_an_archive_that_the_real_tool_accepts_has_notes_at_most(
    golden_archive: Unpack, name: str, expected: set[str]
) -> None:
    path = golden_archive(name)
    assert hard(path) == []
    assert notes(path) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torn-half-plain", ("torn-frame", "2-786432.rec", 817664 - 786432)),
        ("torn-half-crc", ("torn-frame", "2-655360.rec", 731072 - 655360)),
        ("torn-page-plain", ("torn-frame", "2-786432.rec", 818912 - 786432)),
        ("torn-page-crc", ("torn-frame", "2-655360.rec", 732320 - 655360)),
        ("torn-zeroseg-plain", ("segment-empty", "2-917504.rec", 0)),
    ],
)
def test_each_torn_golden_archive_has_exactly_its_fault(
    golden_archive: Unpack, name: str, expected: tuple[str, str, int]
) -> None:
    assert hard(golden_archive(f"archive-crash/{name}")) == [expected]


def test_a_damaged_header_costs_one_frame(archive_copy: Unpack) -> None:
    path = archive_copy("archive-basic/archive")
    before, _ = addresses(path, "0")
    position = next(p for p in before if p > 140000)
    offset = position - 131072
    for field, code in ((8, "frame-term-offset"), (20, "frame-term-id"), (16, "frame-stream-id"), (0, "frame-length")):
        copy = Path(shutil.copytree(path, path.parent / str(field)))
        overwrite(copy / "0-131072.rec", offset + field, struct.pack("<i", -17))
        assert hard(copy) == [(code, "0-131072.rec", offset)]
        found, codes = addresses(copy, "0")
        assert (found, codes) == ([p for p in before if p != position], [code])


def test_a_hole_in_a_recording_is_reported_with_what_it_costs(archive_copy: Unpack) -> None:
    path = archive_copy("archive-basic/archive")
    before, _ = addresses(path, "0")
    overwrite(path / "0-0.rec", 4096, bytes(4096))
    found, codes = addresses(path, "0")
    assert codes == ["unset-frame"] or codes == ["frame-length"]
    assert [p for p in before if not 4096 - 256 <= p < 8192] == [p for p in found if not 4096 - 256 <= p < 8192]
    assert not [p for p in found if 4096 <= p < 8192]


def test_a_missing_a_short_and_an_orphaned_segment_are_faults(archive_copy: Unpack) -> None:
    path = archive_copy("archive-basic/archive")
    before, _ = addresses(path, "0")
    (path / "0-131072.rec").rename(path / "77-0.rec")
    with (path / "0-262144.rec").open("r+b") as file:
        file.truncate(65536 + 1000)
    codes = {(code, name) for code, name, _ in hard(path)}
    expected = {
        ("segment-missing", "0-131072.rec"),
        ("segment-short", "0-262144.rec"),
        ("segment-orphaned", "77-0.rec"),
    }
    assert codes == expected
    found, _ = addresses(path, "0")
    readable = [p for p in before if p < 131072 or 262144 <= p < 262144 + 65536 + 600 or p >= 393216]
    assert [p for p in readable if p not in found] == []
    assert set(found) <= set(before)


def test_a_stop_position_that_does_not_agree_with_the_frames_is_a_fault(archive_copy: Unpack) -> None:
    path = archive_copy("archive-basic/archive")
    data = (path / "archive.catalog").read_bytes()
    at = CatalogHeader.size + DescriptorHeader.size + RecordingDescriptor.field("stop_position").offset
    assert struct.unpack_from("<q", data, at) == (398240,)
    overwrite(path / "archive.catalog", at, struct.pack("<q", 1024))
    assert {code for code, _, _ in hard(path)} == {"stop-position", "segment-beyond-stop"}
    overwrite(path / "archive.catalog", at, struct.pack("<q", 398240 + 64))
    assert [code for code, _, _ in hard(path)] == ["unset-frame"]


def test_the_catalogs_header_entries_checksums_and_states_are_checked(archive_copy: Unpack) -> None:
    path = archive_copy("archive-basic/archive-checksum-crc32")
    catalog = path / "archive.catalog"
    good = catalog.read_bytes()
    first = CatalogHeader.size
    cases = [
        (4, struct.pack("<i", 33), "catalog-header"),
        (8, struct.pack("<q", 3), "catalog-header"),
        (first + 4, struct.pack("<i", 9), "catalog-entry"),
        (first, struct.pack("<i", -1), "catalog-entry"),
        (first + 4, struct.pack("<i", 0), "recording-invalid"),
        (first + 32 + 80, struct.pack("<i", 1 << 20), "catalog-strings"),
        (first + 32 + 64, struct.pack("<i", 65537), "catalog-descriptor"),
        (first + 32 + 24, struct.pack("<q", 1), "catalog-checksum"),
    ]
    for offset, data, code in cases:
        catalog.write_bytes(good[:offset] + data + good[offset + len(data) :])
        codes = [found for found, _, _ in hard(path)]
        assert code in codes, (offset, codes)
        # Whatever happened to its entry, the recording is still read: by its segment files where need be.
        found, _ = addresses(path, "0")
        assert len(found) == 4148
    catalog.write_bytes(good)


@pytest.mark.parametrize("rest", [0, 1, 16, 31, 32, 100])
def test_a_catalog_cut_at_or_near_an_entrys_start_is_damaged_and_costs_no_recording(
    archive_copy: Unpack, rest: int
) -> None:
    path = archive_copy("archive-basic/archive")
    with everlog.open_store(path) as store:
        assert isinstance(store, ArchiveStore)
        assert store.folder.catalog is not None
        cut = next(entry.offset for entry in store.folder.catalog.entries if entry.recording_id == 9) + rest
        expected = [record.payload for record in store.read("9")]
    catalog = path / "archive.catalog"
    catalog.write_bytes(catalog.read_bytes()[:cut])
    assert ("catalog-entry", "archive.catalog") in {(code, file) for code, file, _ in hard(path)}
    with everlog.open_store(path) as store:
        assert [record.payload for record in store.read("9")] == expected


def test_recordings_are_found_by_their_files_when_there_is_no_catalog(archive_copy: Unpack) -> None:
    path = archive_copy("archive-basic/archive")
    with everlog.open_store(path) as store:
        expected = {i.name: [r.payload for r in store.read(i.name)] for i in store.streams() if i.first is not None}
    (path / "archive.catalog").unlink()
    (path / "archive-mark.dat").unlink()
    assert [code for code, _, _ in hard(path)] == ["catalog-missing"]
    assert "mark-file-missing" in notes(path)
    with everlog.open_store(path) as store:
        found = {info.name: [r.payload for r in store.read(info.name)] for info in store.streams()}
        # The detached first segment of 7 is still there and, without a catalog, read.
        found["7"] = found["7"][-len(expected["7"]) :]
        assert found == expected


@pytest.mark.parametrize(
    ("cut", "code"), [(0, "mark-file"), (100, "mark-file"), (5000, "mark-file"), (None, "mark-file")]
)
def test_a_bad_mark_file_is_a_fault_and_keeps_nothing_from_being_read(
    archive_copy: Unpack, cut: int | None, code: str
) -> None:
    path = archive_copy("archive-basic/archive")
    mark = path / "archive-mark.dat"
    if cut is None:
        offset = SbeMessageHeader.size + ArchiveMarkHeader.field("version").offset
        overwrite(mark, offset, struct.pack("<i", 9 << 16))
    else:
        mark.write_bytes(mark.read_bytes()[:cut])
    assert [c for c, _, _ in hard(path)] == [code]
    assert len(addresses(path, "0")[0]) == 4148


def test_an_active_recording_of_a_live_archive_is_no_news(archive_copy: Unpack) -> None:
    path = archive_copy("archive-crash/crash-plain")
    offset = SbeMessageHeader.size + ArchiveMarkHeader.field("activity_timestamp").offset
    overwrite(path / "archive-mark.dat", offset, struct.pack("<q", time.time_ns() // 1_000_000))
    assert faults_of(path) == []


def test_a_recording_marked_invalid_is_read_with_a_note(archive_copy: Unpack) -> None:
    path = archive_copy("archive-basic/archive")
    overwrite(path / "archive.catalog", CatalogHeader.size + 4, struct.pack("<i", 0))
    faults: list[Fault] = []
    with everlog.open_store(path) as store:
        assert sum(1 for _ in store.read("0", on_fault=faults.append)) == 4148
        assert sum(1 for _ in store.read("0")) == 4148
    assert [(f.code, f.severity) for f in faults] == [("recording-invalid", Severity.NOTE)]


def test_asking_for_a_checksum_that_is_not_there_makes_every_frame_a_fault(golden_archive: Unpack) -> None:
    codes = {code for code, _, _ in hard(golden_archive("archive-basic/archive"), checksum="crc32c")}
    assert codes == {"frame-checksum"}


@pytest.mark.parametrize("version", [0x040000, 0x7FFFFFFF, -1])
def test_a_catalog_of_another_version_is_refused_with_one_line(archive_copy: Unpack, version: int) -> None:
    path = archive_copy("archive-basic/archive")
    overwrite(path / "archive.catalog", 0, struct.pack("<i", version))
    with pytest.raises(everlog.UnsupportedVersion, match=r"archive\.catalog"):
        everlog.open_store(path)
