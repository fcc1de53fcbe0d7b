"""Damage never makes a reader stand still, nor read the same bytes again and again."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everlog.core.files.storage import Storage
from everlog.core.report import Fault
from everlog.kernel.columns import RowSink
from everlog.kernel.crc32 import IEEE, Crc32
from everlog.nats_streaming.format.subscriptions import subscription_events
from everlog.nats_streaming.reading import slices
from everlog.nats_streaming.reading.index import IndexLookup
from everlog.nats_streaming.reading.slice_reader import SliceFile, SliceReader
from everlog.nats_streaming.reading.walk import RecordWalker
from everlog.nats_streaming.reading.walk_status import BAD_CRC
from everlog.nats_streaming.store import NatsStreamingStore
from everlog.testing.storage.counting import CountingStorage
from everlog.testing.storage.memory import MemoryStorage

Golden = Callable[[str], Path]


def read_all_ways(storage: Storage, stream: str, limit: int = 5000) -> tuple[list[int], list[str], CountingStorage]:
    """What ``ls``, ``info``, ``read`` and ``verify`` do, in at most ``limit`` calls of the storage: the sequences, and
    the codes that verify tells."""
    counting = CountingStorage(storage, limit)
    with NatsStreamingStore.open(counting, {}) as store:
        store.streams()
        store.info()
        sequences = [int(record.address) for record in store.read(stream, on_fault=lambda _: None)]
        codes = [fault.code for fault in store.verify().faults]
    return sequences, codes, counting


def test_a_header_of_zeros_is_passed_over_once(golden: Golden) -> None:
    files = MemoryStorage.of_folder(golden("basic_sigterm")).files
    names = [name for name in files if name.startswith("a.b.c.d/")]
    kept = {name: files[name] for name in ("server.dat", "clients.dat", *names) if name != "a.b.c.d/msgs.1.idx"}
    sound, _, _ = read_all_ways(MemoryStorage(kept), "a.b.c.d")
    data = bytearray(kept["a.b.c.d/msgs.1.dat"])
    data[33:41] = bytes(8)
    sequences, codes, _ = read_all_ways(MemoryStorage(kept | {"a.b.c.d/msgs.1.dat": bytes(data)}), "a.b.c.d")
    assert sequences == [s for s in sound if s != 2]
    assert "zero-hole" in codes


@pytest.mark.parametrize("with_index", [True, False])
def test_headers_overwritten_at_random_cost_their_records_and_end(made: Any, with_index: bool) -> None:
    dat, idx = made.slice(range(1, 40))
    starts, at = [], 4
    while at < len(dat):
        starts.append(at)
        at += 8 + int.from_bytes(dat[at : at + 4], "little")
    rng = random.Random(7)
    for _ in range(20):
        data = bytearray(dat)
        hurt = rng.sample(range(len(starts)), 6)
        for k in hurt:
            for word in rng.sample([0, 4], rng.randint(1, 2)):
                value = rng.choice([0, 0, 1, 0x7F, 0xFFFFFFFF, rng.getrandbits(32)])
                data[starts[k] + word : starts[k] + word + 4] = value.to_bytes(4, "little")
        files = {"foo/subs.dat": made.version, "foo/msgs.1.dat": bytes(data), "server.dat": made.server()}
        if with_index:
            files["foo/msgs.1.idx"] = idx
        sequences, _, _ = read_all_ways(MemoryStorage(files), "foo")
        assert sequences == [k for k in range(1, 40) if k - 1 not in hurt]


def test_a_header_of_zeros_in_bytes_that_the_index_does_not_know_is_passed_over_once(made: Any) -> None:
    dat, idx = made.slice(range(1, 4))
    orphans = made.record(made.message(4)) + bytes(8) + made.message(5) + made.record(made.message(6))
    files = {"foo/subs.dat": made.version, "foo/msgs.1.dat": dat + orphans, "foo/msgs.1.idx": idx}
    sequences, codes, _ = read_all_ways(MemoryStorage(files | {"server.dat": made.server()}), "foo")
    assert sequences == [1, 2, 3]
    assert "orphan-record" in codes


@pytest.mark.timeout(20)
def test_a_slice_that_was_lost_and_is_whole_when_it_is_read_ends(made: Any) -> None:
    """It was rewritten in place since the channel was looked at."""
    dat, _ = made.slice(range(1, 50))
    bad = bytearray(dat)
    for at in range(4, len(bad)):
        bad[at] ^= 0x55
    storage = MemoryStorage({"foo/subs.dat": made.version, "foo/msgs.1.dat": bytes(bad), "server.dat": made.server()})
    with NatsStreamingStore.open(CountingStorage(storage, 500), {}) as store:
        assert store.streams()[0].record_count == 0
        storage.files["foo/msgs.1.dat"] = dat
        assert [batch.row_count for batch in store.scan("foo", max_rows=4, on_fault=lambda _: None)] == []


def test_slices_that_no_server_finishes_are_waited_for_once(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut left an empty file in each of many channels."""
    waited: list[float] = []
    monkeypatch.setattr(slices.time, "sleep", waited.append)
    files = {f"c{number}/{name}": b"" for number in range(100) for name in ("msgs.1.dat", "msgs.1.idx")}
    with NatsStreamingStore.open(MemoryStorage({"server.dat": made.server()} | files), {}) as store:
        assert len(store.streams()) == 100
        assert 0.1 < sum(waited) < 1


