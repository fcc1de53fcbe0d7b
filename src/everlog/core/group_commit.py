"""Many appends, one sync: threads that wait for the disk at the same time share what one of them asks of it.

Each append joins the *round* that is open. The first thread that finds nobody syncing closes the round, opens the next
and syncs for all in it; those that come meanwhile wait for the next one. Left to itself that settles at two halves that
take turns: so whoever leads waits a small part of a sync's time for the threads of the last round to come back, if they
are on their way. A thread alone never waits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from everlog.errors import EverlogError, WriteFailed

GATHER_PART = 0.2
"""Of the time that the last sync took: so long a leader waits at most for others."""


class Round:
    """Appends that one sync makes durable, or fails, and the threads that made them."""

    __slots__ = ("error", "is_done", "threads")

    def __init__(self) -> None:
        self.is_done = False
        self.error: EverlogError | None = None
        self.threads: set[int] = set()

    def check(self) -> None:
        """Raise the error, a new one for each thread that waited."""
        error = self.error
        if not self.is_done:
            raise WriteFailed("sync", found="an interrupted one", expected="one that ends")
        if error is not None:
            raise WriteFailed(error.where, found=error.found, expected=error.expected, hint=error.hint) from error


class GroupCommit:
    """The ``sync`` that callers give must cover every append that joined before it is called. One sync runs at a time,
    so a failure, which the system tells only once, meets the appends that it concerns."""

    def __init__(self) -> None:
        self._open = Round()
        self._last_threads: set[int] = set()
        self._last_seconds = 0.0
        self._leader: object | None = None
        self._changed = threading.Condition()
        self._joined = threading.Condition(threading.Lock())
        self._awaited = 0

    def join(self) -> Round:
        """The round of an append that was just written; call it before anybody can write the next one."""
        with self._joined:
            joined = self._open
            joined.threads.add(threading.get_ident())
            if self._awaited and len(joined.threads) >= self._awaited:
                self._joined.notify()
            return joined

    def wait(self, joined: Round, sync: Callable[[], None]) -> None:
        """Return when the round is on disk. Raises the sync's error."""
        me = object()
        try:
            with self._changed:
                while not joined.is_done and self._leader is not None:
                    self._changed.wait()
                if not joined.is_done:
                    self._leader = me
            if not joined.is_done:
                self._gather()
                self._lead(sync)
        except BaseException:
            self._step_down(me)
            raise
        joined.check()

    def settle(self, sync: Callable[[], None]) -> None:
        """Sync now, for all that have joined so far, with ``sync``: the file is about to be another one. Raises its
        error."""
        me = object()
        try:
            with self._changed:
                while self._leader is not None:
                    self._changed.wait()
                self._leader = me
            done = self._lead(sync)
        except BaseException:
            self._step_down(me)
            raise
        done.check()

    def _step_down(self, me: object) -> None:
        """After Ctrl-C: if ``me`` leads, let another one."""
        with self._changed:
            if self._leader is me:
                self._leader = None
                self._awaited = 0
                self._changed.notify_all()

    def _gather(self) -> None:
        """Wait a little for the threads of the last round that are not in this one yet."""
        deadline = time.monotonic() + self._last_seconds * GATHER_PART
        with self._joined:
            self._awaited = len(self._last_threads | self._open.threads)
            while len(self._open.threads) < self._awaited and (left := deadline - time.monotonic()) > 0:
                self._joined.wait(left)
            self._awaited = 0

    def _lead(self, sync: Callable[[], None]) -> Round:
        closed = self._open
        error: EverlogError | None = WriteFailed("sync", found="an interrupted one", expected="one that ends")
        begun = time.monotonic()
        try:
            with self._joined:
                self._open = Round()
            sync()
            error = None
        except EverlogError as failure:
            error = failure
        finally:
            self._last_threads, self._last_seconds = closed.threads, time.monotonic() - begun
            with self._changed:
                if self._open is closed:
                    self._open = Round()
                closed.error, closed.is_done = error, True
                self._leader = None
                self._changed.notify_all()
        return closed
