"""Reading as a subscriber: what is given, where it goes on, and that nothing counts as done that was not said to be."""

from __future__ import annotations

import errno
import os
import struct
import threading
import zlib

import pytest

from everlog.core.store import raise_fault
from everlog.errors import (
    Closed,
    CorruptData,
    NotAStore,
    StoreUnavailable,
    UnknownSubscriber,
    UnsupportedVersion,
    UsageError,
)
from everlog.jlog.format.addresses import Address
from everlog.jlog.format.message import Message
from everlog.jlog.subscribing.subscriber import Subscriber
from everlog.jlog.subscribing.subscriptions import add_subscriber
from tests.jlog.subscribing.golden_journals import payloads, unpack

# What is given


@pytest.mark.parametrize("case", ["basic", "lz4", "null_provider", "broken_base", "precommit_materialized"])
def test_every_message_of_the_c_library_is_given(tmp_path, truth, case):
    path = unpack(case, tmp_path)
    told = [
        (m["segment"], m["marker"], m["ts"][0] * 10**9 + m["ts"][1] * 1000, m["len"], m["crc32"])
        for m in truth(case)["messages"]
    ]
    with Subscriber(path, "new", create="beginning") as subscriber:
        got = [(m.log, m.marker, m.timestamp_ns, len(m.payload), f"{zlib.crc32(m.payload):08x}") for m in subscriber]
    assert got == told
    with Subscriber(path, "new") as subscriber:
        rows = []
        while (batch := subscriber.read_batch(max_rows=7)) is not None:
            assert batch.row_count <= 7
            rows += zip(*map(batch.to_list, ("log", "marker", "timestamp_ns", "length", "payload")), strict=True)
    assert [(*row[:4], f"{zlib.crc32(row[4]):08x}") for row in rows] == told


def test_a_subscriber_gets_what_the_c_librarys_reader_got(tmp_path, truth):
    path = unpack("basic", tmp_path)
    for name in ("alpha", "beta", "~tail"):
        said = truth("basic")["reader_said"][name]["stdout"].splitlines()
        lines = [line.split() for line in said if " len " in line]
        with Subscriber(path, name.lstrip("~") + "-copy", create="beginning") as subscriber:
            entry = truth("basic")["subscribers"][name]
            subscriber.seek(Address.of(entry["log"], entry["marker"]))
            got = [[str(m.address), str(len(m.payload)), f"{zlib.crc32(m.payload):08x}"] for m in subscriber]
        assert got == [[line[0], line[2], line[4]] for line in lines]


def test_a_message_says_where_it_is():
    message = Message(b"x", 7, 5, 3)
    assert message.address == Address.of(5, 3)
    assert str(message.address) == "00000005:00000003"


def test_a_loop_ends_when_there_is_no_more_and_the_next_goes_on(ten):
    with Subscriber(ten.path, "x") as subscriber:
        assert payloads(subscriber) == [b"m%d" % i for i in range(10)]
        assert payloads(subscriber) == []
        ten.append(0, b"new")
        assert payloads(subscriber) == [b"new"]


def test_loops_and_batches_take_turns_without_loss(ten):
    with Subscriber(ten.path, "x") as subscriber:
        read = iter(subscriber)
        assert next(read).payload == b"m0"
        assert subscriber.read_payloads(2) == [b"m1", b"m2"]
        assert next(read).payload == b"m3"
        batch = subscriber.read_batch(max_rows=3, columns=["marker"])
        assert batch is not None
        assert batch.to_list("marker") == [5, 6, 7]
        assert payloads(subscriber) == [b"m7", b"m8", b"m9"]
        assert subscriber.read_batch() is None
        assert subscriber.read_payloads() == []


def test_lz4_loops_and_batches_take_turns_without_loss(by_hand, make):
    block = pytest.importorskip("lz4.block")
    by_hand.magic = make.LZ4
    words = [b"word%d" % i * 50 for i in range(6)]
    raw = b"".join(make.stored(block.compress(word, store_size=False), len(word), magic=make.LZ4) for word in words)
    by_hand.append(0, raw=raw)
    by_hand.store_log(0)
    by_hand.put_checkpoint(b"x", 0, 0)
    with Subscriber(by_hand.path, "x") as subscriber:
        # All fit as they are stored; decoded, each makes a batch of its own.
        small = subscriber.read_batch(max_bytes=200, columns=["payload"])
        assert small is not None
        assert small.to_list("payload") == words[:1]
        other = subscriber.read_batch(max_rows=2, columns=["length", "marker"])
        assert other is not None
        assert list(other.rows()) == [(250, 2), (250, 3)]
        assert payloads(subscriber) == words[3:]


