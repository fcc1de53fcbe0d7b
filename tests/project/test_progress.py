"""Whatever the bytes are, every walker moves on or ends: what readers do, in calls of functions, has a bound that is
linear in the bytes. A reader that stands still is stopped at that bound, and fails."""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import tests
from everlog import aeron, core, jlog, nats_streaming
from everlog.aeron.archive.format.catalog import read_catalog
from everlog.aeron.cluster.format.mark_file import read_cluster_mark
from everlog.aeron.cluster.format.node_state_file import read_node_state
from everlog.aeron.cluster.format.recording_log import encode_entry, read_recording_log
from everlog.aeron.cluster.protocol import codec as cluster_codec
from everlog.aeron.cluster.protocol.consensus import Snapshot, SnapshotRecordings
from everlog.aeron.error_log import read_errors
from everlog.aeron.layouts import ErrorEntry
from everlog.aeron.mark_file import read_archive_mark
from everlog.aeron.transport.format.counters import parse_counters
from everlog.aeron.transport.format.layouts import LossEntry
from everlog.aeron.transport.format.loss_report import read_losses
from everlog.aeron.transport.protocol.wire_resolution import read_resolution
from everlog.core.batch import Batch
from everlog.core.report import Fault
from everlog.core.store import Level, Store
from everlog.errors import EverlogError
from everlog.nats_streaming.format.messages import MsgProto
from everlog.stores import open_store
from everlog.testing.made.archive import MadeRecording, write_archive, write_cluster
from everlog.testing.made.driver import cnc, write_driver
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.memory import MemoryStorage

GOLDEN = tests.GOLDEN
TURNS_PER_BYTE = 150
"""A twin in plain Python calls some functions for each record, and a record is looked at by several readers, each a few
times where there is damage."""
FREE_TURNS = 200_000
EXAMPLES = int(os.environ.get("EVERLOG_EXAMPLES", "5"))
"""More may be asked for."""
FEW = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
A_HEADER_OF_ZEROS = [(1, 4, 4, bytes(8))]
"""In a channel's first slice."""


class StandsStill(BaseException):
    """No :class:`Exception`: nobody takes it for damage and goes on."""


@contextmanager
def bounded(byte_count: int) -> Iterator[None]:
    """Stops what makes more turns than so many bytes are worth."""
    left = FREE_TURNS + TURNS_PER_BYTE * byte_count

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise StandsStill(f"at {frame.f_code.co_qualname}, after {FREE_TURNS} turns and more")

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)


# Kernels

_TWINS = {
    "everlog.aeron.frames._walk": "everlog.aeron.frames.walk_twin",
    "everlog.jlog.reading._walk": "everlog.jlog.reading.walk_twin",
    "everlog.nats_streaming.reading._walk": "everlog.nats_streaming.reading.walk_twin",
    "everlog.kernel._columns": "everlog.kernel.columns_twin",
    "everlog.kernel._crc32": "everlog.kernel.crc32_twin",
}


@functools.cache
def _pairs() -> list[tuple[Any, Any]]:
    """What is compiled, and its twin in plain Python."""
    found = []
    for compiled, twin in _TWINS.items():
        ours, theirs = importlib.import_module(compiled), importlib.import_module(twin)
        names = [name for name in vars(ours) if callable(getattr(ours, name)) and not name.startswith("__")]
        found += [(getattr(ours, name), getattr(theirs, name)) for name in names if hasattr(theirs, name)]
    return [(ours, theirs) for ours, theirs in found if ours is not theirs]


@functools.cache
def _import_all() -> None:
    """A module that is imported while others have the twins would keep them: it comes before."""
    for family in (aeron, core, jlog, nats_streaming):
        for found in pkgutil.walk_packages(family.__path__, family.__name__ + "."):
            importlib.import_module(found.name)


