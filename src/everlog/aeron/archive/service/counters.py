"""The counters of an archive: type ids, keys and labels. Source: AeronCounters, ArchiveCounters, RecordingPos,
ControlSessionCounter."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

from everlog.aeron.archive.service.settings.choices import ThreadingMode
from everlog.aeron.transport.client.aeron import Aeron
from everlog.aeron.transport.client.counter import Counter
from everlog.aeron.transport.client.registration import Registration
from everlog.aeron.transport.driver.system_counters import duration_text
from everlog.errors import EverlogError
from everlog.version import __version__

RECORDING_POSITION_TYPE_ID = 100
ARCHIVE_ERRORS_TYPE_ID = 101
CONTROL_SESSIONS_TYPE_ID = 102
MAX_CYCLE_TIME_TYPE_ID = 103
CYCLE_THRESHOLD_TYPE_ID = 104
RECORDER_MAX_WRITE_TIME_TYPE_ID = 105
RECORDER_WRITTEN_BYTES_TYPE_ID = 106
RECORDER_WRITE_TIME_TYPE_ID = 107
REPLAYER_MAX_READ_TIME_TYPE_ID = 108
REPLAYER_READ_BYTES_TYPE_ID = 109
REPLAYER_READ_TIME_TYPE_ID = 110
RECORDING_SESSIONS_TYPE_ID = 111
REPLAY_SESSIONS_TYPE_ID = 112
CONTROL_SESSION_TYPE_ID = 113

FREE_TIMEOUT_S = 1.0
"""How long to wait for a driver that does not free the counters."""

MAX_KEY_LENGTH = 112
MAX_LABEL_LENGTH = 380
_RECORDING_KEY = struct.Struct("<qii")
_ARCHIVE_ID = struct.Struct("<q")


def recording_position_key(recording_id: int, session_id: int, source_identity: str, archive_id: int) -> bytes:
    """The key of a recording's position; a source identity that is too long is cut."""
    room = MAX_KEY_LENGTH - _RECORDING_KEY.size - _ARCHIVE_ID.size
    source = source_identity.encode("ascii", "replace")[:room]
    return _RECORDING_KEY.pack(recording_id, session_id, len(source)) + source + _ARCHIVE_ID.pack(archive_id)


def recording_position_label(recording_id: int, session_id: int, stream_id: int, channel: str, archive_id: int) -> str:
    """The label of a recording's position; a channel that is too long is cut."""
    return _label(f"rec-pos: {recording_id} {session_id} {stream_id} {channel}", archive_id)


def control_session_key(archive_id: int, session_id: int) -> bytes:
    """The key of a control session's counter."""
    return struct.pack("<qq", archive_id, session_id)


def control_session_label(client: str, archive_id: int) -> str:
    """The label of a control session's counter."""
    return _label(f"control-session: {client}", archive_id)


def archive_key(archive_id: int) -> bytes:
    """The key of a counter that an archive has once."""
    return _ARCHIVE_ID.pack(archive_id)


def archive_errors_label(archive_id: int) -> str:
    """The label of the counter of errors, which also shows that the archive is alive."""
    return f"Archive Errors - archiveId={archive_id} version={__version__} commit=everlog"


def archive_label(text: str, archive_id: int) -> str:
    """The label of a counter that an archive has once."""
    return _label(text, archive_id)


def _label(text: str, archive_id: int) -> str:
    suffix = f" - archiveId={archive_id}"
    return text.encode("ascii", "replace")[: MAX_LABEL_LENGTH - len(suffix)].decode() + suffix


def _set(counter: Counter, value: int) -> None:
    """Set a counter, unless the driver or the client that has it has ended."""
    if not counter.is_closed:
        counter.value = value


class CycleTime:
    """Tracks the time between the starts of two cycles: the longest, and how many exceeded ``threshold_ns``. Source:
    DutyCycleStallTracker."""

    def __init__(self, longest: Counter, exceeded: Counter, threshold_ns: int) -> None:
        self._longest_counter = longest
        self._exceeded_counter = exceeded
        self._threshold_ns = threshold_ns
        self._last_ns: int | None = None
        self._longest_ns = self._exceeded = 0

    def pause(self, now_ns: int) -> None:
        """Record the end of a cycle before a pause: the time until the next cycle does not count."""
        self.measure(now_ns)
        self._last_ns = None

    def measure(self, now_ns: int) -> None:
        """Record that a cycle begins."""
        duration_ns = 0 if self._last_ns is None else now_ns - self._last_ns
        self._last_ns = now_ns
        if duration_ns > self._longest_ns:
            self._longest_ns = duration_ns
            _set(self._longest_counter, duration_ns)
        if duration_ns > self._threshold_ns:
            self._exceeded += 1
            _set(self._exceeded_counter, self._exceeded)


@dataclass(frozen=True, slots=True)
class CycleThresholds:
    """How long a duty cycle of each agent may take, in nanoseconds; longer ones are counted."""

    conductor_ns: int
    recorder_ns: int
    replayer_ns: int