def test_a_batch_has_the_columns_that_were_asked_for(ten):
    with Subscriber(ten.path, "x") as subscriber:
        batch = subscriber.read_batch(max_rows=2, columns=["payload", "offset"])
        assert batch is not None
        assert [column.name for column in batch.schema] == ["payload", "offset"]
        assert list(batch.rows()) == [(b"m0", 0), (b"m1", 18)]
        full = subscriber.read_batch(max_rows=1)
        assert full is not None
        assert [c.name for c in full.schema] == ["timestamp_ns", "length", "payload", "log", "marker", "offset"]
        assert list(full.rows()) == [(1_700_000_000_000_000_000, 2, b"m2", 0, 3, 36)]
        for wrong in ({"columns": ["nonsense"]}, {"max_rows": 0}, {"max_bytes": 0}):
            with pytest.raises(UsageError):
                subscriber.read_batch(**wrong)


def test_arrow_takes_a_batch(ten):
    pyarrow = pytest.importorskip("pyarrow")
    with Subscriber(ten.path, "x") as subscriber:
        arrow = pyarrow.record_batch(subscriber.read_batch(columns=["marker", "payload"]))
    assert arrow.to_pydict() == {"marker": list(range(1, 11)), "payload": [b"m%d" % i for i in range(10)]}


def test_bounds_of_a_batch_are_kept_over_segments(by_hand):
    by_hand.segments([b"aa", b"bb"], [b"cc"], [b"dd" * 100], [b"ee"])
    by_hand.put_checkpoint(b"x", 0, 0)
    with Subscriber(by_hand.path, "x") as subscriber:
        batches = []
        while (batch := subscriber.read_batch(max_bytes=6)) is not None:
            batches.append(batch.to_list("payload"))
    assert batches == [[b"aa", b"bb", b"cc"], [b"dd" * 100], [b"ee"]]


# Places


def test_seeking_goes_on_behind_an_address_and_leaves_the_checkpoint(ten):
    with Subscriber(ten.path, "x") as subscriber:
        messages = list(subscriber)
        subscriber.seek(messages[7])
        assert subscriber.position == messages[7].address
        assert payloads(subscriber) == [b"m8", b"m9"]
        subscriber.seek(Address.of(0, 0))
        assert subscriber.read_payloads(2) == [b"m0", b"m1"]
        subscriber.seek("0:9")
        assert payloads(subscriber) == [b"m9"]
    assert ten.checkpoint(b"x") == (0, 0)


def test_seeking_inside_a_loop_changes_what_comes_next(ten):
    got = []
    with Subscriber(ten.path, "x") as subscriber:
        for message in subscriber:
            got.append(message.payload)
            if message.payload == b"m2":
                subscriber.seek("0:8")
    assert got == [b"m0", b"m1", b"m2", b"m8", b"m9"]


@pytest.mark.parametrize("marker", range(11))
@pytest.mark.parametrize("kind", ["none", "sound", "short", "wrong"])
def test_any_place_is_found_with_and_without_an_index(ten, make, marker, kind):
    offsets = [18 * i for i in range(10)]
    index = {"sound": offsets, "short": offsets[:4], "wrong": [0, *[o + 1 for o in offsets[1:]]]}.get(kind)
    if index is not None:
        (ten.path / "00000000.idx").write_bytes(make.index(*index))
    with Subscriber(ten.path, "x") as subscriber:
        subscriber.seek(Address.of(0, marker))
        assert payloads(subscriber) == [b"m%d" % i for i in range(marker, 10)]


def test_lag_is_what_was_not_given_yet(ten):
    with Subscriber(ten.path, "x") as subscriber:
        assert subscriber.lag().byte_count == 180
        subscriber.read_payloads(4)
        assert subscriber.lag().byte_count == 108


# Opening and closing


