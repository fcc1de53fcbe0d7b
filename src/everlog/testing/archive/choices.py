"""What a simulated client asks for: questions, lists and maintenance, with plausible and with wrong values."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from everlog.aeron.archive.client.machine import calls
from everlog.aeron.archive.client.machine.call import Call
from everlog.aeron.archive.client.values import RecordingDescriptor, ReplayParams
from everlog.testing.archive.published import Published

SEGMENT_LENGTH = 64 << 10
CHANNELS = ("aeron:ipc?alias=one", "aeron:ipc?alias=two|term-length=64k")
STREAMS = (1001, 1002, 1003)
_QUESTIONS = (
    calls.start_position,
    calls.stop_position,
    calls.recording_position,
    calls.max_recorded_position,
    calls.list_recording,
)
_SEGMENT_CALLS = (calls.detach_segments, calls.purge_segments)


@dataclass(slots=True)
class Knowledge:
    """What a client has learnt of its archive, which may be out of date."""

    descriptors: dict[int, RecordingDescriptor] = field(default_factory=dict)
    subscriptions: list[int] = field(default_factory=list)
    replays: list[int] = field(default_factory=list)
    last_recording: int = 0

    def see(self, descriptors: list[RecordingDescriptor]) -> None:
        """Note recordings of a list."""
        for each in descriptors:
            self.descriptors[each.recording_id] = each
            self.last_recording = max(self.last_recording, each.recording_id)


class Choices:
    """Chooses the next request of a client."""

    def __init__(self, generator: random.Random, published: Published, knowledge: Knowledge) -> None:
        self._random = generator
        self._published = published
        self._knowledge = knowledge

    def any_id(self) -> int:
        """A recording's id, now and then one that does not exist."""
        return self._random.randrange(self._knowledge.last_recording + 2)

    def known(self, *, is_stopped: bool | None = None) -> RecordingDescriptor | None:
        """One of the recordings that were listed."""
        found = [
            each
            for each in self._knowledge.descriptors.values()
            if is_stopped in (None, each.stop_position is not None)
        ]
        return self._random.choice(found) if found else None

    def call(self, *, with_maintenance: bool = True) -> Call[Any]:
        """A request that needs no stream of the client's."""
        generator = self._random
        roll = generator.random() * (1 if with_maintenance else 0.75)
        if roll < 0.35:
            return generator.choice(_QUESTIONS)(self.any_id())
        if roll < 0.62:
            return self._list()
        if roll < 0.75:
            return self._stop()
        return self._maintenance()

    def _list(self) -> Call[Any]:
        generator = self._random
        count = generator.choice((1, 2, 5, 100))
        way = generator.randrange(5)
        if way < 2:
            return calls.list_recordings(generator.choice((0, 0, self.any_id())), count)
        if way == 2:
            return calls.list_recordings_for_uri(0, count, generator.choice(("ipc", "alias=one", "udp", "")), 1001)
        if way == 3:
            stream_id = generator.choice((None, *STREAMS))
            return calls.list_recording_subscriptions(generator.randrange(3), count, "aeron", stream_id)
        return calls.find_last_matching_recording(0, "aeron", generator.choice(STREAMS), generator.randrange(3))

    def _stop(self) -> Call[Any]:
        generator, knowledge = self._random, self._knowledge
        way = generator.randrange(5)
        if way == 0:
            return calls.try_stop_recording(generator.choice(CHANNELS), generator.choice(STREAMS))
        if way == 1 and knowledge.subscriptions:
            return calls.stop_recording_by_subscription(generator.choice(knowledge.subscriptions))
        if way == 2:
            return calls.try_stop_recording_by_identity(self.any_id())
        if way == 3 and knowledge.replays:
            return calls.stop_replay(generator.choice(knowledge.replays))
        return calls.stop_all_replays(generator.choice((None, self.any_id(), self.any_id())))

    def _maintenance(self) -> Call[Any]:
        generator = self._random
        recording = self.known()
        if recording is None:
            return calls.list_recordings(0, 100)
        recording_id, way = recording.recording_id, generator.randrange(12)
        if way < 3:
            return calls.truncate_recording(recording_id, self.position_in(recording))
        if way < 7:
            base = recording.start_position - recording.start_position % SEGMENT_LENGTH
            segments = base + SEGMENT_LENGTH * generator.randrange(4)
            return generator.choice(_SEGMENT_CALLS)(recording_id, segments)
        if way < 8:
            return calls.purge_recording(recording_id)
        if way < 9:
            return calls.delete_detached_segments(recording_id)
        if way < 10:
            return calls.attach_segments(recording_id)
        if way < 11:
            return calls.migrate_segments(recording_id, self.any_id())
        return calls.update_channel(recording_id, generator.choice(CHANNELS))

    def position_in(self, recording: RecordingDescriptor) -> int:
        """A position of a recording: mostly of a frame, else any, or one outside of it."""
        start = recording.start_position
        stop = recording.stop_position
        if stop is None:
            stream = self._published.last_session(recording.recording_id)
            stop = start if stream is None else stream.end
        frames = self._published.frame_positions(recording.recording_id, start, stop)
        roll = self._random.random()
        if roll < 0.75 and frames:
            return self._random.choice(frames)
        if roll < 0.9:
            return self._random.choice((start, stop))
        return max(start + 32 * self._random.randrange(-2, 4000), 0)

    def replay(self) -> tuple[int, ReplayParams] | None:
        """The recording and the parameters of a replay."""
        recording = self.known()
        if recording is None:
            return None
        generator = self._random
        position = generator.choice((None, self.position_in(recording)))
        way = generator.randrange(3)
        length = generator.choice((1, 5000, 100_000, 1 << 40)) if way == 0 else None
        file_io = generator.choice((None, None, 2048, 1 << 20))
        return recording.recording_id, ReplayParams(
            position=position, length=length, follow=way == 1, file_io_max_length=file_io
        )


def bounded_params(params: ReplayParams, counter_id: int) -> ReplayParams:
    """The same replay with a counter as its limit."""
    return ReplayParams(position=params.position, length=params.length or 1 << 40, limit_counter_id=counter_id)
