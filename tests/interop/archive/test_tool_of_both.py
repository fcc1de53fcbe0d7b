"""What our verbs for archives make of a folder, under the real archive and its tools."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import everlog
import tests
from everlog.cli.app import run
from tests.interop.archive.java_archive import CHECKSUM_CLASSES, JavaArchive, archive_tool

Start = Callable[..., JavaArchive]
GOLDEN = tests.GOLDEN / "aeron"
OLD = [
    f"{release}-{how}" for release in ("1.7.0", "1.9.3", "1.20.0", "1.22.1", "1.24.0") for how in ("stopped", "killed")
]


def unpacked(name: str, folder: Path) -> Path:
    with tarfile.open(GOLDEN / f"{name}.tar.gz") as tar:
        tar.extractall(folder, filter="data")
    (inner,) = folder.iterdir()
    return inner


def tool(folder: Path, *arguments: str) -> None:
    assert run(["archive", str(folder), *arguments, "--no-backup"]) == 0


def fragments(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    columns = ["end_position", "length", "crc32", "reserved_value"]
    with everlog.open_store(folder) as store:
        return {
            info.name: [row for b in store.scan(info.name, columns=columns, level="frame") for row in b.rows()]
            for info in store.streams()
        }


@pytest.mark.parametrize("name", OLD)
def test_todays_archive_serves_an_archive_of_an_old_release_that_we_migrated(
    start_archive: Start, aeron_jar: Path, tmp_path: Path, name: str
) -> None:
    folder = unpacked(f"archive-old-releases/{name}", tmp_path / "old")
    expected = fragments(folder)
    tool(folder, "migrate", "--yes")
    checked = Path(shutil.copytree(folder, tmp_path / "checked"))  # its verify writes
    verified = archive_tool(aeron_jar, checked, "verify", "-a")
    assert "ERR" not in verified.stdout
    assert verified.stdout.count(" OK\n") == len(expected)
    with start_archive(folder) as archive:
        listed = archive.recordings()
        assert {str(found.recording_id) for found in listed} == set(expected)
        for found in listed:
            if found.stop_position == found.start_position:
                assert expected[str(found.recording_id)] == []
                continue
            replay = archive.replay(found.recording_id, fragments=True).messages
            rows = [(m.end_position, m.length, m.crc32, m.reserved_value) for m in replay]
            assert rows == expected[str(found.recording_id)], found.recording_id


@pytest.mark.parametrize("answer", ["y", "YES", "n", "yeah"])
def test_both_take_the_same_answers_from_a_pipe(
    aeron_jar: Path, tmp_path: Path, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, ours = (unpacked("archive-basic/archive", tmp_path / whose) for whose in ("theirs", "ours"))
    for folder in (theirs, ours):
        tool(folder, "mark-invalid", "12")
    names = {path.name for path in ours.iterdir()}
    archive_tool(aeron_jar, theirs, "compact", says=answer)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{answer}\n"))
    run(["archive", str(ours), "compact", "--no-backup"])
    assert {path.name for path in ours.iterdir()} == {path.name for path in theirs.iterdir()}
    assert ({path.name for path in ours.iterdir()} == names) == (answer in ("n", "yeah"))


@pytest.mark.parametrize("kind", ["Crc32", "Crc32c"])
def test_its_tool_finds_our_checksums_compaction_and_states_in_order(
    aeron_jar: Path, tmp_path: Path, kind: str
) -> None:
    folder = unpacked("archive-basic/archive", tmp_path / "basic")
    checksum = CHECKSUM_CLASSES[kind.lower()]
    tool(folder, "checksum", kind, "-a")
    tool(folder, "mark-invalid", "12")
    assert archive_tool(aeron_jar, folder, "count-entries").stdout == "12\n"
    tool(folder, "delete-orphaned-segments", "--yes")
    tool(folder, "compact", "--yes")
    tool(folder, "capacity", "2000000")
    verified = archive_tool(aeron_jar, folder, "verify", "-a", "-checksum", checksum)
    kept = [number for number in range(14) if number not in (8, 12)]
    assert verified.stdout == "".join(f"(recordingId={number}) OK\n" for number in kept)


@pytest.mark.smoke
def test_its_tool_sees_a_catalog_that_we_made_longer(aeron_jar: Path, tmp_path: Path) -> None:
    folder = unpacked("archive-basic/archive", tmp_path / "basic")
    tool(folder, "capacity", "2000000")
    assert "Catalog capacity in bytes: 2000000" in archive_tool(aeron_jar, folder, "describe-all").stdout


@pytest.mark.parametrize(("name", "answer"), [("torn-page-plain", "y"), ("torn-page-plain", "n"), ("crash-plain", "y")])
def test_what_verify_writes_is_the_same_in_both(aeron_jar: Path, tmp_path: Path, name: str, answer: str) -> None:
    ours = unpacked(f"archive-crash/{name}", tmp_path / "ours")
    theirs = unpacked(f"archive-crash/{name}", tmp_path / "theirs")
    tool(ours, "verify", "--fix", "--truncate" if answer == "y" else "--keep")
    assert "ERR" not in archive_tool(aeron_jar, theirs, "verify", "-a", says=answer).stdout
    files = {path.name for path in theirs.iterdir()}
    assert files == {path.name for path in ours.iterdir()}
    differing = {file for file in files if (theirs / file).read_bytes() != (ours / file).read_bytes()}
    assert differing == {"archive.catalog"}  # by the time at which each ran
    with everlog.open_store(ours) as mine, everlog.open_store(theirs) as other:
        for one, two in zip(mine.streams(), other.streams(), strict=True):
            assert one.details["stop_timestamp"] is not None
            assert {**one.details, "stop_timestamp": 0} == {**two.details, "stop_timestamp": 0}
