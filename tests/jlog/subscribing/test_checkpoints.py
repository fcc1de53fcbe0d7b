"""Checkpoints of a subscriber: nothing counts as done that was not said to be."""

from __future__ import annotations

import os
import struct
import threading

import pytest

from everlog.core.files.storage import LocalFile
from everlog.core.files.writable import LocalWritableStorage
from everlog.errors import (
    StoreUnavailable,
    UsageError,
    WriteFailed,
)
from everlog.jlog.format.addresses import Address
from everlog.jlog.subscribing.subscriber import Subscriber
from everlog.jlog.subscribing.subscriptions import write_checkpoint
from tests.jlog.subscribing.golden_journals import payloads, unpack

# Checkpoints: at least once


def test_nothing_is_checkpointed_that_was_not_asked_for(ten):
    with Subscriber(ten.path, "x") as subscriber:
        assert len(payloads(subscriber)) == 10
        subscriber.read_batch()
    assert ten.checkpoint(b"x") == (0, 0)
    with Subscriber(ten.path, "x") as subscriber:
        assert len(payloads(subscriber)) == 10


def test_a_checkpoint_is_of_the_last_message_given(ten):
    with Subscriber(ten.path, "x") as subscriber:
        for message in subscriber:
            if message.payload == b"m3":
                subscriber.checkpoint()
                assert ten.checkpoint(b"x") == (0, 4)
                break
    with Subscriber(ten.path, "x") as subscriber:
        assert subscriber.position == Address.of(0, 4)
        assert next(iter(subscriber)).payload == b"m4"


def test_a_checkpoint_after_a_batch_is_of_its_last_message(ten):
    with Subscriber(ten.path, "x") as subscriber:
        subscriber.read_payloads(4)
        subscriber.checkpoint()
    assert ten.checkpoint(b"x") == (0, 4)


def test_a_checkpoint_may_be_anywhere_and_go_back(ten):
    with Subscriber(ten.path, "x") as subscriber:
        messages = list(subscriber)
        for place, expected in [
            (messages[6], (0, 7)),
            (messages[1].address, (0, 2)),
            ("0:5", (0, 5)),
            (int(Address.of(0, 1)), (0, 1)),
            (None, (0, 10)),
        ]:
            subscriber.checkpoint(place)
            assert ten.checkpoint(b"x") == expected
        assert payloads(subscriber) == []  # reading is where it was
        with pytest.raises(UsageError):
            subscriber.checkpoint("nowhere")


def test_a_checkpoint_of_a_finished_segments_end_goes_to_the_next(by_hand):
    by_hand.segments([b"a", b"b"], [b"c"], [b"d"])
    by_hand.put_checkpoint(b"x", 0, 0)
    by_hand.put_checkpoint(b"hold", 0, 0)
    with Subscriber(by_hand.path, "x") as subscriber:
        messages = list(subscriber)
        subscriber.checkpoint(messages[0])
        assert by_hand.checkpoint(b"x") == (0, 1)
        subscriber.checkpoint(messages[1])
        assert by_hand.checkpoint(b"x") == (1, 0)
        subscriber.checkpoint(messages[2])
        assert by_hand.checkpoint(b"x") == (2, 0)
        subscriber.checkpoint(messages[3])
        assert by_hand.checkpoint(b"x") == (2, 1)
        subscriber.checkpoint(messages[0])
        assert by_hand.checkpoint(b"x") == (0, 1)


def test_a_drained_journal_is_left_as_the_c_library_leaves_it(tmp_path, truth):
    path = unpack("basic", tmp_path)
    for name in ("alpha", "beta"):
        with Subscriber(path, name) as subscriber:
            list(subscriber)
            subscriber.checkpoint()
    (path / "cp.7e7461696c").unlink()
    drained = truth("basic_drained")
    assert {n: (path / n).read_bytes().hex() for n in ("cp.616c706861", "cp.62657461")} == {
        drained["subscribers"][n]["file"]: drained["subscribers"][n]["hex"] for n in ("alpha", "beta")
    }


