"""``everlog repair``: the plan, the question, the repair, the backup, exit codes."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import tests
from everlog.testing.contract import snapshot

GOLDEN = tests.GOLDEN / "jlog"
EVERLOG = [sys.executable, "-m", "everlog"]


@pytest.fixture
def jlog(everlog, monkeypatch):
    """Runs one command line; stdin is no terminal."""
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return everlog


@pytest.fixture
def unpack(tmp_path: Path):
    """A golden journal on disk."""

    def make(case: str) -> Path:
        before = GOLDEN / case / "before.tar.gz"
        with tarfile.open(before if before.exists() else GOLDEN / case / "log.tar.gz") as tar:
            tar.extractall(tmp_path, filter="data")
        return tmp_path / "log"

    return make


def backups(journal: Path) -> list[Path]:
    return sorted(journal.parent.glob("log.repair-*"))


def test_a_dry_run_prints_the_plan_and_changes_no_byte(jlog, unpack) -> None:
    journal = unpack("e_trunc_then_append")
    before = snapshot(journal)
    result = jlog("repair", journal, "--dry-run")
    assert (result.code, result.stderr) == (1, "")
    assert result.text == (
        "step 1  00000002\n"
        "       before:   11 messages in 1570 bytes; damaged: 60 bytes at offset 1342 (torn-record)\n"
        "       after:    11 messages in 1510 bytes; no index\n"
        "       loses:    60 bytes of incomplete messages\n"
        "dry run: nothing was changed\n"
    )
    assert snapshot(journal) == before
    assert backups(journal) == []


def test_without_a_terminal_and_without_yes_nothing_is_changed(jlog, unpack) -> None:
    journal = unpack("e_trunc_last")
    before = snapshot(journal)
    result = jlog("repair", journal)
    assert result.code == 2
    assert result.text.startswith("step 1  00000002\n")
    assert result.stderr == "everlog: nothing was changed; pass --yes to repair without a question\n"
    assert snapshot(journal) == before


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1)])
def test_an_answer_is_taken_from_a_pipe(jlog, unpack, monkeypatch, answer: str, code: int) -> None:
    journal = unpack("e_trunc_last")
    before = snapshot(journal)
    monkeypatch.setattr(sys.stdin, "readline", io.StringIO(answer).readline)
    assert jlog("repair", journal, "--no-backup").code == code
    assert (snapshot(journal) == before) == (code == 1)


def test_a_repair_keeps_what_it_takes_out_and_verifies(jlog, unpack) -> None:
    journal = unpack("e_trunc_then_append")
    torn = (journal / "00000002").read_bytes()
    result = jlog("repair", journal, "--yes")
    assert (result.code, result.stderr) == (0, "")
    (kept,) = backups(journal)
    assert f"removed bytes are kept in {kept}\n" in result.text
    assert result.text.splitlines()[-1].startswith("ok: ")
    assert sorted(file.name for file in kept.iterdir()) == ["00000002@1342", "plan.json"]
    now = (journal / "00000002").read_bytes()
    assert now[:1342] + (kept / "00000002@1342").read_bytes() + now[1342:] == torn
    assert json.loads((kept / "plan.json").read_text())["steps"][0]["file"] == "00000002"
    assert os.stat(kept).st_mode & 0o777 == 0o700
    again = jlog("repair", journal)
    assert (again.code, again.text) == (0, f"nothing to repair: {journal} (jlog)\n")


def test_the_backup_can_go_elsewhere_or_be_left_out(jlog, unpack, tmp_path) -> None:
    journal = unpack("e_cp_short")
    old = (journal / "cp.6f6e65").read_bytes()
    assert jlog("repair", journal, "--yes", "--backup", tmp_path / "a" / "b").code == 0
    assert (tmp_path / "a" / "b" / "cp.6f6e65").read_bytes() == old
    journal = unpack("e_cp_short")
    result = jlog("repair", journal, "--yes", "--no-backup")
    assert (result.code, "kept" in result.text) == (0, False)
    assert backups(journal) == []
    assert jlog("repair", journal, "--yes", "--no-backup", "--backup", "x").code == 2


def test_a_backup_that_can_not_be_made_stops_the_repair_before_it_begins(jlog, unpack, tmp_path) -> None:
    journal = unpack("e_cp_short")
    (tmp_path / "file").write_bytes(b"")
    before = snapshot(journal)
    result = jlog("repair", journal, "--yes", "--backup", tmp_path / "file" / "x")
    assert result.code == 2
    assert "backup" in result.stderr
    assert snapshot(journal) == before


@pytest.mark.parametrize(
    "command",
    [["repair", "LOG", "--yes", "--no-backup"], ["jlogctl", "repair", "-f", "-j", "LOG"], ["jlogctl", "-r", "LOG"]],
)
def test_a_repair_is_done_where_nobody_reads_of_it(unpack, command: list[str]) -> None:
    journal = unpack("e_trunc_then_append")
    reading, writing = os.pipe()
    os.close(reading)
    command = [*EVERLOG, *(str(journal) if word == "LOG" else word for word in command)]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(writing)
    assert (done.returncode, b"Broken" in done.stderr) == (0, False)
    assert (journal / "00000002").stat().st_size == 1510


@pytest.mark.parametrize("place", [".", "kept", "link/kept"])
def test_a_backup_inside_of_the_journal_is_refused(jlog, unpack, tmp_path, place: str) -> None:
    journal = unpack("e_cp_short")
    (tmp_path / "link").symlink_to(journal)
    before = snapshot(journal)
    folder = tmp_path / place if place.startswith("link") else journal / place
    result = jlog("repair", journal, "--yes", "--backup", folder)
    said = f"everlog: --backup must be a folder outside the store, not {folder}, inside {journal}\n"
    assert (result.code, result.stdout, result.stderr) == (2, b"", said)
    assert snapshot(journal) == before


def test_who_interrupts_a_repair_is_told_where_the_backup_is(jlog, unpack, monkeypatch) -> None:
    from everlog.jlog.repair.steps import MoveCheckpoint

    def interrupt(self: object, backup: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(MoveCheckpoint, "apply", interrupt)
    journal = unpack("e_cp_short")
    result = jlog("repair", journal, "--yes")
    (kept,) = backups(journal)
    said = f"the repair was interrupted; repair again to finish it (removed bytes are kept in {kept})"
    assert (result.code, result.stderr.rstrip()) == (130, f"everlog: warning: {said}")


def test_what_remains_makes_exit_code_1(jlog, unpack) -> None:
    journal = unpack("e_seg_empty_closed")
    result = jlog("repair", journal, "--yes")
    assert result.code == 1
    assert "missing-segments" in result.text
    again = jlog("repair", journal, "--yes")
    assert (again.code, "not repaired:" in again.text) == (1, True)


def test_json_tells_plan_deeds_backup_and_report(jlog, unpack) -> None:
    journal = unpack("e_meta_zero")
    (told,) = jlog("repair", journal, "--dry-run", "--json").rows
    assert [step["file"] for step in told["plan"]["steps"]] == ["metastore"]
    assert (told["done"], told["backup"], told["report"]) == ([], None, None)
    (told,) = jlog("repair", journal, "--yes", "--json").rows
    assert len(told["done"]) == 1
    assert told["backup"] == str(backups(journal)[0])
    assert told["report"]["ok"] is True
    assert (backups(journal)[0] / "metastore").read_bytes() == bytes(16)
    (told,) = jlog("repair", journal, "--json").rows
    assert told["plan"]["empty"] is True


def test_a_file_that_is_open_elsewhere_stops_the_repair(jlog, unpack) -> None:
    journal = unpack("e_trunc_then_append")
    before = snapshot(journal)
    with (journal / "00000002").open("rb"):
        result = jlog("repair", journal, "--yes", "--no-backup")
    assert result.code == 2
    assert "stop the journal's writers and readers first" in result.stderr
    assert snapshot(journal) == before


def test_a_store_without_a_repair_is_wrong_usage(everlog, toy) -> None:
    result = everlog("repair", toy)
    assert result.code == 2
    assert "no repair for toy stores" in result.stderr


@pytest.mark.parametrize(("answer", "code", "is_changed"), [(b"y\n", 0, True), (b"n\n", 1, False), (b"\n", 1, False)])
def test_on_a_terminal_it_asks(unpack, answer, code, is_changed) -> None:
    journal = unpack("e_trunc_last")
    before = snapshot(journal)
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer)
        result = subprocess.run(
            [*EVERLOG, "repair", str(journal)], stdin=theirs, capture_output=True, timeout=60, check=False
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert result.returncode == code
    assert b"Repair? [y/N]" in result.stderr
    assert (snapshot(journal) != before) is is_changed


def test_an_archive_is_repaired_and_its_report_is_of_the_archive_as_it_is_then(jlog, tmp_path: Path) -> None:
    archive = GOLDEN.parent / "aeron" / "archive-crash" / "torn-zeroseg-plain.tar.gz"
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    result = jlog("repair", folder, "--yes", "--no-backup", "--json")
    assert (result.code, result.stderr) == (0, "")
    found = json.loads(result.text)
    assert [step["file"] for step in found["plan"]["steps"]] == ["2-917504.rec", "archive.catalog"]
    assert found["plan"]["remains"] == found["report"]["faults"] == []
    assert not (folder / "2-917504.rec").exists()
