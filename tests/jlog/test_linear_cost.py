"""What a look at a journal costs grows no faster than the count of its segments and subscribers.

Cost is counted, not timed: the lines of everlog that run, and the names that the system lists. Each of three sizes has
the same number of segments and subscribers more than the one before, so each step costs the same, unless something is
done again for each segment or subscriber.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import everlog
from everlog.cli import faults
from everlog.cli.app import run
from everlog.core.files.storage import LocalStorage
from everlog.jlog.following import JournalFollower
from everlog.jlog.store import JlogStore
from everlog.jlog.subscribing.subscriber import Subscriber
from everlog.jlog.writing.writer import Writer
from everlog.stores import open_store

CODE = os.path.dirname(everlog.__file__)
PLAIN = 0x663A7318
STEP = 4
SIZES = (STEP, 2 * STEP, 3 * STEP)
SLACK = 2 * (3 * STEP) ** 2 - 1
"""One line that runs for each pair of segments, of which there are at least ``3 * STEP``, costs more than that."""
LIMIT = 20

Work = Callable[[str], object]


def message(payload: bytes, time: int = 1_700_000_000) -> bytes:
    return struct.pack("<IIII", PLAIN, time, 0, len(payload)) + payload


ONE = message(b"hello")
TORN = ONE + b"x" * 30 + ONE


def put(folder: Path, segments: dict[int, bytes], places: Iterator[tuple[int, int]], *, metastore: bool = True) -> None:
    """A journal of these segments, with a subscriber at each place."""
    folder.mkdir()
    for log, data in segments.items():
        (folder / f"{log:08x}").write_bytes(data)
    for number, place in enumerate(places):
        (folder / f"cp.{f's{number:04}'.encode().hex()}").write_bytes(struct.pack("<II", *place))
    if metastore:
        (folder / "metastore").write_bytes(struct.pack("<IIII", max(segments), LIMIT, 1, PLAIN))


def all_kinds(folder: Path, count: int, *, metastore: bool = True) -> None:
    """Segments with damage, with one message and without any, with a hole after each three; subscribers in all of
    them."""
    kinds = (TORN, ONE, b"")
    segments = {4 * number + kind: kinds[kind] for number in range(count) for kind in range(3)}
    places = ((4 * number + kind, 2 * (kind == 0)) for number in range(count) for kind in range(4))
    put(folder, segments, places, metastore=metastore)


def empty(folder: Path, count: int) -> None:
    """Segments without a message; subscribers at the beginning, and in each segment."""
    places = [(0, 0), *((number, 0) for number in range(4 * count)), *((0, 0) for _ in range(4 * count))]
    put(folder, dict.fromkeys(range(4 * count), b""), iter(places))


def no_message(folder: Path, count: int) -> None:
    """Segments of bytes that are no message; subscribers in each."""
    put(folder, dict.fromkeys(range(4 * count), b"\1" * 40), ((number, 1) for number in range(4 * count)))


def no_metastore(folder: Path, count: int) -> None:
    """As :func:`all_kinds`, without metastore."""
    all_kinds(folder, count, metastore=False)


def one_segment(folder: Path, count: int) -> None:
    """A segment with much damage, and subscribers behind each piece of it."""
    put(folder, {0: (ONE + ONE + b"x" * 30) * 4 * count + ONE}, ((0, 3 * number + 1) for number in range(4 * count)))


def buffered(folder: Path, count: int) -> None:
    """Messages in the pre-commit buffer that are in a segment, too, all of the same time and length."""
    there = b"".join(message(b"%04d" % number) for number in range(8 * count))
    waiting = b"".join(message(b"%04d" % number) for number in reversed(range(8 * count)))
    put(folder, {0: there}, iter(()))
    (folder / "pre_commit").write_bytes(struct.pack("<I", len(waiting)) + waiting)


def command(*arguments: str) -> Work:
    """A command, whose exit code may be 1: for faults."""

    def work(path: str) -> None:
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            assert run([argument.replace("PATH", path) for argument in arguments]) in (0, 1)

    return work


def plan_and_scan(path: str) -> None:
    """What planning a query of Spark asks, and what its tasks read."""
    with open_store(path) as store:
        store.planned_streams()
        store.splits("journal")
        parts = store.splits("journal", split_bytes=1)
        store.split_times(parts)
        for part in parts:
            for _ in store.scan_split(part, columns=["length"], on_fault=lambda _: None):
                pass


def follow(path: str) -> None:
    """What a live query asks."""
    follower = JournalFollower(LocalStorage(path), {})
    follower.poll()
    follower.splits("journal", 1, follower.poll()["journal"].end)


def monitor(path: str) -> None:
    """What health checks ask."""
    store = open_store(path)
    assert isinstance(store, JlogStore)
    store.warnings(before=store.observe())


def subscribe(path: str) -> None:
    """All messages, each done before the next one."""
    with Subscriber(path, "s0000", checkpoint_every=1, on_fault=lambda _: None) as subscriber:
        for _ in subscriber:
            pass


def append(path: str) -> None:
    with Writer(path) as writer:
        writer.append(b"x")


BOTH = (all_kinds, empty)
WORKS: dict[str, tuple[Work, tuple[Callable[[Path, int], None], ...]]] = {
    "ls": (command("ls", "PATH"), (empty, no_message)),
    "info": (command("info", "PATH"), (*BOTH, one_segment)),
    "verify": (command("verify", "PATH"), BOTH),
    "export": (command("export", "PATH", "--format", "jsonl", "PATH.jsonl"), (all_kinds,)),
    "metrics": (command("metrics", "--once", "PATH"), BOTH),
    "repair": (command("repair", "--dry-run", "PATH"), (all_kinds, no_message, one_segment, buffered)),
    "jlogctl data": (command("jlogctl", "data", "-j", "PATH", "-i", "-d"), (all_kinds,)),
    "jlogctl subscriber -l": (command("jlogctl", "subscriber", "-j", "PATH", "-l"), (empty,)),
    "jlogctl subscriber -p": (command("jlogctl", "subscriber", "-j", "PATH", "-p", "s0000"), (empty,)),
    "jlogctl clean": (command("jlogctl", "clean", "-j", "PATH"), (all_kinds,)),
    "jlogctl old style": (command("jlogctl", "-l", "-s", "PATH"), (all_kinds,)),
    "jlogtail -n": (command("jlogtail", "-n", "5", "--no-follow", "PATH"), (all_kinds, empty)),
    "jlogtail --from": (command("jlogtail", "--from", "beginning", "--no-follow", "PATH"), (no_metastore,)),
    "splits": (plan_and_scan, BOTH),
    "follow": (follow, (empty,)),
    "health": (monitor, BOTH),
    "subscriber": (subscribe, (all_kinds,)),
    "append": (append, (all_kinds,)),
}


def cost_of(work: Work, path: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Lines of everlog that run in it, and names that are listed."""
    gc.disable()  # what it collects it would close, now or another time
    count = 0
    listed = os.listdir

    def on_line(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += 1
        return on_line

    def on_call(frame: FrameType, event: str, _: Any) -> Any:
        return on_line if frame.f_code.co_filename.startswith(CODE) else None

    def listing(folder: str) -> list[str]:
        nonlocal count
        names = listed(folder)
        count += len(names)
        return names

    before = sys.gettrace()
    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", listing)
        sys.settrace(on_call)
        try:
            work(path)
        finally:
            sys.settrace(before)
            gc.enable()
    return count


@pytest.mark.parametrize(("name", "shape"), [(name, shape) for name, (_, shapes) in WORKS.items() for shape in shapes])
def test_the_cost_grows_no_faster_than_segments_and_subscribers(
    name: str, shape: Callable[[Path, int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "MAX_WARNINGS", 0)  # else the first ones cost more
    work = WORKS[name][0]
    costs = []
    for size in (1, *SIZES):  # the first imports what is needed
        shape(tmp_path / str(size), size)
        costs.append(cost_of(work, str(tmp_path / str(size)), monkeypatch))
    _, small, middle, large = costs
    assert large - middle <= middle - small + SLACK, costs