# checkpoint_every: done is what was followed by the next


def test_every_so_many_done_the_checkpoint_is_written(ten):
    with Subscriber(ten.path, "x", checkpoint_every=3) as subscriber:
        seen = [(message.marker, ten.checkpoint(b"x")[1]) for message in subscriber]
        # Message 4 is asked for: 1 to 3 are done.
        assert seen == [(1, 0), (2, 0), (3, 0), (4, 3), (5, 3), (6, 3), (7, 6), (8, 6), (9, 6), (10, 9)]
        assert ten.checkpoint(b"x") == (0, 10)  # and an eleventh was


def test_leaving_by_break_does_not_count_the_message_in_hand(ten):
    with Subscriber(ten.path, "x", checkpoint_every=2) as subscriber:
        for message in subscriber:
            if message.payload == b"m3":
                break
    assert ten.checkpoint(b"x") == (0, 3)


def test_leaving_by_an_exception_counts_neither_it_nor_what_was_not_written(ten):
    def work():
        with Subscriber(ten.path, "x", checkpoint_every=2) as subscriber:
            for message in subscriber:
                if message.payload == b"m3":
                    raise RuntimeError

    with pytest.raises(RuntimeError):
        work()
    assert ten.checkpoint(b"x") == (0, 2)


def test_a_first_message_that_fails_is_given_again(ten):
    def work():
        with Subscriber(ten.path, "x", checkpoint_every=1) as subscriber:
            for _ in subscriber:
                raise RuntimeError

    with pytest.raises(RuntimeError):
        work()
    assert ten.checkpoint(b"x") == (0, 0)


def test_a_process_that_dies_leaves_the_message_in_hand(ten):
    child = os.fork()
    if child == 0:
        for message in Subscriber(ten.path, "x", checkpoint_every=1):
            if message.payload == b"m4":
                os._exit(0)
    os.waitpid(child, 0)
    assert ten.checkpoint(b"x") == (0, 4)


def test_a_second_loop_asks_for_the_next(ten):
    with Subscriber(ten.path, "x", checkpoint_every=1) as subscriber:
        for _ in subscriber:
            break
        assert ten.checkpoint(b"x") == (0, 0)
        for _ in subscriber:
            break
        assert ten.checkpoint(b"x") == (0, 1)


def test_batches_are_done_when_the_next_is_asked_for(ten):
    with Subscriber(ten.path, "x", checkpoint_every=4) as subscriber:
        subscriber.read_batch(max_rows=3)
        subscriber.read_batch(max_rows=3)
        assert ten.checkpoint(b"x") == (0, 0)
        subscriber.read_batch(max_rows=3)
        assert ten.checkpoint(b"x") == (0, 6)
    assert ten.checkpoint(b"x") == (0, 6)


def test_an_own_checkpoint_may_be_before_the_one_to_be_written(ten):
    with Subscriber(ten.path, "x", checkpoint_every=5) as subscriber:
        for message in subscriber:
            if message.marker == 3:
                subscriber.checkpoint()
                assert ten.checkpoint(b"x") == (0, 3)
                break
    assert ten.checkpoint(b"x") == (0, 3)


def test_seeking_with_a_message_in_hand_does_not_count_it(ten):
    with Subscriber(ten.path, "x", checkpoint_every=1) as subscriber:
        read = iter(subscriber)
        next(read)
        next(read)
        subscriber.seek("0:8")
        assert next(read).payload == b"m8"
        assert ten.checkpoint(b"x") == (0, 1)


def test_checkpoint_every_is_checked(ten):
    for wrong in ({"checkpoint_every": 0}, {"create": "middle"}):
        with pytest.raises(UsageError):
            Subscriber(ten.path, "x", **wrong)


# Disk


