"""A client's heartbeat: compiled and in Python, the same."""

from __future__ import annotations

import ctypes
import threading
import time
from typing import Any

import pytest

from everlog.aeron.transport.client.conducting import pacemaker_twin
from everlog.aeron.transport.client.conducting.pacemaker import Pacemaker
from tests.aeron.transport.client.scripted_driver import ScriptedDriver

CLIENT_ID = 5
KINDS = pytest.mark.parametrize("kind", [Pacemaker, pacemaker_twin.Pacemaker], ids=["compiled", "twin"])


class Heart:
    """A driver with a client's counter, and what beats in it."""

    def __init__(self, kind: Any, interval_ms: float = 2, limit_ms: float = 10_000) -> None:
        self.driver = ScriptedDriver()
        self.driver.add_counter(0)
        self.counter = self.driver.grant_heartbeat(CLIENT_ID)
        counters = self.driver.counters
        nanoseconds = round(interval_ms * 1e6), round(limit_ms * 1e6)
        self.pacemaker = kind(counters.metadata, counters.values, self.counter.id, CLIENT_ID, *nanoseconds)

    def start(self) -> threading.Thread:
        thread = threading.Thread(target=self.pacemaker.run, daemon=True)
        thread.start()
        return thread


@KINDS
def test_a_beat_is_the_time_in_milliseconds(kind: Any) -> None:
    heart = Heart(kind)
    before = time.time_ns() // 1_000_000
    assert heart.pacemaker.beat()
    assert before <= heart.counter.get() <= time.time_ns() // 1_000_000


@KINDS
def test_it_beats_until_it_is_stopped_and_ends_at_once(kind: Any) -> None:
    heart = Heart(kind)
    thread = heart.start()
    seen = set()
    deadline = time.monotonic() + 5
    while len(seen) < 5 and time.monotonic() < deadline:
        seen.add(heart.counter.get())
        time.sleep(0.001)
    assert len(seen) == 5
    heart.pacemaker.stop()
    thread.join(5)
    assert not thread.is_alive()
    assert not heart.pacemaker.running
    assert not heart.pacemaker.beat()


@KINDS
def test_stopping_does_not_wait_for_the_interval(kind: Any) -> None:
    heart = Heart(kind, interval_ms=60_000)
    thread = heart.start()
    heart.pacemaker.stop()
    thread.join(5)
    assert not thread.is_alive()


@KINDS
@pytest.mark.parametrize("change", ["freed", "another client's", "of another type"])
def test_it_ends_when_the_counter_is_not_the_clients_any_more(kind: Any, change: str) -> None:
    heart = Heart(kind)
    counters, counter_id = heart.driver.counters, heart.counter.id
    if change == "freed":
        counters.free(counter_id, 0)
    elif change == "another client's":
        counters.set_key(counter_id, bytes([CLIENT_ID + 1]) + bytes(7))
    else:
        counters.metadata.put_i32(counter_id * 512 + 4, 12)
    heart.counter.set_release(-7)
    heart.start().join(5)
    assert heart.pacemaker.lost
    assert heart.counter.get() == -7


@KINDS
def test_it_ends_when_it_could_not_beat_for_too_long(kind: Any) -> None:
    heart = Heart(kind, limit_ms=5)
    heart.counter.set_release(-7)
    time.sleep(0.01)
    heart.start().join(5)
    assert heart.pacemaker.lapsed
    assert heart.counter.get() == -7


@KINDS
@pytest.mark.parametrize("counter_id", [-1, 64, 1 << 40])
def test_a_counter_that_is_not_there_is_refused(kind: Any, counter_id: int) -> None:
    counters = ScriptedDriver().counters
    with pytest.raises(IndexError):
        kind(counters.metadata, counters.values, counter_id, CLIENT_ID, 1, 1)


def test_the_compiled_one_beats_while_another_thread_keeps_the_interpreter() -> None:
    heart = Heart(Pacemaker)
    thread = heart.start()
    # PyDLL holds the GIL while it calls: as a long call of a module does that never lets it go.
    before = time.time_ns() // 1_000_000
    ctypes.PyDLL(None).usleep(200_000)
    last = heart.counter.get()
    assert last >= before + 100
    heart.pacemaker.stop()
    thread.join(5)
