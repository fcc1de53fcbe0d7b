"""Appending messages whose place is told before they are written, beside others who write."""

from __future__ import annotations

import multiprocessing
import multiprocessing.synchronize
from pathlib import Path

import pytest

from everlog import jlog
from everlog.errors import UsageError
from everlog.jlog.format.addresses import Address
from everlog.jlog.store import JlogStore
from everlog.jlog.writing.intent_append import IntentWriter
from everlog.stores import open_store

TIME_NS = 1_700_000_000_123_456_000


def read(path: Path) -> dict[str, bytes]:
    with open_store(path) as store:
        assert isinstance(store, JlogStore)
        return {record.address: record.payload for record in store.read("journal")}


def append_on_and_on(path: str, stop: multiprocessing.synchronize.Event) -> None:
    with jlog.Writer(path, durability="written") as writer:
        while not stop.is_set():
            writer.append(b"of another writer")


@pytest.mark.parametrize("compression", [None, "lz4"])
@pytest.mark.parametrize("durability", ["written", "synced"])
def test_messages_lie_from_the_address_noted_on_while_others_write(
    tmp_path: Path, durability: str, compression: str | None
) -> None:
    path = tmp_path / "journal"
    jlog.create(path, segment_bytes=200_000, compression=compression)
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    others = [context.Process(target=append_on_and_on, args=(str(path), stop)) for _ in range(2)]
    for other in others:
        other.start()
    expected: dict[str, bytes] = {}
    try:
        with IntentWriter(path, durability=durability) as writer:
            for batch in range(12):
                left = [b"%d.%d " % (batch, n) + bytes(40) for n in range(300)]
                while left:
                    noted: list[Address] = []
                    count = writer.append_part(left, [TIME_NS] * len(left), noted.append)
                    expected |= {str(Address(noted[-1] + n)): left[n] for n in range(count)}
                    left = left[count:]
    finally:
        stop.set()
        for other in others:
            other.join(30)
    found = read(path)
    assert len(expected) == 12 * 300
    assert {address: found.get(address) for address in expected} == expected
    rest = {payload for address, payload in found.items() if address not in expected}
    assert rest <= {b"of another writer"}


def test_nothing_is_written_when_the_note_fails_and_others_may_go_on(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    jlog.create(path)

    def fail(address: Address) -> None:
        raise RuntimeError(str(address))

    with IntentWriter(path) as writer:
        with pytest.raises(RuntimeError, match="00000000:00000001"):
            writer.append_part([b"first"], [TIME_NS], fail)
        with jlog.Writer(path) as other:
            assert str(other.append(b"of another writer")) == "00000000:00000001"
        assert str(writer.next_address()) == "00000000:00000002"
    assert list(read(path).values()) == [b"of another writer"]


def test_a_part_ends_where_its_segment_does(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    jlog.create(path, segment_bytes=100)
    noted: list[str] = []
    with IntentWriter(path) as writer:
        messages = [b"%d" % n + bytes(29) for n in range(7)]
        # A message has 16 + 30 bytes: with the third one a segment has its 100.
        counts = []
        while messages:
            counts.append(writer.append_part(messages, [TIME_NS] * len(messages), lambda at: noted.append(str(at))))
            messages = messages[counts[-1] :]
        assert counts == [3, 3, 1]
        assert noted == ["00000000:00000001", "00000001:00000001", "00000002:00000001"]
        assert writer.append_part([], [], lambda at: noted.append(str(at))) == 0
    assert len(noted) == 3


def test_a_buffer_is_refused(tmp_path: Path) -> None:
    jlog.create(tmp_path / "journal")
    with pytest.raises(UsageError, match="messages in a buffer have no addresses"):
        IntentWriter(tmp_path / "journal", durability="buffered")
