"""Group commit: threads that wait for the disk at the same time share one sync.

Each append joins the open *round*. The first thread that finds no sync running closes the round, opens the next one and
syncs for everybody in it; threads that arrive during the sync wait for the next round. Left alone, this settles into
two halves that take turns. So the leader waits a small fraction of a sync's time for the threads of the last round that
are on their way back. A single thread never waits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from everlog.errors import EverlogError, WriteFailed

GATHER_PART = 0.2
"""How long a leader waits for others at most, as a fraction of the last sync's duration."""


class Round:
    """Appends that one sync makes durable or fails, and the threads that made them."""

    __slots__ = ("error", "is_done", "threads")

    def __init__(self) -> None:
        self.is_done = False
        self.error: EverlogError | None = None
        self.threads: set[int] = set()

    def check(self) -> None:
        """Raise the sync's error, as a new exception for each waiting thread."""
        error = self.error
        if not self.is_done:
            raise _interrupted()
        if error is not None:
            raise WriteFailed(
                error.where, found=error.found, expected=error.expected, hint=error.hint, message=error.message
            ) from error


def _interrupted() -> WriteFailed:
    message = "the sync was interrupted: the messages it covers may not be on disk"
    return WriteFailed("sync", found="interrupted", expected="a complete sync", message=message)


class GroupCommit:
    """Runs one sync at a time, so that a failure, which the system reports only once, reaches exactly the appends that
    it concerns. The ``sync`` that callers pass must cover every append that joined before it is called."""

    def __init__(self) -> None:
        self._open = Round()
        self._last_threads: set[int] = set()
        self._last_seconds = 0.0
        self._leader: object | None = None
        self._changed = threading.Condition()
        self._joined = threading.Condition(threading.Lock())
        self._awaited = 0

    def join(self) -> Round:
        """The round of an append that was just written. Call it before anybody can write the next one."""
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
        """Call ``sync`` for everything that has joined so far, as soon as no other sync is running, without waiting for
        more appends: for writers that are about to switch files. Raises the error of ``sync``, which the waiting
        appends get, too."""
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
        """After Ctrl-C: stop leading, if ``me`` leads, and wake the others."""
        with self._changed:
            if self._leader is me:
                self._leader = None
                self._awaited = 0
                self._changed.notify_all()

    def _gather(self) -> None:
        """Wait briefly for threads of the last round that have not joined this one yet."""
        deadline = time.monotonic() + self._last_seconds * GATHER_PART
        with self._joined:
            self._awaited = len(self._last_threads | self._open.threads)
            while len(self._open.threads) < self._awaited and (left := deadline - time.monotonic()) > 0:
                self._joined.wait(left)
            self._awaited = 0

    def _lead(self, sync: Callable[[], None]) -> Round:
        closed = self._open
        error: EverlogError | None = _interrupted()
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
