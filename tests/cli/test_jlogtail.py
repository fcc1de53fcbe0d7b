"""``everlog jlogtail``: the end of a journal, and what comes. The journal is the golden ``basic``, see
``test_jlogctl.py``."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tests
from everlog.cli.faults import FaultPrinter
from everlog.cli.jlogtail import TAIL_COLUMNS, ReadOnlyMetastore, batches, new_cursor
from everlog.core.files.storage import LocalStorage
from everlog.jlog.options import JlogOptions
from everlog.jlog.store import JlogStore
from everlog.testing.storage.memory import MemoryStorage

GOLDEN = tests.GOLDEN / "jlog"
PLAIN = 0x663A7318
SECONDS = 20


def unpack(case: str, folder: Path, name: str = "log.tar.gz") -> Path:
    with tarfile.open(GOLDEN / case / name) as tar:
        tar.extractall(folder, filter="data")
    return folder / "log"


def message(payload: bytes, second: int = 1_800_000_000) -> bytes:
    return struct.pack("<IIII", PLAIN, second, 0, len(payload)) + payload


def append(segment: Path, data: bytes) -> None:
    with segment.open("ab") as file:
        file.write(data)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return unpack("basic", tmp_path)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Two segments: ``a``, ``b``, an empty message; ``c`` with a line break, one with a NUL byte."""
    log = tmp_path / "small"
    log.mkdir()
    (log / "metastore").write_bytes(struct.pack("<IIII", 1, 40, 1, PLAIN))
    (log / "00000000").write_bytes(message(b"a") + message(b"b") + message(b""))
    (log / "00000001").write_bytes(message(b"c\n") + message(b"d\0e"))
    return log


def truth(case: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / case / "truth.json").read_text())
    return found


def test_payloads_are_lines(everlog: Any, small: Path) -> None:
    done = everlog("jlogtail", small, "--from", "beginning", "--no-follow")
    assert (done.code, done.stdout, done.stderr) == (0, b"a\nb\n... empty message ...\nc\nd\0e\n", "")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--from", "00000000:00000002"), b"b\n... empty message ...\nc\nd\0e\n"),
        (("--from", "1:2"), b"d\0e\n"),
        (("--from", "1:0"), b"c\nd\0e\n"),
        (("--from", "end"), b""),
        (("--from", "1:3"), b""),
        (("-n", "0"), b""),
        (("-n", "1"), b"d\0e\n"),
        (("-n", "3"), b"... empty message ...\nc\nd\0e\n"),
        (("-n", "99"), b"a\nb\n... empty message ...\nc\nd\0e\n"),
        (("-n", "9" * 30), b"a\nb\n... empty message ...\nc\nd\0e\n"),
    ],
)
def test_it_begins_where_it_is_told_to(everlog: Any, small: Path, arguments: tuple[str, ...], expected: bytes) -> None:
    done = everlog("jlogtail", "-j", small, *arguments, "--no-follow")
    assert (done.code, done.stdout) == (0, expected)


@pytest.mark.parametrize("case", ["basic", "lz4", "safety_safe"])
def test_json_has_every_message_of_the_original(everlog: Any, tmp_path: Path, case: str) -> None:
    rows = everlog("jlogtail", unpack(case, tmp_path), "--from", "beginning", "--no-follow", "--json").rows
    expected = [(m["segment"], m["marker"], m["len"], m["crc32"]) for m in named_messages(case)]
    assert [(r["log"], r["marker"], r["length"], r["crc32"]) for r in rows] == expected


def named_messages(case: str) -> list[dict[str, Any]]:
    found = truth(case)
    rows = found["messages"]
    return [row if isinstance(row, dict) else dict(zip(found["message_row"], row, strict=True)) for row in rows]


def test_the_last_messages_are_counted_past_damage(everlog: Any, tmp_path: Path) -> None:
    log = unpack("e_garbage_middle_current", tmp_path, "before.tar.gz")
    # Segment 2 had 9 messages; the garbage lies over the fifth.
    rows = everlog("jlogtail", log, "-n", "9", "--no-follow", "--json").rows
    assert [row["address"] for row in rows] == [
        "00000001:00000019",
        *(f"00000002:{marker:08x}" for marker in (1, 2, 3, 4, 6, 7, 8, 9)),
    ]


def test_damage_is_a_warning_and_exit_code_1(everlog: Any, small: Path) -> None:
    (small / "00000001").write_bytes(message(b"c\n") + b"\xaa" * 40 + message(b"d"))
    done = everlog("jlogtail", small, "--from", "beginning", "--no-follow")
    assert (done.code, done.stdout) == (1, b"a\nb\n... empty message ...\nc\nd\n")
    assert "damaged-bytes" in done.stderr


def test_without_a_metastore_the_segments_tell(everlog: Any, small: Path) -> None:
    (small / "metastore").unlink()
    (small / "00000000.idx").write_bytes(b"")
    assert everlog("jlogtail", small, "-n", "2", "--no-follow").stdout == b"c\nd\0e\n"


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("log", "-j", "log"),
        ("log", "--no-follow"),
        ("log", "--from", "x", "--no-follow"),
        ("log", "--from", "1:1", "-n", "1"),
        ("log", "-n", "-1"),
        ("nolog", "-n", "1"),
        (".", "-n", "1"),
    ],
    ids=" ".join,
)
def test_wrong_usage(everlog: Any, log: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]) -> None:
    monkeypatch.chdir(log.parent)
    done = everlog("jlogtail", *arguments)
    assert (done.code, done.text, len(done.stderr.splitlines())) == (2, "", 1)


