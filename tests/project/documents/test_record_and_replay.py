"""The page on recording and replaying, and the README's lines on it: all commands and programs in their order."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tests
from everlog.aeron.archive.folder.archive import load_mark
from everlog.aeron.mark_file import now_ms
from everlog.core.files.storage import LocalStorage
from tests.project.documents.test_readme import LIVE, blocks

PAGE = "docs/record-and-replay.md"
NIGHT = "## 4. Replay tomorrow"
SECONDS = 60

pytestmark = pytest.mark.long  # a dozen processes


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The command ``everlog``, a driver's folder of one's own; gives the folder for the archive."""
    (tmp_path / "everlog").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m everlog "$@"\n')
    (tmp_path / "everlog").chmod(0o755)
    shared = tempfile.mkdtemp(prefix="everlog-page-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("AERON_DIR", f"{shared}/driver")
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "archive"
    shutil.rmtree(shared, ignore_errors=True)


def serving(command: str, folder: Path) -> subprocess.Popen[bytes]:
    """A running archive, which serves."""
    process = subprocess.Popen(shlex.split(command), stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + SECONDS
    while not _is_live(folder):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process


def _is_live(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    mark = load_mark(LocalStorage(folder))
    return mark is not None and mark.is_live(now_ms()) and mark.header.version != 0


def end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == 0


def shell(command: str) -> str:
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def test_the_page_from_its_beginning_to_its_end(environment: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = (tests.ROOT / PAGE).read_text(encoding="utf-8").replace("/data/archive", str(environment))
    found = re.findall(r"```(console|python)\n(.*?)```|^(## [^\n]*)$", text, re.DOTALL | re.MULTILINE)
    running: subprocess.Popen[bytes] | None = None
    start, printed = "", dict[str, str]()
    try:
        for language, block, heading in found:
            if heading == NIGHT:
                assert running is not None
                end(running)
                running = serving(start, environment)
            elif language == "python":
                capfd.readouterr()
                exec(compile(block, PAGE, "exec"), {})
                printed[block.splitlines()[0]] = capfd.readouterr().out
            elif language == "console":
                for line in block.splitlines():
                    command = line.removeprefix("$ ")
                    if LIVE in command:
                        start, running = command, serving(command, environment)
                    else:
                        printed[command.replace(str(environment), "DIR")] = shell(command)
        assert running is not None
        end(running)
    finally:
        if running is not None:
            running.kill()
            running.wait()
    numbers = [str(number) for number in range(1, 1001)]
    assert printed["import time"] == "recording 1: 64000 bytes are recorded\n"
    assert printed["everlog archive DIR list"].startswith("0 ")
    assert printed["everlog archive DIR replay 0"].splitlines() == numbers
    assert printed["everlog archive DIR replay 0 --from 64 --count 3"].splitlines() == numbers[1:4]
    paced = printed["everlog archive DIR replay 1 --pace 10 --timestamp-from reserved_value:ns"]
    assert paced.splitlines() == [f"price {number}" for number in range(1000)]
    assert printed["import pyarrow"] == "1000 b'price 999' 1000\n"
    assert len(printed["everlog read DIR --stream 1 --json"].splitlines()) == 1000
    assert printed["everlog archive DIR truncate 0 64"] == "recording 0: truncated to 64, 0 files deleted\n"


def test_the_lines_of_the_readme(environment: Path) -> None:
    (block,) = [block for block in blocks("README.md", "console") if LIVE in block]
    first, *others = [line.removeprefix("$ ") for line in block.splitlines()]
    running = serving(first.removesuffix(" &"), Path("live"))
    try:
        *before, last = [shell(line.replace("seq 1000000", "seq 50000")) for line in others]
        assert last.splitlines() == [str(number) for number in range(1, 50_001)]
        assert before[0].startswith("subscription ")
        end(running)
    finally:
        running.kill()
        running.wait()
