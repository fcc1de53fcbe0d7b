"""What must hold in a live archive after each step, and over its crashes.

* The position that the counter of a recording shows is written and, if the archive syncs, kept by a power cut.
* A session has one listing, a recording one deletion at a time.
* What waits for a client is bounded; a client that takes nothing is cut off in time.
* No file is deleted that a replay reads, or is going to read.
* A recording that has ended gets its stop position, if need be when the disk works again.
* A crash loses nothing that was shown as recorded, and no stop position.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.folder.recordings import Recording, segment_map
from everlog.aeron.archive.format.segments import parse_segment_name
from everlog.aeron.archive.service.conductor import ArchiveConductor
from everlog.aeron.archive.service.control.session import PAUSE_AT_BYTES
from everlog.aeron.archive.service.control.sessions import FRAGMENT_LIMIT
from everlog.aeron.archive.service.queries.listing import RecordingAnswer, RecordingListing
from everlog.aeron.archive.service.recording.listing import SubscriptionListing
from everlog.aeron.archive.service.recording.session import RecordingSession
from everlog.aeron.archive.service.replay.beginning import Beginning
from everlog.aeron.archive.service.upkeep.deletion import Deletion
from everlog.errors import EverlogError
from everlog.testing.archive.published import TERM_LENGTH, Published
from everlog.testing.archive.script import Script
from everlog.testing.storage.crashing import CrashingStorage
from everlog.time_units import NS_PER_MS

MAX_WAITING_BYTES = PAUSE_AT_BYTES + FRAGMENT_LIMIT * (8 << 10) + (16 << 10)
"""Answers up to the limit, then those to what is read in one cycle, and signals."""


@dataclass(frozen=True, slots=True)
class Known:
    """A recording before a crash. ``position`` is the end, or what was shown of an active one."""

    start: int
    position: int
    is_active: bool


class Watch:
    """Checks one archive, which is opened again and again. ``is_synced``: whether positions are promised to be on
    disk."""

    def __init__(self, script: Script, published: Published, *, is_synced: bool) -> None:
        self.counts: Counter[str] = Counter()
        self._script = script
        self._published = published
        self._is_synced = is_synced
        self._sessions: dict[int, RecordingSession] = {}
        self._positions: dict[int, int] = {}
        self._stops: set[tuple[int, int]] = set()
        self._next_id = 0
        self._extended: set[int] = set()
        """The recordings that were active when the archive crashed."""
        self._before: dict[int, Known] | None = None
        self._heads: dict[int, tuple[bytes, int, bool]] = {}
        """What is sent next to each session that does not take it, since when, and whether that is too long."""

    def open(self, archive: Archive, conductor: ArchiveConductor, storage: CrashingStorage) -> None:
        """Watch an archive that was opened; after a crash, check what is left."""
        self._archive, self._conductor, self._storage = archive, conductor, storage
        storage.before_remove = self._before_remove
        self._extended = set(self._sessions)
        self._sessions.clear()
        self._positions.clear()
        self._heads.clear()
        for recording_id in archive.catalog.recording_ids():
            self._see_stop(recording_id)

    def on_error(self, error: BaseException) -> None:
        """Take what the service logs: an error that is not the library's is a bug."""
        self.counts["errors"] += 1
        if not isinstance(error, EverlogError):
            self._script.note(f"logged: {type(error).__name__}: {error}")
            raise error

    # Each step

    def check(self) -> None:
        """Check the archive after a step."""
        self._check_recordings()
        self._check_running()
        self._check_queues()

    def _check_recordings(self) -> None:
        active = self._conductor._recordings._active._sessions
        self.learn()
        for recording_id in self._archive.catalog.ids_from(self._next_id, 100):  # some begin and end in one step
            self._see_stop(recording_id)
            self._next_id = recording_id + 1
        for recording_id, (session, _) in active.items():
            position = session.position.value
            if position != self._positions[recording_id]:
                self._advance(recording_id, self._positions[recording_id], position)

        for recording_id in [each for each in self._sessions if each not in active]:
            del self._sessions[recording_id]
            self._see_stop(recording_id)

    def check_stopped(self) -> None:
        """When the disk has worked for a while: a recording without a stop position is being recorded."""
        catalog, active = self._archive.catalog, self._conductor._recordings._active._sessions
        for recording_id in catalog.recording_ids():
            recording = catalog.recording(recording_id)
            if recording.state == "VALID" and recording.stop_position is None and recording_id not in active:
                self._script.fail(f"recording {recording_id} has no stop position, and nobody records it")

    def _see_stop(self, recording_id: int) -> None:
        self.note_stop(recording_id, self._archive.catalog.recording(recording_id).stop_position)

    def note_stop(self, recording_id: int, position: int | None) -> None:
        """Note a position at which a recording stops, or may be made to stop."""
        if position is not None:
            self._stops.add((recording_id, position))

    def has_stopped(self, recording_id: int, position: int) -> bool:
        """Whether a recording has ever stopped at a position."""
        now = self._archive.catalog.recording(recording_id).stop_position
        return position == now or (recording_id, position) in self._stops

    def _begin(self, recording_id: int, session: RecordingSession) -> None:
        image = session.image
        self._sessions[recording_id] = session
        self._published.learn(recording_id, image.session_id, image.join_position)
        self._positions[recording_id] = image.join_position
        self.counts["recordings"] += 1
        self._script.note(f"recording {recording_id} of session {image.session_id} from {image.join_position}")

    def _advance(self, recording_id: int, last: int, position: int) -> None:
        self._script.require(position >= last, f"recording {recording_id} goes back from {last} to {position}")
        self._positions[recording_id] = position
        segments = segment_map(self._archive.catalog.recording(recording_id))
        base = segments.base(last)
        while base < position:
            name, end = segments.name(base), min(position - base, segments.segment_length)
            kept = self._storage.kept_length(name) if self._is_synced else self._storage.size(name)
            if kept < end:
                self._script.fail(f"recording {recording_id} shows {position}, but {name} keeps {kept} bytes only")
            base += segments.segment_length
        self.counts["positions"] += 1

    def learn(self) -> None:
        """Note which recordings have begun or are extended."""
        for recording_id, (session, _) in self._conductor._recordings._active._sessions.items():
            if self._sessions.get(recording_id) is not session:
                self._begin(recording_id, session)

    def _check_running(self) -> None:
        lists: set[int] = set()
        deletions: set[int] = set()
        for each in self._conductor._running:
            if isinstance(each, RecordingListing | RecordingAnswer | SubscriptionListing) and not each.is_done:
                session_id = each._requester.session_id
                self._script.require(session_id not in lists, f"session {session_id} has two listings")
                lists.add(session_id)
            elif isinstance(each, Deletion):
                self._script.require(
                    each.recording_id not in deletions, f"recording {each.recording_id} has two deletions"
                )
                deletions.add(each.recording_id)

    def _check_queues(self) -> None:
        now_ns, heads = self._script.now_ns, self._heads
        self._heads = {}
        for session, _ in self._conductor._sessions._sessions.values():
            if not session._queue:
                continue
            waiting = session._queued_bytes
            if waiting > MAX_WAITING_BYTES:
                self._script.fail(f"{waiting} bytes wait for the client of {session}")
            if waiting >= PAUSE_AT_BYTES:
                self.counts["held up clients"] += 1
            head, since_ns, was_late = heads.get(session.session_id, (None, now_ns, False))
            if head is not session._queue[0]:
                since_ns, was_late = now_ns, False
            is_late = now_ns - since_ns > session._settings.connect_timeout_ns
            if is_late and was_late:
                waited_ms = (now_ns - since_ns) // NS_PER_MS
                self._script.fail(f"{session} goes on, although nothing could be sent to it for {waited_ms} ms")
            self._heads[session.session_id] = session._queue[0], since_ns, is_late

    def _before_remove(self, name: str) -> None:
        parsed = parse_segment_name(name)
        if parsed is None:
            return
        recording_id, base = parsed
        self.counts["deleted files"] += 1
        for replay in self._conductor._replays._running():
            stop = replay.range.stop if isinstance(replay, Beginning) else replay._stop
            if replay.recording_id != recording_id or replay.position >= stop:
                continue  # it has nothing left to read
            if replay.segment_base <= base < stop:
                self._script.fail(f"{name} is deleted under a replay in {replay.segment_base}, {replay.state_name}")

    # Crashes

    def remember(self) -> None:
        """Remember the recordings before a step in which the archive may crash."""
        catalog = self._archive.catalog
        found = {}
        for recording_id in catalog.recording_ids():
            recording = catalog.recording(recording_id)
            if recording.state == "VALID":
                found[recording_id] = self._known(recording)
        self._before = found

    def _known(self, recording: Recording) -> Known:
        start, stop = recording.start_position, recording.stop_position
        # Of one that is to be stopped again, the catalog may say more in memory than on disk.
        if stop is not None and not self._conductor._recordings.is_active(recording.recording_id):
            return Known(start, stop, False)
        return Known(start, self._positions.get(recording.recording_id, start), True)

    def check_recovered(self, maintained: set[int]) -> None:
        """Check the recordings of an archive that was opened after a crash, except the ``maintained`` ones."""
        before, self._before = self._before or {}, None
        catalog = self._archive.catalog
        for recording_id, known in before.items():
            if recording_id in maintained:
                continue
            recording = catalog.recording(recording_id) if recording_id in catalog else None
            if recording is None or recording.state != "VALID" or recording.stop_position is None:
                self._script.fail(f"recording {recording_id}, {known}, is {recording} after the crash")
            stop = recording.stop_position
            may_grow = known.is_active or recording_id in self._extended
            is_same = stop >= known.position if may_grow else stop == known.position
            if not is_same or recording.start_position != known.start:
                now = f"{recording.start_position} to {stop}"
                self._script.fail(f"recording {recording_id}, {known}, is {now} after the crash")
            self._check_content(recording, known)
        self.counts["crashes"] += 1

    def _check_content(self, recording: Recording, known: Known) -> None:
        stream = self._published.last_session(recording.recording_id)
        if stream is None:
            return
        stop, end = recording.stop_position or 0, max(known.position, stream.end)
        is_padded = stop == -(-end // TERM_LENGTH) * TERM_LENGTH  # by an offer for which the term had no room
        if stop > end and not is_padded:
            self._script.fail(f"recording {recording.recording_id} ends behind what was published, {stream.end}")
