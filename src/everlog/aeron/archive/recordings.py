"""Starts, extends, stops and lists the recordings of an open archive. Source: ArchiveConductor, Catalog.findLast."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass

from everlog.aeron.archive.folder.recordings import Recording, segment_map
from everlog.aeron.archive.format.catalog_bytes import Descriptor
from everlog.aeron.archive.format.segments import index_segments
from everlog.aeron.archive.maintenance.maintenance import Extension, check_extension
from everlog.aeron.archive.maintenance.recording_state import RecordingState
from everlog.aeron.archive.recording.events import (
    Events,
    RecordingProgress,
    RecordingSignal,
    RecordingStarted,
    RecordingStopped,
    SignalEvent,
)
from everlog.aeron.archive.recording.options import ArchiveOptions, durability_of
from everlog.aeron.archive.writing.catalog_writer import CatalogWriter
from everlog.aeron.archive.writing.recorder import Recorder
from everlog.aeron.archive.writing.segment_writer import SegmentWriter
from everlog.aeron.archive.writing.stream_parameters import (
    StreamOptions,
    StreamParameters,
    check_int64,
    for_another_publication,
    parameters_of,
)
from everlog.aeron.frames.framing import Framer
from everlog.aeron.mark_file import now_ms
from everlog.core.files.writable import WritableStorage
from everlog.errors import EverlogError

_log = logging.getLogger("everlog.aeron.archive")


@dataclass(frozen=True, kw_only=True)
class OpenFolder:
    """What the parts of an open archive share: the folder, its catalog and their lock. ``check`` raises
    :class:`Closed` once the archive is closed, :class:`StoreUnavailable` once another one owns the folder."""

    storage: WritableStorage
    options: ArchiveOptions
    catalog: CatalogWriter
    events: Events
    lock: threading.RLock
    check: Callable[[], None]


class Recordings:
    """Starts, extends, stops and lists recordings. ``flush_soon`` is called when messages were offered."""

    def __init__(self, folder: OpenFolder, flush_soon: Callable[[], None]) -> None:
        self.recorders: dict[int, Recorder] = {}
        self.check: Callable[[], None] = folder.check  # called for each offered message
        self._folder = folder
        self._storage, self._options = folder.storage, folder.options
        self._catalog, self._events = folder.catalog, folder.events
        self._flush_soon = flush_soon
        # Ids of segment files without a catalog entry: no new recording gets them.
        self._lost_ids = {number for number in index_segments(folder.storage.names()) if number not in folder.catalog}

    def start(
        self,
        channel: str,
        stream_id: int,
        stream_options: StreamOptions,
        *,
        control_session_id: int = 0,
        correlation_id: int = 0,
    ) -> Recorder:
        """Start a recording with the next free id, as :meth:`Archive.start_recording` describes."""
        parameters = parameters_of(channel, stream_id, stream_options)
        return self.start_stream(parameters, control_session_id=control_session_id, correlation_id=correlation_id)

    def start_stream(
        self, parameters: StreamParameters, *, control_session_id: int = 0, correlation_id: int = 0
    ) -> Recorder:
        """Like :meth:`start`, for a stream whose parameters are known: those of an image, whatever its channel says."""
        _check_ids(control_session_id, correlation_id)
        segment_length = max(self._options.segment_length, parameters.term_length)
        descriptor = Descriptor(
            recording_id=0,
            start_timestamp=now_ms(),
            start_position=parameters.join_position,
            initial_term_id=parameters.initial_term_id,
            segment_file_length=segment_length,
            term_buffer_length=parameters.term_length,
            mtu_length=parameters.mtu_length,
            session_id=parameters.session_id,
            stream_id=parameters.stream_id,
            stripped_channel=parameters.stripped_channel,
            original_channel=parameters.channel,
            source_identity=parameters.source_identity,
            control_session_id=control_session_id,
            correlation_id=correlation_id,
        )
        with self._folder.lock:
            self._folder.check()
            while self._catalog.next_recording_id in self._lost_ids:
                self._catalog.next_recording_id += 1
            recording_id = self._catalog.add(descriptor)
            recording = self._catalog.recording(recording_id)
            try:
                recorder = self._record(recording, recording.session_id, recording.start_position)
            except BaseException:
                with contextlib.suppress(EverlogError):
                    self._catalog.set_stop(recording_id, recording.start_position, now_ms())
                raise
        self._report_start(recorder, parameters, RecordingSignal.START)
        return recorder

    def extend(
        self,
        recording_id: int,
        channel: str | None,
        stream_options: StreamOptions,
        *,
        control_session_id: int = 0,
        correlation_id: int = 0,
    ) -> Recorder:
        """Continue a stopped recording at its end, as :meth:`Archive.extend_recording` describes."""
        _check_ids(control_session_id, correlation_id)
        with self._folder.lock:
            self._folder.check()
            state = self._state_of(recording_id)
            recording = state.recording
            entry = self._catalog.entry(recording_id)
            own = {
                "position": recording.stop_position,
                "initial_term_id": recording.initial_term_id,
                "term_length": recording.term_buffer_length,
                "mtu_length": recording.mtu_length,
            }
            given = {name: value for name, value in asdict(stream_options).items() if value is not None}
            asked = StreamOptions(**own | given)
            stop = check_extension(state, Extension(*(getattr(asked, name) for name in own)))
            channel = channel or for_another_publication(entry.texts["original_channel"])
            parameters = parameters_of(channel, recording.stream_id, asked)
            recorder = self._extend(recording, parameters, stop, (control_session_id, correlation_id))
        self._report_start(recorder, parameters, RecordingSignal.EXTEND)
        return recorder

    def extend_stream(
        self, recording_id: int, parameters: StreamParameters, *, control_session_id: int = 0, correlation_id: int = 0
    ) -> Recorder:
        """Like :meth:`extend`, for a stream whose parameters are known: those of an image, whatever its channel
        says."""
        _check_ids(control_session_id, correlation_id)
        with self._folder.lock:
            self._folder.check()
            state = self._state_of(recording_id)
            numbers = parameters.initial_term_id, parameters.term_length, parameters.mtu_length
            stop = check_extension(state, Extension(parameters.join_position, *numbers))
            recorder = self._extend(state.recording, parameters, stop, (control_session_id, correlation_id))
        self._report_start(recorder, parameters, RecordingSignal.EXTEND)
        return recorder

    def _state_of(self, recording_id: int) -> RecordingState:
        held = self.recorders.get(recording_id)
        recorded_position = None if held is None else held.recorded_position
        return RecordingState(self._catalog.recording(recording_id), recorded_position=recorded_position)

    def _extend(
        self, recording: Recording, parameters: StreamParameters, stop: int, request_ids: tuple[int, int]
    ) -> Recorder:
        recording_id = recording.recording_id
        recorder = self._record(recording, parameters.session_id, stop)
        try:
            self._catalog.extend(recording_id, parameters.session_id, *request_ids)
        except BaseException:
            recorder.abandon()
            del self.recorders[recording_id]
            with contextlib.suppress(EverlogError):
                if self._catalog.recording(recording_id).is_active:
                    self._catalog.set_stop(recording_id, stop, now_ms())
            raise
        return recorder

    def _record(self, recording: Recording, session_id: int, position: int) -> Recorder:
        framer = Framer(
            initial_term_id=recording.initial_term_id,
            term_length=recording.term_buffer_length,
            mtu_length=recording.mtu_length,
            session_id=session_id,
            stream_id=recording.stream_id,
            checksum=self._options.checksum or "none",
        )
        writer = SegmentWriter(self._storage, segment_map(recording), self._options.file_sync_level or 0)
        writer.open(position)
        framer.begin(position, writer.end)
        durability = durability_of(self._options.file_sync_level or 0)
        recorder = Recorder(recording.recording_id, framer, writer, durability, self)
        self.recorders[recording.recording_id] = recorder
        return recorder

    def _report_start(self, recorder: Recorder, parameters: StreamParameters, signal: RecordingSignal) -> None:
        if not self._events.has_listeners:
            return
        recording_id, start = recorder.recording_id, self.start_position(recorder.recording_id)
        recorder.report_to(self._report_progress)
        texts = parameters.channel, parameters.source_identity
        started = RecordingStarted(recording_id, start, parameters.session_id, parameters.stream_id, *texts)
        self._events.publish(started)
        self._events.publish(SignalEvent(recording_id, recorder.position, signal))

    def _report_progress(self, recorder: Recorder) -> None:
        recording_id, position = recorder.recording_id, recorder.recorded_position
        start = self._catalog.recording(recording_id).start_position
        self._events.publish(RecordingProgress(recording_id, start, position))

    # Calls from and to the recorders

    def offered(self) -> None:
        """Have the offered messages written soon."""
        self._flush_soon()

    def stopped(self, recorder: Recorder, position: int) -> None:
        """Write a recorder's stop position to the catalog."""
        recording_id = recorder.recording_id
        with self._folder.lock:
            self._catalog.set_stop(recording_id, position, now_ms())
            self.recorders.pop(recording_id, None)

    def report_stopped(self, recorder: Recorder) -> None:
        """Report to listeners that a recording was stopped."""
        if self._events.has_listeners:
            recording_id, position = recorder.recording_id, recorder.recorded_position
            start = self._catalog.recording(recording_id).start_position
            self._events.publish(RecordingStopped(recording_id, start, position))
            self._events.publish(SignalEvent(recording_id, position, RecordingSignal.STOP))

    def sync_catalog(self) -> None:
        """Return when the catalog is on disk. Raises :class:`WriteFailed`."""
        with self._folder.lock:
            self._catalog.sync()

    def flush_offered(self) -> None:
        """Flush what was offered to each recorder; errors are logged."""
        with self._folder.lock:
            recorders = list(self.recorders.values())
        for recorder in recorders:
            try:
                recorder.flush_offered()
            except EverlogError as error:
                _log.error("recording %d: %s", recorder.recording_id, error)

    def renew(self) -> None:
        """Let recorders write without checks of their own: the archive still owns the folder."""
        for recorder in list(self.recorders.values()):  # without the lock, which may be held for long
            recorder.renew()

    def fence(self) -> None:
        """Make each message check the ownership from now on: the archive may have lost the folder."""
        with self._folder.lock:
            for recorder in self.recorders.values():
                recorder.fence()

    def report_progress(self) -> None:
        """Report each new position to listeners from now on."""
        with self._folder.lock:
            recorders = list(self.recorders.values())
        for recorder in recorders:
            recorder.report_to(self._report_progress)

    # Listing

    def list_recordings(
        self,
        *,
        channel_fragment: str = "",
        stream_id: int | None = None,
        from_recording_id: int = 0,
        count: int | None = None,
    ) -> list[Recording]:
        """Return the current valid recordings by id: at most ``count``, from ``from_recording_id`` on, of ``stream_id``
        if given, with ``channel_fragment`` in their original channel."""
        with self._folder.lock:
            self._folder.check()
            found: list[Recording] = []
            for recording_id in self._catalog.recording_ids():
                if count is not None and len(found) >= count:
                    break
                if recording_id >= from_recording_id:
                    recording = self._catalog.recording(recording_id)
                    if _matches(recording, channel_fragment, stream_id):
                        found.append(recording)
            return found

    def recording(self, recording_id: int) -> Recording:
        """Return one recording's current state. Raises :class:`UnknownStream`."""
        with self._folder.lock:
            self._folder.check()
            return self._catalog.recording(recording_id)

    def find_last_matching_recording(
        self,
        channel_fragment: str,
        stream_id: int,
        *,
        session_id: int | None = None,
        min_recording_id: int = 0,
    ) -> Recording | None:
        """Return the valid recording with the highest id whose channel, stream and session match, or ``None``."""
        with self._folder.lock:
            self._folder.check()
            for recording_id in reversed(self._catalog.recording_ids()):
                if recording_id < min_recording_id:
                    break
                recording = self._catalog.recording(recording_id)
                if session_id in (None, recording.session_id) and _matches(recording, channel_fragment, stream_id):
                    return recording
            return None

    def start_position(self, recording_id: int) -> int:
        """Return the position at which a recording starts."""
        return self.recording(recording_id).start_position

    def stop_position(self, recording_id: int) -> int | None:
        """Return the position at which a recording stops; ``None`` while it is active."""
        return self.recording(recording_id).stop_position

    def recorded_position(self, recording_id: int) -> int:
        """Return the position after the last acknowledged message; the stop position if the recording is not active."""
        with self._folder.lock:
            recorder = self.recorders.get(recording_id)
            if recorder is not None:
                return recorder.recorded_position
            recording = self.recording(recording_id)
            return recording.start_position if recording.stop_position is None else recording.stop_position


def _check_ids(control_session_id: int, correlation_id: int) -> None:
    check_int64("control_session_id", control_session_id)
    check_int64("correlation_id", correlation_id)


def _matches(recording: Recording, channel_fragment: str, stream_id: int | None) -> bool:
    if recording.state != "VALID" or stream_id not in (None, recording.stream_id):
        return False
    return (
        not channel_fragment or recording.entry is None or channel_fragment in recording.entry.texts["original_channel"]
    )
