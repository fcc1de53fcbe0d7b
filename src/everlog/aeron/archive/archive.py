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

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self, Unpack

from everlog.aeron.archive.folder.archive import ArchiveFolder
from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.format.catalog import CATALOG_NAME
from everlog.aeron.archive.format.catalog_file import load_catalog
from everlog.aeron.archive.format.entry_checksums import kind_of
from everlog.aeron.archive.format.segments import index_segments
from everlog.aeron.archive.maintenance.changes import Change
from everlog.aeron.archive.maintenance.operations import MaintainedFolder, Maintenance
from everlog.aeron.archive.maintenance.recording_state import RecordingState, ReplayState
from everlog.aeron.archive.maintenance.segment_changes import apply, finish_truncations
from everlog.aeron.archive.recording.events import Callback, Events, EventStream
from everlog.aeron.archive.recording.options import ArchiveOptions
from everlog.aeron.archive.recording.replay import Replay
from everlog.aeron.archive.recording.replays import ReplayFolder, Replays
from everlog.aeron.archive.recordings import OpenFolder, Recordings
from everlog.aeron.archive.store import ArchiveStore, Options
from everlog.aeron.archive.writing.catalog_writer import CatalogWriter
from everlog.aeron.archive.writing.heartbeat import Flusher, Heartbeat
from everlog.aeron.archive.writing.ownership import Ownership, ServiceAddress
from everlog.aeron.archive.writing.recorder import Recorder
from everlog.aeron.archive.writing.stream_parameters import StreamKeywords, StreamOptions
from everlog.aeron.family_options import CHECKSUM_KINDS, Checksum
from everlog.core.files.writable import WritableStorage
from everlog.core.forking import OpenObjects
from everlog.core.options import fill
from everlog.errors import NotAStore, StoreExists

_log = logging.getLogger("everlog.aeron.archive")


