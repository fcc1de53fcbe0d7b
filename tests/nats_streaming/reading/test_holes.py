"""Files with holes: what was never written is passed over without being read, whatever its length."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from everlog.core.files.storage import LocalStorage
from everlog.nats_streaming.store import NatsStreamingStore
from everlog.testing.storage.counting import CountingStorage

TERABYTE = 1 << 40


def make(made: Any, root: Path, *, with_index: bool = True) -> Path:
    dat, idx = made.slice(range(1, 20))
    subscription = made.record(made.number(1, 1) + made.text(2, b"me"), kind=1)
    clients = made.version + made.record(made.text(1, b"me") + made.text(2, b"inbox"), kind=1)
    files = {"idx_1": idx} if with_index else {}
    return Path(made.store(root, dat_1=dat, subs=made.version + subscription, clients=clients, **files))


def counted(root: Path) -> tuple[list[int], dict[str, Any], list[str], CountingStorage]:
    """Sequences read, ``info``, the codes that verify tells, and what it cost with ``ls``, too."""
    counting = CountingStorage(LocalStorage(root), 1000)
    with NatsStreamingStore.open(counting, {}) as store:
        store.streams()
        info = store.info()
        sequences = [int(record.address) for record in store.read("foo", on_fault=lambda _: None)]
        report = store.verify()
    return sequences, info, [fault.code for fault in report.faults], counting


@pytest.mark.parametrize(
    ("name", "with_index"),
    [
        ("foo/msgs.1.idx", True),
        *product(("foo/msgs.1.dat", "foo/subs.dat", "clients.dat", "server.dat"), (True, False)),
    ],
)
def test_a_terabyte_that_was_never_written_costs_nothing(
    made: Any, tmp_path: Path, name: str, with_index: bool
) -> None:
    root = make(made, tmp_path / "s", with_index=with_index)
    os.truncate(root / name, TERABYTE)
    sequences, info, codes, cost = counted(root)
    assert sequences == list(range(1, 20))
    assert len(info["clients"]) == 1
    assert [s["client_id"] for s in info["channels"]["foo"]["subscriptions"]] == ["me"]
    expected = "server-size" if name == "server.dat" else "zero-padding"
    assert (expected in codes) is (name != "foo/msgs.1.idx")
    assert cost.byte_count < 8 << 20


@pytest.mark.parametrize("behind", [TERABYTE - 100, (TERABYTE >> 1) - 3, (TERABYTE >> 1) + 4093])
def test_what_is_behind_a_hole_is_found(made: Any, tmp_path: Path, behind: int) -> None:
    """Also where a header begins in the hole, or lies across the edge of a page."""
    root = make(made, tmp_path / "s", with_index=False)
    files = {
        "foo/msgs.1.dat": made.record(made.message(20)),
        "foo/subs.dat": made.record(made.number(1, 1), kind=3),
        "clients.dat": made.record(made.text(1, b"you") + made.text(2, b"inbox"), kind=1),
    }
    for name, record in files.items():
        with open(root / name, "r+b") as file:
            file.seek(behind)
            file.write(record)
            file.truncate(TERABYTE)
    sequences, info, codes, cost = counted(root)
    assert sequences == list(range(1, 21))
    assert [client["id"] for client in info["clients"]] == ["me", "you"]
    assert info["channels"]["foo"]["subscriptions"] == []
    assert codes.count("zero-hole") == 3
    assert cost.byte_count < 32 << 20


def test_a_hole_is_no_credit_for_checks_in_vain(made: Any, tmp_path: Path) -> None:
    """Before it, each of many places looks like a message of a megabyte whose checksum is wrong."""
    start = (1 << 20).to_bytes(4, "little") + b"abcd" + made.number(1, 1) + made.text(2, b"foo")
    log_start = (1 << 24 | 60_000).to_bytes(4, "little") + b"abcd" + b"\x08\x01"
    root = make(made, tmp_path / "s", with_index=False)
    (root / "foo" / "msgs.1.dat").write_bytes(made.version + start * 500)
    (root / "foo" / "subs.dat").write_bytes(made.version + log_start * 2000)
    for name in ("foo/msgs.1.dat", "foo/subs.dat"):
        os.truncate(root / name, TERABYTE)
    counting = CountingStorage(LocalStorage(root))
    with NatsStreamingStore.open(counting, {}) as store:
        assert store.streams()[0].record_count == 0
    assert counting.byte_count < 160 << 20
