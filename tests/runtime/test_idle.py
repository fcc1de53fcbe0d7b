"""Idle strategies and the threads that use them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from everlog.errors import UsageError
from everlog.runtime.agent_runner import AgentRunner
from everlog.runtime.doorbell import DoorbellQueue
from everlog.runtime.idle import (
    CONTROLLED_NOOP,
    CONTROLLED_PARK,
    CONTROLLED_SPIN,
    CONTROLLED_YIELD,
    Backoff,
    BackoffSteps,
    idle_strategy,
)
from everlog.runtime.quiet import BUSY, FOREVER

MICROSECOND = pytest.approx(1e-6)


class Calls:
    """What a strategy asks of the system: ``y`` for a yield, else seconds. No time passes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[float | str] = []
        monkeypatch.setattr(time, "monotonic_ns", lambda: 0)
        monkeypatch.setattr(time, "sleep", self.made.append)
        monkeypatch.setattr(os, "sched_yield", lambda: self.made.append("y"))


class Value:
    """A counter."""

    def __init__(self) -> None:
        self.value = 0

    def get_acquire(self) -> int:
        return self.value

    def set_release(self, value: int) -> None:
        self.value = value


def test_backoff_spins_ten_times_yields_twenty_times_then_sleeps_twice_as_long_up_to_a_millisecond(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = Calls(monkeypatch)
    backoff = Backoff()
    for _ in range(10):
        backoff.idle(0)
    assert calls.made == []
    for _ in range(20):
        backoff.idle(0)
    assert calls.made == ["y"] * 20
    for _ in range(13):
        backoff.idle(0)
    microseconds = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000, 1000]
    assert calls.made[20:] == pytest.approx([each * 1e-6 for each in microseconds])


def test_backoff_sleeps_at_once_when_a_yield_was_long(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(monkeypatch)
    now = iter([0, 50_000, 100_000, 300_000])
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(now))
    backoff = Backoff()
    for _ in range(10 + 2 + 2):
        backoff.idle(0)
    assert calls.made == ["y", "y", MICROSECOND, pytest.approx(2e-6)]


def test_work_begins_backing_off_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(monkeypatch)
    backoff = Backoff()
    for _ in range(40):
        backoff.idle(0)
    backoff.idle(1)
    calls.made.clear()
    for _ in range(31):
        backoff.idle(0)
    assert calls.made == ["y"] * 20 + [MICROSECOND]


def test_the_longest_sleeps_are_somebody_elses_who_may_leave_one_to_the_strategy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls, asked = Calls(monkeypatch), list[int]()
    slept = iter([7, 0, 3])
    backoff = Backoff()
    backoff.wait = lambda park_ns: asked.append(park_ns) or next(slept)
    for _ in range(30 + 10):
        backoff.idle(0)
    assert asked == []
    calls.made.clear()
    for _ in range(3):
        backoff.idle(0)
    assert asked == [1_000_000] * 3
    assert calls.made == [1e-3]
    backoff.idle(1)
    backoff.idle(0)
    assert len(asked) == 3


def test_a_rest_takes_all_steps_unless_it_says_that_the_next_cycle_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls, asked = Calls(monkeypatch), list[tuple[int, int, int, int]]()
    answers: Iterator[bool | None] = iter([False, False, False, False, True, None, False])
    now = iter([0, 99_000_000, 100_000_000, 999_000_000, 1_000_000_000, 0, 0])
    backoff = Backoff()
    backoff.rest = lambda steps, limit_ns: asked.append(steps) or next(answers)
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(now))
    for work_count in (0, 0, 1, 0, 1):
        backoff.idle(work_count)  # work after a rest in which none arrived is a timer's
    all_steps = (10, 20, 1000, 1_000_000)
    parks = [1_000_000, 2_000_000, 2_000_000, 4_000_000]
    assert asked == [all_steps, *((0, 0, park_ns, park_ns) for park_ns in parks)]
    for _ in range(10):
        backoff.idle(0)  # what had arrived was no work: it is not asked again
    assert (len(asked), calls.made) == (5, [])
    backoff.idle(1)
    backoff.idle(0)
    backoff.idle(0)
    assert asked[5:] == [all_steps], "after the answer that the next cycle is needed, none until there was work"
    backoff.idle(1)
    backoff.idle(0)
    assert asked[6:] == [all_steps]


@pytest.mark.parametrize(
    ("name", "call"), [("noop", []), ("spin", [0]), ("yield", ["y"]), ("sleep-ns", [1e-6]), ("sleep-ms", [1e-3])]
)
def test_the_other_strategies_do_one_thing(monkeypatch: pytest.MonkeyPatch, name: str, call: list[float | str]) -> None:
    calls = Calls(monkeypatch)
    strategy = idle_strategy(name)
    strategy.idle(5)
    assert calls.made == []
    strategy.idle(0)
    assert calls.made == pytest.approx(call)


