"""Single messages are stored in windows, memory that is the segment file: what is recorded is what writes would have
recorded, and what is reserved is in proportion to it."""

from __future__ import annotations

import errno
import mmap
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.aeron import archive as archives
from everlog.aeron.archive.writing.segment_writer import FIRST_WINDOW_BYTES, MAX_WINDOW_BYTES
from everlog.core.files import writable
from everlog.core.files.writable import LocalWritableFile

CHANNEL = "aeron:ipc?term-length=1m|init-term-id=7|term-id=7|term-offset=0|mtu=1408"
SESSION: dict[str, Any] = {"session_id": 5, "initial_term_id": 7}
SEGMENT = 2 << 20

pytestmark = pytest.mark.usefixtures("kernel")


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Offset and length of each window that was opened. Any file system will do: none of these disks is full."""
    monkeypatch.setattr(writable, "file_system_of", lambda fd: "ext4")
    found: list[tuple[int, int]] = []
    really = LocalWritableFile.window

    def window(file: LocalWritableFile, offset: int, length: int) -> mmap.mmap | None:
        found.append((offset, length))
        return really(file, offset, length)

    monkeypatch.setattr(LocalWritableFile, "window", window)
    return found


def messages(count: int, most: int = 700) -> list[bytes]:
    generator = random.Random(count)
    return [generator.randbytes(generator.randrange(most)) for _ in range(count)]


def recorded(folder: Path, record: Callable[[Any], Any]) -> list[bytes]:
    """The segment files of one recording."""
    with archives.create(folder, segment_length=SEGMENT) as made:
        with made.start_recording(CHANNEL, 10, **SESSION) as recorder:
            record(recorder)
        return [path.read_bytes() for path in sorted(folder.glob("0-*.rec"))]


def one_by_one(payloads: list[bytes]) -> Callable[[Any], None]:
    def record(recorder: Any) -> None:
        for payload in payloads:
            recorder.append(payload)
            assert recorder.recorded_position == recorder.position

    return record


def test_single_messages_are_recorded_as_many_are(tmp_path: Path, windows: list[tuple[int, int]]) -> None:
    payloads = messages(12_000)
    singly = recorded(tmp_path / "singly", one_by_one(payloads))
    assert len(singly) == 3
    assert singly == recorded(tmp_path / "many", lambda recorder: recorder.append_many(payloads))
    assert len(windows) > 3


def test_windows_grow_with_what_is_recorded(tmp_path: Path, windows: list[tuple[int, int]]) -> None:
    recorded(tmp_path / "few", one_by_one(messages(60)))
    assert windows == []  # a few messages reserve nothing
    recorded(tmp_path / "many", one_by_one(messages(12_000)))
    lengths = [length for _, length in windows]
    assert lengths[:4] == [FIRST_WINDOW_BYTES << i for i in range(4)]
    assert max(lengths) <= MAX_WINDOW_BYTES
    assert all(offset + length <= SEGMENT for offset, length in windows)


def test_other_ways_to_record_may_come_between(tmp_path: Path, windows: list[tuple[int, int]]) -> None:
    payloads, generator = messages(3000), random.Random(1)
    payloads[500] = bytes(9000)  # several frames
    payloads[700] = b"x" + bytes(8000)

    def record(recorder: Any) -> None:
        at = 0
        while at < len(payloads):
            count = generator.choice([1, 1, 1, 40, 200])
            way = generator.choice(["many", "one", "one", "offer"])
            part = payloads[at : at + count]
            if way == "many":
                recorder.append_many(part)
            for payload in part if way != "many" else ():
                (recorder.append if way == "one" else recorder.offer)(payload)
            at += count
        recorder.flush()

    plain = recorded(tmp_path / "many", lambda recorder: recorder.append_many(payloads))
    assert recorded(tmp_path / "mixed", record) == plain
    assert windows != []


@pytest.mark.parametrize("reason", ["kind", "space", "memory"])
def test_where_there_is_no_window_messages_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if reason == "kind":
        monkeypatch.setattr(writable, "file_system_of", lambda fd: "nfs4")
        monkeypatch.setattr(os, "posix_fallocate", lambda *_: pytest.fail("nothing is reserved there"))
    elif reason == "space":
        monkeypatch.setattr(os, "posix_fallocate", fail)
    else:
        monkeypatch.setattr(mmap, "mmap", fail)
    payloads = messages(1000)
    found = recorded(tmp_path / "singly", one_by_one(payloads))
    monkeypatch.undo()
    assert found == recorded(tmp_path / "many", lambda recorder: recorder.append_many(payloads))


KILLED = """
import os, sys
from everlog.aeron import archive
with archive.create(sys.argv[1]) as made:
    recorder = made.start_recording("aeron:ipc", 10)
    for number in range(5000):
        recorder.append(b"%d" % number)
    os.kill(os.getpid(), 9)
"""


def test_what_is_in_a_window_survives_a_killed_process(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "a")], check=False)
    assert killed.returncode == -signal.SIGKILL
    with archives.open_archive(tmp_path / "a", liveness_timeout_s=0) as found:
        assert [record.payload for record in found.replay(0)] == [b"%d" % number for number in range(5000)]


@pytest.mark.parametrize("payload", [b"\xff" * 32, b"whole".ljust(600, b".")])
def test_a_frame_without_its_length_is_none(tmp_path: Path, payload: bytes) -> None:
    """What a process leaves that is killed while it stores one: all but the first word, in part or whole."""
    with archives.create(tmp_path / "a", segment_length=SEGMENT) as made:
        recorder = made.start_recording(CHANNEL, 10, **SESSION)
        one_by_one(messages(100))(recorder)
        end = recorder.recorded_position
        recorder.append(payload)
        recorder.abandon()
        made._recordings.recorders.clear()
    with (tmp_path / "a" / "0-0.rec").open("r+b") as file:
        file.seek(end)
        file.write(bytes(8))
    with archives.open_archive(tmp_path / "a", segment_length=SEGMENT, liveness_timeout_s=0) as found:
        assert found.stop_position(0) == end
        with found.extend_recording(0) as recorder:
            recorder.append(b"next")
        assert [record.payload for record in found.replay(0)] == [*messages(100), b"next"]
    with everlog.open_store(tmp_path / "a") as store:
        assert store.verify().faults == []


def test_a_window_is_let_go_of_with_its_recording(tmp_path: Path, windows: list[tuple[int, int]]) -> None:
    with archives.create(tmp_path / "a", segment_length=SEGMENT) as made:
        recorder = made.start_recording(CHANNEL, 10, **SESSION)
        one_by_one(messages(1000))(recorder)
        mapped = Path("/proc/self/maps").read_text()
        assert "0-0.rec" in mapped
        recorder.stop()
        assert "0-0.rec" not in Path("/proc/self/maps").read_text()
    assert windows != []
