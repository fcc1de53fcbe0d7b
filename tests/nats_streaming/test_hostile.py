"""Every small golden file cut at every byte and with single bits flipped: no crash, no hang, and no message that was
never written."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from everlog.core.files.storage import LocalStorage
from everlog.nats_streaming.store import NatsStreamingStore
from everlog.testing.series import Series

Golden = Callable[[str], Path]
Message = tuple[int, int, bytes, str]

FILES = [
    "foo/msgs.4.dat",
    "foo/msgs.4.idx",
    "foo/msgs.2.dat",
    "foo/msgs.2.idx",
    "foo/subs.dat",
    "clients.dat",
    "server.dat",
]


@pytest.fixture(scope="module")
def small(golden: Golden, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of one channel of four slices, to be damaged and mended."""
    root = tmp_path_factory.mktemp("hostile") / "store"
    root.mkdir()
    source = golden("basic_sigterm")
    for name in ("server.dat", "clients.dat"):
        shutil.copy(source / name, root / name)
    shutil.copytree(source / "foo", root / "foo")
    return root


def messages(store: NatsStreamingStore, **asked: Any) -> tuple[list[Message], list[str]]:
    codes: list[str] = []
    rows: list[Message] = []
    columns = ["sequence", "timestamp_ns", "payload", "reply"]
    for batch in store.scan("foo", columns=columns, on_fault=lambda fault: codes.append(fault.code), **asked):
        rows += batch.rows()
    return rows, codes


def exercise(root: Path) -> tuple[list[Message], list[str], list[str]]:
    """Everything that a reader does: the messages, faults met while reading, faults of verify."""
    with NatsStreamingStore.open(LocalStorage(root), {}) as store:
        store.info()
        (info,) = store.streams()
        rows, codes = messages(store)
        assert [row[0] for row in rows] == sorted({row[0] for row in rows})
        if not codes:
            assert (info.record_count, info.last) == (len(rows), str(rows[-1][0]))
        report = store.verify()
        return rows, codes, [f.code for f in report.faults]


@pytest.fixture(scope="module")
def written(small: Path) -> list[Message]:
    rows, codes, faults = exercise(small)
    assert (len(rows), codes, faults) == (37, [], [])
    return rows


def damaged(path: Path, versions: Iterator[bytes]) -> Iterator[bytes]:
    """Put each version in the file's place; mend it in the end."""
    whole = path.read_bytes()
    try:
        for version in versions:
            path.write_bytes(version)
            yield version
    finally:
        path.write_bytes(whole)


def record_ends(data: bytes) -> set[int]:
    """Where records end, the version word counted as one."""
    ends, at = {4}, 4
    while at < len(data):
        at += 8 + (int.from_bytes(data[at : at + 3], "little"))
        ends.add(at)
    return ends


@pytest.mark.parametrize("name", FILES)
def test_cut_anywhere_nothing_else_is_read_and_all_before_the_cut_is(
    name: str, small: Path, written: list[Message], series: Series
) -> None:
    whole = (small / name).read_bytes()
    ends = range(len(whole)) if len(whole) < 220 else sorted(random.Random(name).sample(range(len(whole)), 150))
    boundaries = record_ends(whole) if name in ("foo/subs.dat", "clients.dat") else set()
    for version in damaged(small / name, (whole[:end] for end in series.points(ends))):
        rows, _, faults = exercise(small)
        assert set(rows) <= set(written)
        assert faults or len(version) in boundaries
        if "msgs" in name and name.endswith(".dat"):
            before = sum(end <= len(version) for end in record_ends(whole)) - 1
            others = 30 if "4" in name else 27
            assert len(rows) == others + max(before, 0), len(version)
        elif not name.endswith(".idx"):
            assert rows == written


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_costs_at_most_its_record(name: str, small: Path, written: list[Message], series: Series) -> None:
    whole = (small / name).read_bytes()
    rng = random.Random(name)
    bits = rng.sample(range(8 * len(whole)), 120)
    # The type of a record in a log is not under its checksum.
    types = {end + 3 for end in record_ends(whole)} if name in ("foo/subs.dat", "clients.dat") else set()
    for bit in series.points(bits):
        version = bytearray(whole)
        version[bit >> 3] ^= 1 << (bit & 7)
        for _ in damaged(small / name, iter([bytes(version)])):
            rows, _, faults = exercise(small)
            assert set(rows) <= set(written), (name, bit)
            assert faults or bit >> 3 in types, (name, bit)
            lost = 1 if name.endswith(".dat") and "msgs" in name else 0
            assert len(rows) >= 37 - lost, (name, bit)


def test_without_an_index_a_flipped_bit_costs_at_most_its_record(
    small: Path, written: list[Message], series: Series
) -> None:
    index = small / "foo" / "msgs.2.idx"
    kept = index.read_bytes()
    index.unlink()
    try:
        whole = (small / "foo" / "msgs.2.dat").read_bytes()
        rng = random.Random(5)
        for bit in series.points(rng.sample(range(8 * len(whole)), 150)):
            version = bytearray(whole)
            version[bit >> 3] ^= 1 << (bit & 7)
            for _ in damaged(small / "foo" / "msgs.2.dat", iter([bytes(version)])):
                rows, codes, _ = exercise(small)
                assert set(rows) <= set(written), bit
                assert len(rows) >= 36, bit
                assert codes or len(rows) == 37, bit
    finally:
        index.write_bytes(kept)


def test_random_bytes_in_place_of_files_do_no_harm(small: Path, written: list[Message]) -> None:
    rng = random.Random(99)
    for name in FILES:
        size = (small / name).stat().st_size
        versions = (b"\x01\x00\x00\x00" * rng.randrange(2) + rng.randbytes(rng.randrange(size)) for _ in range(15))
        for _ in damaged(small / name, versions):
            rows, _, _ = exercise(small)
            assert set(rows) <= set(written)


def test_a_message_that_claims_to_be_huge_takes_no_memory(made: Any, tmp_path: Path, opened: Any, reading: Any) -> None:
    import tracemalloc

    dat, _idx = made.slice(range(1, 20))
    at = len(made.slice(range(1, 5))[0])
    for size in (1 << 20, 64 << 20, 0xFFFFFFFF):
        root = made.store(tmp_path / str(size), dat_1=dat[:at] + size.to_bytes(4, "little") + dat[at + 4 :])
        with open(root / "foo" / "msgs.1.dat", "r+b") as file:
            file.truncate(200 << 20)  # sparse zeros behind the records
        tracemalloc.start()
        with opened(root) as store:
            found = reading(store)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert found.sequences == [k for k in range(1, 20) if k != 5]
        assert peak < 250 << 20


def test_a_file_of_many_false_starts_is_done_in_time(made: Any, tmp_path: Path, opened: Any, reading: Any) -> None:
    """Each looks like a message of 60 KB; none is one."""
    start = (60_000).to_bytes(4, "little") + b"\x01\x02\x03\x04" + made.number(1, 1) + made.text(2, b"foo")
    root = made.store(
        tmp_path / "s",
        dat_1=made.version + start * 40_000,
        subs=made.version + b"\x40\x00\x00\x01abcd\x08\x0a" * 20_000,
    )
    with opened(root) as store:
        assert reading(store).sequences == []
        store.info()
        assert not store.verify().ok
