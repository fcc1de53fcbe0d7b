"""Appending to a journal from Python beside the C library, messages of 100 bytes.

A run is in one segment: the sync at a segment's end, which both do, would measure the disk. Both append to a new
journal; opening and closing are outside the time.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import jlog_peer as peer
from benchmarks.lines import Line, paired_rates, where
from everlog.jlog.writing.creation import create
from everlog.jlog.writing.writer import Writer

PAYLOAD = b"x" * 100
MESSAGES = 60_000
RUNS = 15
"""Many short ones: what else the machine does meets single runs, not the median of the ratios."""
MANY = 1_000
MANY_MESSAGES = 1_000_000
SEGMENT_BYTES = 1 << 30
BUFFER_BYTES = 1 << 20

Append = Callable[[Writer], int]


def append_one_by_one(writer: Writer) -> int:
    """As a program does that has one message at a time; how many."""
    append, payload = writer.append, PAYLOAD
    for _ in range(MESSAGES):
        append(payload)
    return MESSAGES


def append_one_by_one_and_flush(writer: Writer) -> int:
    """The same through the buffer: done when all are in the journal."""
    count = append_one_by_one(writer)
    writer.flush()
    return count


def append_many(writer: Writer) -> int:
    """Lists of 1,000; how many messages."""
    payloads = [PAYLOAD] * MANY
    for _ in range(MANY_MESSAGES // MANY):
        writer.append_many(payloads)
    return MANY_MESSAGES


def check_size(journal: Path, messages: int) -> None:
    """Every message must be there, behind a header of 16 bytes. Raises SystemExit."""
    found = sum(file.stat().st_size for file in journal.glob("[0-9a-f]" * 8))
    if found != (expected := messages * (16 + len(PAYLOAD))):
        raise SystemExit(f"{journal}: {found} bytes in segments, expected {expected}")


def rate(folder: Path, durability: str, work: Append, buffer_bytes: int | None = None) -> float:
    """Messages per second on a new journal."""
    journal = folder / "everlog"
    create(journal, segment_bytes=SEGMENT_BYTES)
    try:
        with Writer(journal, durability=durability, buffer_bytes=buffer_bytes) as writer:
            begin = time.perf_counter()
            count = work(writer)
            took = time.perf_counter() - begin
        check_size(journal, count)
    finally:
        shutil.rmtree(journal)
    return count / took


def rate_of_processes(folder: Path, processes: int) -> float:
    """Messages per second of processes that append one by one at the same time, all started before the clock."""
    journal = folder / "everlog"
    create(journal, segment_bytes=SEGMENT_BYTES)
    ready_read, ready_write = os.pipe()
    go_read, go_write = os.pipe()
    children = []
    for _ in range(processes):
        child = os.fork()
        if child == 0:
            os.close(go_write)
            _append_when_told(journal, ready_write, go_read)
        children.append(child)
    os.close(ready_write)
    os.close(go_read)
    try:
        _wait_for(ready_read, processes)
        begin = time.perf_counter()
        os.close(go_write)
        _wait_for(ready_read, processes)
        took = time.perf_counter() - begin
        check_size(journal, processes * MESSAGES)
    finally:
        for child in children:
            os.waitpid(child, 0)
        os.close(ready_read)
        shutil.rmtree(journal)
    return processes * MESSAGES / took


def _append_when_told(journal: Path, ready: int, go: int) -> None:
    """The child: says that it is open, waits for the other end of ``go`` to close, appends, says that it has done."""
    status = 1
    try:
        with Writer(journal, durability="written") as writer:
            os.write(ready, b".")
            os.read(go, 1)
            append_one_by_one(writer)
            os.write(ready, b".")
        status = 0
    finally:
        os._exit(status)


def _wait_for(ready: int, processes: int) -> None:
    for _ in range(processes):
        if not os.read(ready, 1):
            raise SystemExit("an appending process ended early")


def peer_rate(folder: Path, processes: int = 1) -> float:
    """The C library's messages per second on a new journal."""
    journal = peer.create(folder / "peer", SEGMENT_BYTES)
    try:
        found = peer.append(journal, len(PAYLOAD), MESSAGES, processes)
        check_size(journal, processes * MESSAGES)
        return found
    finally:
        shutil.rmtree(journal)


def buffered_peer_rate(folder: Path) -> float:
    """The same of JLog 2.6, through its buffer."""
    journal = peer.create(folder / "peer", SEGMENT_BYTES)
    try:
        found = peer.append_buffered(journal, len(PAYLOAD), MESSAGES, BUFFER_BYTES)
        check_size(journal, MESSAGES)
        return found
    finally:
        shutil.rmtree(journal)


def lines() -> Iterator[Line | str]:
    """One by one, through the buffer, in lists, and from two processes."""
    with tempfile.TemporaryDirectory(prefix="everlog-bench-") as temporary:
        folder = Path(temporary)
        yield f"journals on {where(folder)}, {len(PAYLOAD)} bytes a message; the peer is JLog 2.0 in C, without buffer"
        value, ratio = paired_rates(lambda: rate(folder, "written", append_one_by_one), lambda: peer_rate(folder), RUNS)
        yield f"the peer: {value / ratio / 1e3:.0f} k/s"
        yield Line("jlog-append-one", value / 1e3, "k/s", ">=1.5", ratio)
        beside = buffered_peer_rate if peer.has_2_6() else peer_rate
        yield (
            "the peer of the next line: JLog 2.6 in C, through its buffer"
            if peer.has_2_6()
            else ("the peer of the next line is JLog 2.0, which has no buffer; EVERLOG_JLOG_SOURCE may name JLog 2.6")
        )
        value, ratio = paired_rates(
            lambda: rate(folder, "buffered", append_one_by_one_and_flush, BUFFER_BYTES), lambda: beside(folder), RUNS
        )
        yield Line("jlog-append-buffered", value / 1e3, "k/s", ">=1", ratio)
        value, ratio = paired_rates(lambda: rate(folder, "written", append_many), lambda: peer_rate(folder), RUNS)
        yield Line("jlog-append-many-1000", value / 1e3, "k/s", ">=10", ratio)
        value, ratio = paired_rates(lambda: rate_of_processes(folder, 2), lambda: peer_rate(folder, 2), RUNS)
        yield Line("jlog-append-2-processes", value / 1e3, "k/s", ">=1.5", ratio)
