"""What was published in a simulation, frame by frame, and which recordings have it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from everlog.aeron.frames.constants import HEADER_LENGTH, align
from everlog.aeron.frames.framing_inputs import framed_length

TERM_LENGTH = 64 << 10
MTU_LENGTH = 1408
MAX_PAYLOAD = MTU_LENGTH - HEADER_LENGTH
_TEXT = bytes(33 + number % 94 for number in range(1 << 14))


def message_of(generator: random.Random) -> bytes:
    """A message of up to some fragments, without a zero byte: recovery takes trailing zeros for a torn write."""
    length = generator.choice((1, 20, 100, 100, 500, 1000, MAX_PAYLOAD, 3000, 6000))
    start = generator.randrange(len(_TEXT) - length)
    return _TEXT[start : start + length]


@dataclass(slots=True)
class PublishedStream:
    """One publication: its frames' payloads by the position at which they begin."""

    session_id: int
    start: int
    frames: dict[int, bytes] = field(default_factory=dict)
    end: int = -1

    def __post_init__(self) -> None:
        self.end = self.start

    def add(self, end: int, payload: bytes) -> None:
        """Note a message that ends at a position."""
        at = end - framed_length(len(payload), MAX_PAYLOAD)
        for offset in range(0, max(len(payload), 1), MAX_PAYLOAD):
            part = payload[offset : offset + MAX_PAYLOAD]
            self.frames[at] = part
            at += align(HEADER_LENGTH + len(part))
        assert at == end
        self.end = end


class Published:
    """All publications by session id, and the parts of recordings that came from them."""

    def __init__(self) -> None:
        self.streams: dict[int, PublishedStream] = {}
        self._legs: dict[int, list[tuple[int, PublishedStream]]] = {}

    def begin(self, session_id: int, start: int) -> PublishedStream:
        """A new publication, whose image the archive may have seen already."""
        return self.streams.setdefault(session_id, PublishedStream(session_id, start))

    def learn(self, recording_id: int, session_id: int, position: int) -> None:
        """Note that from a position on a recording has what was published in a session."""
        self._legs.setdefault(recording_id, []).append((position, self.begin(session_id, position)))

    def migrate(self, source_id: int, target_id: int) -> None:
        """Note that a recording's files may become another one's."""
        self._legs[target_id] = [*self._legs.get(source_id, []), *self._legs.get(target_id, [])]

    def last_session(self, recording_id: int) -> PublishedStream | None:
        """The publication that a recording had last."""
        legs = self._legs.get(recording_id)
        return legs[-1][1] if legs else None

    def complaint(self, recording_id: int, position: int, payload: bytes) -> str | None:
        """What is wrong with a replayed frame."""
        candidates = [
            stream.frames[position]
            for begun, stream in self._legs.get(recording_id, [])
            if begun <= position and position in stream.frames
        ]
        if payload in candidates:
            return None
        what = f"{len(payload)} bytes {payload[:16]!r} at {position} of recording {recording_id}"
        published = [(len(each), each[:16]) for each in candidates]
        return f"replayed are {what}, published were {published}"

    def frame_positions(self, recording_id: int, start: int, stop: int) -> list[int]:
        """Positions of frames of a recording's last publication, from ``start`` up to ``stop``."""
        stream = self.last_session(recording_id)
        return [] if stream is None else [at for at in stream.frames if start <= at < stop]

    def is_skipped(self, recording_id: int, position: int, next_position: int) -> bool:
        """Whether a frame lies between two positions in all publications that have the second one."""
        legs = [each for each in self._legs.get(recording_id, []) if next_position in each[1].frames]
        return all(any(position <= at < next_position for at in stream.frames) for _, stream in legs)


@dataclass(slots=True)
class Reading:
    """How far a replay was read."""

    published: Published
    recording_id: int
    position: int

    def take(self, begin: int, payload: bytes) -> str | None:
        """Check the next frame; returns what is wrong with it."""
        if begin != self.position:
            is_padding = begin % TERM_LENGTH == 0 and 0 < begin - self.position < TERM_LENGTH
            if not is_padding or self.published.is_skipped(self.recording_id, self.position, begin):
                return f"the frame at {begin} of recording {self.recording_id} follows {self.position}"
        self.position = begin + align(HEADER_LENGTH + len(payload))
        return self.published.complaint(self.recording_id, begin, payload)
