"""The threads of an archive that is open for writing."""

from __future__ import annotations

import threading

from everlog.aeron.archive.writing.heartbeat import Flusher


def test_a_flusher_that_is_stopped_while_it_clears_its_request_ends() -> None:
    """``stop`` sets both events after the thread has waited its interval and before it clears the request."""
    flushed = threading.Event()
    flusher = Flusher(flushed.set, interval_s=0.001)

    class StoppedWhileCleared(threading.Event):
        def clear(self) -> None:
            flusher._stopped.set()
            self.set()
            super().clear()

    flusher._wanted = StoppedWhileCleared()
    flusher.flush_soon()
    thread = flusher._thread
    assert thread is not None
    thread.join(10)
    ended = not thread.is_alive()
    flusher._wanted.set()  # lets a thread that still waits end
    assert (ended, flushed.is_set()) == (True, False)


def test_a_flusher_flushes_what_is_wanted_and_ends() -> None:
    flushed = threading.Event()
    flusher = Flusher(flushed.set, interval_s=0.001)
    flusher.flush_soon()
    assert flushed.wait(10)
    flusher.stop()
    flusher.stop()
    assert flusher._thread is not None
    assert not flusher._thread.is_alive()
