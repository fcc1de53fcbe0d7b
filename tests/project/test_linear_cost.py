"""What a command costs grows with what there is, not with its square: counted in system calls, bytes read and calls of
Python functions, at a size, at twice and at four times that size."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import pytest

from everlog.cli.app import run
from everlog.stores import family_of, open_store, storage_of
from everlog.testing.made.archive import MadeRecording, write_archive, write_cluster
from everlog.testing.made.channel import Channel, make_store
from everlog.testing.made.driver import write_driver
from everlog.testing.system_calls import SystemCalls

COMMANDS = ("ls", "info", "read", "verify", "verify in parts", "export", "plan a query")
BOUNDS = (("calls", 2.1, 8), ("byte_count", 2.1, 1 << 16), ("steps", 2.4, 100))
"""How many times the first difference the second one may be, and a slack. What does not grow falls out of differences;
what grows with the square makes the second one near four times the first."""
LARGE_SEGMENT = 128 << 20
"""Longer than a split: such a segment is cut in pieces."""


@dataclass(frozen=True)
class Growth:
    """A kind of store and what there can be many of. ``make(folder, count)`` makes one, and says where it is.
    ``more_commands``: those that the family has beside ``COMMANDS``, such as ``metrics --once``."""

    name: str
    make: Callable[[Path, int], Path]
    smallest: int = 3
    more_commands: tuple[str, ...] = ()


def archive(**how: object) -> Callable[[Path, int], Path]:
    """So many recordings."""
    return lambda folder, count: write_archive(folder, [MadeRecording(k, **how) for k in range(count)])  # type: ignore[arg-type]


def archive_without_catalog(folder: Path, count: int) -> Path:
    write_archive(folder, [MadeRecording(k) for k in range(count)])
    (folder / "archive.catalog").unlink()
    return folder


def channels(folder: Path, count: int) -> Path:
    make_store(folder)
    for number in range(count):
        Channel(folder, f"c{number}").append(b"x")
    return folder


def empty_channels(folder: Path, count: int) -> Path:
    make_store(folder)
    Channel(folder, "full").append(b"x")
    for number in range(count):
        (folder / f"empty{number}").mkdir()
    return folder


def slices(*, step: int = 0, with_index: bool = True) -> Callable[[Path, int], Path]:
    """So many slices of one channel. ``step``: sequences that are missing between them, or are in both."""

    def make(folder: Path, count: int) -> Path:
        channel = Channel(make_store(folder), "c")
        for _ in range(count):
            channel.append(b"x")
            channel.append(b"x")
            channel.roll()
            channel.sequence += step
        for index in () if with_index else channel.folder.glob("*.idx"):
            index.unlink()
        return folder

    return make


GROWTHS = (
    Growth("Aeron archive, recordings", archive(), more_commands=("repair --dry-run", "archive verify")),
    Growth(
        "Aeron archive, active recordings", archive(segments=2, is_active=True), more_commands=("repair --dry-run",)
    ),
    Growth("Aeron archive, recordings of large segments", archive(segment_length=LARGE_SEGMENT)),
    Growth("Aeron archive, segments", lambda f, n: write_archive(f, [MadeRecording(0, n)]), smallest=6),
    Growth("Aeron archive, gaps", lambda f, n: write_archive(f, [MadeRecording(0, 2 * n + 1, has_gaps=True)])),
    Growth("Aeron archive, recordings without a catalog", archive_without_catalog),
    Growth("Aeron cluster, terms", lambda f, n: write_cluster(f, terms=n, snapshots=1)),
    Growth("Aeron cluster, snapshots", lambda f, n: write_cluster(f, terms=1, snapshots=n), smallest=8),
    Growth("Aeron driver, publications", lambda f, n: write_driver(f, publications=n)),
    Growth("Aeron driver, images", lambda f, n: write_driver(f, images=n)),
    # Journals: segments, subscribers.
    Growth("NATS Streaming, channels", channels),
    Growth("NATS Streaming, empty channels", empty_channels),
    Growth("NATS Streaming, slices", slices()),
    Growth("NATS Streaming, slices without an index", slices(with_index=False)),
    Growth("NATS Streaming, slices with gaps between them", slices(step=1)),
    Growth("NATS Streaming, slices that overlap", slices(step=-1)),
)
"""A row for each thing there can be many of."""


@dataclass
class Cost:
    """What a command cost."""

    calls: int = 0
    byte_count: int = 0
    steps: int = field(default=0, repr=False)


@contextmanager
def counted() -> Iterator[Cost]:
    cost = Cost()

    def note(frame: FrameType, event: str, argument: object) -> None:
        cost.steps += event == "call"

    with SystemCalls() as calls:
        sys.setprofile(note)
        try:
            yield cost
        finally:
            sys.setprofile(None)
    cost.calls, cost.byte_count = calls.count, calls.byte_count


def do(command: str, path: Path) -> None:
    """Run a command line on a store, or what Spark does when a query or a verification is planned."""
    if command == "plan a query":
        plan_query(path)
    elif command == "verify in parts":
        with open_store(path) as store:
            for part in store.verify_parts(100_000):
                store.verify_part(part)
    else:
        verb, *rest = command.split()
        out = [str(path.parent / f"{path.name}.jsonl"), "--force"] if verb == "export" else []
        with quiet():
            run([verb, str(path), *out, *rest])


def plan_query(path: Path) -> None:
    from everlog.discovery import FoundStore
    from everlog.pipelines.scan.columns import family_options
    from everlog.pipelines.scan.options import parse_options
    from everlog.pipelines.scan.planning import plan

    scan = parse_options({"path": str(path)})
    found = [FoundStore(str(path), family_of(storage_of(path)))]
    assert plan(found, scan, family_options(found, scan))


@contextmanager
def quiet() -> Iterator[None]:
    """What is printed goes nowhere; ``read`` writes bytes."""
    before, sys.stdout = sys.stdout, io.TextIOWrapper(io.BytesIO(), write_through=True)
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        sys.stdout = before


@pytest.mark.parametrize("growth", GROWTHS, ids=lambda growth: growth.name)
def test_four_times_as_many_cost_four_times_as_much(growth: Growth, tmp_path: Path) -> None:
    paths = [growth.make(tmp_path / f"times-{times}" / "store", growth.smallest * times) for times in (1, 2, 4)]
    for command in (*COMMANDS, *growth.more_commands):
        if command == "plan a query":
            pytest.importorskip("pyspark")
        do(command, paths[0])  # what is imported and remembered once is not counted
        costs = []
        for path in paths:
            with counted() as cost:
                do(command, path)
            costs.append(cost)
        for name, most, slack in BOUNDS:
            if command == "verify in parts" and name == "steps":
                continue  # each part looks at the names in the folder
            small, middle, large = (getattr(cost, name) for cost in costs)
            assert large - middle <= most * max(middle - small, 0) + slack, (command, name, small, middle, large)


def test_one_of_many_channels_is_looked_at_once(tmp_path: Path) -> None:
    """Reading 20,000 channels takes seconds only if each costs one listing and one opening of each file: a channel is
    listed when the family is found and when its name is, its folder is listed, its three files are looked at, and two
    of them are opened, asked for their kind and size, and read."""
    paths = [channels(tmp_path / str(count) / "store", count) for count in (10, 60)]
    do("read", paths[0])
    costs = []
    for path in paths:
        with counted() as cost:
            do("read", path)
        costs.append(cost)
    assert costs[1].calls - costs[0].calls <= 50 * (2 + 1 + 3 + 2 * 4)
    assert costs[1].steps - costs[0].steps <= 50 * 320
