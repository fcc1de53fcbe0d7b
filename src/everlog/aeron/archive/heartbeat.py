"""A thread that says once a second that an archive lives, and has offered messages written."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator

from everlog.aeron.archive.ownership import Ownership
from everlog.errors import EverlogError

INTERVAL_S = 1.0
_log = logging.getLogger("everlog.aeron.archive")


class Heartbeat:
    """Runs from its making until ``stop``. ``flush`` is called ``flush_interval_s`` after ``flush_soon``, ``lost`` once
    another owner has the folder."""

    def __init__(
        self,
        ownership: Ownership,
        flush: Callable[[], None],
        flush_interval_s: float,
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._ownership = ownership
        self._lost = lost
        self._flush = flush
        self._flush_interval_s = flush_interval_s
        self._wanted = threading.Event()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="everlog-archive-heartbeat", daemon=True)
        self._thread.start()

    @classmethod
    @contextlib.contextmanager
    def during(cls, ownership: Ownership) -> Iterator[None]:
        """Beat while something takes long."""
        beating = cls(ownership, lambda: None, INTERVAL_S)
        try:
            yield
        finally:
            beating.stop()

    def flush_soon(self) -> None:
        """There is something to be flushed."""
        self._wanted.set()

    def _run(self) -> None:
        beaten = time.monotonic()
        while not self._is_stopped:
            is_wanted = self._wanted.wait(max(beaten + INTERVAL_S - time.monotonic(), 0))
            if is_wanted and not self._is_stopped:
                time.sleep(self._flush_interval_s)
                self._wanted.clear()
                self._try(self._flush)
            if time.monotonic() - beaten >= INTERVAL_S:
                beaten = time.monotonic()
                self._try(self._ownership.beat)

    def _try(self, do: Callable[[], None]) -> None:
        """An error is logged, and told to who writes next: the owner's loss by ``check``, a failed flush by what it
        took."""
        if self._is_stopped or self._ownership.lost is not None:
            return
        try:
            do()
        except EverlogError as error:
            _log.error("%s", error)
        if self._ownership.lost is not None:
            self._lost()

    def stop(self) -> None:
        """End the thread; a second call does nothing."""
        self._is_stopped = True
        self._wanted.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