class Archive:
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
        self._is_closed = False
        self._catalog = CatalogWriter.open(storage, options.catalog)
        self.recovered = recovered + finish_truncations(self._catalog, storage)
        self._flusher = Flusher(self._flush_offered, options.flush_interval_s)
        self._recordings = Recordings(self._open_folder(), self._flusher.flush_soon)
        self._replays = Replays(
            ReplayFolder(
                storage=storage,
                store=ArchiveStore(storage, Options(checksum="auto")),
                checksum=options.checksum or "none",
                recording=self._catalog.recording,
                recorders=self._recordings.recorders,
                recorded_position=self._recordings.recorded_position,
            )
        )
        self.maintenance = self._maintain()
        self._heartbeat = Heartbeat(ownership, self._recordings.renew, self._recordings.fence)
        _archives.add(self)

    def _flush_offered(self) -> None:
        self._recordings.flush_offered()

    def _open_folder(self) -> OpenFolder:
        return OpenFolder(
            storage=self._storage,
            options=self.options,
            catalog=self._catalog,
            events=self._events,
            lock=self._lock,
            check=self._ownership.check,
        )

    def _maintain(self) -> Maintenance:
        folder = MaintainedFolder(
            files=self._storage,
            state_of=self._state_of,
            context_of=self._replays.context,
            check=self._ownership.check,
            lock=self._lock,
        )
        return Maintenance(folder, self._apply, self._report)

    def _state_of(self, recording_id: int) -> RecordingState:
        """Reads the folder's names again: files to be attached may have been added."""
        recorder = self._recordings.recorders.get(recording_id)
        recorded = None if recorder is None else recorder.recorded_position
        replays = [ReplayState(*position) for position in self._replays.positions_of(recording_id)]
        return RecordingState.of(self._catalog.recording(recording_id), self._storage.names(), recorded, replays)

    def _apply(self, change: Change) -> None:
        self._replays.end(change.ends_replays)
        apply(change, self._catalog, self._storage, self.options.catalog_file_sync_level or 0)

    def _report(self, change: Change) -> None:
        for signal in change.signals:
            self._events.publish(signal)

    @classmethod
    def create(
        cls,
        storage: WritableStorage,
        options: ArchiveOptions,
        *,
        exist_ok: bool = False,
        address: ServiceAddress | None = None,
    ) -> Archive:
        """As :func:`~.opening.create`, on a storage of any kind. ``address``: how clients reach the archive's
        service."""
        if storage.exists(CATALOG_NAME):
            if not exist_ok:
                message = f"{storage.root} is already an archive"
                expected = "a folder without a catalog"
                raise StoreExists(storage.root, found="an archive", expected=expected, message=message)
        elif index_segments(storage.names()):
            found, hint = "segment files without a catalog", "everlog repair makes a catalog of them"
            raise StoreExists(storage.root, found=found, expected="a folder without recordings", hint=hint)
        else:
            CatalogWriter.create(storage, options.catalog).close()
        return cls.open(storage, options, address=address)

    @classmethod
    def open(
        cls, storage: WritableStorage, options: ArchiveOptions, *, address: ServiceAddress | None = None
    ) -> Archive:
        """Like :func:`~.opening.open_archive`, but on a storage object. ``address``: how clients reach the archive's
        service."""
        if not storage.exists(CATALOG_NAME):
            hint = "everlog.aeron.archive.create makes a new archive"
            if index_segments(storage.names()):
                hint = "everlog repair makes a catalog of the segment files"
            raise NotAStore(storage.root, found="no catalog", expected=CATALOG_NAME, hint=hint)
        options = _with_checksum(storage, options)
        timeout_ms = round(options.liveness_timeout_s * 1000)
        ownership = Ownership.take(storage, timeout_ms=timeout_ms, address=address)
        try:
            with Heartbeat.during(ownership):
                recovered = _recover(storage, options)
                archive = cls(storage, options, ownership, recovered)
        except BaseException:
            ownership.release()
            raise
        for line in archive.recovered:
            _log.warning("%s: %s", storage.root, line)
        return archive

    @property
    def path(self) -> str:
        """The folder."""
        return self._storage.root

    # For the live service

    @property
    def storage(self) -> WritableStorage:
        """The folder's files."""
        return self._storage

    @property
    def catalog(self) -> CatalogWriter:
        """The catalog. Its users hold ``lock``."""
        return self._catalog

    @property
    def lock(self) -> threading.RLock:
        """Held while the catalog, or the set of recorders or replays, changes."""
        return self._lock

    @property
    def active(self) -> Recordings:
        """Starts and extends recordings, and has the recorders of active ones."""
        return self._recordings

    @property
    def replays(self) -> Replays:
        """The open replays."""
        return self._replays

    def check(self) -> None:
        """Raises :class:`StoreUnavailable` if the folder is no longer this archive's own."""
        self._ownership.check()

    def record_error(self, error: BaseException) -> None:
        """Record an error in the mark file, where ``everlog archive DIR errors`` and Aeron's ArchiveTool show it. For
        one thread; raises nothing of the folder's."""
        self._ownership.record_error(error)

    # Recording

    def start_recording(
        self,
        channel: str,
        stream_id: int,
        *,
        control_session_id: int = 0,
        correlation_id: int = 0,
        **stream: Unpack[StreamKeywords],
    ) -> Recorder:
        """Start a new recording of ``stream_id`` on ``channel``.

        ``stream``: ``session_id`` and ``initial_term_id`` are random by default, ``term_length`` and ``mtu_length``
        (bytes) Aeron's defaults, ``position`` (where the recording starts) is 0; the channel's parameters may give
        them, too. ``source_identity`` is by default that of the channel.

        Raises :class:`UsageError`, :class:`WriteFailed`. A crash leaves an active recording without messages.
        """
        options = fill(StreamOptions, stream)
        return self._recordings.start(
            channel, stream_id, options, control_session_id=control_session_id, correlation_id=correlation_id
        )

    def extend_recording(
        self,
        recording_id: int,
        channel: str | None = None,
        *,
        control_session_id: int = 0,
        correlation_id: int = 0,
        **stream: Unpack[StreamKeywords],
    ) -> Recorder:
        """Continue a stopped recording at its end.

        The parameters are those of :meth:`start_recording`; without a ``session_id`` a new one is chosen. Raises
        :class:`ArchiveError` if one of them differs from the recording's, or if the recording is not stopped. Raises
        :class:`UnknownStream`, :class:`WriteFailed`; then the recording is stopped where it was or, if not even that
        could be written, when the archive is opened again.
        """
        options = fill(StreamOptions, stream)
        return self._recordings.extend(
            recording_id, channel, options, control_session_id=control_session_id, correlation_id=correlation_id
        )

    def recordings(
        self,
        *,
        channel_fragment: str = "",
        stream_id: int | None = None,
        from_recording_id: int = 0,
        count: int | None = None,
    ) -> list[Recording]:
        """Return the valid recordings as they are now, by id: at most ``count``, from ``from_recording_id`` on, of
        ``stream_id`` if given, with ``channel_fragment`` in their original channel."""
        return self._recordings.list_recordings(
            channel_fragment=channel_fragment, stream_id=stream_id, from_recording_id=from_recording_id, count=count
        )

    def recording(self, recording_id: int) -> Recording:
        """Return one recording as it is now. Raises :class:`UnknownStream`."""
        return self._recordings.recording(recording_id)

    def find_last_matching_recording(
        self,
        channel_fragment: str,
        stream_id: int,
        *,
        session_id: int | None = None,
        min_recording_id: int = 0,
    ) -> Recording | None:
        """Return the valid recording with the highest id whose channel, stream and session match, or ``None``."""
        return self._recordings.find_last_matching_recording(
            channel_fragment, stream_id, session_id=session_id, min_recording_id=min_recording_id
        )

    def start_position(self, recording_id: int) -> int:
        """Return the position at which a recording starts."""
        return self._recordings.start_position(recording_id)

    def stop_position(self, recording_id: int) -> int | None:
        """Return the position at which a recording stops; ``None`` while it is active."""
        return self._recordings.stop_position(recording_id)

    def recorded_position(self, recording_id: int) -> int:
        """Return the position after the last acknowledged message; the stop position if the recording is not active."""
        return self._recordings.recorded_position(recording_id)

    # Replay

    def replay(
        self,
        recording_id: int,
        position: int | None = None,
        length: int | None = None,
        *,
        follow: bool = False,
        timeout_s: float | None = None,
    ) -> Replay:
        """Read a recording from ``position`` (a frame's start; by default the first) on, ``length`` bytes at most.

        An active recording is read up to what is recorded by now; with ``follow`` until it stops, or nothing was
        recorded for ``timeout_s``. Raises :class:`UnknownStream`, :class:`UsageError` for a position outside of it.
        """
        with self._lock:
            self.check()
            return self._replays.replay(recording_id, position, length, follow=follow, timeout_s=timeout_s)

    # Maintenance

    def truncate_recording(self, recording_id: int, position: int) -> int:
        """Cut off everything after ``position``, the end of a frame of a stopped recording, and end its replays. At the
        start position, only its catalog entry is left. Return the count of deleted files."""
        return self.maintenance.truncate_recording(recording_id, position)

    def purge_recording(self, recording_id: int) -> int:
        """Delete a stopped recording that is not being replayed; its catalog entry stays, marked as deleted. Return the
        count of deleted files."""
        return self.maintenance.purge_recording(recording_id)

    def purge_position(
        self, recording_id: int, before_position: int | None = None, keep_bytes: int | None = None
    ) -> int:
        """Return the highest start position that ``purge_segments`` accepts now and that keeps everything from
        ``before_position`` on and the last ``keep_bytes``. If nothing can go, this is the current start position."""
        return self.maintenance.purge_position(recording_id, before_position, keep_bytes)

    def purge_segments(self, recording_id: int, new_start_position: int) -> int:
        """Move a recording's start to the beginning of a later segment, and delete the segments before it. Return the
        count of deleted files."""
        return self.maintenance.purge_segments(recording_id, new_start_position)

    def detach_segments(self, recording_id: int, new_start_position: int) -> None:
        """Move a recording's start to the beginning of a later segment; the files before it stay in the folder."""
        self.maintenance.detach_segments(recording_id, new_start_position)

    def delete_detached_segments(self, recording_id: int) -> int:
        """Delete the segment files before a recording's start. Return their count."""
        return self.maintenance.delete_detached_segments(recording_id)

    def attach_segments(self, recording_id: int) -> int:
        """Attach the segment files that directly precede a recording's start, after checking them frame by frame.
        Return their count."""
        return self.maintenance.attach_segments(recording_id)

    def migrate_segments(self, source_id: int, target_id: int) -> int:
        """Move all segments of a stopped recording to another recording of the same stream that begins where it stops,
        or stops where it begins. Return the count of moved files."""
        return self.maintenance.migrate_segments(source_id, target_id)

    def segments_before(self, recording_id: int, position: int) -> list[tuple[int, int, str]]:
        """Return start, end and name of each segment file of the recording that ends at or before ``position``."""
        return self.maintenance.segments_before(recording_id, position)

    # Events

    def listen(self, callback: Callback) -> Callable[[], None]:
        """Call ``callback`` with each event (:mod:`everlog.aeron.archive.recording.events`), in the thread in which it
        happens. Return a function that stops the calls."""
        self.check()
        self._events.listen(callback)
        self._recordings.report_progress()
        return lambda: self._events.forget(callback)

    def events(self) -> EventStream:
        """The events from now on, to iterate over in a thread."""
        self.check()
        stream = self._events.stream()
        self._recordings.report_progress()
        return stream

    # The end

    def close(self) -> None:
        """Stop all recordings and give the folder back; a second call does nothing. Raises the first error of a
        recording that could not be stopped, after the rest is done."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            recorders, replays = list(self._recordings.recorders.values()), self._replays.open_replays()
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

    def abandon(self) -> None:
        """Close all files without writing stop positions, as the death of the process does; opening the archive
        recovers its recordings."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        for recorder in list(self._recordings.recorders.values()):
            recorder.abandon()
        self._events.close()
        self._flusher.stop()
        self._heartbeat.stop()
        self._catalog.close()
        self._ownership.release()

    def leave(self) -> None:
        """Close the archive in a forked child without touching its files, which the parent goes on using."""
        self._lock = threading.RLock()  # another thread may have had it
        self._is_closed = True
        self._ownership.leave()
        for recorder in self._recordings.recorders.values():
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
    """Repair what a killed owner left. Return a line for each step that was done."""
    from everlog.aeron.archive.repair.recovery import plan_recovery

    # Where only a few frames have checksums they may not be among those that are tried.
    checksum = "auto" if options.checksum in (None, "none") else options.checksum
    plan = plan_recovery(ArchiveFolder(storage), checksum=checksum, is_owner=True)
    if not plan.is_empty:
        CatalogWriter.open(storage, options.catalog).close()  # refuses a damaged one
    return plan.apply()


def _with_checksum(storage: WritableStorage, options: ArchiveOptions) -> ArchiveOptions:
    """The options with the checksum of the catalog's entries if they leave it to them."""
    if options.checksum is not None:
        return options
    catalog, _ = load_catalog(storage)
    kinds = [] if catalog is None else [kind_of(entry) for entry in catalog.entries]
    known: list[Checksum] = [kind for kind in CHECKSUM_KINDS if kind != "none" and kind in kinds]
    return replace(options, checksum=known[0] if known else "none", durability=None)


def _end(recorder: Recorder) -> None:
    try:
        recorder.stop()
    except BaseException:
        recorder.abandon()
        raise
