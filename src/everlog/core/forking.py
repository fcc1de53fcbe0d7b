"""What a process that forks leaves behind in its child: one registry for all that holds files, locks or threads.

A child has copies of its parent's objects, but not its threads, and its open files are the parent's: a lock that both
have open would outlive the parent.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class OpenObjects(Generic[T]):
    """The objects of one kind that are open, as long as somebody holds them. ``leave_in_child`` is called for each of
    them in a forked child; kinds take their turns in the order in which they were made."""

    def __init__(self, leave_in_child: Callable[[T], None]) -> None:
        self._leave = leave_in_child
        self._objects: weakref.WeakSet[T] = weakref.WeakSet()
        _leaving.append(self.leave)

    def add(self, one: T) -> None:
        """It is open."""
        self._objects.add(one)

    def discard(self, one: T) -> None:
        """It is closed."""
        self._objects.discard(one)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._objects))

    def leave(self) -> None:
        """Let go of all of them."""
        for one in self:
            self._leave(one)


_leaving: list[Callable[[], None]] = []


def _leave_all() -> None:
    for leave in _leaving:
        leave()


os.register_at_fork(after_in_child=_leave_all)
