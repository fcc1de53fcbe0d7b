"""Writes a receiver's ``loss-report.dat``: an entry for each image with losses. Source: LossReport.
:mod:`everlog.aeron.transport.format.loss_report` reads it."""

from __future__ import annotations

from struct import Struct

from everlog.aeron.frames.constants import align
from everlog.aeron.transport.format.layouts import LossEntry
from everlog.aeron.transport.format.loss_report import ENTRY_ALIGNMENT, LENGTH_BYTES
from everlog.kernel.memory import Memory

_LENGTH = Struct("<i")
_COUNT = LossEntry.field("observation_count").offset
_BYTES = LossEntry.field("total_bytes_lost").offset
_LAST = LossEntry.field("last_observation").offset


class LossReportEntry:
    """The entry of one image."""

    __slots__ = ("_memory", "_offset")

    def __init__(self, memory: Memory, offset: int) -> None:
        self._memory = memory
        self._offset = offset

    def record(self, bytes_lost: int, now_ms: int) -> None:
        """Record another loss."""
        self._memory.put_i64_release(self._offset + _LAST, now_ms)
        self._memory.get_and_add_i64(self._offset + _BYTES, bytes_lost)
        self._memory.get_and_add_i64(self._offset + _COUNT, 1)


class LossReport:
    """The only writer of the memory."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._next = 0

    def create_entry(
        self, initial_bytes_lost: int, now_ms: int, session_id: int, stream_id: int, channel: str, source: str
    ) -> LossReportEntry | None:
        """Record an image's first loss; ``None`` if the report is full. Texts are ASCII."""
        memory, at = self._memory, self._next
        channel_bytes, source_bytes = channel.encode("ascii", "replace"), source.encode("ascii", "replace")
        texts = _LENGTH.pack(len(channel_bytes)) + channel_bytes
        texts += bytes(align(len(texts), LENGTH_BYTES) - len(texts)) + _LENGTH.pack(len(source_bytes)) + source_bytes
        if LossEntry.size + len(texts) > memory.length - at:
            return None
        entry = LossEntry.pack(
            total_bytes_lost=initial_bytes_lost,
            first_observation=now_ms,
            last_observation=now_ms,
            session_id=session_id,
            stream_id=stream_id,
        )
        memory.write(at, entry + texts)
        # The count is written last: to readers, a count of 0 marks the report's end.
        memory.put_i64_release(at + _COUNT, 1)
        self._next = align(at + LossEntry.size + len(texts), ENTRY_ALIGNMENT)
        return LossReportEntry(memory, at)
