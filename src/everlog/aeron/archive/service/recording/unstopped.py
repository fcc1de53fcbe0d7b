"""Recordings that have ended, but whose stop position could not be written.

They stay active in the catalog. The stop is tried again until it succeeds, at a bounded pace; until then a recording
counts as active: it can be replayed up to its recorded position, and is neither extended nor changed. What still can't
be stopped when the archive closes is left to recovery, as after a crash.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from everlog.aeron.archive.writing.recorder import Recorder
from everlog.runtime.quiet import BUSY, FOREVER
from everlog.time_units import NS_PER_S

RETRY_INTERVAL_NS = NS_PER_S
"""Time between two attempts. All recordings share a disk: the first one that fails ends an attempt."""
_log = logging.getLogger("everlog.aeron.archive")


class UnstoppedRecordings:
    """Tries again to stop recordings, and calls back when one has stopped."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[Recorder, Callable[[int], None]]] = {}
        self._next_ns: int | None = None

    def __contains__(self, recording_id: int) -> bool:
        return recording_id in self._waiting

    def add(self, recorder: Recorder, on_stopped: Callable[[int], None]) -> None:
        """Stop a recording later. ``on_stopped(position)`` is called when its stop position is in the catalog."""
        self._waiting[recorder.recording_id] = recorder, on_stopped
        _log.warning(
            "recording %d stays active: its stop position can't be written, and is tried again every %d s",
            *(recorder.recording_id, RETRY_INTERVAL_NS // NS_PER_S),
        )

    def recorded_position(self, recording_id: int) -> int | None:
        """The end of a recording that is still to be stopped; ``None`` for any other."""
        found = self._waiting.get(recording_id)
        return None if found is None else found[0].recorded_position

    def quiet_until(self) -> int:
        """When the next attempt is due, in nanoseconds of the clock of ``do_work``."""
        if not self._waiting:
            return FOREVER
        return BUSY if self._next_ns is None else self._next_ns

    def do_work(self, now_ns: int) -> int:
        """Try again if it is time. Returns how many recordings were stopped or given up."""
        if not self._waiting:
            self._next_ns = None
            return 0
        if self._next_ns is None:
            self._next_ns = now_ns + RETRY_INTERVAL_NS
        if now_ns < self._next_ns:
            return 0
        self._next_ns = now_ns + RETRY_INTERVAL_NS
        return self._try_all()

    def _try_all(self) -> int:
        done = 0
        for recorder, on_stopped in tuple(self._waiting.values()):
            try:
                recorder.stop(may_retry=True)
            except Exception as error:
                if recorder.is_lost:
                    _log.warning("recording %d is given up: %s", recorder.recording_id, error)
                elif not recorder.is_cataloged:
                    return done
            del self._waiting[recorder.recording_id]
            done += 1
            if recorder.is_cataloged:
                position = recorder.recorded_position
                _log.warning("recording %d: its stop position, %d, is written now", recorder.recording_id, position)
                on_stopped(position)
        return done

    def close(self) -> None:
        """Try a last time, and leave the rest to recovery."""
        self._try_all()
        self.abandon()

    def abandon(self) -> None:
        """Leave all of them to recovery."""
        for recorder, _ in self._waiting.values():
            recorder.abandon()
        self._waiting.clear()
