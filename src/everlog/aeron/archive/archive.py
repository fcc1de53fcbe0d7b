"""An archive's folder, open for writing: recordings are made, extended, replayed, cut and removed.

>>> from everlog.aeron import archive
>>> with archive.create("/var/lib/trades") as store:                        # doctest: +SKIP
...     with store.start_recording("aeron:ipc", stream_id=1001) as recorder:
...         recorder.append(b"first")
...     for record in store.replay(recorder.recording_id):
...         print(record.payload)

One process at a time owns the folder; a real Aeron archive may go on where it stops, and the other way round. Readers
(:func:`everlog.open_store`) need not ask. Source: ArchiveConductor, Catalog, ArchiveMarkFile.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Self

from everlog.aeron.archive.folder.archive import ArchiveFolder
from everlog.aeron.archive.folder.recordings import Recording, segment_map
from everlog.aeron.archive.format.catalog import CATALOG_NAME
from everlog.aeron.archive.format.catalog_bytes import Descriptor
from everlog.aeron.archive.format.segments import index_segments
from everlog.aeron.archive.maintenance.maintenance import Extension, check_extension
from everlog.aeron.archive.maintenance.operations import Maintenance
from everlog.aeron.archive.maintenance.recording_state import RecordingState
from everlog.aeron.archive.maintenance.segment_changes import finish_truncations
from everlog.aeron.archive.recording.events import (
    Callback,
    Events,
    EventStream,
    RecordingProgress,
    RecordingSignal,
    RecordingStarted,
    RecordingStopped,
    SignalEvent,
)
from everlog.aeron.archive.recording.options import ArchiveOptions, durability_of
from everlog.aeron.archive.recording.replay import Replay
from everlog.aeron.archive.recording.replaying import Replaying
from everlog.aeron.archive.store import ArchiveStore, Options
from everlog.aeron.archive.writing.catalog_writer import CatalogWriter
from everlog.aeron.archive.writing.heartbeat import Flusher, Heartbeat
from everlog.aeron.archive.writing.ownership import Ownership
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
from everlog.core.forking import OpenObjects
from everlog.core.options import fill
from everlog.errors import EverlogError, NotAStore, StoreExists

_log = logging.getLogger("everlog.aeron.archive")


class Archive(Replaying, Maintenance):
    """An archive that this process owns; threads may share it. :func:`~.opening.create` and
    :func:`~.opening.open_archive` make one."""

    def __init__(
        self, storage: WritableStorage, options: ArchiveOptions, ownership: Ownership, recovered: list[str]
    ) -> None:
        self.options = options
        self._storage = storage
        self._ownership = ownership
        self._events = Events()
        self._lock = threading.RLock()
        self._recorders: dict[int, Recorder] = {}
        self._replays: set[Replay] = set()
        self._is_closed = False
        self._catalog = CatalogWriter.open(storage, options.catalog)
        # Ids of files whose recordings the catalog has lost: no new recording gets them.
        self._lost_ids = {number for number in index_segments(storage.names()) if number not in self._catalog}
        self.recovered = recovered + finish_truncations(self._catalog, storage)
        self._store = ArchiveStore(storage, Options(checksum="auto"))
        self._flusher = Flusher(self._flush_offered, options.flush_interval_s)
        self._heartbeat = Heartbeat(ownership, self._renew, self._fence)
        _archives.add(self)

    @classmethod
    def create(cls, storage: WritableStorage, options: ArchiveOptions, *, exist_ok: bool = False) -> Archive:
        """As :func:`~.opening.create`, on a storage of any kind."""
        if storage.exists(CATALOG_NAME):
            if not exist_ok:
                raise StoreExists(storage.root, found="an archive", expected="a folder without a catalog")
        elif index_segments(storage.names()):
            found, hint = "segment files without a catalog", "everlog repair makes a catalog of them"
            raise StoreExists(storage.root, found=found, expected="a folder without recordings", hint=hint)
        else:
            CatalogWriter.create(storage, options.catalog).close()
        return cls.open(storage, options)

    @classmethod
    def open(cls, storage: WritableStorage, options: ArchiveOptions) -> Archive:
        """As :func:`~.opening.open_archive`, on a storage of any kind."""
        if not storage.exists(CATALOG_NAME):
            raise NotAStore(storage.root, found="no catalog", expected=CATALOG_NAME, hint="create makes an archive")
        timeout_ms = round(options.liveness_timeout_s * 1000)
        ownership = Ownership.take(storage, timeout_ms=timeout_ms)
        try:
            with Heartbeat.during(ownership):
                recovered = _recover(storage, options)
                return cls(storage, options, ownership, recovered)
        except BaseException:
            ownership.release()
            raise

    @property
    def path(self) -> str:
        """The folder."""
        return self._storage.root

    # Recording

    def start_recording(
        self,
        channel: str,
        stream_id: int,
        *,
        control_session_id: int = 0,
        correlation_id: int = 0,
        **stream_options: Any,
    ) -> Recorder:
        """Begin a new recording. ``stream_options``: ``session_id``, ``initial_term_id`` (random ones if not given),
        ``term_length`` and ``mtu_length`` (bytes; Aeron's defaults), ``position`` (where it starts, 0) and
        ``source_identity``; the channel's parameters may say them, too.

        Raises :class:`UsageError`, :class:`WriteFailed`. A crash leaves an active recording without messages.
        """
        parameters = parameters_of(channel, stream_id, fill(StreamOptions, stream_options))
        _check_ids(control_session_id, correlation_id)
        segment_length = max(self.options.segment_length, parameters.term_length)
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
            original_channel=channel,
            source_identity=parameters.source_identity,
            control_session_id=control_session_id,
            correlation_id=correlation_id,
        )
        with self._lock:
            self._check()
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
        self._tell_start(recorder, parameters, RecordingSignal.START)
        return recorder

    def extend_recording(
        self,
        recording_id: int,
        channel: str | None = None,
        *,
        control_session_id: int = 0,
        correlation_id: int = 0,
        **stream_options: Any,
    ) -> Recorder:
        """Go on at the end of a stopped recording. ``channel`` and ``stream_options`` as for ``start_recording`` may be
        given; what of them is not as the recording is, is :class:`ArchiveError`, as is a recording that is not stopped.
        Without a ``session_id`` there is a new one. Raises :class:`UnknownStream`, :class:`WriteFailed`; then it is
        stopped where it was, or, if not even that could be written, when the archive is opened again."""
        _check_ids(control_session_id, correlation_id)
        with self._lock:
            self._check()
            recording = self._catalog.recording(recording_id)
            held = self._recorders.get(recording_id)
            state = RecordingState(recording, recorded_position=None if held is None else held.recorded_position)
            entry = self._catalog.entry(recording_id)
            own = {
                "position": recording.stop_position,
                "initial_term_id": recording.initial_term_id,
                "term_length": recording.term_buffer_length,
                "mtu_length": recording.mtu_length,
            }
            given = {name: value for name, value in stream_options.items() if value is not None}
            asked = fill(StreamOptions, own | given)
            stop = check_extension(state, Extension(*(getattr(asked, name) for name in own)))
            channel = channel or for_another_publication(entry.texts["original_channel"])
            parameters = parameters_of(channel, recording.stream_id, asked)
            recorder = self._record(recording, parameters.session_id, stop)
            try:
                self._catalog.extend(recording_id, parameters.session_id, control_session_id, correlation_id)
            except BaseException:
                recorder.abandon()
                del self._recorders[recording_id]
                with contextlib.suppress(EverlogError):
                    if self._catalog.recording(recording_id).is_active:
                        self._catalog.set_stop(recording_id, stop, now_ms())
                raise
        self._tell_start(recorder, parameters, RecordingSignal.EXTEND)
        return recorder

    def _record(self, recording: Recording, session_id: int, position: int) -> Recorder:
        framer = Framer(
            initial_term_id=recording.initial_term_id,
            term_length=recording.term_buffer_length,
            mtu_length=recording.mtu_length,
            session_id=session_id,
            stream_id=recording.stream_id,
            checksum=self.options.checksum,
        )
        writer = SegmentWriter(self._storage, segment_map(recording), self.options.file_sync_level or 0)
        writer.open(position)
        framer.begin(position, writer.end)
        durability = durability_of(self.options.file_sync_level or 0)
        recorder = Recorder(recording.recording_id, framer, writer, durability, self)
        self._recorders[recording.recording_id] = recorder
        return recorder

    def _tell_start(self, recorder: Recorder, parameters: StreamParameters, signal: RecordingSignal) -> None:
        if not self._events.has_listeners:
            return
        recording_id, start = recorder.recording_id, self.start_position(recorder.recording_id)
        recorder.report_to(self._tell_progress)
        texts = parameters.channel, parameters.source_identity
        started = RecordingStarted(recording_id, start, parameters.session_id, parameters.stream_id, *texts)
        self._events.tell(started)
        self._events.tell(SignalEvent(recording_id, recorder.position, signal))

    def _tell_progress(self, recorder: Recorder) -> None:
        recording_id, position = recorder.recording_id, recorder.recorded_position
        start = self._catalog.recording(recording_id).start_position
        self._events.tell(RecordingProgress(recording_id, start, position))

    # What recorders ask for

    def check(self) -> None:
        """Raises :class:`StoreUnavailable` when the archive is closed, or another one owns the folder now."""
        self._ownership.check()

    def offered(self) -> None:
        """Messages wait to be written: see to it that they are."""
        self._flusher.flush_soon()

    def stopped(self, recorder: Recorder, position: int) -> None:
        """A recorder ends its recording at a position."""
        recording_id = recorder.recording_id
        with self._lock:
            self._catalog.set_stop(recording_id, position, now_ms())
            self._recorders.pop(recording_id, None)

    def tell_stopped(self, recorder: Recorder) -> None:
        """Tell who listens that a recording was stopped."""
        if self._events.has_listeners:
            recording_id, position = recorder.recording_id, recorder.recorded_position
            start = self._catalog.recording(recording_id).start_position
            self._events.tell(RecordingStopped(recording_id, start, position))
            self._events.tell(SignalEvent(recording_id, position, RecordingSignal.STOP))

    def sync_catalog(self) -> None:
        """Return when the catalog is on disk. Raises :class:`WriteFailed`."""
        with self._lock:
            self._catalog.sync()

    def _flush_offered(self) -> None:
        with self._lock:
            recorders = list(self._recorders.values())
        for recorder in recorders:
            try:
                recorder.flush_offered()
            except EverlogError as error:
                _log.error("recording %d: %s", recorder.recording_id, error)

    def _renew(self) -> None:
        for recorder in list(self._recorders.values()):  # without the lock, which may be held for long
            recorder.renew()

    def _fence(self) -> None:
        with self._lock:
            for recorder in self._recorders.values():
                recorder.fence()

    # Events

    def listen(self, callback: Callback) -> Callable[[], None]:
        """Call ``callback`` with each event (:mod:`everlog.aeron.archive.recording.events`), in the thread in which it
        happens; what is returned ends that."""
        self._check()
        self._events.listen(callback)
        self._watch()
        return lambda: self._events.forget(callback)

    def events(self) -> EventStream:
        """The events from now on, to iterate over in a thread."""
        self._check()
        stream = self._events.stream()
        self._watch()
        return stream

    def _watch(self) -> None:
        with self._lock:
            recorders = list(self._recorders.values())
        for recorder in recorders:
            recorder.report_to(self._tell_progress)

    # The end

    def _check(self) -> None:
        self._ownership.check()

    def close(self) -> None:
        """Stop all recordings and give the folder back; a second call does nothing. Raises the first error of a
        recording that could not be stopped, after the rest is done."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            recorders, replays = list(self._recorders.values()), self._open_replays()
        ends: list[Callable[[], None]] = [partial(_end, recorder) for recorder in recorders]
        ends += [replay.close for replay in replays]
        ends += [self._catalog.close, self._events.close, self._flusher.stop, self._heartbeat.stop]
        first: BaseException | None = None
        for end in (*ends, self._ownership.release):
            try:
                end()
            except BaseException as error:
                first = first or error
        if first is not None:
            raise first

    def leave(self) -> None:
        """In a forked child, whose parent goes on: the child has a closed archive, whose files it did not touch."""
        self._lock = threading.RLock()  # another thread may have had it
        self._is_closed = True
        self._ownership.leave()
        for recorder in self._recorders.values():
            recorder.fence()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Archive({self.path!r})"


_archives = OpenObjects[Archive](lambda archive: archive.leave())


def _recover(storage: WritableStorage, options: ArchiveOptions) -> list[str]:
    """Put in order what a killed owner left; what was done, a line for each step."""
    from everlog.aeron.archive.repair.recovery import plan_recovery

    # Where only a few frames have checksums they may not be among those that are tried.
    checksum = "auto" if options.checksum == "none" else options.checksum
    plan = plan_recovery(ArchiveFolder(storage), checksum=checksum, is_owner=True)
    if not plan.is_empty:
        CatalogWriter.open(storage, options.catalog).close()  # refuses a damaged one
    done = plan.apply()
    for line in done:
        _log.warning("%s: %s", storage.root, line)
    return done


def _check_ids(control_session_id: int, correlation_id: int) -> None:
    check_int64("control_session_id", control_session_id)
    check_int64("correlation_id", correlation_id)


def _end(recorder: Recorder) -> None:
    try:
        recorder.stop()
    except BaseException:
        recorder.abandon()
        raise
