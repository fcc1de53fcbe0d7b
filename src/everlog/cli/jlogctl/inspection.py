"""Checks a segment as the original's ``jlogctl data -d`` does: from header to header, up to the first invalid one. The
lines go to stderr, in the original's words."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from everlog.cli.jlogctl.arguments import Printer
from everlog.cli.text import say
from everlog.jlog.format.framing import Framing, Provider
from everlog.jlog.format.layouts import JlogCompressedHeader, JlogHeader
from everlog.jlog.format.names import segment_name
from everlog.jlog.reading.journal import Journal
from everlog.jlog.reading.recovery import SegmentData
from everlog.jlog.reading.segments import Segment

NS, US = 1_000_000_000, 1_000


@dataclass(frozen=True, slots=True)
class Step:
    """A message's header: its number and place, and what is ``wrong`` with it, if anything."""

    number: int
    offset: int
    header_bytes: int
    stored: int
    length: int
    seconds: int
    microseconds: int
    wrong: str = ""

    def heading(self) -> str:
        """``Message 1 at [0] of (16+64)``."""
        return f"Message {self.number} at [{self.offset}] of ({self.header_bytes}+{self.stored})"

    def text(self) -> str:
        """The lines for an intact message; the time is local."""
        return f"{self.heading()}\n\ttime: {time.strftime('%c', time.localtime(self.seconds))}\n\tmlen: {self.length}"

    def to_dict(self, log: int) -> dict[str, object]:
        """The header as an object for JSON."""
        return {
            "segment": segment_name(log),
            "message": self.number,
            "offset": self.offset,
            "header_bytes": self.header_bytes,
            "stored_bytes": self.stored,
            "length": self.length,
            "timestamp_ns": self.seconds * NS + self.microseconds * US,
        }


def inspect_segment(journal: Journal, segment: Segment, out: Printer, *, verbose: bool) -> bool:
    """Follow a segment's headers, and with ``verbose`` print each. Returns whether all are valid. Raises
    :class:`StoreUnavailable` if the segment can't be read."""
    with journal.storage.open(segment_name(segment.log)) as file:
        size = file.size()
        framing = journal.preferred or journal.framing_of(file, 0, size)
        for step in follow_headers(SegmentData(file, 0, size), framing):
            if step.wrong:
                say(step.wrong)
                return False
            if verbose and out.as_json:
                out("", step.to_dict(segment.log))
            elif verbose:
                say(step.text())
    return True


def follow_headers(data: SegmentData, framing: Framing) -> Iterator[Step]:
    """A segment's headers, in order. An invalid header is the last one."""
    layout = JlogHeader if framing.provider is Provider.PLAIN else JlogCompressedHeader
    at, number = 0, 0
    while at + layout.size <= data.end:
        raw = data.read(at, layout.size)
        if len(raw) < layout.size:
            break  # the file was truncated during the check
        number += 1
        magic, seconds, microseconds, length, *rest = layout.struct.unpack(raw)
        stored = rest[0] if rest else length
        step = Step(number, at, layout.size, stored, length, seconds, microseconds)
        if magic != framing.magic:
            yield _wrong(step, f"Message {number} at [{at}] has invalid reserved value {magic}")
            return
        following = at + layout.size + stored
        if following > data.end:
            yield _wrong(step, f"{step.heading()} OFF THE END!")
            return
        yield step
        at = following
    if at < data.end:
        yield _wrong(Step(number + 1, at, 0, 0, 0, 0, 0), f"{data.end - at} bytes of junk at the end")


def _wrong(step: Step, text: str) -> Step:
    return Step(
        step.number, step.offset, step.header_bytes, step.stored, step.length, step.seconds, step.microseconds, text
    )