class TransferTimes:
    """Sums the bytes and the times of reads or writes, and keeps the longest time. Counters show them after
    :meth:`publish`, which is called once in a cycle. ``clock_ns`` is the clock that durations are measured with.
    Source: ArchiveConductor.Recorder, ArchiveConductor.Replayer."""

    def __init__(
        self, longest: Counter, total_bytes: Counter, total_time: Counter, *, clock_ns: Callable[[], int]
    ) -> None:
        self.clock_ns = clock_ns
        self._counters = longest, total_bytes, total_time
        self._longest_ns = self._bytes = self._total_ns = 0
        self._is_changed = False

    def add(self, length: int, duration_ns: int, longest_ns: int | None = None) -> None:
        """Count one read or write of ``length`` bytes, or several, of which the longest took ``longest_ns``."""
        self._bytes += length
        self._total_ns += duration_ns
        self._longest_ns = max(self._longest_ns, duration_ns if longest_ns is None else longest_ns)
        self._is_changed = True

    def publish(self) -> None:
        """Set the counters."""
        if self._is_changed:
            self._is_changed = False
            for counter, value in zip(self._counters, (self._longest_ns, self._bytes, self._total_ns), strict=True):
                _set(counter, value)


class Level:
    """A counter that shows how many there are of something."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._value = 0

    def show(self, value: int) -> None:
        """Set the counter if the number has changed."""
        if value != self._value:
            self._value = value
            _set(self._counter, value)


class ArchiveCounters:
    """The counters that an archive has once. Adds them: raises :class:`RegistrationRefused`, :class:`DriverTimeout`.
    ``clock_ns`` times reads and writes. ``cycle`` is the conductor's; recorder and replayer have cycles if the
    threading mode is DEDICATED. ``claim`` is called with the counter of errors before the others are added; what it
    raises ends the start of the archive. Source: Archive.Context.conclude."""

    def __init__(
        self,
        aeron: Aeron,
        archive_id: int,
        thresholds: CycleThresholds,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        threading_mode: ThreadingMode = "SHARED",
        *,
        claim: Callable[[Counter], object] = lambda errors: None,
    ) -> None:
        self._aeron = aeron
        self._archive_id = archive_id
        self._adding: list[Registration[Counter]] = []
        key = archive_key(archive_id)

        def add(type_id: int, label: str) -> Registration[Counter]:
            self._adding.append(aeron.async_add_counter(type_id, label, key))
            return self._adding[-1]

        def named(type_id: int, text: str) -> Registration[Counter]:
            return add(type_id, archive_label(text, archive_id))

        def cycle_of(agent: str, threshold_ns: int) -> tuple[Registration[Counter], Registration[Counter]]:
            longest = f"archive-{agent} max cycle time in ns: {threading_mode}"
            threshold = f"threshold={duration_text(threshold_ns)} {threading_mode}"
            exceeded = f"archive-{agent} work cycle time exceeded count: {threshold}"
            return named(MAX_CYCLE_TIME_TYPE_ID, longest), named(CYCLE_THRESHOLD_TYPE_ID, exceeded)

        self._errors = add(ARCHIVE_ERRORS_TYPE_ID, archive_errors_label(archive_id)).result()
        try:
            claim(self._errors)
        except BaseException:
            self._errors.close()
            raise
        # The others are asked for at once: the start then waits for the driver once, not a dozen times.
        agents = {"conductor": thresholds.conductor_ns}
        if threading_mode == "DEDICATED":
            agents |= {"recorder": thresholds.recorder_ns, "replayer": thresholds.replayer_ns}
        cycles = {agent: (*cycle_of(agent, threshold_ns), threshold_ns) for agent, threshold_ns in agents.items()}
        control_sessions = named(CONTROL_SESSIONS_TYPE_ID, "Archive Control Sessions")
        recording_sessions = named(RECORDING_SESSIONS_TYPE_ID, "Archive Recording Sessions")
        replay_sessions = named(REPLAY_SESSIONS_TYPE_ID, "Archive Replay Sessions")
        writes = (
            named(RECORDER_MAX_WRITE_TIME_TYPE_ID, "archive-recorder max write time in ns"),
            named(RECORDER_WRITTEN_BYTES_TYPE_ID, "archive-recorder total write bytes"),
            named(RECORDER_WRITE_TIME_TYPE_ID, "archive-recorder total write time in ns"),
        )
        reads = (
            named(REPLAYER_MAX_READ_TIME_TYPE_ID, "archive-replayer max read time in ns"),
            named(REPLAYER_READ_BYTES_TYPE_ID, "archive-replayer total read bytes"),
            named(REPLAYER_READ_TIME_TYPE_ID, "archive-replayer total read time in ns"),
        )
        self.clock_ns = clock_ns
        found = {
            agent: CycleTime(longest.result(), exceeded.result(), threshold_ns)
            for agent, (longest, exceeded, threshold_ns) in cycles.items()
        }
        self.cycle = found["conductor"]
        self.recorder_cycle, self.replayer_cycle = found.get("recorder"), found.get("replayer")
        self.control_sessions = Level(control_sessions.result())
        self.recording_sessions = Level(recording_sessions.result())
        self.replay_sessions = Level(replay_sessions.result())
        self.writes = TransferTimes(*(each.result() for each in writes), clock_ns=clock_ns)
        self.reads = TransferTimes(*(each.result() for each in reads), clock_ns=clock_ns)

    def count_error(self) -> None:
        """Count an error; any thread may call it."""
        if not self._errors.is_closed:
            self._errors.add()

    def close(self) -> None:
        """Free the counters, that of the errors last: it shows that the archive is alive. Waits for the driver, so that
        the next archive with this id can start at once. A second call does nothing."""
        if self._aeron.is_closed or self._errors.is_closed:
            return
        for added in reversed(self._adding):
            added.result().close()
        counters, key = self._aeron.counters, archive_key(self._archive_id)
        with contextlib.suppress(EverlogError):  # the driver has ended
            self._aeron.wait_until(lambda: counters.find_by_key(ARCHIVE_ERRORS_TYPE_ID, key) is None, FREE_TIMEOUT_S)
