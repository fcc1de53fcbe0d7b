"""What may take long and must not hold up the conductor: names looked up, files made. Source: NativeResourceAgent.

A command that needs such a thing is a generator: it yields until the task is done, once in each of the conductor's
cycles, and limits move on meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

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


class ThreadTasks:
    """A thread of its own, which begins with the first task."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="aeron-resources")

    def submit(self, task: Callable[[], T], /) -> Task[T]:
        """Do it when those before it are done."""
        return self._executor.submit(task)

    def close(self) -> None:
        """Wait for what has begun; the rest is dropped."""
        self._executor.shutdown(cancel_futures=True)


def finished(task: Task[T]) -> Steps[T]:
    """``value = yield from finished(task)``."""
    while not task.done():
        yield
    return task.result()
