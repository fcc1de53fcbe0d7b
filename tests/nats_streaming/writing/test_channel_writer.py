"""Writes channels and reads them back; what the real server wrote is continued."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everlog import nats_streaming, open_store
from everlog.core.files.writable import LocalWritableStorage
from everlog.errors import Closed, CorruptData, LimitExceeded, UsageError, WriteFailed, WrongType
from everlog.kernel.crc32 import CASTAGNOLI
from everlog.nats_streaming.writing.channel_writer import MAX_PAYLOAD_BYTES, ChannelWriter
from everlog.nats_streaming.writing.options import WriteOptions
from everlog.nats_streaming.writing.store_folder import prepare_channel
from everlog.testing.series import Series
from everlog.testing.storage.faulty_writes import FaultyWrites, WriteFaults
from everlog.testing.storage.ledger import Ledger
from tests.nats_streaming.conftest import Made

SECOND_NS = 10**9


def messages(path: Path, channel: str = "foo", **options: Any) -> dict[int, bytes]:
    """Payloads by sequence; the store must be sound."""
    with open_store(path, **options) as store:
        assert store.verify().faults == []
        return {record.fields["sequence"]: record.payload for record in store.read(channel)}


def slices(path: Path, channel: str = "foo") -> list[int]:
    return sorted(int(file.name.split(".")[1]) for file in (path / channel).glob("msgs.*.dat"))


def test_messages_get_sequences_from_1_and_a_next_writer_continues_them(tmp_path: Path) -> None:
    with nats_streaming.open_channel(tmp_path / "store", "foo") as writer:
        assert writer.append(b"a") == 1
        assert writer.append_many([b"", bytearray(b"c"), memoryview(b"d")]) == 4
        assert writer.append_many([]) == 4
    with nats_streaming.open_channel(tmp_path / "store", "foo") as writer:
        assert (writer.first_sequence, writer.last_sequence, writer.message_count) == (1, 4, 4)
        assert writer.append(b"e") == 5
    assert messages(tmp_path / "store") == {1: b"a", 2: b"", 3: b"c", 4: b"d", 5: b"e"}


def test_the_bytes_are_those_that_the_format_describes(tmp_path: Path, made: Made) -> None:
    storage = LocalWritableStorage(tmp_path)
    prepare_channel(storage, "foo")
    times = iter(range(10**18 + SECOND_NS, 10**18 + 9 * SECOND_NS, SECOND_NS))
    clock = lambda: next(times)  # noqa: E731
    with ChannelWriter(storage, "foo", WriteOptions(), lambda: None, clock) as writer:
        writer._apply_limits = lambda: None  # type: ignore[method-assign]  # it asks the clock, too
        for k in range(2, 5):
            writer.append(b"message %d" % k)
    dat, idx = (tmp_path / "foo" / name for name in ("msgs.1.dat", "msgs.1.idx"))
    payloads = [made.message(k, b"message %d" % (k + 1), time=10**18 + (k + 1) * SECOND_NS) for k in range(1, 4)]
    offsets = [4, 4 + 8 + len(payloads[0]), 4 + 2 * (8 + len(payloads[0]))]
    assert dat.read_bytes() == made.version + b"".join(map(made.record, payloads))
    assert idx.read_bytes() == made.version + b"".join(
        made.entry(k, offset, len(payload), 10**18 + (k + 1) * SECOND_NS)
        for k, offset, payload in zip(range(1, 4), offsets, payloads, strict=True)
    )
    assert (tmp_path / "foo" / "subs.dat").read_bytes() == made.version


@pytest.mark.parametrize(
    ("store", "options"), [("basic_sigterm", {}), ("crc_poly_castagnoli", {"crc_poly": CASTAGNOLI})]
)
def test_a_store_of_the_real_server_is_continued(
    golden: Callable[[str], Path], tmp_path: Path, store: str, options: dict[str, Any]
) -> None:
    path = tmp_path / "store"
    shutil.copytree(golden(store), path)
    channel = next(file.parent.name for file in sorted(path.glob("*/msgs.1.dat")))
    before = messages(path, channel, **options)
    unchanged = {file: file.read_bytes() for file in path.rglob("*.dat") if not file.name.startswith("msgs.")}
    with nats_streaming.open_channel(path, channel, **options) as writer:
        last = max(before)
        assert (writer.first_sequence, writer.last_sequence) == (min(before), last)
        assert writer.append(b"ours") == last + 1
    assert messages(path, channel, **options) == {**before, last + 1: b"ours"}
    assert {file: file.read_bytes() for file in unchanged} == unchanged


def test_timestamps_never_go_back_even_if_the_clock_does(tmp_path: Path) -> None:
    storage = LocalWritableStorage(tmp_path)
    prepare_channel(storage, "foo")
    now = [10**18]
    with ChannelWriter(storage, "foo", WriteOptions(), lambda: None, lambda: now[0]) as writer:
        writer.append(b"a")
    now[0] -= SECOND_NS
    with ChannelWriter(storage, "foo", WriteOptions(), lambda: None, lambda: now[0]) as writer:
        writer.append(b"b")
    with open_store(tmp_path, family="nats-streaming") as store:
        assert [record.timestamp_ns for record in store.read("foo")] == [10**18, 10**18]


def test_a_slice_ends_at_its_count(tmp_path: Path) -> None:
    with nats_streaming.open_channel(tmp_path / "store", "foo", slice_max_msgs=3) as writer:
        writer.append_many([b"%d" % k for k in range(7)])
        writer.append(b"7")
    assert slices(tmp_path / "store") == [1, 2, 3]
    assert len(messages(tmp_path / "store")) == 8


def test_a_slice_ends_at_its_bytes_counted_with_40_for_each_message(tmp_path: Path) -> None:
    # 2 + 5 (subject) + 2 + 9 (data) + 10 (time) = 26 or 28 bytes of payload and 40: two messages are above 130.
    with nats_streaming.open_channel(tmp_path / "store", "foo", slice_max_bytes=130) as writer:
        for k in range(5):
            writer.append(b"message %d" % k)
        assert writer.byte_count == 5 * (2 + 5 + 2 + 9 + 10 + 40)
    assert slices(tmp_path / "store") == [1, 2, 3]


def test_a_slice_ends_when_its_first_message_is_old_enough(tmp_path: Path) -> None:
    storage, now = LocalWritableStorage(tmp_path), [10**18]
    prepare_channel(storage, "foo")
    with ChannelWriter(storage, "foo", WriteOptions(slice_max_age=2), lambda: None, lambda: now[0]) as writer:
        for seconds in (0, 1, 2, 3, 4):
            now[0] = 10**18 + seconds * SECOND_NS
            writer.append(b"after %d seconds" % seconds)
    assert slices(tmp_path) == [1, 2, 3]


def test_beyond_max_msgs_the_oldest_go_and_with_them_whole_slices(tmp_path: Path) -> None:
    options = {"max_msgs": 5, "slice_max_msgs": 2}
    with nats_streaming.open_channel(tmp_path / "store", "foo", **options) as writer:
        for k in range(1, 9):
            writer.append(b"%d" % k)
        assert (writer.first_sequence, writer.last_sequence, writer.message_count) == (4, 8, 5)
    # Sequences 1 and 2 went with their slice; 3 is dropped, but 4 keeps its slice.
    assert slices(tmp_path / "store") == [2, 3, 4]
    assert list(messages(tmp_path / "store")) == [3, 4, 5, 6, 7, 8]
    assert list(messages(tmp_path / "store", max_msgs=5)) == [4, 5, 6, 7, 8]


def test_dropped_messages_of_a_remaining_slice_come_back_with_larger_limits(tmp_path: Path) -> None:
    with nats_streaming.open_channel(tmp_path / "store", "foo", max_msgs=2) as writer:
        writer.append_many([b"a", b"b", b"c", b"d"])
        assert writer.first_sequence == 3
    with nats_streaming.open_channel(tmp_path / "store", "foo") as writer:
        assert (writer.first_sequence, writer.message_count) == (1, 4)
    with nats_streaming.open_channel(tmp_path / "store", "foo", max_msgs=1) as writer:
        assert (writer.first_sequence, writer.message_count) == (4, 1)


def test_max_bytes_keeps_at_least_the_last_message(tmp_path: Path) -> None:
    with nats_streaming.open_channel(tmp_path / "store", "foo", max_bytes=200) as writer:
        writer.append_many([b"a", b"b", b"c", b"d"])
        assert writer.message_count == 3  # of 60 bytes each
        writer.append(bytes(1000))
        assert (writer.first_sequence, writer.message_count) == (5, 1)


def test_expired_messages_go_and_sequences_go_on(tmp_path: Path) -> None:
    storage, now = LocalWritableStorage(tmp_path), [10**18]
    prepare_channel(storage, "foo")
    options = WriteOptions(max_age="10s", slice_max_msgs=2)
    with ChannelWriter(storage, "foo", options, lambda: None, lambda: now[0]) as writer:
        for k in range(5):
            now[0] = 10**18 + k * SECOND_NS
            writer.append(b"%d" % k)
        now[0] = 10**18 + 11 * SECOND_NS
        writer.expire()
        assert (writer.first_sequence, writer.message_count) == (3, 3)
        assert slices(tmp_path) == [2, 3]
        now[0] = 10**18 + 99 * SECOND_NS
        writer.expire()
        assert (writer.first_sequence, writer.last_sequence, writer.message_count) == (6, 5, 0)
        assert slices(tmp_path) == [3]  # the last slice stays
    with ChannelWriter(storage, "foo", options, lambda: None, lambda: now[0]) as writer:
        assert (writer.first_sequence, writer.last_sequence, writer.message_count) == (6, 5, 0)
        assert writer.append(b"new") == 6
        assert (writer.first_sequence, writer.message_count) == (6, 1)


def test_damage_with_whole_messages_after_it_and_no_index_is_refused_unchanged(tmp_path: Path, made: Made) -> None:
    dat, _ = made.slice(range(1, 6))
    broken = dat[:60] + bytes([dat[60] ^ 1]) + dat[61:]
    path = made.store(tmp_path / "store", dat_1=broken)
    with pytest.raises(CorruptData, match="whole messages from"):
        nats_streaming.open_channel(path, "foo")
    assert (path / "foo" / "msgs.1.dat").read_bytes() == broken
    assert not (path / "foo" / "msgs.1.idx").exists()


def test_another_polynomial_is_refused_by_name(tmp_path: Path) -> None:
    nats_streaming.open_channel(tmp_path / "store", "foo", crc_poly=CASTAGNOLI).close()
    with pytest.raises(CorruptData, match="0x82f63b78"):
        nats_streaming.open_channel(tmp_path / "store", "foo")


@pytest.mark.parametrize("durability", ["written", "synced"])
def test_whatever_fails_nothing_acknowledged_is_lost_and_the_next_writer_goes_on(
    tmp_path: Path, durability: str, series: Series
) -> None:
    for fail_at in series.numbers():
        path = tmp_path / str(fail_at)
        path.mkdir()
        storage = FaultyWrites(LocalWritableStorage(path), WriteFaults(fail_at=fail_at))
        ledger, options = Ledger(), {"durability": durability, "slice_max_msgs": 3, "max_msgs": 7}
        try:
            with nats_streaming.open_channel(storage, "foo", **options) as writer:
                for k in range(5):
                    ledger.append(writer, b"one %d" % k)
                ledger.append_many(writer, [b"many %d" % k for k in range(5)])
                ledger.append(writer, b"last")
        except WriteFailed:
            pass
        if not storage.failed:
            break
        context = f"{durability}, {storage.failed}"
        with nats_streaming.open_channel(path, "foo", **options) as writer:
            assert ledger.append(writer, b"after"), context
        found = messages(path)
        assert ledger.complaints(found.values(), must_hold=False) == [], context
        assert [p for p in ledger.acknowledged[-7:] if p not in found.values()] == [], context
        assert list(found) == list(range(min(found), max(found) + 1)), context
    assert fail_at > 20


def test_after_a_failed_write_the_same_writer_goes_on(tmp_path: Path) -> None:
    storage = FaultyWrites(LocalWritableStorage(tmp_path))
    with nats_streaming.open_channel(storage, "foo") as writer:
        writer.append(b"a")
        for number in range(2):  # the data, the index
            storage.faults = WriteFaults(fail_at=storage.operation_count + number, operations=frozenset({"write"}))
            with pytest.raises(WriteFailed) as caught:
                writer.append(bytes(9000))
            assert caught.value.appended == 0
        storage.faults = WriteFaults()
        assert len(storage.failed) == 2
        assert writer.append(b"b") == 2
    assert messages(tmp_path) == {1: b"a", 2: b"b"}


def test_after_a_failed_sync_a_new_writer_is_needed(tmp_path: Path) -> None:
    storage = FaultyWrites(LocalWritableStorage(tmp_path))
    with nats_streaming.StoreWriter(storage, durability="synced") as store:
        writer = store.open_channel("foo")
        writer.append(b"a")
        storage.faults = WriteFaults(fail_at=storage.operation_count, operations=frozenset({"sync"}))
        with pytest.raises(WriteFailed):
            writer.append(b"b")
        storage.faults = WriteFaults()
        with pytest.raises(WriteFailed, match="open the channel again"):
            writer.append(b"c")
        writer.close()
        with store.open_channel("foo") as writer:
            assert writer.append(b"d") == 2
    assert messages(tmp_path) == {1: b"a", 2: b"d"}


def test_wrong_payloads_are_refused_before_anything_is_stored(tmp_path: Path) -> None:
    with nats_streaming.open_channel(tmp_path / "store", "foo") as writer:
        with pytest.raises(WrongType, match="message"):
            writer.append_many([b"a", "text"])
        with pytest.raises(LimitExceeded):
            writer.append(bytes(MAX_PAYLOAD_BYTES + 1))
        assert writer.last_sequence == 0
    with pytest.raises(Closed):
        writer.append(b"a")
    writer.close()


@pytest.mark.parametrize(
    "wrong", [{"durability": "buffered"}, {"max_msgs": "many"}, {"cluster_id": ""}, {"crc_poly": 0}, {"fds_limit": 3}]
)
def test_wrong_options_are_refused_before_anything_is_created(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        nats_streaming.open_channel(tmp_path / "store", "foo", **wrong)
    assert not (tmp_path / "store").exists()


def test_threads_may_share_a_writer(tmp_path: Path) -> None:
    found: list[int] = []
    with nats_streaming.open_channel(tmp_path / "store", "foo", slice_max_msgs=50) as writer:

        def run() -> None:
            found.extend(writer.append(b"x") for _ in range(100))

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(found) == list(range(1, 401)) == list(messages(tmp_path / "store"))
