"""A journal that is being written: torn ends, segments that are finished, missing, empty or cut; waiting for more."""

from __future__ import annotations

import os
import threading
import time

import pytest

from everlog.core.files.writable import LocalWritableStorage
from everlog.jlog.format.addresses import Address
from everlog.jlog.subscribing.subscriber import Subscriber


@pytest.fixture
def opened(by_hand):
    """Subscriber x of a journal with one message, and the faults it meets."""
    by_hand.segments([b"first"])
    by_hand.put_checkpoint(b"x", 0, 0)
    faults = []
    with Subscriber(by_hand.path, "x", on_fault=faults.append) as subscriber:
        subscriber.faults = faults
        yield subscriber


def payloads(subscriber) -> list[bytes]:
    return [message.payload for message in subscriber]


def codes(subscriber) -> list[tuple[str, str]]:
    return [(fault.code, fault.file) for fault in subscriber.faults]


# The end of the segment that is written


def test_a_message_is_given_when_its_last_byte_is_there(by_hand, opened, make):
    assert payloads(opened) == [b"first"]
    whole = make.message(b"0123456789")
    for at in range(len(whole)):
        assert payloads(opened) == []
        by_hand.append(0, raw=whole[at : at + 1])
    assert payloads(opened) == [b"0123456789"]
    assert opened.faults == []


def test_a_torn_end_is_waited_for_and_then_a_fault_when_others_are_behind_it(by_hand, opened, make):
    by_hand.append(0, raw=make.message(b"torn" * 10)[:-3])
    assert payloads(opened) == [b"first"]
    assert opened.faults == []
    by_hand.append(0, b"behind", b"last")
    assert payloads(opened) == [b"behind", b"last"]
    assert codes(opened) == [("torn-record", "00000000")]


def test_a_torn_end_of_a_finished_segment_is_a_fault(by_hand, opened, make):
    by_hand.append(0, raw=make.message(b"torn")[:-1])
    assert payloads(opened) == [b"first"]
    by_hand.roll(1)
    by_hand.append(1, b"next")
    assert payloads(opened) == [b"next"]
    assert codes(opened) == [("torn-record", "00000000")]


def test_zeros_at_the_end_are_waited_for_and_stepped_over(by_hand, opened):
    by_hand.append(0, raw=bytes(40))
    assert payloads(opened) == [b"first"]
    assert opened.faults == []
    by_hand.append(0, b"behind")
    assert payloads(opened) == [b"behind"]
    assert codes(opened) == [("zero-bytes", "00000000")]


def test_a_writer_may_cut_the_torn_end_and_write_as_much_again(by_hand, opened, make):
    by_hand.append(0, raw=make.message(b"x" * 100)[:50])
    assert payloads(opened) == [b"first"]
    os.truncate(by_hand.path / "00000000", 21)
    by_hand.append(0, b"y" * 34)  # 50 bytes, too
    assert payloads(opened) == [b"y" * 34]
    assert opened.faults == []


# From one segment to the next


def test_reading_crosses_into_the_next_segment_as_it_is_begun(by_hand, opened):
    assert payloads(opened) == [b"first"]
    by_hand.append(0, b"second")
    by_hand.roll(1)
    by_hand.append(1, b"third")
    assert payloads(opened) == [b"second", b"third"]
    assert opened.position == Address.of(1, 1)
    assert opened.faults == []


class LateWriter(LocalWritableStorage):
    """A writer that does not know yet that the segment is finished appends while the reader leaves it."""

    late = None

    def exists(self, name):
        if name == "00000001" and self.late is not None:
            late, self.late = self.late, None
            late()
        return super().exists(name)


def test_what_is_appended_while_a_segment_is_finished_is_read(by_hand):
    by_hand.segments([b"a"], [b"b"])
    by_hand.put_checkpoint(b"x", 0, 0)
    storage = LateWriter(by_hand.path)
    with Subscriber(storage, "x") as subscriber:
        storage.late = lambda: by_hand.append(0, b"late")
        assert payloads(subscriber) == [b"a", b"late", b"b"]