def test_a_controllable_strategy_does_what_its_counter_says(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = Value()
    strategy = idle_strategy("controllable", counter)
    assert counter.value == CONTROLLED_PARK
    calls = Calls(monkeypatch)
    for asked in (CONTROLLED_PARK, CONTROLLED_NOOP, CONTROLLED_SPIN, CONTROLLED_YIELD, 0, 99):
        counter.value = asked
        strategy.idle(0)
        strategy.idle(1)
    assert calls.made == [MICROSECOND, 0, "y", MICROSECOND, MICROSECOND]


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(UsageError, match=r"idle strategy must be 'noop', .* or 'backoff', not 'nap'"):
        idle_strategy("nap")


class Counting:
    """An agent that notes in which order things happen."""

    def __init__(self, name: str, notes: list[str], fails: Callable[[], bool] = lambda: False) -> None:
        self.name, self.notes, self.fails = name, notes, fails
        self.times: list[tuple[int, int]] = []

    words = ()

    def do_work(self, now_ns: int, now_ms: int) -> int:
        self.times.append((now_ns, now_ms))
        if self.fails():
            raise ValueError(self.name)
        return 1

    def quiet_until(self) -> int:
        return BUSY

    def sockets(self) -> tuple[int, ...]:
        return ()

    def resume(self) -> None:
        self.notes.append(f"{self.name} goes on")

    def close(self) -> None:
        self.notes.append(f"{self.name} in {threading.current_thread().name}")
        if self.fails():
            raise ValueError("close")


def test_agents_of_one_thread_run_by_one_clock_and_are_closed_there_the_other_way_round() -> None:
    notes: list[str] = []
    first, second = Counting("first", notes), Counting("second", notes)
    runner = AgentRunner("aeron-test", (first, second), idle_strategy("sleep-ms"), lambda error: None)
    runner.start()
    while len(second.times) < 3:
        time.sleep(0.001)
    runner.close()
    runner.close()
    assert notes == ["second in aeron-test", "first in aeron-test"]
    assert first.times[: len(second.times)] == second.times
    assert sorted(first.times) == first.times
    assert abs(first.times[0][1] / 1000 - time.time()) < 60


def test_an_agent_that_raises_goes_on_and_so_do_the_others() -> None:
    notes: list[str] = []
    errors: list[Exception] = []
    first, second = Counting("first", notes, lambda: True), Counting("second", notes)
    runner = AgentRunner("aeron-test", (first, second), idle_strategy("noop"), errors.append)
    assert [runner.do_work(), runner.do_work()] == [1, 1]
    runner.close_agents()
    assert [str(error) for error in errors] == ["first", "first", "close"]
    assert len(notes) == 2


class Quiet(Counting):
    """An agent that needs no cycle until somebody rings."""

    def __init__(self, name: str, notes: list[str]) -> None:
        super().__init__(name, notes)
        self.queue: DoorbellQueue[str] = DoorbellQueue()
        self.words = (self.queue.words,)
        self.is_busy = False

    def do_work(self, now_ns: int, now_ms: int) -> int:
        super().do_work(now_ns, now_ms)
        if not self.queue:
            return 0
        self.notes.append(self.queue.popleft())
        return 1

    def quiet_until(self) -> int:
        return FOREVER if self.queue.listen() and not self.is_busy else BUSY


def await_calm(agent: Counting) -> None:
    """Until it got no cycle for as long as it would have had ten."""
    cycles = -1
    while cycles != len(agent.times):
        cycles = len(agent.times)
        time.sleep(0.01)


def test_agents_that_need_no_cycle_get_none_until_something_comes() -> None:
    notes: list[str] = []
    first, second = Quiet("first", notes), Quiet("second", notes)
    runner = AgentRunner("aeron-test", (first, second), idle_strategy("backoff"), lambda error: None)
    runner.start()
    for number in range(3):
        await_calm(first)
        second.queue.append(str(number))
        while str(number) not in notes:
            time.sleep(0.0005)
    await_calm(first)
    runner.close()
    assert [note for note in notes if note.isdigit()] == ["0", "1", "2"]
    assert notes[-2:] == ["second in aeron-test", "first in aeron-test"]


def test_one_agent_that_needs_its_cycles_gets_them_and_so_do_the_others() -> None:
    notes: list[str] = []
    first, second = Quiet("first", notes), Quiet("second", notes)
    runner = AgentRunner("aeron-test", (first, second), Backoff(), lambda error: None)
    second.is_busy = True
    assert runner._wait(1000) == BUSY
    assert notes == []
    second.is_busy = False
    first.queue.append("rung")
    assert runner._wait(1000) == BUSY
    runner.do_work()
    second.quiet_until = lambda: time.monotonic_ns() + 50_000_000  # type: ignore[method-assign]
    assert runner._wait(1000) >= 1
    assert notes == ["rung", "first goes on", "second goes on"]
    first.sockets = lambda: tuple(range(65))  # type: ignore[method-assign]
    assert runner._wait(1000) == BUSY
    runner.close_agents()


def test_a_runner_rests_while_no_agent_needs_a_cycle_or_has_a_socket() -> None:
    notes: list[str] = []
    first, second = Quiet("first", notes), Quiet("second", notes)
    runner = AgentRunner("aeron-test", (first, second), Backoff(), lambda error: None)
    steps, ms = BackoffSteps(1, 1, 1000, 1000), 1_000_000
    assert runner._rest(steps, ms) is False
    assert notes == ["first goes on", "second goes on"]
    second.queue.append("rung")
    assert runner._rest(steps, 1000 * ms) is None, "it has work already"
    second.queue.popleft()
    second.quiet_until = lambda: time.monotonic_ns() - 1  # type: ignore[method-assign]
    assert runner._rest(steps, ms) is None
    second.quiet_until = lambda: FOREVER  # type: ignore[method-assign]
    second.queue._memory.get_and_add_i64(0, 1)
    assert runner._rest(steps, 1000 * ms) is True
    second.queue.listen()
    first.sockets = lambda: (0,)  # type: ignore[method-assign]
    assert runner._rest(steps, ms) is None
    runner.close_agents()