def test_an_unknown_subscriber_is_an_error_or_is_added(ten):
    with pytest.raises(UnknownSubscriber):
        Subscriber(ten.path, "y")
    with Subscriber(ten.path, "y", create="end") as subscriber:
        assert payloads(subscriber) == []
    assert ten.checkpoint(b"y") == (0, 10)
    with Subscriber(ten.path, "z", create="beginning") as subscriber:
        assert len(payloads(subscriber)) == 10
    with Subscriber(ten.path, "x", create="end") as subscriber:  # one that is there goes on where it is
        assert len(payloads(subscriber)) == 10


def test_what_can_not_be_read_is_refused_when_opened(tmp_path, by_hand):
    with pytest.raises(NotAStore):
        Subscriber(tmp_path, "x", create="end")
    by_hand.put_checkpoint(b"x", 0, 0).write_bytes(b"123")
    with pytest.raises(CorruptData):
        Subscriber(by_hand.path, "x")
    open_files = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(CorruptData):
            Subscriber(by_hand.path, "x")
    assert len(os.listdir("/proc/self/fd")) == open_files


def test_a_compression_that_is_not_known_is_no_reason_to_step_over_messages(by_hand):
    by_hand.magic = 0x15106A07
    by_hand.store_log(1)
    by_hand.append(0, raw=struct.pack("<IIIII", 0x15106A07, 1, 0, 1, 1) + b"x")
    by_hand.append(1)
    by_hand.put_checkpoint(b"x", 0, 0)
    with Subscriber(by_hand.path, "x") as subscriber, pytest.raises(UnsupportedVersion):
        list(subscriber)


def test_a_closed_one_refuses_everything_and_can_be_closed_again(ten):
    open_files = len(os.listdir("/proc/self/fd"))
    subscriber = Subscriber(ten.path, "x")
    read = iter(subscriber)
    next(read)
    subscriber.close()
    subscriber.close()
    assert list(read) == []
    for use in (
        lambda: iter(subscriber),
        subscriber.follow,
        subscriber.read_batch,
        subscriber.checkpoint,
        lambda: subscriber.seek("0:1"),
        subscriber.lag,
        subscriber.__enter__,
    ):
        with pytest.raises(Closed, match=r"^subscriber is closed$"):
            use()
    assert len(os.listdir("/proc/self/fd")) == open_files


def test_two_subscribers_do_not_disturb_each_other(ten):
    ten.put_checkpoint(b"y", 0, 5)
    with Subscriber(ten.path, "x") as first, Subscriber(ten.path, "y") as second:
        assert next(iter(first)).payload == b"m0"
        assert next(iter(second)).payload == b"m5"
        first.checkpoint()
        second.checkpoint()
    assert (ten.checkpoint(b"x"), ten.checkpoint(b"y")) == ((0, 1), (0, 6))


def test_threads_with_a_subscriber_each_get_everything(by_hand):
    by_hand.segments(*[[b"%d" % (10 * log + i) for i in range(10)] for log in range(30)])
    for i in range(4):
        by_hand.put_checkpoint(b"%d" % i, 0, 0)
    got: dict[int, list[bytes]] = {}

    def work(number: int) -> None:
        with Subscriber(by_hand.path, str(number), checkpoint_every=3) as subscriber:
            got[number] = payloads(subscriber)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(got[i] == [b"%d" % n for n in range(300)] for i in range(4))
    assert [by_hand.checkpoint(b"%d" % i) for i in range(4)] == [(29, 10)] * 4
    assert [name for name in by_hand.names() if not name.startswith("cp.")] == ["0000001d"]


@pytest.mark.parametrize("every", [1, 3])
def test_a_loop_whose_subscriber_is_closed_with_a_message_in_hand_ends(ten, every):
    subscriber = Subscriber(ten.path, "x", checkpoint_every=every)
    got = []
    for message in subscriber.follow():
        got.append(message.payload)
        if len(got) == 5:
            thread = threading.Thread(target=subscriber.close)
            thread.start()
            thread.join()
    assert got == [b"m%d" % i for i in range(5)]
    assert ten.checkpoint(b"x") == (0, 4)


# Damage


def test_a_fault_that_is_raised_comes_again_and_gives_what_is_before_it(by_hand, make):
    by_hand.append(0, b"a", b"b", raw=b"garbage!" * 5 + make.message(b"c") + make.message(b"d"))
    by_hand.put_checkpoint(b"x", 0, 0)
    with Subscriber(by_hand.path, "x", on_fault=raise_fault) as subscriber:
        got = []
        for _ in range(2):
            with pytest.raises(CorruptData):
                got.extend(message.payload for message in subscriber)
        assert got == [b"a", b"b"]
        assert subscriber.position == Address.of(0, 2)
        subscriber.seek("0:3")  # the stretch counts as one message
        assert payloads(subscriber) == [b"c", b"d"]