def test_a_segment_below_the_limit_is_left_only_when_no_process_has_it_open_for_writing(by_hand, opened):
    """Of two C writers that finish segments at the same time one can skip a number; the other goes on there."""
    by_hand.roll(1)
    with (by_hand.path / "00000001").open("ab", buffering=0) as late:
        by_hand.roll(2)
        by_hand.append(2, b"third")
        assert payloads(opened) == [b"first"]
        assert payloads(opened) == []
        late.write((by_hand.path / "00000000").read_bytes())
        assert payloads(opened) == [b"first"]
        assert opened.position == Address.of(1, 1)
        opened.checkpoint()
        assert by_hand.checkpoint(b"x") == (1, 1)
    assert payloads(opened) == [b"third"]
    assert opened.faults == []


def test_nor_is_what_a_late_writer_has_torn_there_a_fault(by_hand, opened, make):
    whole = make.message(b"late")
    with (by_hand.path / "00000000").open("ab", buffering=0) as late:
        by_hand.roll(1)
        late.write(whole[:-1])
        assert payloads(opened) == [b"first"]
        late.write(whole[-1:])
        assert payloads(opened) == [b"late"]
    assert opened.faults == []


def test_after_a_minute_of_quiet_a_segment_is_left_all_the_same(by_hand, opened):
    """Readers of the C library open segments for writing, too."""
    by_hand.roll(1)
    by_hand.append(1, b"second")
    with (by_hand.path / "00000000").open("r+b"):
        assert payloads(opened) == [b"first"]
        long_ago = time.time() - 61
        os.utime(by_hand.path / "00000000", (long_ago, long_ago))
        assert payloads(opened) == [b"second"]


def test_a_segment_at_the_limit_is_left_at_once(by_hand, opened):
    by_hand.append(0, b"x" * 4096)
    by_hand.roll(1)
    by_hand.append(1, b"second")
    with (by_hand.path / "00000000").open("r+b"):
        assert payloads(opened) == [b"first", b"x" * 4096, b"second"]


def test_other_subscribers_that_have_it_open_do_not_keep_one_in_a_segment(by_hand, opened):
    by_hand.put_checkpoint(b"y", 0, 0)
    with Subscriber(by_hand.path, "y") as other:
        assert payloads(other) == [b"first"]
        by_hand.roll(1)
        by_hand.append(1, b"second")
        assert payloads(opened) == [b"first", b"second"]
        assert payloads(other) == [b"second"]


def test_missing_segments_are_stepped_over_at_once_with_a_fault(by_hand, opened):
    by_hand.append(0x7000_0000, b"far")
    by_hand.store_log(0x7000_0000)
    assert payloads(opened) == [b"first", b"far"]
    assert codes(opened) == [("missing-segments", "00000001")]
    assert "00000001 to 6fffffff" in str(opened.faults[0])


class MissingName(LocalWritableStorage):
    """A list of names that misses one which is made meanwhile, as readdir may."""

    misses = 1

    def exists(self, name):
        return name != "00000001" and super().exists(name)  # it is made just after this

    def names(self, folder=""):
        self.misses -= 1
        return [name for name in super().names(folder) if name != "00000001" or self.misses < 0]


def test_one_list_of_names_is_not_believed_that_there_is_a_hole(by_hand):
    by_hand.segments([b"a"])
    by_hand.put_checkpoint(b"x", 0, 0)
    faults = []
    with Subscriber(MissingName(by_hand.path), "x", on_fault=faults.append) as subscriber:
        assert payloads(subscriber) == [b"a"]
        by_hand.segments([], [b"b"], [b"c"])
        assert payloads(subscriber) == [b"b", b"c"]
    assert faults == []