@pytest.mark.parametrize("with_index", [True, False])
def test_records_that_claim_all_that_follows_cost_a_few_passes(made: Any, with_index: bool) -> None:
    sound = [made.record(made.message(k + 1)) for k in range(2500)]
    left = sum(len(record) + 8 for record in sound)
    data, index = bytearray(made.version), bytearray(made.version)
    for k, record in enumerate(sound):
        index += made.entry(k + 1, len(data), len(record))
        data += (left - 9).to_bytes(4, "little") + b"abcd" + record
        left -= len(record) + 8
    files = MemoryStorage({"a": bytes(data), "idx": bytes(index)})
    source = SliceFile(files.open("a"), len(data), b"foo", Crc32(IEEE))
    lookup = IndexLookup(files.open("idx"), len(sound)) if with_index else None
    checked = 0

    class Watched(RecordWalker):
        def walk(self, *arguments: Any) -> int:
            nonlocal checked
            status: int = super().walk(*arguments)
            checked += self.needed if status == BAD_CRC else 0
            return status

    damage: list[tuple[int, int]] = []
    walker = Watched(RowSink([], 1 << 30, 1 << 30), source.crc, 1)
    reader = SliceReader(source, lookup, lambda code, start, end, *rest: damage.append((start, end)))
    assert list(reader.run(walker, 4, len(data))) == []
    assert checked < 12 * len(data) + (2 << 20)
    assert len(damage) > 5
    assert damage[-1][1] == len(data)


def test_log_records_that_claim_all_that_follows_cost_a_few_passes(made: Any) -> None:
    sound = made.record(made.number(1, 7) + made.number(2, 5), kind=4)
    count = 4000
    data = bytearray(made.version)
    for k in range(count):
        claimed = (count - k) * (len(sound) + 8) - 9
        data += (4 << 24 | claimed).to_bytes(4, "little") + b"abcd" + sound
    storage = CountingStorage(MemoryStorage({"subs.dat": bytes(data)}))
    faults: list[Fault] = []
    with storage.open("subs.dat") as file:
        events = list(subscription_events(file, "subs.dat", Crc32(IEEE), True, faults.append, "foo"))
    assert storage.byte_count < 16 * len(data) + (4 << 20)
    assert len(events) > 5
    assert faults[-1].loses.endswith(f" to {len(data)}")
