"""The state of an archive as one who has listed the recordings once and reads the events sees it."""

from __future__ import annotations

from dataclasses import dataclass

from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.client.values import RecordingDescriptor
from everlog.aeron.archive.protocol.recording_events import (
    RecordingProgressMessage,
    RecordingStartedMessage,
    RecordingStoppedMessage,
)
from everlog.aeron.archive.service.conductor import ArchiveConductor
from everlog.aeron.messages import Message
from everlog.testing.archive.script import Script


@dataclass(slots=True)
class SeenRecording:
    """A recording: the position that was seen last, and whether it is active."""

    position: int
    is_active: bool


class EventsModel:
    """What follows from a listing and the events. It is complete after the listing."""

    def __init__(self, script: Script) -> None:
        self.is_complete = False
        self.comparisons = 0
        self._script = script
        self._recordings: dict[int, SeenRecording] = {}
        self._awaited: int | None = None
        """The list that was asked for last."""

    def reset(self) -> None:
        """Forget everything: the archive is another process now."""
        self.is_complete = False
        self._awaited = None
        self._recordings.clear()

    def begin_list(self, correlation_id: int) -> None:
        """The recordings are about to be listed, after all maintenance: what has stopped may have been changed. A list
        that was asked for before says nothing any more."""
        self._awaited = correlation_id
        self._recordings = {number: seen for number, seen in self._recordings.items() if seen.is_active}

    def take(self, event: Message) -> None:
        """Take the next event."""
        if isinstance(event, RecordingStartedMessage):
            self._recordings[event.recording_id] = SeenRecording(event.start_position, True)
        elif isinstance(event, RecordingProgressMessage):
            seen = self._recordings.get(event.recording_id)
            if seen is None and not self.is_complete:
                seen = self._recordings[event.recording_id] = SeenRecording(event.position, True)
            if seen is None or not seen.is_active:
                self._script.fail(f"{event} of a recording that is not active: {seen}")
            self._script.require(event.position >= seen.position, f"{event} goes back from {seen.position}")
            seen.position = event.position
        elif isinstance(event, RecordingStoppedMessage):
            self._recordings[event.recording_id] = SeenRecording(event.stop_position, False)

    def list(self, correlation_id: int, listed: list[RecordingDescriptor]) -> None:
        """Take the listing. What events have said since it was asked for is later than what it says."""
        if correlation_id != self._awaited:
            return
        self._recordings = {each.recording_id: _seen(each) for each in listed} | self._recordings
        self.is_complete = True

    def compare(self, archive: Archive, conductor: ArchiveConductor) -> None:
        """Compare with the archive, when all events are read."""
        if not self.is_complete:
            return
        found = {}
        for recording_id in archive.catalog.recording_ids():
            recording = archive.catalog.recording(recording_id)
            if recording.state == "VALID":
                active = conductor._recordings.recorded_position(recording_id)
                stop = recording.stop_position
                found[recording_id] = SeenRecording(stop or 0, False) if active is None else SeenRecording(active, True)
        self.comparisons += 1
        if found != self._recordings:
            self._script.fail(f"the archive has {found}, but events and listing say {self._recordings}")


def _seen(listed: RecordingDescriptor) -> SeenRecording:
    if listed.stop_position is None:
        return SeenRecording(listed.start_position, True)
    return SeenRecording(listed.stop_position, False)