def test_messages_before_a_hole_are_given_before_it_is_told(by_hand, opened):
    by_hand.append(3, b"far")
    by_hand.store_log(3)
    batch = opened.read_batch()
    assert batch is not None
    assert (batch.to_list("payload"), opened.faults) == ([b"first"], [])
    batch = opened.read_batch()
    assert batch is not None
    assert (batch.to_list("payload"), len(opened.faults)) == ([b"far"], 1)


@pytest.mark.parametrize("log", [0, 2])
def test_a_checkpoint_below_the_first_segment_begins_there_with_a_fault(by_hand, log):
    by_hand.segments([b"a"], [b"b"], first=5)
    by_hand.put_checkpoint(b"x", log, 7)
    faults = []
    with Subscriber(by_hand.path, "x", on_fault=faults.append) as subscriber:
        assert payloads(subscriber) == [b"a", b"b"]
    assert [(f.code, f.file) for f in faults] == [("missing-segments", f"{log:08x}")]
    assert f"{log:08x} to 00000004" in str(faults[0])
    assert by_hand.checkpoint(b"x") == (5, 0)  # as in the C library: it was all done, there


def test_a_checkpoint_above_the_last_segment_waits_for_it(by_hand, opened):
    opened.seek("2:0")
    assert payloads(opened) == []
    by_hand.roll(1)
    by_hand.append(1, b"not this")
    assert payloads(opened) == []
    by_hand.roll(2)
    by_hand.append(2, b"this")
    assert payloads(opened) == [b"this"]
    assert opened.faults == []


def test_a_new_journal_is_followed_from_its_first_message(by_hand):
    with Subscriber(by_hand.path, "x", create="beginning") as subscriber:
        assert payloads(subscriber) == []
        by_hand.append(0, b"first")
        assert payloads(subscriber) == [b"first"]


def test_an_empty_finished_segment_is_stepped_over_with_a_fault(by_hand, opened):
    by_hand.roll(1)
    by_hand.roll(2)
    by_hand.append(2, b"third")
    assert payloads(opened) == [b"first", b"third"]
    assert codes(opened) == [("empty-closed-segment", "00000001")]
    opened.checkpoint()
    assert by_hand.checkpoint(b"x") == (2, 1)
    assert [name for name in by_hand.names() if not name.startswith("cp.")] == ["00000002"]


def test_a_segment_that_was_deleted_while_it_is_read_is_read_to_its_end(by_hand, opened):
    by_hand.append(0, b"second")
    by_hand.roll(1)
    by_hand.append(1, b"third")
    assert next(iter(opened)).payload == b"first"
    (by_hand.path / "00000000").unlink()
    assert payloads(opened) == [b"second", b"third"]


def test_a_metastore_that_is_behind_does_not_hide_a_later_segment(by_hand, opened):
    by_hand.append(1, b"second")  # the metastore's change was lost in a power cut
    assert payloads(opened) == [b"first", b"second"]


# Messages that are gone


def test_a_checkpoint_above_what_is_left_goes_back_to_the_end(by_hand):
    by_hand.segments([b"a", b"b"])
    by_hand.put_checkpoint(b"x", 0, 9)
    faults = []
    with Subscriber(by_hand.path, "x", on_fault=faults.append) as subscriber:
        assert payloads(subscriber) == []
        assert [(f.code, f.file) for f in faults] == [("checkpoint-past-end", "cp.78")]
        assert by_hand.checkpoint(b"x") == (0, 2)
        by_hand.append(0, b"c")
        assert payloads(subscriber) == [b"c"]
        assert subscriber.position == Address.of(0, 3)


def test_a_checkpoint_above_the_end_of_a_finished_segment_goes_on_to_the_next(by_hand):
    by_hand.segments([b"a", b"b"], [b"c"])
    by_hand.put_checkpoint(b"x", 0, 9)
    with Subscriber(by_hand.path, "x") as subscriber:
        assert payloads(subscriber) == [b"c"]
    assert by_hand.checkpoint(b"x") == (1, 0)


