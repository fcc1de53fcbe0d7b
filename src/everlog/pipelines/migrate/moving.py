"""Moves one stream's records into one target, each once and in order; :mod:`everlog.pipelines.migrate.notes` explains
what makes a second run exact."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from everlog.core.batch import Batch
from everlog.core.counting import counted
from everlog.core.family.migrating import Assigned, Found, Row, Target
from everlog.core.report import Fault, Severity
from everlog.core.store import PAYLOAD, Store
from everlog.errors import CorruptData, WriteFailed
from everlog.pipelines.migrate.notes import Note, Pending, Progressed
from everlog.pipelines.migrate.source import IDENTITY, check_source
from everlog.pipelines.scan.options import SKIP, TIMESTAMP_FROM, OnFault
from everlog.pipelines.scan.store_errors import damage, warn_of_sealed
from everlog.stores import open_store

BATCH_ROWS = 4096
BATCH_BYTES = 4 << 20
"""Most that a note has pending and one sync makes durable."""
_COMMON = ["address", "timestamp_ns", "length", "crc32", PAYLOAD.name]
_MORE = ("subject", "reply", "session_id", "stream_id", "reserved_value")
"""Further columns of a family's records that no target keeps; they go to the manifest."""
END_POSITION = "end_position"
"""The column of families whose next record is not at the next address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMove:
    """What a task needs to move one stream."""

    assigned: Assigned
    options: Mapping[str, Any]
    on_fault: OnFault
    byte_count: int
    fail_on_data_loss: bool = True


class Mover:
    """Moves one stream. ``moved`` and ``faults`` count what this run did; ``losses`` describe what was removed before
    it could be moved."""

    def __init__(self, move: StreamMove, target: Target, note: Note, progress: Callable[[int], None]) -> None:
        self._move = move
        self._target = target
        self._note = note
        self._progress = progress
        self.moved = self.moved_bytes = self.faults = self.found_again = 0
        self.losses: list[str] = []

    def run(self) -> None:
        """Settle what a killed run left, and move the rest."""
        self._settle()
        assigned = self._move.assigned
        with open_store(assigned.store, family=assigned.family, **self._move.options) as store:
            self.losses += look_at_source(store, self._move, self._note.state)
            for batch in self._batches(store):
                self._put(batch)
        self._note.publish()

    def _settle(self) -> None:
        note, state = self._note, self._note.state
        end = self._target.end()
        if state.end is not None and end < state.end:
            raise CorruptData(
                self._target.place,
                found=f"an end at {end}",
                expected=f"{state.end} or more, according to {note.path}",
                hint="the target has lost records; restore it, or move into a new one with new notes",
            )
        if not state.pending:
            state.end = end  # what others have appended since is not ours
            return
        found = list(itertools.islice(self._target.after(state.end or 0), len(state.pending) + 1))
        matching = [a for a, b in zip(found, state.pending, strict=False) if (a.length, a.crc32) == (b.length, b.crc32)]
        if len(matching) < len(found):
            raise self._foreign_records(len(found) - len(matching))
        self.found_again = len(found)
        self._accept(state.pending[: len(found)], found)

    def _foreign_records(self, count: int) -> CorruptData:
        return CorruptData(
            self._target.place,
            found=f"{counted(count, 'record')} that this migration did not write",
            expected=f"only the pending records of {self._note.path}",
            hint="no one else may write to the target during a migration",
        )

    def _accept(self, moved: Sequence[Pending], found: Sequence[Found]) -> None:
        end = found[-1].end if found else self._note.state.end or 0
        identity = _identity(moved[-1], self._move) if moved else None
        self._note.accept(moved, [record.address for record in found], end, identity)

    def _batches(self, store: Store) -> Iterator[Batch]:
        """From the last moved record on (it is skipped by the caller) up to an open end, to keep the order."""
        last = self._note.state.last
        open_ends = store.open_ends(self._move.assigned.stream)
        available = {column.name for column in store.schema()}
        columns = _COMMON + [name for name in (*_MORE, END_POSITION) if name in available]
        yield from store.scan(
            self._move.assigned.stream,
            columns=columns,
            start=last,
            end=min(open_ends, default=None),
            max_rows=BATCH_ROWS,
            max_bytes=BATCH_BYTES,
            on_fault=self._on_fault,
        )

    def _on_fault(self, fault: Fault) -> None:
        warn_of_sealed(self._move.assigned.store, fault)
        if fault.severity is Severity.FAULT:
            self.faults += 1
            if self._move.on_fault != SKIP:
                raise damage(self._move.assigned.store, fault, "moves the rest")

    def _put(self, batch: Batch) -> None:
        data = {name: batch.to_list(name) for name in batch.data}
        start = 1 if batch.row_count and data["address"][0] == self._note.state.last else 0
        numbers = range(start, batch.row_count)
        if not numbers:
            return
        reserved = data.get("reserved_value", [None] * batch.row_count)
        rows = [Row(data[PAYLOAD.name][n], data["timestamp_ns"][n], reserved[n]) for n in numbers]
        for row, address in zip(rows, data["address"][start:], strict=True):  # before any of them is appended
            self._target.check(
                row, f"{self._move.assigned.store}: stream {self._move.assigned.stream}: record {address}"
            )
        state = self._note.state
        state.pending = [_pending(data, n) for n in numbers]
        self._note.publish()
        self._target.append(rows)
        found = list(self._target.after(state.end or 0))
        same = [(f.length, f.crc32) for f in found] == [(p.length, p.crc32) for p in state.pending]
        if len(found) < len(rows):
            raise WriteFailed(
                self._target.place,
                found=f"only {counted(len(found), 'record')} after the append",
                expected=f"the {len(rows)} appended ones",
            )
        if not same:
            raise self._foreign_records(len(found) - len(rows) or len(found))
        self._accept(state.pending, found)
        self.moved += len(rows)
        self.moved_bytes += sum(len(row.payload) for row in rows)
        self._progress(self.moved_bytes)


def look_at_source(store: Store, move: StreamMove, state: Progressed) -> list[str]:
    """Losses that the move is allowed to skip: records removed before they were moved. Raises :class:`DataLost` if it
    is not allowed to, :class:`CorruptData` if the stream is not the one whose records were moved."""
    loss = check_source(store, move.assigned, state)
    if loss is None:
        return []
    if move.fail_on_data_loss:
        raise loss
    return [str(loss)]


def _pending(data: Mapping[str, list[Any]], n: int) -> Pending:
    length, crc32 = data["length"][n], data["crc32"][n]
    fields = {"timestamp_ns": data["timestamp_ns"][n], "length": length, "crc32": f"{crc32:08x}"}
    fields |= {name: data[name][n] for name in _MORE if name in data}
    following = data[END_POSITION][n] if END_POSITION in data else None
    return Pending(data["address"][n], length, crc32, fields, following)


def _identity(record: Pending, move: StreamMove) -> dict[str, Any]:
    """The fields that identify a record. If an option defines a record's time, it is left out, since another run may
    define it differently."""
    unsure = {"timestamp_ns"} if move.options.get(TIMESTAMP_FROM) else set()
    return {
        name: record.manifest_line[name] for name in IDENTITY if name in record.manifest_line and name not in unsure
    }