def test_checkpoints_are_synced_where_the_journal_or_the_caller_says_so(ten, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fdatasync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    for safety, asked, expected in [(1, False, 0), (1, True, 1), (2, False, 1)]:
        ten.safety = safety
        ten.store_log(0)
        synced.clear()
        with Subscriber(ten.path, "x", sync=asked) as subscriber:
            next(iter(subscriber))
            subscriber.checkpoint()
        assert [os.path.basename(name) for name in synced] == ["cp.78"] * expected


class FullDisk(LocalWritableStorage):
    """Nothing can be written."""

    def open_writable(self, name, **options):
        file = super().open_writable(name, **options)
        file_type = type(file)

        class Full(file_type):
            __slots__ = ()

            def write_at(self, offset, data):
                raise WriteFailed(self.name, found="no space left on device")

        file.__class__ = Full
        return file


def test_a_checkpoint_that_fails_says_so_and_can_be_tried_again(ten):
    with Subscriber(FullDisk(ten.path), "x") as subscriber:
        next(iter(subscriber))
        for _ in range(2):
            with pytest.raises(WriteFailed):
                subscriber.checkpoint()
        assert payloads(subscriber)[0] == b"m1"
    assert ten.checkpoint(b"x") == (0, 0)


def test_with_checkpoint_every_a_failed_checkpoint_does_not_count_as_written(ten):
    storage = FullDisk(ten.path)
    with pytest.raises(WriteFailed), Subscriber(storage, "x", checkpoint_every=1) as subscriber:
        list(subscriber)
    assert ten.checkpoint(b"x") == (0, 0)


def test_reading_that_fails_in_the_middle_can_be_tried_again_without_loss(by_hand, monkeypatch):
    count = 2000
    by_hand.segments([b"%d" % i * 200 for i in range(count)])  # a few of the reader's windows
    by_hand.put_checkpoint(b"x", 0, 0)
    read_into, calls = LocalFile.read_into, []

    def failing(self, offset, buffer):
        calls.append(offset)
        if len(calls) in (2, 4):
            raise StoreUnavailable(self.name, found="input/output error")
        return read_into(self, offset, buffer)

    monkeypatch.setattr(LocalFile, "read_into", failing)
    got, failures = [], 0
    with Subscriber(by_hand.path, "x") as subscriber:
        while len(got) < count and failures < 3:
            try:
                got += subscriber.read_payloads(300)
            except StoreUnavailable:
                failures += 1
    assert failures == 2
    assert got == [b"%d" % i * 200 for i in range(count)]


def test_what_others_did_to_the_checkpoint_is_not_undone_by_going_on(by_hand):
    by_hand.segments([b"a", b"b"], [b"c"])
    file = by_hand.put_checkpoint(b"x", 0, 2)
    with Subscriber(by_hand.path, "x") as subscriber:
        file.write_bytes(struct.pack("<II", 0, 1))  # jlogctl sets it back
        assert payloads(subscriber) == [b"c"]
    assert by_hand.checkpoint(b"x") == (0, 1)


def test_only_a_checkpoint_that_goes_back_waits_for_a_removal_to_end(by_hand, tmp_path):
    """Under the metastore's lock; else what is behind it could be removed that moment."""
    by_hand.segments([b"a"], [b"b"])
    by_hand.put_checkpoint(b"x", 0, 0)
    by_hand.put_checkpoint(b"hold", 0, 0)
    with Subscriber(by_hand.path, "x") as subscriber:
        subscriber.checkpoint("1:0")
        with LocalWritableStorage(by_hand.path).open_writable("metastore") as metastore:
            metastore.lock()
            threads = [
                threading.Thread(target=subscriber.checkpoint, args=("0:1",)),
                threading.Thread(target=write_checkpoint, args=(by_hand.path, "hold", "0:0")),
            ]
            for thread in threads:
                thread.start()
                thread.join(0.2)
                assert thread.is_alive()
            assert by_hand.checkpoint(b"x") == (1, 0)
            metastore.unlock()
            for thread in threads:
                thread.join()
        assert by_hand.checkpoint(b"x") == (0, 1)
