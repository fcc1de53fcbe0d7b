"""Slow tasks that must not block the conductor: name resolution, file creation. Source: NativeResourceAgent.

A command that needs a task is a generator: it yields once per conductor cycle until the task is done, so limits keep
advancing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Steps = Generator[None, None, T]
"""A command in steps, and its result."""


class Task(Protocol[T_co]):
    """A submitted task."""

    def done(self) -> bool: ...
    def result(self) -> T_co:
        """Return its result or raise its error. Only valid once it is done."""


class Tasks(Protocol):
    """Executes tasks in order."""

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
    """Executes each task in :meth:`submit`, which raises its error: for tests and the simulation."""

    def submit(self, task: Callable[[], T], /) -> Task[T]:
        """Execute the task."""
        return _Done(task())

    def close(self) -> None:
        """Do nothing."""


class _Waiting(Generic[T]):
    """A task for the thread of :class:`ThreadTasks`."""

    def __init__(self, task: Callable[[], T]) -> None:
        self._task = task
        self._is_done = False
        self._value: T
        self._error: BaseException | None = None

    def run(self) -> None:
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
    """Executes tasks in a thread of its own, started by the first task. It is a daemon thread: an unresponsive name
    server does not keep the process from exiting."""

    def __init__(self, close_timeout_s: float = 5.0) -> None:
        self._close_timeout_s = close_timeout_s
        self._tasks: SimpleQueue[_Waiting[Any] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, task: Callable[[], T], /) -> Task[T]:
        """Queue the task; it runs after those submitted before."""
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
        """Finish the queued tasks, waiting at most ``close_timeout_s``."""
        if self._thread is not None:
            self._tasks.put(None)
            self._thread.join(self._close_timeout_s)
            self._thread = None


def finished(task: Task[T]) -> Steps[T]:
    """Yield until the task is done, then return its result: ``value = yield from finished(task)``."""
    while not task.done():
        yield
    return task.result()
