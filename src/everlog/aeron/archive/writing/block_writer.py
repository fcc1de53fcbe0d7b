"""The seam between a recorder and what stores its blocks: segment files of an archive, or those of a live service."""

from __future__ import annotations

import mmap
from typing import Any, Protocol

from everlog.aeron.archive.format.segments import SegmentMap


class BlockWriter(Protocol):
    """Stores whole frames at the end of a recording, segment by segment. Positions are the recording's.
    :class:`~everlog.aeron.archive.writing.segment_writer.SegmentWriter` is the one that writes to files."""

    segments: SegmentMap
    base: int

    @property
    def end(self) -> int:
        """The position at which the open segment, or the stream, ends."""

    @property
    def fd(self) -> int:
        """The open segment's descriptor, for compiled loops; -1 if it has none: every block comes by ``write``."""

    def write(self, position: int, data: Any) -> None:
        """Store bytes that do not reach over ``end``. Raises :class:`WriteFailed`; a part may be stored."""

    def window(self, position: int) -> tuple[mmap.mmap, int] | None:
        """A part of the open segment as memory that holds ``position``, and the position of its first byte; ``None`` if
        there is none."""

    def roll(self) -> None:
        """Open the next segment after a full one. Raises :class:`WriteFailed`; then the full one stays open."""

    def cut_back(self, position: int) -> None:
        """Zero everything from ``position`` to the segment's end. Raises :class:`WriteFailed`."""

    def sync(self) -> None:
        """Return when all that was written is on disk. Raises :class:`WriteFailed`."""

    def close(self) -> None:
        """Release the segment; a second call does nothing."""
