"""One thread polls for all."""

from __future__ import annotations

import threading
from collections.abc import Callable

from everlog.aeron.archive.client.blocking.turns import PollTurns


def in_another_thread(action: Callable[[], object]) -> object:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(action()))
    thread.start()
    thread.join()
    return found[0]


def test_only_one_thread_has_the_turn_and_may_take_it_again() -> None:
    turns = PollTurns()
    mine, other = threading.Event(), threading.Event()
    assert turns.take(mine)
    assert turns.take(mine)
    assert in_another_thread(lambda: turns.take(other)) is False
    turns.give()
    assert not other.is_set()
    turns.give()
    assert other.is_set()
    assert in_another_thread(lambda: turns.take(other)) is True


def test_a_thread_that_waits_no_longer_passes_the_turn_on() -> None:
    turns = PollTurns()
    first, second = threading.Event(), threading.Event()
    assert turns.take(threading.Event())

    def wait_and_leave() -> None:
        turns.take(first)
        turns.forget(first)

    in_another_thread(wait_and_leave)
    in_another_thread(lambda: turns.take(second))
    turns.give()
    assert (first.is_set(), second.is_set()) == (False, True)


def test_a_thread_that_was_given_the_turn_and_leaves_wakes_the_next() -> None:
    turns = PollTurns()
    events = [threading.Event(), threading.Event()]
    assert turns.take(threading.Event())
    for event in events:
        in_another_thread(lambda event=event: turns.take(event))
    turns.give()
    woken = [event.is_set() for event in events]
    assert sum(woken) == 1
    turns.forget(next(event for event in events if event.is_set()))
    assert all(event.is_set() for event in events)
