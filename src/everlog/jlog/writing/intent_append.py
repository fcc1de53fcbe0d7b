"""Appending messages whose place is told before they are written, so that who is killed meanwhile can tell afterwards
which of them are there: those that are, are the first ones, one behind the other from that place on.

Other writers, the C library's too, wait meanwhile: the segment is locked from the moment its end is known until the
last of the messages is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from everlog.core.files.durability import Durability
from everlog.core.files.writable import WritableFile, locked
from everlog.errors import EverlogError, UsageError
from everlog.jlog.format.addresses import Address
from everlog.jlog.writing.append import ENDED, Appender, check_length, microseconds_of
from everlog.jlog.writing.opening import JournalPath
from everlog.jlog.writing.writer import Writer


class IntentWriter(Writer):
    """A writer without buffer, for one thread. Raises as :class:`Writer`."""

    def __init__(self, journal: JournalPath, *, durability: str | None = None) -> None:
        if durability == Durability.BUFFERED:
            raise UsageError("durability", found="buffered", expected="written or synced: a buffer has no addresses")
        super().__init__(journal, durability=durability)

    def next_address(self) -> Address:
        """Where a message would go now. What is torn there is cut away first, as by an append."""
        with self._lock:
            current = self._at_end()
            return Address.of(current.log, current.marker)

    def append_part(
        self, payloads: Sequence[Any], timestamps_ns: Sequence[int], note: Callable[[Address], None]
    ) -> int:
        """Append the first of the messages, as many as the segment takes; their count, at least 1 of at least 1.

        ``note`` is called with the address that the first one will have, and again when nothing could be written there
        (the journal went on to another segment). What it raises is raised, and nothing was written. Raises as
        ``append_many``; the messages at the front that are there are those behind the last address noted.

        A crash before ``note`` has returned leaves none of them, one behind it the first ones, whole, and a torn one
        that the next writer cuts away. With ``synced`` durability they are on disk on return.
        """
        listed, times = list(payloads), [microseconds_of(time_ns) for time_ns in timestamps_ns]
        lengths: list[int] | None = None
        if self._encode is not None:
            lengths = [memoryview(payload).nbytes for payload in listed]
            check_length(max(lengths, default=0))
            listed = [self._encode(payload) for payload in listed]
        count = 0
        try:
            with self._lock:
                while listed and not count:
                    status, count = self._append_noted(listed, times, lengths, note)
                    if status > ENDED:
                        self._resolve(status)
                    elif self._is_synced:
                        self._group.settle(self._sync_segment)
                    if status == ENDED:
                        self._end_segment()
        except (OSError, OverflowError, EverlogError) as error:
            self._refuse(error, count)
        return count

    def _append_noted(
        self, listed: list[Any], times: list[int], lengths: list[int] | None, note: Callable[[Address], None]
    ) -> tuple[int, int]:
        current, segment = self._at_end(), self._segment
        assert segment is not None
        with locked(segment):
            # Its own lock and this one are the same open file's: it gives it back, behind the last message.
            note(self._address_under_lock(current, segment))
            status, count, _ = current.append_many(listed, 0, times, lengths)
            return status, count

    def _address_under_lock(self, current: Appender, segment: WritableFile) -> Address:
        """Behind what others wrote since: little, so header by header. Where that is torn, nothing will be written."""
        at, marker, size = current.end, current.marker, segment.size()
        while at < size:
            header = self._framing.parse(segment.read_at(at, self._framing.header_bytes), 0, at)
            if header is None or header.end > size:
                break
            at, marker = header.end, marker + 1
        return Address.of(current.log, marker)
