"""Subscribers in a forked child, and beside threads."""

from __future__ import annotations

import os
import threading

from everlog.jlog.subscribing.subscriber import Subscriber
from tests.jlog.subscribing.golden_journals import payloads

# Fork


def test_a_forked_child_checkpoints_what_is_done_in_the_loop_it_was_forked_in(ten):
    with Subscriber(ten.path, "x", checkpoint_every=2) as subscriber:
        read = iter(subscriber)
        assert [next(read).payload for _ in range(2)] == [b"m0", b"m1"]
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if [m.payload for m in read] == [b"m%d" % i for i in range(2, 10)] else 2
                subscriber.close()
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert ten.checkpoint(b"x") == (0, 10)


def test_a_forked_child_reads_and_checkpoints_with_files_of_its_own(ten):
    with Subscriber(ten.path, "x") as subscriber:
        read = iter(subscriber)
        next(read)
        child = os.fork()
        if child == 0:
            good = [m.payload for m in read] == [b"m%d" % i for i in range(1, 10)]
            ten.append(0, b"more")
            good = good and payloads(subscriber) == [b"more"]
            subscriber.checkpoint("0:6")
            subscriber.close()
            os._exit(0 if good else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert ten.checkpoint(b"x") == (0, 6)
        assert [m.payload for m in read] == [*(b"m%d" % i for i in range(1, 10)), b"more"]
        subscriber.checkpoint()
    assert ten.checkpoint(b"x") == (0, 11)


def test_a_forked_child_does_not_look_for_a_segment_that_was_done_with(by_hand):
    by_hand.segments([b"one", b"two"], [])
    by_hand.put_checkpoint(b"x", 0, 0)
    faults = []
    with Subscriber(by_hand.path, "x", on_fault=faults.append) as subscriber:
        for message in subscriber:
            subscriber.checkpoint(message)
        assert (by_hand.checkpoint(b"x"), "00000000" in by_hand.names()) == ((1, 0), False)
        by_hand.append(1, b"three")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                subscriber.checkpoint()
                is_kept = by_hand.checkpoint(b"x") == (1, 0)
                code = 0 if (payloads(subscriber), faults, is_kept) == ([b"three"], [], True) else 2
                subscriber.close()
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert (payloads(subscriber), faults) == ([b"three"], [])


def test_a_lock_that_the_parent_takes_keeps_the_child_out(ten):
    """Locks belong to the open file: the child must have one of its own."""
    subscriber = Subscriber(ten.path, "x")
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        subscriber._open.check_open()
        os.write(ready[1], b".")
        os.read(go[0], 1)
        os._exit(1 if subscriber._open._checkpointer.file.file.lock(wait=False) else 0)
    os.read(ready[0], 1)
    subscriber._open._checkpointer.file.file.lock()
    os.write(go[1], b".")
    assert os.waitpid(child, 0)[1] == 0
    subscriber._open._checkpointer.file.file.unlock()
    subscriber.close()
    for end in (*ready, *go):
        os.close(end)


def test_a_child_is_not_blocked_by_a_thread_that_was_reading(ten):
    subscriber = Subscriber(ten.path, "x")
    holding, go = threading.Event(), threading.Event()

    def hold():
        with subscriber._open._lock:
            holding.set()
            go.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    holding.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if len(payloads(subscriber)) == 10 else 1)
    assert os.waitpid(child, 0)[1] == 0
    go.set()
    thread.join()
    subscriber.close()
