"""Processes that publish to one log while another reads it and a driver cleans behind the reader: every message arrives
once, whole and in its publisher's order, over many turns of the three terms."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tests
from everlog.aeron.transport.client.images.fragment_assembler import FragmentAssembler
from everlog.aeron.transport.memory.terms import clean
from tests.aeron.transport.client.private_log import TERM, PrivateLog
from tests.aeron.transport.client.publishing_process import MESSAGES, mapped, message
from tests.aeron.transport.kernels import Kernel, compiled

PROGRAM = "tests.aeron.transport.client.publishing_process"
ROOT = tests.ROOT
WINDOW = TERM // 2
SECONDS = 60


class Driving:
    """What a driver does for a log: clean what was read, then let publishers go on."""

    def __init__(self, log: PrivateLog) -> None:
        self._log = log
        self._clean = 0
        log.limit = WINDOW

    def __call__(self) -> None:
        position = self._log.counters.get_i64_acquire(8)
        while self._clean < position:
            end = min(position, self._clean - self._clean % TERM + TERM)
            clean(self._log.terms[self._clean // TERM % 3], self._clean % TERM, end - self._clean)
            self._clean = end
        self._log.counters.put_i64_release(0, position + WINDOW)


def file_of(folder: Path, kernel: Kernel) -> Path:
    """A new log in a file."""
    log = PrivateLog.make(kernel.memory)
    path = folder / "log"
    parts = [term.read(0, TERM) for term in log.terms]
    path.write_bytes(b"".join([*parts, log.metadata.read(0, 4096), bytes(4096)]))
    return path


def by_columns(kernel: Kernel, image: Any, got: list[bytes]) -> Callable[[], int]:
    columns = kernel.message_columns.MessageColumns(500)

    def poll() -> int:
        rows: int = image.poll_columns(columns)
        got.extend(columns.to_list())
        return rows

    return poll


def by_handler(_: Kernel, image: Any, got: list[bytes]) -> Callable[[], int]:
    assembler = FragmentAssembler(lambda payload, _: got.append(payload))
    return lambda: image.poll(assembler, 200)


@pytest.mark.parametrize("way", [by_columns, by_handler])
@pytest.mark.parametrize(("kind", "publishers"), [("ExclusiveAppender", 1), ("ConcurrentAppender", 2)])
def test_what_processes_publish_arrives_once_and_in_order(
    tmp_path: Path, kind: str, publishers: int, way: Callable[..., Callable[[], int]]
) -> None:
    kernel = compiled()
    path = file_of(tmp_path, kernel)
    log = mapped(str(path))
    drive, got = Driving(log), list[bytes]()
    poll = way(kernel, kernel.image.ImageReader(log, log.counters, 8), got)
    commands = [[sys.executable, "-m", PROGRAM, str(path), kind, str(i), str(7 + i)] for i in range(publishers)]
    processes = [subprocess.Popen(command, cwd=ROOT) for command in commands]
    end = time.monotonic() + SECONDS
    try:
        while len(got) < publishers * MESSAGES and time.monotonic() < end:
            if not poll():
                time.sleep(0)
            drive()
        assert [process.wait(SECONDS) for process in processes] == [0] * publishers
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert poll() == 0
    for publisher in range(publishers):
        start = publisher.to_bytes(4, "little")
        sent = [message(publisher, number) for number in range(MESSAGES)]
        assert [each for each in got if each.startswith(start)] == sent
    assert log.active_term_count > 20
