"""``everlog archive``: the verbs that write. Lines and exit codes, the question, the dry run, the backup."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import struct
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import tests

GOLDEN = tests.GOLDEN / "aeron"
Call = Callable[..., tuple[int, list[str], str]]
Unpack = Callable[[str], Path]
BASIC = "archive-basic/archive"
WRITING = [
    *(["compact", "--yes"], ["delete-orphaned-segments", "--yes"], ["checksum", "Crc32", "-a"], ["mark-invalid", "3"]),
    *(["capacity", "2000000"],),
]


@pytest.fixture
def unpack(tmp_path: Path) -> Unpack:
    """A folder of its own for each test."""

    def unpacked(name: str) -> Path:
        with tarfile.open(GOLDEN / f"{name}.tar.gz") as tar:
            tar.extractall(tmp_path / "made", filter="data")
        (inner,) = (tmp_path / "made").iterdir()
        return inner

    return unpacked


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def beside(folder: Path) -> list[Path]:
    return sorted(path for path in folder.parent.iterdir() if path != folder)


def printed(name: str) -> list[str]:
    """What the original printed behind its question, which it does not end with a line."""
    lines = (GOLDEN / name).read_text().splitlines()[1:-1]
    return [line.removeprefix("Continue? (y/n): ") for line in lines if not line.startswith("WARNING: ")]


def test_compact_prints_the_originals_line_and_gives_its_files(call: Call, unpack: Unpack) -> None:
    folder = unpack(BASIC)
    code, lines, _ = call("archive", folder, "mark-invalid", "12", "--no-backup")
    assert (code, lines) == (0, ["(recordingId=12) changed state to INVALID", ""])
    code, lines, err = call("archive", folder, "compact", "--yes", "--no-backup")
    assert (code, lines[:-1], err) == (0, printed("archive-basic/tool-mark-compact.txt"), "")
    _, lines, _ = call("archive", folder, "describe-all")
    told = (GOLDEN / "archive-basic/tool-mark-compact-describe-all.txt").read_text().splitlines()
    assert [line for line in lines if line.startswith(("[Rec", "Cat"))] == [
        line for line in told if line.startswith(("[Rec", "Cat"))
    ]


def test_migrate_prints_the_originals_lines(call: Call, unpack: Unpack) -> None:
    code, lines, _ = call("archive", unpack("archive-old/v2-before"), "migrate", "--yes", "--no-backup")
    assert (code, lines[:-1]) == (0, printed("archive-old/tool-migrate.txt"))


def test_migrate_tells_each_new_name_and_a_second_time_there_is_nothing_to_do(call: Call, unpack: Unpack) -> None:
    folder = unpack("archive-old-releases/1.9.3-stopped")
    code, lines, _ = call("archive", folder, "migrate", "--yes", "--no-backup")
    assert code == 0
    assert f"(recordingId=3) renaming {folder}/3-0.rec -> {folder}/3-196608.rec" in lines
    before = files(folder)
    code, lines, _ = call("archive", folder, "migrate")
    assert (code, len(lines)) == (0, 4)
    assert files(folder) == before


def test_max_entries_prints_the_originals_line(call: Call, unpack: Unpack) -> None:
    code, lines, _ = call("archive", unpack(BASIC), "max-entries")
    assert (code, lines[:-1]) == (0, printed("archive-basic/tool-max-entries.txt"))


def test_capacity_is_printed_and_grows(call: Call, unpack: Unpack) -> None:
    folder = unpack(BASIC)
    assert call("archive", folder, "capacity")[:2] == (0, ["1048576", ""])
    assert call("archive", folder, "capacity", "1000", "--no-backup")[:2] == (0, ["1048576", ""])
    assert call("archive", folder, "capacity", "2000000", "--no-backup")[:2] == (0, ["2000000", ""])
    assert (folder / "archive.catalog").stat().st_size == 2_000_000
    assert json.loads(call("archive", folder, "capacity", "--json")[1][0]) == {"capacity": 2_000_000}
    assert call("archive", folder, "capacity", "0")[0] == 2
    assert call("archive", folder, "capacity", str(1 << 31))[0] == 2


def test_checksum_prints_nothing_as_the_original_and_a_file_that_is_damaged_is_an_error(
    call: Call, unpack: Unpack
) -> None:
    folder = unpack(BASIC)
    assert call("archive", folder, "checksum", "org.agrona.checksum.Crc32", "-a", "--no-backup") == (0, [""], "")
    assert call("archive", folder, "verify", "-a", "-checksum", "Crc32")[0] == 0
    with (folder / "3-0.rec").open("r+b") as file:
        file.seek(64)
        file.write(struct.pack("<i", -5))
    code, lines, _ = call("archive", folder, "checksum", "Crc32c", "3", "--no-backup")
    assert code == 1
    assert lines[0].startswith(f"(recordingId=3, file={folder}/3-0.rec) ERR: a frame of -5 bytes")
    assert call("archive", folder, "checksum", "Md5")[0] == 2


@pytest.mark.parametrize("verb", ["compact", "delete-orphaned-segments", "migrate"])
def test_without_a_terminal_and_yes_nothing_is_changed(
    call: Call, unpack: Unpack, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = unpack("archive-old/v2-before" if verb == "migrate" else BASIC)
    before = files(folder)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    code, lines, err = call("archive", folder, verb)
    assert (code, lines) == (2, [""])
    assert "pass --yes" in err
    assert "--dry-run" in err
    assert files(folder) == before
    assert beside(folder) == []


ANSWERS = [("y\n", 0), ("Yes\n", 0), ("y", 0), ("n\n", 1), ("yeah\n", 1), ("\n", 2), ("", 2)]


@pytest.mark.parametrize(("answer", "code"), ANSWERS)
def test_an_answer_is_taken_from_a_pipe(
    call: Call, unpack: Unpack, answer: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = unpack(BASIC)
    before = files(folder)
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    found, _, err = call("archive", folder, "compact", "--no-backup")
    assert found == code
    assert (files(folder) == before) == (code != 0)
    assert ("pass --yes" in err) == (code == 2)


@pytest.mark.parametrize("verb", ["compact", "delete-orphaned-segments", "migrate"])
def test_each_verb_that_asks_takes_a_line_and_no_more(
    call: Call, unpack: Unpack, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = unpack("archive-old/v2-before" if verb == "migrate" else BASIC)
    (folder / "3-999424.rec").write_bytes(b"")
    stdin = io.StringIO("y\nfor the next program\n")
    monkeypatch.setattr(sys, "stdin", stdin)
    assert call("archive", folder, verb, "--no-backup")[0] == 0
    assert stdin.read() == "for the next program\n"


def test_what_is_no_text_is_no_answer(call: Call, unpack: Unpack, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = unpack(BASIC)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\n"), "utf-8"))
    assert call("archive", folder, "compact", "--no-backup")[0] == 2


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_on_a_terminal_it_asks(
    call: Call, unpack: Unpack, answer: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = unpack(BASIC)
    before = files(folder)
    monkeypatch.setattr("everlog.cli.confirmation.is_terminal", lambda stream: stream is sys.stdin)
    monkeypatch.setattr("click.confirm", lambda text, err: answer.strip() == "y")
    assert call("archive", folder, "compact", "--no-backup")[0] == code
    assert (files(folder) == before) == (code == 1)


@pytest.mark.parametrize("verb", WRITING, ids=lambda verb: verb[0])
def test_a_dry_run_tells_the_steps_and_changes_nothing(call: Call, unpack: Unpack, verb: list[str]) -> None:
    folder = unpack(BASIC)
    before = files(folder)
    code, lines, err = call("archive", folder, *verb, "--dry-run")
    assert (code, err) == (0, "")
    assert lines[0].startswith("step 1  ")
    assert lines[-2] == "dry run: nothing was changed"
    (line, _) = call("archive", folder, *verb, "--dry-run", "--json")[1]
    found = json.loads(line)
    assert (found["changed"], found["done"], found["backup"]) == (False, [], None)
    assert len(found["plan"]["steps"]) == sum(line.startswith("step ") for line in lines)
    assert files(folder) == before
    assert beside(folder) == []


@pytest.mark.parametrize("verb", WRITING, ids=lambda verb: verb[0])
def test_what_was_there_before_is_kept_beside_the_archive_and_the_command_that_is_told_brings_it_back(
    call: Call, unpack: Unpack, verb: list[str]
) -> None:
    folder = unpack(BASIC)
    before = files(folder)
    code, _, err = call("archive", folder, *verb)
    assert code == 0
    (kept,) = beside(folder)
    assert re.fullmatch(r"archive\.repair-\d{8}T\d{6}Z", kept.name)
    assert files(folder) != before
    (told,) = re.findall(r"to undo: (.*)\n", err)
    words = shlex.split(told)
    assert words == ["everlog", "archive", str(folder), "undo", str(kept)]
    assert call(*words[1:], "--dry-run")[0] == 0
    assert files(folder) != before
    assert call(*words[1:])[0] == 0
    assert files(folder) == before
    (line, _) = call(*words[1:], "--json")[1]
    assert all(text.endswith(("nothing to undo", "bytes")) for text in json.loads(line)["done"])


def test_where_it_is_kept_can_be_chosen(call: Call, unpack: Unpack, tmp_path: Path) -> None:
    folder = unpack(BASIC)
    assert call("archive", folder, "mark-invalid", "3", "--backup", tmp_path / "mine")[0] == 0
    assert (tmp_path / "mine" / "plan.json").exists()
    assert call("archive", folder, "mark-invalid", "4", "--backup", tmp_path / "mine")[0] == 2
    assert call("archive", folder, "mark-invalid", "4", "--backup", "x", "--no-backup")[0] == 2
    assert "|INVALID" not in call("archive", folder, "describe", "4")[1][0]


def test_json_tells_the_plan_what_was_done_and_how_to_undo_it(call: Call, unpack: Unpack) -> None:
    folder = unpack(BASIC)
    (line, _) = call("archive", folder, "compact", "--yes", "--json")[1]
    found = json.loads(line)
    assert (found["changed"], found["deleted_records"], found["reclaimed_bytes"]) == (True, 1, 256)
    assert found["undo"] == f"everlog archive {folder} undo {found['backup']}"
    assert len(found["done"]) == len(found["plan"]["steps"])


@pytest.mark.parametrize("verb", [*WRITING, ["verify", "--fix"]], ids=lambda verb: verb[0])
def test_it_is_refused_while_an_archive_runs(call: Call, unpack: Unpack, verb: list[str]) -> None:
    folder = unpack(BASIC)
    with (folder / "archive-mark.dat").open("r+b") as file:
        file.seek(16)
        file.write(struct.pack("<q", time.time_ns() // 1_000_000))
    before = files(folder)
    code, lines, err = call("archive", folder, *verb)
    assert (code, lines) == (2, [""])
    assert "an archive is running in" in err
    assert files(folder) == before


def test_it_is_refused_while_everlog_writes_there(call: Call, unpack: Unpack) -> None:
    from everlog.core.files.writable import LocalWritableStorage

    folder = unpack(BASIC)
    with LocalWritableStorage(str(folder)).open_writable("archive-mark.dat") as mark:
        assert mark.hold()
        code, _, err = call("archive", folder, "mark-invalid", "3")
    assert (code, "another everlog process writes to" in err) == (2, True)
    assert beside(folder) == []


def test_a_full_disk_is_told_with_what_stands_and_the_verb_goes_on_when_there_is_room(
    call: Call, unpack: Unpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    from everlog.core.files.writable import LocalWritableStorage
    from everlog.errors import WriteFailed

    folder = unpack(BASIC)

    def full(self: object, *rest: object, **more: object) -> bool:
        raise WriteFailed("archive.catalog", found="no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(LocalWritableStorage, "publish", full)
        call("archive", folder, "mark-invalid", "12", "--no-backup")
        code, _, err = call("archive", folder, "compact", "--yes")
    assert code == 2
    assert "interrupted after 2 of 3 steps, perhaps within the next one; run compact again to finish; to undo" in err
    assert "no space left on device" in err
    code, lines, _ = call("archive", folder, "compact", "--yes", "--no-backup")
    assert (code, lines[0]) == (0, "Compaction result: deleted 2 records and reclaimed 576 bytes")


def test_a_backup_inside_of_the_archive_is_refused(call: Call, unpack: Unpack) -> None:
    folder = unpack(BASIC)
    before = files(folder)
    for way in ([], ["--dry-run"]):
        code, lines, err = call("archive", folder, "mark-invalid", "12", "--backup", folder / "kept", *way)
        assert (code, lines) == (2, [""])
        assert err == (f"everlog: --backup must be a folder outside the store, not {folder}/kept, inside {folder}\n")
    assert files(folder) == before


def test_who_interrupts_a_change_is_told_what_was_done_and_how_to_undo_it(
    call: Call, unpack: Unpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    from everlog.core.files.writable import LocalWritableStorage

    folder = unpack(BASIC)
    before = files(folder)
    call("archive", folder, "mark-invalid", "12", "--no-backup")
    marked = files(folder)

    def interrupt(self: object, *rest: object, **more: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LocalWritableStorage, "publish", interrupt)
        code, _, err = call("archive", folder, "compact", "--yes")
    assert code == 130
    assert "interrupted after 2 of 3 steps, perhaps within the next one; run compact again to finish; to undo" in err
    assert len(files(folder)) < len(before)
    undo = shlex.split(err.rpartition("to undo: everlog ")[2])
    assert call(*undo)[0] == 0
    assert files(folder) == marked


# verify --fix


@pytest.mark.parametrize(("answer", "stop"), [("--truncate", 818912), ("--keep", 820320)])
def test_a_torn_frame_is_cut_or_kept_and_the_lines_are_the_originals(
    call: Call, unpack: Unpack, answer: str, stop: int
) -> None:
    folder = unpack("archive-crash/torn-page-plain")
    code, lines, _ = call("archive", folder, "verify", "--fix", answer, "--no-backup")
    assert (code, lines[:-1]) == (0, [f"(recordingId={number}) OK" for number in range(4)])
    (line,) = call("archive", folder, "describe", "2")[1][:-1]
    assert f"|stopPosition={stop}|" in line
    assert call("archive", folder, "verify")[0] == 0


@pytest.mark.parametrize(("answer", "stop"), [("y\n", 818912), ("n\n", 820320)])
def test_a_torn_frame_is_cut_or_kept_as_a_pipe_says(
    call: Call, unpack: Unpack, answer: str, stop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = unpack("archive-crash/torn-page-plain")
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    assert call("archive", folder, "verify", "--fix", "--no-backup")[0] == 0
    (line,) = call("archive", folder, "describe", "2")[1][:-1]
    assert f"|stopPosition={stop}|" in line


def test_without_an_answer_nothing_is_written(call: Call, unpack: Unpack, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = unpack("archive-crash/torn-page-plain")
    before = files(folder)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    code, _, err = call("archive", folder, "verify", "--fix")
    assert code == 2
    assert "--truncate" in err
    assert "--keep" in err
    assert files(folder) == before


def test_what_is_damaged_stays_an_error_and_becomes_invalid(call: Call, unpack: Unpack) -> None:
    folder = unpack(BASIC)
    with (folder / "3-0.rec").open("r+b") as file:
        file.seek(64 + 8)
        file.write(b"\x01")
    code, lines, _ = call("archive", folder, "verify", "--fix", "--no-backup")
    assert code == 1
    (line,) = [line for line in lines if "ERR" in line]
    assert line.startswith(f"(recordingId=3, file={folder}/3-0.rec) ERR: ")
    (line,) = [line for line in call("archive", folder, "describe-all")[1] if "|recordingId=3|" in line]
    assert line.endswith("|INVALID")
    *each, last, _ = call("archive", folder, "verify", "3", "--fix", "--json")[1]
    assert [json.loads(line)["ok"] for line in each] == [False]
    assert json.loads(last)["changed"] is False


def test_options_of_fix_are_wrong_without_it(call: Call, unpack: Unpack) -> None:
    folder = unpack(BASIC)
    for option in (["--truncate"], ["--keep"], ["--dry-run"], ["--no-backup"], ["--backup", "x"]):
        assert call("archive", folder, "verify", *option)[0] == 2


def test_what_is_no_backup_is_told(call: Call, unpack: Unpack, tmp_path: Path) -> None:
    folder = unpack(BASIC)
    assert call("archive", folder, "undo", tmp_path / "none")[0] == 2
    shutil.copytree(folder, tmp_path / "other")
    assert call("archive", folder, "undo", tmp_path / "other")[0] == 2
