"""Many appends, one sync: threads that wait for the disk at the same time share what one of them asks of it.

Each append joins the *round* that is open. The first thread that finds nobody syncing closes the round, opens the next
and syncs for all in it; those that come meanwhile wait for the next one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from everlog.errors import EverlogError, WriteFailed


class Round:
    """Appends that one sync makes durable, or fails."""

    __slots__ = ("error", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self.error: EverlogError | None = None

    def check(self) -> None:
        """Raise the error, a new one for each thread that waited."""
        error = self.error
        if error is not None:
            raise WriteFailed(error.where, found=error.found, expected=error.expected, hint=error.hint) from error


class GroupCommit:
    """``sync`` must cover every append that joined before it is called. One sync runs at a time, so a failure, which
    the system tells only once, meets the appends that it concerns."""

    def __init__(self, sync: Callable[[], None]) -> None:
        self._sync = sync
        self._open = Round()
        self._is_busy = False
        self._changed = threading.Condition()

    def join(self) -> Round:
        """The round of an append that was just written; call it before anybody can write the next one."""
        return self._open

    def wait(self, joined: Round) -> None:
        """Return when the round is on disk. Raises the sync's error."""
        with self._changed:
            while not joined.is_done and self._is_busy:
                self._changed.wait()
            if not joined.is_done:
                self._is_busy = True
        if not joined.is_done:
            self._lead(self._sync)
        joined.check()

    def settle(self, sync: Callable[[], None]) -> None:
        """Sync now, for all that have joined so far, with ``sync``: the file is about to be another one. Raises its
        error."""
        with self._changed:
            while self._is_busy:
                self._changed.wait()
            self._is_busy = True
        self._lead(sync).check()

    def _lead(self, sync: Callable[[], None]) -> Round:
        closed, self._open = self._open, Round()
        error: EverlogError | None = None
        try:
            sync()
        except EverlogError as failure:
            error = failure
        finally:
            with self._changed:
                closed.error, closed.is_done = error, True
                self._is_busy = False
                self._changed.notify_all()
        return closed
