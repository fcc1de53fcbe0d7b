"""What a soak of a live archive knows: the messages that follow from their positions, and what anybody has seen of each
recording.

A *leg* is one publication's part of a recording. A message says its leg and the position at which it begins; all its
other bytes follow from these two. So every recorded byte can be checked without a copy of what was published.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from everlog.aeron.frames.constants import FRAME_ALIGNMENT, HEADER_LENGTH, align

TERM_LENGTH = 64 << 10
MTU_LENGTH = 1408
MAX_TEXT, MAX_NOISE = 64, 4000
_MAX_FRAGMENT = MTU_LENGTH - HEADER_LENGTH
_NOISE = random.Random(1).randbytes(1 << 16)
_MAX_PADDING = MAX_TEXT + MAX_NOISE + 4 * (HEADER_LENGTH + FRAME_ALIGNMENT)
"""More than any message takes in a term: what is left at its end when the next message does not fit."""
NEW_RECORDING = -1

COUNTER, EVENT, ANSWER, REPLAYED = range(4)
"""Where a position was seen: in the counter of the recorded position, in an event, in an answer or a signal, or as the
end of a message that a replay brought."""
SOURCES = ("counter", "event", "answer", "replay")


def payload_of(leg: int, position: int) -> bytes:
    """Return the message that a leg has at a position: up to three fragments."""
    mixed = (position // FRAME_ALIGNMENT * 2_654_435_761 + leg * 40_503) & 0xFFFF_FFFF
    length = (mixed >> 8) % (MAX_NOISE if mixed >> 28 == 0 else 300)
    at = mixed % (len(_NOISE) - MAX_NOISE)
    return b"%d.%d." % (leg, position) + _NOISE[at : at + length]


def place_of(payload: bytes) -> tuple[int, int] | None:
    """Return the leg and the position of a message; ``None`` if it is damaged."""
    words = payload[:MAX_TEXT].split(b".", 2)[:2]
    if len(words) < 2 or not all(word.isdigit() for word in words):
        return None
    leg, position = int(words[0]), int(words[1])
    return (leg, position) if payload_of(leg, position) == payload else None


def end_of(position: int, length: int) -> int:
    """Return the position after a message of ``length`` bytes at ``position``."""
    whole, rest = divmod(length, _MAX_FRAGMENT)
    if length <= _MAX_FRAGMENT:
        return position + align(length + HEADER_LENGTH, FRAME_ALIGNMENT)
    return position + whole * MTU_LENGTH + (align(rest + HEADER_LENGTH, FRAME_ALIGNMENT) if rest else 0)


@dataclass(slots=True)
class Reading:
    """How far a recording was read, message by message. ``legs`` are the parts of the recording as their publishers
    announced them: recording id and first position of each leg; ``None`` if the reader does not know them."""

    recording_id: int
    position: int
    legs: dict[int, tuple[int, int]] | None = None
    leg: int = -1

    def take(self, payload: bytes, end: int) -> str | None:
        """Check the next message, which ends at ``end``. Returns what is wrong with it."""
        place = place_of(payload)
        if place is None:
            return f"a message that ends at {end} is damaged: {payload[:24]!r}"
        leg, position = place
        if end != end_of(position, len(payload)):
            return f"the message of position {position} ends at {end}, not at {end_of(position, len(payload))}"
        complaint = self._check_place(leg, position)
        self.leg, self.position = leg, end
        return complaint

    def _check_place(self, leg: int, position: int) -> str | None:
        if position < self.position:
            return f"the message of position {position} comes after one that ends at {self.position}"
        if leg < self.leg:
            return f"a message of leg {leg} at {position} comes after leg {self.leg}"
        if leg != self.leg and self.legs is not None:
            recording_id, first = self.legs.get(leg, (NEW_RECORDING, -1))
            begins = position == first or self._is_padding(position - first, position)
            if begins and recording_id in (NEW_RECORDING, self.recording_id):
                return None
            return f"leg {leg} of recording {recording_id} at {first} goes on at {position} here"
        gap = position - self.position
        if gap and not self._is_padding(gap, position):
            return f"nothing from {self.position} to {position}"
        return None

    def _is_padding(self, gap: int, position: int) -> bool:
        """Whether a term ends in the gap. A reader that knows no legs also passes over what a killed publisher left."""
        return 0 < gap < TERM_LENGTH and (self.legs is None or (position % TERM_LENGTH == 0 and gap < _MAX_PADDING))


@dataclass(slots=True)
class Ledger:
    """What was seen of each recording, and the complaints about what is lost or wrong."""

    seen: dict[int, int] = field(default_factory=dict)
    """The highest position that anybody has seen of a recording."""
    stopped: dict[int, int] = field(default_factory=dict)
    """Where a recording has stopped, as long as nobody goes on with it."""
    legs: dict[int, tuple[int, int]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)
    _readings: dict[int, Reading] = field(default_factory=dict)

    def complain(self, text: str) -> None:
        """Note an error."""
        self.complaints.append(text)

    def announce(self, leg: int, recording_id: int, position: int) -> None:
        """Note a publisher's next leg, before it publishes: it continues the recording, or makes a new one."""
        self.legs[leg] = recording_id, position
        self.counts["legs"] += 1
        if recording_id != NEW_RECORDING:
            self._check_end(recording_id, position, "is extended")
            self.stopped.pop(recording_id, None)

    def see(self, recording_id: int, position: int, source: int) -> None:
        """Note a position up to which a recording has been seen to be recorded."""
        self.counts[SOURCES[source]] += 1
        self.seen[recording_id] = max(self.seen.get(recording_id, 0), position)

    def see_stop(self, recording_id: int, position: int) -> None:
        """Note that a recording was told to have stopped at a position."""
        self.counts["stops"] += 1
        self.see(recording_id, position, ANSWER)
        self.stopped[recording_id] = position

    def check_stop(self, recording_id: int, position: int) -> None:
        """Check where a recording stops after a crash."""
        self._check_end(recording_id, position, "stops")
        if recording_id in self.stopped and self.stopped[recording_id] != position:
            self.complain(f"recording {recording_id} had stopped at {self.stopped[recording_id]}, not at {position}")

    def _check_end(self, recording_id: int, position: int, what: str) -> None:
        if position < self.seen.get(recording_id, 0):
            self.complain(f"recording {recording_id} {what} at {position}, before {self.seen[recording_id]}")

    def reading(self, recording_id: int) -> Reading:
        """How far a recording was read and checked."""
        return self._readings.setdefault(recording_id, Reading(recording_id, 0, self.legs))

    def read_again(self) -> None:
        """Have everything read from the beginning."""
        self._readings.clear()
