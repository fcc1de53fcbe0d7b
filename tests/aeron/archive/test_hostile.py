"""Cut and flipped golden archives: no crash, no hang, no record that was not written, and both walkers agree."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.aeron.archive.folder import scan
from everlog.aeron.frames import columns, walk_twin
from everlog.core.report import Fault
from everlog.errors import EverlogError
from everlog.kernel import columns_twin
from everlog.testing.series import Series

Unpack = Callable[[str], Path]
NAMES = ["position", "end_position", "payload", "flags", "reserved_value"]


@pytest.fixture(scope="module")
def small_archive(golden_archive: Unpack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings 9 (fragments), 12 and 13 of the checksummed archive, and its catalog."""
    source = golden_archive("archive-basic/archive-checksum-crc32")
    folder = tmp_path_factory.mktemp("small")
    for name in ("archive.catalog", "9-0.rec", "12-0.rec", "13-0.rec"):
        shutil.copy(source / name, folder / name)
    with (folder / "archive.catalog").open("r+b") as file:
        file.truncate(8192)
    return folder


def everything(path: Path, **options: Any) -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = {}
    with everlog.open_store(path, **options) as store:
        store.verify()
        for stream in ("9", "12", "13"):
            rows = found.setdefault(stream, [])
            faults: list[Fault] = []
            try:
                for batch in store.scan(stream, columns=NAMES, on_fault=faults.append):
                    rows += batch.rows()
            except everlog.UnknownStream:
                continue
    return found


def test_a_segment_with_flipped_bits_gives_only_what_was_written_where_checksums_tell(
    small_archive: Path, tmp_path: Path, series: Series
) -> None:
    path = Path(shutil.copytree(small_archive, tmp_path / "store"))
    written = {stream: set(rows) for stream, rows in everything(path).items()}
    assert {stream: len(rows) for stream, rows in written.items()} == {"9": 22, "12": 209, "13": 43}
    generator = random.Random(5)
    for name, stream, end in (("9-0.rec", "9", 32672), ("13-0.rec", "13", 4032)):
        good = (path / name).read_bytes()
        for _ in range(series.rounds(120)):
            data = bytearray(good)
            at = generator.randrange(end)
            data[at] ^= 1 << generator.randrange(8)
            (path / name).write_bytes(data)
            for row in everything(path, checksum="crc32")[stream]:
                # The header itself is under no checksum: only its reserved value can differ unseen, and low bits of
                # a length, flags and types that fit what is around them.
                same = [w for w in written[stream] if w[0] == row[0]]
                assert same, (name, at, row[0])
                assert row[2].rstrip(b"\0")[:1] == same[0][2].rstrip(b"\0")[:1]
                if row[:4] != same[0][:4]:
                    assert row[:2] == same[0][:2], (name, at, row, same)
        (path / name).write_bytes(good)


def test_a_segment_cut_anywhere_gives_the_records_before_the_cut(
    small_archive: Path, tmp_path: Path, series: Series
) -> None:
    path = Path(shutil.copytree(small_archive, tmp_path / "store"))
    written = everything(path)["13"]
    good = (path / "13-0.rec").read_bytes()
    for cut in series.points([*range(300), *range(300, 4100, 37)]):
        (path / "13-0.rec").write_bytes(good[:cut])
        found = everything(path)["13"]
        assert found == written[: len(found)]
        assert len(found) >= sum(row[1] <= cut for row in written)


def test_a_catalog_cut_or_flipped_anywhere_costs_no_record_and_never_raises_but_for_its_version(
    small_archive: Path, tmp_path: Path, series: Series
) -> None:
    path = Path(shutil.copytree(small_archive, tmp_path / "store"))
    written = everything(path)
    good = (path / "archive.catalog").read_bytes()
    generator = random.Random(6)
    damaged = [good[:cut] for cut in range(0, 6000, 83)]
    for _ in range(150):
        data = bytearray(good)
        at = generator.randrange(6000)
        data[at] ^= 1 << generator.randrange(8)
        damaged.append(bytes(data))
    for data in series.points(damaged):
        (path / "archive.catalog").write_bytes(data)
        try:
            found = everything(path)
        except everlog.UnsupportedVersion:
            assert data[2:4] != good[2:4]
            continue
        for stream, rows in found.items():
            assert set(rows) <= set(written[stream])


def test_random_bytes_as_segments_give_nothing_and_end(small_archive: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(small_archive, tmp_path / "store"))
    generator = random.Random(7)
    for size in (0, 1, 31, 32, 4096, 131072):
        for name in ("9-0.rec", "12-0.rec", "13-0.rec"):
            (path / name).write_bytes(generator.randbytes(size))
        assert not any(everything(path).values())
        (path / "archive.catalog").unlink(missing_ok=True)
        with everlog.open_store(path) as store:
            assert store.streams() == [] or size == 131072
            store.verify()
        shutil.copy(small_archive / "archive.catalog", path)


def test_the_twins_read_whole_archives_alike(golden_archive: Unpack, monkeypatch: pytest.MonkeyPatch) -> None:
    path = golden_archive("archive-crash/torn-page-plain")

    def read() -> list[Any]:
        found: list[Any] = []
        with everlog.open_store(path) as store:
            for stream in ("0", "1", "2", "3"):
                for level in ("record", "frame"):
                    for batch in store.scan(stream, level=level, on_fault=found.append):
                        found += batch.rows()
        return found

    compiled = read()
    monkeypatch.setattr(scan, "Walker", walk_twin.Walker)
    monkeypatch.setattr(columns, "RowSink", columns_twin.RowSink)
    assert read() == compiled


def test_a_file_that_may_not_be_read_is_one_clear_error(small_archive: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(small_archive, tmp_path / "store"))
    (path / "13-0.rec").unlink()
    (path / "13-0.rec").mkdir()
    with everlog.open_store(path) as store:
        with pytest.raises(EverlogError, match=r"13-0\.rec"):
            list(store.read("13"))
        assert "unreadable" in {fault.code for fault in store.verify().faults}
