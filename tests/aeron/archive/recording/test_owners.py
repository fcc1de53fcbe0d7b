"""Who owns an archive: other processes, forks, archives in Java."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest

from everlog.aeron import archive as archives
from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.writing import heartbeat
from everlog.aeron.family_options import Checksum
from everlog.errors import (
    StoreUnavailable,
    WriteFailed,
)
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.faulty_writes import FaultyWrites, WriteFaults
from tests.aeron.archive.recorded import CHANNEL, SEGMENT, STREAM, opened
from tests.aeron.archive.recording.recorded_messages import read


def test_a_second_owner_is_refused_with_the_reason(folder: Path, theirs: subprocess.Popen[str]) -> None:
    before = {path.name: path.read_bytes() for path in folder.glob("*.*") if path.name != "archive-mark.dat"}
    with pytest.raises(StoreUnavailable, match="already open in another everlog process"):
        archives.open_archive(folder, liveness_timeout_s=0)
    with pytest.raises(StoreUnavailable, match="already open in another everlog process"):
        archives.create(folder, exist_ok=True)
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_who_was_killed_keeps_the_folder_for_the_timeout(folder: Path, theirs: subprocess.Popen[str]) -> None:
    theirs.kill()
    theirs.wait()
    with pytest.raises(StoreUnavailable, match=rf"process {theirs.pid}, active \d+\.\d s ago"):
        archives.open_archive(folder)
    deadline = time.monotonic() + 20
    while True:
        try:
            with archives.open_archive(folder, liveness_timeout_s=0.3) as again:
                assert again.recovered == ["set the stop positions of 1 recordings in archive.catalog"]
                assert read(again) == [b"first", b"theirs"]
                return
        except StoreUnavailable:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_segments_that_were_purged_are_not_missed_by_a_sync(store: Archive, kernel: str) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    for _ in range(200):
        recorder.append(b"x" * 1000)
    assert store.purge_segments(0, store.purge_position(0, keep_bytes=0)) > 0
    assert recorder.sync() == recorder.append(b"y") - 64
    assert recorder.sync() == recorder.recorded_position


def test_an_archive_goes_on_when_the_process_goes_to_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(heartbeat, "INTERVAL_S", 0.05)
    with archives.create("archive", segment_length=SEGMENT) as made, made.start_recording(CHANNEL, STREAM) as recorder:
        monkeypatch.chdir(tmp_path / "elsewhere")
        time.sleep(0.2)
        for _ in range(100):
            recorder.append(b"x" * 1000)
        assert made.path == str(tmp_path / "archive")
    assert not os.listdir(tmp_path / "elsewhere")
    with archives.open_archive(tmp_path / "archive") as again:
        assert len(read(again)) == 100


def java_mark(folder: Path, *, ago_ms: int, pid: int = 4242) -> None:
    """The mark file as an archive in Java has it that said ``ago_ms`` ago that it lives; nobody holds a lock."""
    with (folder / "archive-mark.dat").open("r+b") as file:
        now = time.time_ns() // 1_000_000 - ago_ms
        file.seek(16)
        file.write(struct.pack("<qqq", now, now - 1000, pid))


def test_an_archive_in_java_is_known_by_its_mark_file_alone(folder: Path) -> None:
    archives.create(folder).close()
    java_mark(folder, ago_ms=3000)
    with pytest.raises(StoreUnavailable, match=r"owned by process 4242, active 3\.\d s ago"):
        archives.open_archive(folder)
    java_mark(folder, ago_ms=10_500)
    archives.open_archive(folder).close()


@pytest.mark.long
def test_an_owner_that_lost_the_folder_while_it_was_stopped_writes_no_more(
    folder: Path, theirs: subprocess.Popen[str]
) -> None:
    """As an archive in Java takes over what was silent for ten seconds; it does not know our lock."""
    os.kill(theirs.pid, signal.SIGSTOP)
    time.sleep(3)
    java_mark(folder, ago_ms=0)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert theirs.stdin is not None
    assert theirs.stdout is not None
    theirs.stdin.write("\n")
    theirs.stdin.flush()
    os.kill(theirs.pid, signal.SIGCONT)
    said = theirs.stdout.readline()
    assert said.startswith("StoreUnavailable"), said
    assert "has another owner: this archive was silent for too long" in said
    theirs.wait(20)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_forked_child_has_a_closed_archive_and_its_parent_goes_on(folder: Path, kernel: str) -> None:
    with archives.create(folder, segment_length=SEGMENT) as made:
        recorder = made.start_recording(CHANNEL, STREAM)
        recorder.append(b"one")
        recorder.offer(b"two")
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                others = [os.open(os.devnull, os.O_RDWR) for _ in range(20)]  # numbers of the files that were closed
                for call in (lambda: recorder.append(b"child's"), recorder.flush, made.recordings):
                    with pytest.raises(StoreUnavailable, match="a forked child"):
                        call()
                made.close()
                code = 0 if others else 2
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        with pytest.raises(StoreUnavailable, match="already open in another everlog process"):
            archives.open_archive(folder, liveness_timeout_s=0)
        recorder.append(b"three")
        assert read(made) == [b"one", b"two", b"three"]


def test_a_failed_opening_leaves_a_folder_that_can_be_opened_at_once() -> None:
    inner = CrashingStorage()
    opened(inner).close()
    for fail_at in range(8):
        disk = FaultyWrites(inner, WriteFaults(fail_at=fail_at))
        try:
            opened(disk, liveness_timeout_s=10).close()
        except WriteFailed:
            opened(inner, liveness_timeout_s=10).close()


@pytest.mark.parametrize("kind", ["none", "crc32", "crc32c"])
def test_a_checksum_of_none_is_the_one_that_the_catalogs_entries_have(folder: Path, kind: Checksum) -> None:
    with archives.create(folder, segment_length=SEGMENT, checksum=kind) as made:
        made.start_recording(CHANNEL, STREAM).append(b"kept")
    with archives.open_archive(folder, checksum=None) as again:
        assert again.options.checksum == kind
        assert read(again) == [b"kept"]
