"""Records moved into journals, one for each stream."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from everlog.core.family.migrating import Assigned, Found, Migrating, Row, Target, TargetOptions
from everlog.core.files.storage import LocalStorage
from everlog.core.files.writable import make_folder
from everlog.errors import UsageError
from everlog.jlog.format.metastore import DEFAULT_UNIT_LIMIT
from everlog.jlog.options import JlogOptions
from everlog.jlog.reading.journal_end import journal_end
from everlog.jlog.store import JlogStore
from everlog.jlog.writing.creation import MAX_SEGMENT_BYTES, create
from everlog.jlog.writing.intent_append import IntentWriter

TIME_END_NS = (1 << 32) * 10**9
"""A journal has 32 bits for the seconds."""
_COLUMNS = ["address", "length", "crc32"]


class JournalTarget:
    """A journal, which is made if need be. A crash in ``append`` leaves the first messages of it."""

    def __init__(self, folder: str, options: TargetOptions) -> None:
        make_folder(os.path.dirname(folder) or ".")
        segment_bytes = DEFAULT_UNIT_LIMIT if options.segment_bytes is None else options.segment_bytes
        create(folder, segment_bytes=segment_bytes, compression=options.compression, exist_ok=True)
        self.place = folder
        self._writer = IntentWriter(folder, durability="synced")

    def check(self, row: Row, where: str) -> None:
        """Raise :class:`UsageError` for a record that a journal can't hold; ``where`` names the record."""
        time_ns = row.timestamp_ns
        if time_ns is not None and not 0 <= time_ns < TIME_END_NS:
            raise UsageError(
                where,
                found=f"a time of {time_ns} ns",
                expected=f"0 to {TIME_END_NS - 1} (1970 to 2106)",
                message=f"{where} has a time of {time_ns} ns; a journal holds times from 1970 to 2106",
                hint="an archive holds any; without timestampFrom, the time is when the record was moved",
            )

    def end(self) -> int:
        """The address after the last message."""
        with self._store() as store:
            return journal_end(store)

    def append(self, rows: Sequence[Row]) -> None:
        """Append records; they are on disk on return. A crash leaves the first of them."""
        now = time.time_ns()
        times = [now if row.timestamp_ns is None else row.timestamp_ns for row in rows]
        self._writer.append_many([row.payload for row in rows], times)

    def after(self, end: int) -> Iterator[Found]:
        """Yield the records from an address on."""
        self._writer.next_address()  # cuts off the torn message of a killed run: a reader would report damage
        with self._store() as store:
            stream = store.streams()[0].name
            for batch in store.scan(stream, columns=_COLUMNS, start=end):
                for address, length, crc32 in zip(*map(batch.to_list, _COLUMNS), strict=True):
                    yield Found(address, length, crc32, store.parse_address(address) + 1)

    def _store(self) -> JlogStore:
        return JlogStore(LocalStorage(self.place), JlogOptions())

    def close(self) -> None:
        """Close the writer."""
        self._writer.close()


class JournalMigrating(Migrating):
    """Moves streams into journals, each into one of its own in the folder."""

    is_shared = False
    options = frozenset({"segment_bytes", "compression"})

    def check(self, options: TargetOptions) -> None:
        segment = options.segment_bytes
        if segment is not None and not 1 <= segment <= MAX_SEGMENT_BYTES:
            raise UsageError("segment bytes", found=str(segment), expected=f"1 to {MAX_SEGMENT_BYTES}")

    def place(self, folder: str, assigned: Assigned) -> str:
        return os.path.join(folder, assigned.name)

    @contextmanager
    def opened(self, folder: str, options: TargetOptions) -> Iterator[Callable[[Assigned], Target]]:
        yield partial(self._open, folder, options)

    def _open(self, folder: str, options: TargetOptions, assigned: Assigned) -> Target:
        return JournalTarget(self.place(folder, assigned), options)