def test_a_segment_cut_below_what_was_read_is_told_and_followed_from_its_end(by_hand, opened):
    by_hand.append(0, b"second", b"third")
    assert len(payloads(opened)) == 3
    os.truncate(by_hand.path / "00000000", 21)
    assert payloads(opened) == []
    assert codes(opened) == [("segment-cut-while-read", "00000000")]
    assert opened.position == Address.of(0, 1)
    by_hand.append(0, b"new")
    assert payloads(opened) == [b"new"]


# Backoff


def test_following_gives_what_comes(by_hand, opened):
    got = []

    def write():
        for i in range(20):
            by_hand.append(0, b"%d" % i)
            time.sleep(0.002)

    writer = threading.Thread(target=write)
    writer.start()
    for message in opened.follow(timeout_s=5):
        got.append(message.payload)
        if message.payload == b"19":
            break
    writer.join()
    assert got == [b"first", *(b"%d" % i for i in range(20))]


def test_following_ends_when_nothing_came_for_so_long(opened):
    began = time.monotonic()
    assert [m.payload for m in opened.follow(timeout_s=0.1)] == [b"first"]
    assert 0.1 <= time.monotonic() - began < 2
    assert list(opened.follow(timeout_s=0)) == []


def test_closing_in_another_thread_ends_the_wait(opened):
    timer = threading.Timer(0.1, opened.close)
    timer.start()
    assert [m.payload for m in opened.follow()] == [b"first"]
    timer.join()


def test_a_stop_event_ends_the_wait(opened):
    stop = threading.Event()
    timer = threading.Timer(0.1, stop.set)
    timer.start()
    assert [m.payload for m in opened.follow(stop=stop)] == [b"first"]
    assert payloads(opened) == []  # it is still open
    timer.join()


def test_closing_ends_the_wait_with_a_stop_event_too(opened):
    timer = threading.Timer(0.1, opened.close)
    timer.start()
    assert len(list(opened.follow(stop=threading.Event()))) == 1
    timer.join()


def test_what_was_read_ahead_is_not_given_after_closing_in_another_thread(by_hand, opened):
    by_hand.append(0, *[b"x"] * 100)
    read = opened.follow()
    next(read)
    closer = threading.Thread(target=opened.close)
    closer.start()
    closer.join()
    assert list(read) == []


def test_while_nothing_comes_the_checkpoint_of_what_is_done_is_written(by_hand):
    by_hand.segments([b"a", b"b"])
    by_hand.put_checkpoint(b"x", 0, 0)
    with Subscriber(by_hand.path, "x", checkpoint_every=100) as subscriber:
        for message in subscriber.follow(timeout_s=0.01):
            assert by_hand.checkpoint(b"x") == (0, 0)
            assert message.marker <= 2
        assert by_hand.checkpoint(b"x") == (0, 2)


def test_a_writer_and_followers_in_threads_agree(by_hand, make):
    """Segments of a few messages, each appended in two pieces, finished in the C library's order."""
    count = 400
    for name in (b"a", b"b"):
        by_hand.put_checkpoint(name, 0, 0)
    by_hand.append(0)
    got: dict[str, list[bytes]] = {"a": [], "b": []}
    faults = []

    def follow(name: str) -> None:
        with Subscriber(by_hand.path, name, checkpoint_every=7, on_fault=faults.append) as subscriber:
            for message in subscriber.follow(timeout_s=20):
                got[name].append(message.payload)
                if message.payload == b"%d" % (count - 1):
                    return

    readers = [threading.Thread(target=follow, args=(name,)) for name in got]
    for reader in readers:
        reader.start()
    for i in range(count):
        log = i // 9
        if i and i % 9 == 0:
            by_hand.roll(log)
        whole = make.message(b"%d" % i)
        by_hand.append(log, raw=whole[:5])
        by_hand.append(log, raw=whole[5:])
    for reader in readers:
        reader.join()
    assert got == {name: [b"%d" % i for i in range(count)] for name in ("a", "b")}
    assert faults == []
    assert [name for name in by_hand.names() if not name.startswith("cp.")] == [f"{(count - 1) // 9:08x}"]
