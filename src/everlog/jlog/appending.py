"""Batches appended to a JLog journal, each message once. Other writers may append at the same time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from everlog.core.appending.family import PAYLOAD, TIMESTAMP, TIMESTAMP_NS, Appending, WriteOption
from everlog.core.appending.messages import Messages
from everlog.core.appending.target import Place, Target, Uncertain
from everlog.core.appending.target_name import TargetName
from everlog.core.files.durability import Durability
from everlog.core.files.writable import LocalWritableStorage, WritableStorage
from everlog.core.option_kinds import BYTES, choice
from everlog.errors import UsageError
from everlog.jlog.format.addresses import Address
from everlog.jlog.format.framing import MAX_MESSAGE_BYTES
from everlog.jlog.format.names import parse_segment_name, segment_name
from everlog.jlog.options import JlogOptions
from everlog.jlog.store import JlogStore
from everlog.jlog.writing.append import microseconds_of
from everlog.jlog.writing.creation import create as create_journal
from everlog.jlog.writing.intent_append import IntentWriter

STREAM = "journal"


class JournalTarget(Target):
    """Appends each chunk under the lock of its segment, so that its messages are consecutive. A message of another
    writer counts as one of them only if it follows them directly, with the bytes and the microsecond of the next one.

    Raises as :class:`~everlog.jlog.writing.writer.Writer`.
    """

    def __init__(self, storage: WritableStorage, durability: Durability = Durability.SYNCED) -> None:
        self._storage = storage
        self._is_synced = durability is Durability.SYNCED
        self._writer = IntentWriter(storage, durability=durability)

    def check(self, longest: int) -> None:
        if longest > MAX_MESSAGE_BYTES:
            raise UsageError("payload", found=f"{longest} bytes", expected=f"at most {MAX_MESSAGE_BYTES} in a journal")

    def has(self, place: Place) -> bool:
        """See :class:`Target`. A journal is one target."""
        return True

    def count_found(self, place: Place, messages: Messages, time_ns: int) -> int:
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

        def note_address(address: Address) -> None:
            note({"log": address.log, "marker": address.marker})

        return self._writer.append_part(messages.payloads, _times(messages, time_ns), note_address)

    def close(self) -> None:
        """Close the files."""
        self._writer.close()


def _times(messages: Messages, time_ns: int) -> list[int]:
    return [time_ns if number is None else number for number in messages.numbers]


class JournalAppending(Appending):
    """``segment_bytes`` and ``compression`` are those of a new journal."""

    columns = (PAYLOAD, TIMESTAMP, TIMESTAMP_NS)
    options = (
        WriteOption("segmentLength", "segment_bytes", BYTES),
        WriteOption("compression", "compression", choice("none", "lz4", "null")),
    )

    def target_name(self, store: str, given: Mapping[str, Any]) -> TargetName:
        """A journal is one target."""
        return TargetName(store, store)

    def open_target(self, path: str, given: Mapping[str, Any], *, create: bool, durability: Durability) -> Target:
        if create:
            create_journal(path, exist_ok=True, **given)
        return JournalTarget(LocalWritableStorage(path), durability)