@pytest.fixture(params=["compiled", "twin"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every module of everlog has the one kernel or the other."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # nobody comes to finish what is damaged
    _import_all()
    twins = {id(ours): theirs for ours, theirs in _pairs()}
    for name, module in list(sys.modules.items()):
        if request.param == "compiled" or not name.startswith("everlog.") or name in {*_TWINS, *_TWINS.values()}:
            continue
        for key, value in list(vars(module).items()):
            if id(value) in twins:
                monkeypatch.setattr(module, key, twins[id(value)])
    return str(request.param)


# Stores


def golden(name: str, prefix: str = "") -> dict[str, bytes]:
    storage = MemoryStorage.of_tar(GOLDEN / f"{name}.tar.gz")
    return {name: data for name, data in storage.files.items() if "/" not in name or name.startswith(prefix)}


def of_folder(make: Callable[[Path], Path]) -> Callable[[Path], dict[str, bytes]]:
    return lambda folder: dict(MemoryStorage.of_folder(make(folder)).files)


def node(folder: Path) -> Path:
    """A cluster node with its archive inside its folder."""
    cluster = write_cluster(folder, terms=2, snapshots=1)
    (folder / "archive").rename(cluster / "archive")
    return cluster


def driver(folder: Path) -> Path:
    write_driver(folder, publications=1, images=1)
    entry = LossEntry.pack(
        observation_count=1, total_bytes_lost=9, first_observation=1, last_observation=2, stream_id=5
    )
    (folder / "loss-report.dat").write_bytes((entry + b"\x01\0\0\0a\0\0\0\x01\0\0\0b").ljust(128, b"\0") + bytes(128))
    return folder


def recordings(folder: Path) -> Path:
    """Some that were stopped and one that is active, with messages of several sizes."""

    def messages(segment: int) -> list[bytes]:
        return [b"%d %d." % (segment, number) * (number * 5 + 1) for number in range(8)]

    made = [MadeRecording(k, 2, is_active=k == 1, messages=messages) for k in range(2)]
    return write_archive(folder, made)


STORES: dict[str, tuple[str, Callable[[Path], dict[str, bytes]]]] = {
    "archive": ("aeron-archive", of_folder(recordings)),
    "cluster": ("aeron-cluster", of_folder(node)),
    "driver": ("aeron-driver", of_folder(driver)),
    "journal": ("jlog", lambda _: golden("jlog/basic/log")),
    "journal of LZ4": ("jlog", lambda _: golden("jlog/lz4/log")),
    "journal with a pre-commit buffer": ("jlog", lambda _: golden("jlog/precommit_materialized/log")),
    "channel": ("nats-streaming", lambda _: golden("nats_streaming/basic_sigterm", "foo/")),
}
OPTIONS: dict[str, dict[str, Any]] = {"jlog": {"pre_commit": True}}


def word(width: int) -> st.SearchStrategy[bytes]:
    numbers = st.sampled_from([0, 0, 1, 7, 31, 32, 33, 4096, (1 << 31) - 1, 1 << 31, (1 << 32) - 1])
    return numbers.map(lambda number: (number & ((1 << 8 * width) - 1)).to_bytes(width, "little"))


Edit = tuple[int, int, int, bytes]
"""Which file, how far into it (out of 1 << 16), aligned to how many bytes, and what is written there."""

EDITS = st.lists(
    st.tuples(
        st.integers(0, 99),
        st.integers(0, (1 << 16) - 1) | st.integers(0, 400),
        st.sampled_from([1, 4, 8, 32]),
        word(4) | word(8) | st.binary(min_size=1, max_size=40) | st.just(bytes(64)),
    ),
    min_size=1,
    max_size=8,
)


def edited(files: dict[str, bytes], edits: list[Edit], removed: frozenset[int], cut: int) -> dict[str, bytes]:
    """The files with these bytes in them, some of them gone, and one cut."""
    names = sorted(name for name, data in files.items() if data)
    made = {name: bytearray(files[name]) for name in files}
    for number, part, alignment, data in edits:
        held = made[names[number % len(names)]]
        used = max(len(held.rstrip(b"\0")), 8)  # most of a segment is zeros: what is written is to be hit
        at = min(part * used >> 16 if part > 400 else part, used) // alignment * alignment
        held[at : at + len(data)] = data
    for number in removed:
        made.pop(names[number % len(names)], None)
    if cut and (rest := sorted(made)):
        del made[rest[cut % len(rest)]][cut:]
    return {name: bytes(data) for name, data in made.items()}


def exercise(storage: Any, family: str) -> None:
    """Everything that a reader can do with a store."""
    try:
        store = open_store(storage, family=family, **OPTIONS.get(family, {}))
    except EverlogError:
        return
    with store:
        for look in (store.info, store.warnings, store.verify):
            with suppress(EverlogError):
                look()
        with suppress(EverlogError):
            for stream in store.streams(include_all=True):
                for level in Level:
                    _drain(store, stream.name, level)
        if isinstance(storage, CrashingStorage):
            with suppress(EverlogError):
                store.plan_repair()


def _drain(store: Store, stream: str, level: Level) -> list[Batch]:
    faults: list[Fault] = []
    try:
        whole = list(store.scan(stream, level=level, max_rows=7, on_fault=faults.append))
        for split in store.splits(stream, split_bytes=1):
            whole += store.scan_split(split, level=level, on_fault=faults.append)
    except EverlogError:
        return []
    return whole


@pytest.mark.timeout(60 * EXAMPLES)
@pytest.mark.parametrize("name", STORES)
@FEW
@given(edits=EDITS, removed=st.frozensets(st.integers(0, 99), max_size=2), cut=st.just(0) | st.integers(1, 3000))
@example(edits=A_HEADER_OF_ZEROS, removed=frozenset({2}), cut=0)
def test_every_reader_of_a_damaged_store_comes_to_an_end(
    kernel: str, stores: dict[str, dict[str, bytes]], name: str, edits: list[Edit], removed: frozenset[int], cut: int
) -> None:
    family, files = STORES[name][0], edited(stores[name], edits, removed, cut)
    is_flat = not any("/" in file for file in files)
    storage = CrashingStorage(files) if is_flat else MemoryStorage(files)
    with bounded(sum(map(len, files.values()))):
        exercise(storage, family)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    root = tmp_path_factory.mktemp("stores")
    return {name: make(root / name.replace(" ", "-")) for name, (_, make) in STORES.items()}


# Parsers of what is read whole

_ERROR = ErrorEntry.pack(length=40, observation_count=1, last_observation_timestamp=2) + b"x" * 16
_LOSS = LossEntry.pack(observation_count=1, total_bytes_lost=9) + b"\x01\0\0\0a\0\0\0\x01\0\0\0b"
_TERM = encode_entry(recording_id=0, leadership_term_id=1, term_base_log_position=0, log_position=-1)
_RECORDINGS = SnapshotRecordings(1, tuple(Snapshot(number, 2, 3, 4, 5, -1) for number in range(4)), "0,a:1|1,b:2")

PARSERS: dict[str, tuple[Callable[[bytes], object], bytes]] = {
    "error log": (read_errors, _ERROR * 20),
    "loss report": (read_losses, _LOSS.ljust(64, b"\0") * 20),
    "recording log": (read_recording_log, _TERM * 20),
    "catalog": (read_catalog, b""),
    "archive's mark file": (read_archive_mark, bytes(512)),
    "cluster's mark file": (read_cluster_mark, bytes(512)),
    "node state": (read_node_state, bytes(256)),
    "counters": (lambda data: list(parse_counters(data, data)), cnc([(1, 5, 64)] * 4)),
    "resolution frame": (lambda data: read_resolution(data, 0, len(data)), bytes(64)),
    "cluster's message": (cluster_codec.decode, cluster_codec.encode(_RECORDINGS)),
    "protobuf": (MsgProto.parse, b"\x08\x01\x12\x01a" * 8),
}


@pytest.mark.timeout(60 * EXAMPLES)
@pytest.mark.parametrize("name", PARSERS)
@FEW
@given(edits=EDITS, more=st.binary(max_size=300))
def test_every_parser_comes_to_an_end(
    stores: dict[str, dict[str, bytes]], name: str, edits: list[Edit], more: bytes
) -> None:
    parse, sample = PARSERS[name]
    sample = sample or stores["archive"]["archive.catalog"]
    data = edited({"data": sample + more}, edits, frozenset(), 0)["data"]
    with bounded(len(data)), suppress(EverlogError, ValueError):
        parse(data)