def test_damage_in_the_middle_is_told_and_stepped_over(by_hand, make, caplog):
    by_hand.append(0, b"a", b"b", raw=b"garbage!" * 5 + make.message(b"c"))
    by_hand.put_checkpoint(b"x", 0, 0)
    with Subscriber(by_hand.path, "x") as subscriber:
        assert payloads(subscriber) == [b"a", b"b", b"c"]
        assert [record.name for record in caplog.records] == ["everlog.jlog"]
        assert "damaged-bytes" in caplog.text
        assert "00000000 at offset 34" in caplog.text
        subscriber.seek("0:0")
        batch = subscriber.read_batch()
        assert batch is not None
        assert batch.to_list("payload") == [b"a", b"b"]  # what is before the damage comes first


def test_a_compressed_payload_that_does_not_decode_is_left_out_and_may_be_the_segments_last(by_hand, make):
    block = pytest.importorskip("lz4.block")
    by_hand.magic = make.LZ4
    good = make.stored(block.compress(b"good" * 9, store_size=False), 36, magic=make.LZ4)
    bad = make.stored(b"\xff" * 20, 36, magic=make.LZ4)
    by_hand.store_log(1)
    by_hand.append(0, raw=good + bad + good + bad)
    by_hand.append(1, raw=good)
    by_hand.put_checkpoint(b"x", 0, 0)
    faults = []
    with Subscriber(by_hand.path, "x", on_fault=faults.append) as subscriber:
        messages = list(subscriber)
        assert [(m.log, m.marker) for m in messages] == [(0, 1), (0, 3), (1, 1)]
        assert [(f.code, f.address) for f in faults] == [
            ("undecodable-payload", "00000000:00000002"),
            ("undecodable-payload", "00000000:00000004"),
        ]
        subscriber.checkpoint(messages[1])
    assert by_hand.checkpoint(b"x") == (1, 0)


@pytest.mark.parametrize(
    "case",
    [
        "e_garbage_middle_current", "e_garbage_middle_idx_kept", "e_zero_tail", "e_trunc_last",
        "e_idx_longer", "e_idx_missing", "e_idx_not_closed", "e_idx_longer_closed",
    ],
)  # fmt: skip
def test_no_whole_message_of_a_damaged_journal_is_lost_and_none_is_invented(tmp_path, truth, case):
    path = unpack(case, tmp_path)
    written = [(length, crc) for *_, length, crc in truth(case)["messages_originally_written"]]
    with Subscriber(path, "new", create="beginning", on_fault=lambda fault: None) as subscriber:
        got = [(len(m.payload), f"{zlib.crc32(m.payload):08x}") for m in subscriber]
    assert [message for message in written if message in got] == got
    assert len(written) - len(got) <= 1


def test_a_checkpoint_said_again_at_a_finished_segments_end_does_not_go_back_to_it(by_hand):
    """The segment is removed by then."""
    by_hand.segments([b"a"], [])
    add_subscriber(by_hand.path, "s")
    with Subscriber(by_hand.path, "s") as subscriber:
        assert subscriber.read_payloads() == [b"a"]
        for _ in range(3):
            subscriber.checkpoint()
            assert (by_hand.path / "cp.73").read_bytes() == bytes.fromhex("0100000000000000")


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO])
def test_a_segment_that_can_not_be_looked_at_for_now_is_not_passed_over(
    by_hand, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    by_hand.segments([b"a", b"b"], [b"c"], [b"d"])
    by_hand.put_checkpoint(b"x", 0, 0)
    is_failing = True

    def failing(real):
        def call(path, *arguments, **options):
            if is_failing and str(path).endswith("00000001"):
                raise OSError(number, os.strerror(number), path)
            return real(path, *arguments, **options)

        return call

    for name in ("open", "stat"):
        monkeypatch.setattr(os, name, failing(getattr(os, name)))
    faults: list[object] = []
    with Subscriber(by_hand.path, "x", on_fault=faults.append) as subscriber:
        with pytest.raises(StoreUnavailable, match="00000001"):
            payloads(subscriber)
        is_failing = False
        assert payloads(subscriber) == [b"a", b"b", b"c", b"d"]
    assert not faults
