"""The threads of an archive that is open for writing: one renews the ownership every second, one writes offered
messages. They are separate because a disk may take longer than an owner may be silent."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator

from everlog.aeron.archive.writing.ownership import Ownership
from everlog.errors import EverlogError

INTERVAL_S = 1.0
_log = logging.getLogger("everlog.aeron.archive")


class Heartbeat:
    """Runs from its creation until ``stop``. Calls ``renewed`` after each beat, and ``lost`` after another owner took
    the folder."""

    def __init__(
        self,
        ownership: Ownership,
        renewed: Callable[[], None] = lambda: None,
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._ownership = ownership
        self._renewed = renewed
        self._lost = lost
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="everlog-archive-heartbeat", daemon=True)
        self._thread.start()

    @classmethod
    @contextlib.contextmanager
    def during(cls, ownership: Ownership) -> Iterator[None]:
        """Beat during a long operation."""
        beating = cls(ownership)
        try:
            yield
        finally:
            beating.stop()

    def _run(self) -> None:
        """Log errors; after a loss of the folder, the next write fails in ``check``."""
        while not self._stopped.wait(INTERVAL_S) and self._ownership.lost is None:
            try:
                self._ownership.beat()
                self._renewed()
            except EverlogError as error:
                _log.error("%s", error)
        if self._ownership.lost is not None:
            self._lost()

    def stop(self) -> None:
        """End the thread; a second call does nothing."""
        self._stopped.set()
        if self._thread is not threading.current_thread():
            self._thread.join()


class Flusher:
    """Calls ``flush``, which raises nothing, ``interval_s`` after ``flush_soon``. Its thread starts on the first
    ``flush_soon``."""

    def __init__(self, flush: Callable[[], None], interval_s: float) -> None:
        self._flush = flush
        self._interval_s = interval_s
        self._wanted = threading.Event()
        self._stopped = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def flush_soon(self) -> None:
        """Schedule a flush."""
        self._wanted.set()
        if self._thread is None:
            with self._starting:
                if self._thread is None and not self._stopped.is_set():
                    thread = threading.Thread(target=self._run, name="everlog-archive-flusher", daemon=True)
                    thread.start()
                    self._thread = thread

    def _run(self) -> None:
        while self._wanted.wait() and not self._stopped.wait(self._interval_s):
            self._wanted.clear()
            if self._stopped.is_set():  # ``stop`` may have set ``_wanted`` just before it was cleared
                return
            self._flush()

    def stop(self) -> None:
        """End the thread; a second call does nothing."""
        with self._starting:
            self._stopped.set()
        self._wanted.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
