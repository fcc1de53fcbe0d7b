"""A JLog journal as a target. Other writers may append at the same time."""

from __future__ import annotations

from collections.abc import Callable

from everlog.core.files.durability import Durability
from everlog.core.files.writable import WritableStorage
from everlog.errors import UsageError
from everlog.jlog.format.addresses import Address
from everlog.jlog.format.framing import MAX_MESSAGE_BYTES
from everlog.jlog.format.names import parse_segment_name, segment_name
from everlog.jlog.options import JlogOptions
from everlog.jlog.store import JlogStore
from everlog.jlog.writing.append import microseconds_of
from everlog.jlog.writing.intent_append import IntentWriter
from everlog.pipelines.append.messages import Messages
from everlog.pipelines.append.notes import Place
from everlog.pipelines.append.targets import Target, Uncertain

STREAM = "journal"


class JournalTarget(Target):
    """Appends each chunk under the lock of the segment that its place is in, so that its messages lie one behind the
    other. A message of another writer is taken for one of them only if it is directly behind them, with the same bytes
    and the same microsecond as the one that would follow.

    Raises as :class:`~everlog.jlog.writing.writer.Writer`.
    """

    def __init__(self, storage: WritableStorage, durability: Durability = Durability.SYNCED) -> None:
        self._storage = storage
        self._is_synced = durability is Durability.SYNCED
        self._writer = IntentWriter(storage, durability=durability)

    def check(self, longest: int) -> None:
        """See :class:`Target`."""
        if longest > MAX_MESSAGE_BYTES:
            raise UsageError("payload", found=f"{longest} bytes", expected=f"at most {MAX_MESSAGE_BYTES} in a journal")

    def has(self, place: Place) -> bool:
        """See :class:`Target`. A journal is one."""
        return True

    def count_found(self, place: Place, messages: Messages, time_ns: int) -> int:
        """See :class:`Target`."""
        start = Address.of(place["log"], place["marker"])
        end = min(self._writer.next_address(), Address.of(start.log + 1, 0))
        name = segment_name(start.log)
        if not self._storage.exists(name):
            if all(log < start.log for log in map(parse_segment_name, self._storage.names()) if log is not None):
                return 0  # a power cut took the segment's name
            expected = f"what was appended from {start} on: subscribers are done with it"
            raise Uncertain(name, found="no such segment", expected=expected)
        times = _times(messages, time_ns)
        count = 0
        with JlogStore(self._storage, JlogOptions()) as store:
            for record in store.read(STREAM, start, max(start, end)):
                if count == len(messages) or record.address != str(Address(start + count)):
                    break
                time_us = None if record.timestamp_ns is None else microseconds_of(record.timestamp_ns)
                if record.payload != messages.payloads[count] or time_us != microseconds_of(times[count]):
                    break
                count += 1
        if count and self._is_synced:
            with self._storage.open_writable(name) as segment:
                segment.sync()
            self._storage.sync_folder()
        return count

    def append(self, messages: Messages, time_ns: int, note: Callable[[Place], None]) -> int:
        """See :class:`Target`."""

        def note_address(address: Address) -> None:
            note({"log": address.log, "marker": address.marker})

        return self._writer.append_part(messages.payloads, _times(messages, time_ns), note_address)

    def close(self) -> None:
        """Give the files back."""
        self._writer.close()


def _times(messages: Messages, time_ns: int) -> list[int]:
    return [time_ns if number is None else number for number in messages.numbers]