# Following, as a process


class Tail:
    """A running ``jlogtail``, its output read without waiting for its end."""

    def __init__(self, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "everlog", "jlogtail", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self.seen = b""

    def wait_for(self, text: bytes) -> None:
        """Until this is all that was printed."""
        assert self.process.stdout is not None
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            self.seen += self.process.stdout.read() or b""
            if self.seen == text:
                break
            time.sleep(0.01)
        assert self.seen == text

    def stop(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGINT)
        _, errors = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, errors.decode().strip()  # click ends the line that ^C is on


@pytest.fixture
def tail() -> Iterator[type[Tail]]:
    started: list[Tail] = []

    class Started(Tail):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)
            started.append(self)

    yield Started
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.communicate()


def test_it_follows_into_the_next_segment_and_leaves_no_trace(tail: type[Tail], small: Path) -> None:
    names = {path.name for path in small.iterdir()}
    one = tail(small, "-n", "1")
    one.wait_for(b"d\0e\n")
    append(small / "00000001", message(b"f"))
    one.wait_for(b"d\0e\nf\n")
    (small / "00000002").write_bytes(message(b"g"))
    (small / "metastore").write_bytes(struct.pack("<IIII", 2, 40, 1, PLAIN))
    one.wait_for(b"d\0e\nf\ng\n")
    assert {path.name for path in small.iterdir()} == names | {"00000002"}
    assert one.stop() == (130, "")


def test_a_message_that_is_half_there_is_waited_for(tail: type[Tail], small: Path) -> None:
    whole = message(b"0123456789")
    one = tail(small, "-n", "1")
    one.wait_for(b"d\0e\n")
    append(small / "00000001", whole[:20])
    time.sleep(0.3)
    one.wait_for(b"d\0e\n")
    append(small / "00000001", whole[20:])
    one.wait_for(b"d\0e\n0123456789\n")
    assert one.stop() == (130, "")


def test_a_segment_deleted_behind_its_back_is_read_to_its_end(tail: type[Tail], small: Path) -> None:
    one = tail(small, "-n", "1")
    one.wait_for(b"d\0e\n")
    append(small / "00000001", message(b"f"))
    (small / "00000001").unlink()
    (small / "00000002").write_bytes(message(b"g"))
    (small / "metastore").write_bytes(struct.pack("<IIII", 2, 40, 1, PLAIN))
    one.wait_for(b"d\0e\nf\ng\n")
    assert one.stop() == (130, "")


def test_it_begins_at_the_end_by_default(tail: type[Tail], small: Path) -> None:
    one = tail(small)
    deadline = time.monotonic() + SECONDS
    number = 0
    # When it has begun can't be seen from outside: messages are written until it prints one.
    while not one.seen and time.monotonic() < deadline:
        append(small / "00000001", message(b"%d" % number))
        number += 1
        time.sleep(0.05)
        assert one.process.stdout is not None
        one.seen += one.process.stdout.read() or b""
    assert one.seen.split(b"\n")[0].isdigit()
    assert one.stop()[0] == 130


def test_an_empty_journal_is_waited_for(tail: type[Tail], tmp_path: Path) -> None:
    log = tmp_path / "new"
    log.mkdir()
    (log / "metastore").write_bytes(struct.pack("<IIII", 0, 4096, 1, PLAIN))
    one = tail(log, "--from", "beginning")
    time.sleep(0.3)
    (log / "00000000").write_bytes(message(b"first"))
    one.wait_for(b"first\n")
    assert one.stop() == (130, "")


def test_tailing_changes_no_byte(everlog: Any, log: Path) -> None:
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in log.iterdir()}
    done = everlog("jlogtail", log, "-n", "50", "--no-follow")
    records = JlogStore(LocalStorage(log), JlogOptions()).read("journal")
    assert len(list(records)) == 90
    assert done.code == 0
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in log.iterdir()} == before


def test_a_finished_segment_below_the_limit_is_read_to_its_end(everlog: Any, small: Path) -> None:
    """The limit was raised since: only the system tells whether somebody writes on to it."""
    (small / "metastore").write_bytes(struct.pack("<IIII", 1, 4096, 1, PLAIN))
    done = everlog("jlogtail", small, "--from", "beginning", "--no-follow")
    assert (done.code, done.stdout, done.stderr) == (0, b"a\nb\n... empty message ...\nc\nd\0e\n", "")


def test_a_late_writer_is_waited_for(tail: type[Tail], small: Path) -> None:
    (small / "metastore").write_bytes(struct.pack("<IIII", 1, 4096, 1, PLAIN))
    with (small / "00000000").open("ab", buffering=0) as late:
        one = tail(small, "--from", "beginning")
        one.wait_for(b"a\nb\n... empty message ...\n")
        late.write(message(b"late"))
        one.wait_for(b"a\nb\n... empty message ...\nlate\n")
    one.wait_for(b"a\nb\n... empty message ...\nlate\nc\nd\0e\n")
    assert one.stop() == (130, "")


def test_elsewhere_nobody_writes_on(small: Path) -> None:
    (small / "metastore").write_bytes(struct.pack("<IIII", 1, 4096, 1, PLAIN))
    append(small / "00000001", message(b"torn")[:-2])
    storage = MemoryStorage.of_folder(small)
    cursor = new_cursor(storage, ReadOnlyMetastore(storage), FaultPrinter())
    found: list[bytes] = []
    for batch in batches(cursor, is_following=False, columns=TAIL_COLUMNS):
        found += batch.to_list("payload")
    assert found == [b"a", b"b", b"", b"c\n", b"d\0e"]
