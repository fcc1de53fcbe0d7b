"""Long operations run outside the conductor's cycles."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from everlog.aeron.transport.protocol import commands
from everlog.runtime.tasks import InlineTasks, Steps, Task, Tasks, ThreadTasks, finished
from tests.aeron.transport.driver.conducted_driver import ConductedDriver, all_of, only


def test_a_threads_tasks_are_done_in_order_and_give_what_they_give() -> None:
    tasks, done = ThreadTasks(), []

    def task(number: int) -> int:
        done.append(number)
        return number * 2

    submitted = [tasks.submit(lambda number=number: task(number)) for number in range(5)]  # type: ignore[misc]
    tasks.close()
    assert [each.result() for each in submitted] == [0, 2, 4, 6, 8]
    assert done == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("tasks", [InlineTasks(), ThreadTasks()], ids=["inline", "thread"])
def test_an_error_is_of_who_waits_for_it(tasks: Tasks) -> None:
    def fail() -> int:
        raise KeyError("x")

    def command() -> Steps[int]:
        value = yield from finished(tasks.submit(fail))
        return value

    def run() -> None:
        for _ in command():
            time.sleep(0.001)

    with pytest.raises(KeyError):
        run()
    tasks.close()


def test_a_task_that_hangs_does_not_hold_up_who_ends() -> None:
    hanging = threading.Event()
    tasks = ThreadTasks(close_timeout_s=0.01)
    tasks.submit(hanging.wait)
    start = time.monotonic()
    tasks.close()
    assert time.monotonic() - start < 2
    hanging.set()


class LateTasks:
    """Tasks that finish when a test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def submit(self, task: Callable[[], object], /) -> Task[object]:
        late = Late(task)
        self.waiting.append(late.run)
        return late

    def close(self) -> None: ...


class Late:
    """A task of :class:`LateTasks`."""

    def __init__(self, task: Callable[[], object]) -> None:
        self._task = task
        self._results: list[object] = []

    def run(self) -> None:
        self._results.append(self._task())

    def done(self) -> bool:
        return bool(self._results)

    def result(self) -> object:
        return self._results[0]


def test_limits_move_while_a_command_waits_and_commands_keep_their_order() -> None:
    driver = ConductedDriver()
    ready = driver.add_publication()
    _, events = driver.add_subscription()
    late = driver.parts.context.tasks = LateTasks()  # type: ignore[assignment]
    driver.write(commands.AddPublication(1, driver.next_id(), 11, "aeron:ipc"))
    driver.write(commands.AddCounter(1, 99, 1001, b"", "after"))
    driver.work(5)
    assert driver.events() == []
    driver.set_counter(only(events, commands.OnAvailableImage).subscriber_position_id, 8192)
    driver.work()
    assert driver.counters()[ready.position_limit_counter_id].value == 8192 + 32_768
    late.waiting.pop()()
    driver.work(3)
    assert [type(event).__name__ for event in driver.events()] == ["OnPublicationReady", "OnCounterReady"]


def test_an_image_waits_for_its_log_and_does_not_come_to_who_has_gone() -> None:
    driver = ConductedDriver()
    channel = "aeron:udp?endpoint=127.0.0.1:24325"
    driver.add_publication(channel)
    registration_id, _ = driver.add_subscription(channel)
    late = driver.parts.context.tasks = LateTasks()  # type: ignore[assignment]
    for _ in range(300):
        driver.now_ns += 1_000_000
        driver.machine.network.advance(driver.now_ns)
        driver.work()
    assert len(late.waiting) == 1
    driver.ask(commands.RemoveSubscription(2, driver.next_id(), registration_id))
    late.waiting.pop()()
    driver.work(3)
    assert all_of(driver.events(), commands.OnAvailableImage) == []
    while late.waiting:
        late.waiting.pop()()
        driver.work(3)
    assert len(driver.logs.logs) == 1
