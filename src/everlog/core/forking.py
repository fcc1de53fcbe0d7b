"""One registry of the objects that a forked child must abandon because they hold files, locks or threads.

A child has copies of its parent's objects but not its threads, and shares the parent's open files: a lock on a file
that both have open would outlive the parent.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class OpenObjects(Generic[T]):
    """The open objects of one kind, held weakly. In a forked child ``abandon`` is called for each of them; kinds take
    turns in the order of their creation."""

    def __init__(self, abandon: Callable[[T], None]) -> None:
        self._abandon = abandon
        self._objects: weakref.WeakSet[T] = weakref.WeakSet()
        _abandoning.append(self.abandon)

    def add(self, one: T) -> None:
        """Register an object that was opened."""
        self._objects.add(one)

    def discard(self, one: T) -> None:
        """Forget an object that was closed."""
        self._objects.discard(one)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._objects))

    def abandon(self) -> None:
        """Abandon all of them, in a forked child."""
        for one in self:
            self._abandon(one)


_abandoning: list[Callable[[], None]] = []


def _abandon_all() -> None:
    for abandon in _abandoning:
        abandon()


os.register_at_fork(after_in_child=_abandon_all)
