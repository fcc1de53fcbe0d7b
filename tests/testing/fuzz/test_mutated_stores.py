"""Seeded fuzzing of every parser through whole stores: damage in, no crash, no hang, no unbounded memory, and no
message that nobody wrote.

``EVERLOG_FUZZ_SECONDS`` (default 6) is the time for each family in a full run, ``EVERLOG_FUZZ_SEED`` where it starts; a
failure names its seed.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

import tests
from everlog.core.store import Store
from everlog.errors import EverlogError
from everlog.stores import FAMILIES, open_store
from everlog.testing.fuzz.mutations import mutate
from everlog.testing.series import Series
from everlog.testing.storage.memory import MemoryStorage
from everlog.testing.toy.family import TOY

GOLDEN = tests.GOLDEN
SECONDS = float(os.environ.get("EVERLOG_FUZZ_SECONDS", "6"))
FIRST_SEED = int(os.environ.get("EVERLOG_FUZZ_SEED", "1"))
SLOWEST_STORE_SECONDS = 20.0
STORES = {
    "jlog": ["jlog/basic/log.tar.gz", "jlog/lz4/log.tar.gz", "jlog/precommit_materialized/log.tar.gz"],
    "nats-streaming": [
        "nats_streaming/basic_sigterm.tar.gz",
        "nats_streaming/lim_max_msgs.tar.gz",
        "nats_streaming/compacted.tar.gz",
    ],
    "aeron-cluster": [
        "aeron/cluster-3node/node0.tar.gz",
        "aeron/cluster-killed/killed-leader.tar.gz",
        "aeron/cluster-killed/new-leader.tar.gz",
    ],
    "aeron-driver": ["aeron/transport/aeron-dir.tar.gz"],
    "aeron-archive": [
        "aeron/archive-crash/crash-plain.tar.gz",
        "aeron/archive-crash/crash-crc.tar.gz",
        "aeron/archive-old-releases/1.7.0-killed.tar.gz",
        "aeron/archive-old-releases/1.20.0-killed.tar.gz",
        "aeron/archive-old-releases/1.24.0-killed.tar.gz",
    ],
}
CHECKED = {"nats-streaming"}  # families in which a checksum covers every message


def store_in(archive: Path) -> MemoryStorage:
    """The store that a tar file holds; a cluster's folder with the archive, which lies beside it, inside."""
    storage = MemoryStorage.of_tar(archive)
    if not any(name.startswith("cluster/") for name in storage.files):
        return storage
    files = {name.removeprefix("cluster/"): data for name, data in storage.files.items()}
    return MemoryStorage(files, root=storage.root)


def all_messages(store: Store) -> set[bytes]:
    """Every payload that the store gives, damage passed over."""
    found = set()
    for stream in store.streams(include_all=True):
        for batch in store.scan(stream.name, columns=["payload", "address"], on_fault=lambda fault: None):
            found.update(batch.to_list("payload"))
    return found


def exercise(storage: MemoryStorage, family: str) -> set[bytes]:
    """Everything a reader can do with a store. Only :class:`EverlogError` may come, and only from opening."""
    try:
        store = open_store(storage, family=family)
    except EverlogError:
        return set()
    with store:
        store.info()
        store.warnings()
        store.verify()
        return all_messages(store)


@pytest.mark.parametrize("family", sorted(FAMILIES.keys() - {TOY.name}))
def test_damage_never_crashes_hangs_or_makes_up_messages(family: str, series: Series) -> None:
    stores = [store_in(GOLDEN / name) for name in STORES[family]]
    written = []
    for storage in stores:
        with open_store(storage, family=family) as store:
            written.append(all_messages(store))
        assert written[-1], f"{storage.root}: the intact store gives no message"
    seed = FIRST_SEED
    until = time.monotonic() + SECONDS * series.effort
    while time.monotonic() < until:
        rng = random.Random(seed)
        index = seed % len(stores)
        files, what = mutate(stores[index].files, rng)
        begin = time.monotonic()
        try:
            found = exercise(MemoryStorage(files, root=stores[index].root), family)
        except Exception as error:
            raise AssertionError(f"seed {seed}, {STORES[family][index]}: {what}") from error
        took = time.monotonic() - begin
        assert took < SLOWEST_STORE_SECONDS, f"seed {seed}, {STORES[family][index]}: {what} took {took:.1f} s"
        if family in CHECKED:
            assert found <= written[index], f"seed {seed}, {STORES[family][index]}: {what}: a message nobody wrote"
        seed += 1
    assert seed > FIRST_SEED
