"""Appends messages after announcing their address, so that a caller that is killed can find out which of them were
written. The appended messages are always a prefix of the batch, contiguous from the announced address.

The segment is locked from the announcement until the last message is written; other writers, including the C library,
wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from everlog.core.files.durability import Durability
from everlog.core.files.writable import WritableFile, locked
from everlog.errors import EverlogError, UsageError
from everlog.jlog.format.addresses import Address
from everlog.jlog.options import DurabilityName
from everlog.jlog.writing.append import ENDED, Appender, microseconds_of
from everlog.jlog.writing.append_errors import raise_append_error
from everlog.jlog.writing.opening import JournalPath
from everlog.jlog.writing.writer import Writer


class IntentWriter(Writer):
    """An unbuffered writer for one thread. Raises as :class:`Writer`."""

    def __init__(self, journal: JournalPath, *, durability: Durability | DurabilityName | None = None) -> None:
        if durability == Durability.BUFFERED:
            raise UsageError(
                "durability",
                found="'buffered'",
                expected="'written' or 'synced'",
                hint="messages in a buffer have no addresses",
            )
        super().__init__(journal, durability=durability)

    def next_address(self) -> Address:
        """The address that the next message would get. A torn message at the end is removed first, as by an append."""
        with self._lock:
            current = self._segment.at_end()
            return Address.of(current.log, current.marker)

    def append_part(
        self, payloads: Sequence[Any], timestamps_ns: Sequence[int], note: Callable[[Address], None]
    ) -> int:
        """Append as many of the messages as fit into the segment, at least one, and return their number.

        ``note`` is called with the address that the first message will get, and again if nothing could be written there
        because the journal moved to another segment. If it raises, nothing is written. Raises as ``append_many``; the
        messages that were appended follow the last noted address.

        A crash before ``note`` returns leaves none of the messages. A later crash leaves a whole prefix and possibly a
        torn message, which the next writer removes. With ``synced`` durability the messages are on disk on return.
        """
        listed, times = list(payloads), [microseconds_of(time_ns) for time_ns in timestamps_ns]
        lengths: list[int] | None = None
        if self._encode is not None:
            listed, lengths = self._encoded(listed)
        count = 0
        try:
            with self._lock:
                while listed and not count:
                    status, count = self._append_noted(listed, times, lengths, note)
                    if status > ENDED:
                        self._segment.prepare_retry(status)
                    else:
                        self._segment.settle_if_synced()
                    if status == ENDED:
                        self._segment.end()
        except (OSError, OverflowError, TypeError, BufferError, EverlogError) as error:
            raise_append_error(error, self._storage.root, listed, count)
        return count

    def _append_noted(
        self, listed: list[Any], times: list[int], lengths: list[int] | None, note: Callable[[Address], None]
    ) -> tuple[int, int]:
        current, segment = self._segment.at_end(), self._segment.file
        assert segment is not None
        with locked(segment):
            # The appender locks the same open file again, and releases the lock after the last message.
            note(self._address_under_lock(current, segment))
            status, count, _ = current.append_many(listed, 0, times, lengths)
            return status, count

    def _address_under_lock(self, current: Appender, segment: WritableFile) -> Address:
        """The address after the messages that others have written since. These are few, so it goes header by header. If
        one is torn, nothing will be written."""
        at, marker, size = current.end, current.marker, segment.size()
        while at < size:
            header = self._framing.parse(segment.read_at(at, self._framing.header_bytes), 0, at)
            if header is None or header.end > size:
                break
            at, marker = header.end, marker + 1
        return Address.of(current.log, marker)
