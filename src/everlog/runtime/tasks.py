"""What may take long and must not hold up the conductor: names looked up, files made. Source: NativeResourceAgent.

A command that needs such a thing is a generator: it yields until the task is done, once in each of the conductor's
cycles, and limits move on meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Steps = Generator[None, None, T]
"""A command in steps, with its result."""


class Task(Protocol[T_co]):
    """Something that was begun."""

    def done(self) -> bool: ...
    def result(self) -> T_co:
        """What came of it, or its error, raised. Only once it is done."""


class Tasks(Protocol):
    """Does tasks one after the other."""

    def submit(self, task: Callable[[], T], /) -> Task[T]: ...
    def close(self) -> None: ...


class _Done(Generic[T]):
    def __init__(self, value: T) -> None:
        self._value = value

    def done(self) -> bool:
        return True

    def result(self) -> T:
        return self._value


class InlineTasks:
    """Does each at once: for tests and the simulation. Errors are raised where it is submitted."""

    def submit(self, task: Callable[[], T], /) -> Task[T]:
        """Do it."""
        return _Done(task())

    def close(self) -> None:
        """Nothing is open."""


class _Waiting(Generic[T]):
    """A task that a thread does."""

    def __init__(self, task: Callable[[], T]) -> None:
        self._task = task
        self._is_done = False
        self._value: T
        self._error: BaseException | None = None

    def run(self) -> None:
        """Do it."""
        try:
            self._value = self._task()
        except BaseException as error:
            self._error = error
        self._is_done = True

    def done(self) -> bool:
        return self._is_done

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._value


class ThreadTasks:
    """A thread of its own, which begins with the first task. It is no reason for the process to go on: a name server
    that does not answer holds nobody up who wants to end."""

    def __init__(self, close_timeout_s: float = 5.0) -> None:
        self._close_timeout_s = close_timeout_s
        self._tasks: SimpleQueue[_Waiting[Any] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, task: Callable[[], T], /) -> Task[T]:
        """Do it when those before it are done."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="aeron-resources", daemon=True)
            self._thread.start()
        waiting = _Waiting(task)
        self._tasks.put(waiting)
        return waiting

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            task.run()

    def close(self) -> None:
        """Do what was asked for, if that does not take too long."""
        if self._thread is not None:
            self._tasks.put(None)
            self._thread.join(self._close_timeout_s)
            self._thread = None


def finished(task: Task[T]) -> Steps[T]:
    """``value = yield from finished(task)``."""
    while not task.done():
        yield
    return task.result()
