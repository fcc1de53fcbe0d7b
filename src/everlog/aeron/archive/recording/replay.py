"""Reads a recording back from a position on, also while it grows. Source: ReplaySession."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from everlog.aeron.archive.folder.scan import ScanContext
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.archive.writing.recorder import Recorder
from everlog.core.batch import Batch
from everlog.core.record import Record
from everlog.core.report import Fault
from everlog.core.splits import Split
from everlog.core.store import FaultSink, Level, LevelName, raise_fault, records_of


@dataclass(frozen=True, slots=True)
class ReplaySource:
    """The replayed recording: its scan ``context``, and its ``recorder`` while it is active, else ``None``."""

    store: ArchiveStore
    context: ScanContext
    recorder: Recorder | None


class Replay:
    """Yields the messages of one recording, each once, in order: iterate over the replay for records, or over
    :meth:`batches`. Use it in one thread.

    ``position`` is the position after the last message or batch that was yielded. While a replay is open, the segments
    that it needs are not purged. It closes itself at its end.
    """

    def __init__(
        self,
        source: ReplaySource,
        position: int,
        end: int,
        *,
        follow: bool,
        timeout_s: float | None,
        on_close: Callable[[Replay], None],
    ) -> None:
        self.recording_id = source.context.segments.recording_id
        self.position = position
        self.end = end
        self._source = source
        self._follow = follow
        self._timeout_s = timeout_s
        self._on_close = on_close
        self._is_closed = False

    @property
    def segment_base(self) -> int:
        """The position at which the segment that is read next begins."""
        return self._source.context.segments.base(self.position)

    def batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        level: Level | LevelName = Level.RECORD,
        on_fault: FaultSink = raise_fault,
    ) -> Iterator[Batch]:
        """Yield batches of columns (all for ``None``), as :meth:`Store.scan` does. A message that is still incomplete
        is yielded when it is complete, or, if the recording stops before, reported to ``on_fault``."""
        names = None if columns is None else list(columns)
        try:
            while not self._is_closed:
                limit = self._limit()
                is_last = self._is_last(limit)
                if limit > self.position:
                    yield from self._scan(limit, names, level, on_fault, is_last)
                if is_last or not self._wait(limit):
                    return
        finally:
            self.close()

    def __iter__(self) -> Iterator[Record]:
        """Yield records one by one. Raises :class:`CorruptData` at damage."""
        names = ["address", *(column.name for column in self._source.store.family_columns())]
        for record in records_of(str(self.recording_id), names, self.batches(names)):
            self.position = max(self.position, record.fields["end_position"])
            yield record

    def _scan(
        self, limit: int, names: list[str] | None, level: Level | LevelName, on_fault: FaultSink, is_last: bool
    ) -> Iterator[Batch]:
        unfinished: list[int] = []

        def report(fault: Fault) -> None:
            at_end = fault.code == "incomplete-message" and fault.found == "a message without its last fragment"
            if at_end and not is_last and fault.address is not None:
                unfinished.append(int(fault.address))
            else:
                on_fault(fault)

        known = self._source.context
        # Everything up to ``limit`` was acknowledged, so a last frame that ends in zeros is whole.
        geometry = replace(known.geometry, limit=limit)
        context = replace(known, geometry=geometry, stop_position=limit, last_base=None, frame_start=self.position)
        split = Split(str(self.recording_id), self.position, limit, 0, context)
        yield from self._source.store.scan_split(split, columns=names, level=level, on_fault=report)
        self.position = unfinished[0] if unfinished else limit

    def _limit(self) -> int:
        recorder = self._source.recorder
        recorded = self._source.context.limit if recorder is None else recorder.recorded_position
        return min(recorded, self.end)

    def _is_last(self, limit: int) -> bool:
        recorder = self._source.recorder
        if recorder is None or not self._follow or limit >= self.end:
            return True
        return recorder.is_stopped and limit >= recorder.recorded_position

    def _wait(self, limit: int) -> bool:
        """Wait for data after ``limit``; ``False`` after the timeout or a close."""
        recorder = self._source.recorder
        assert recorder is not None
        return recorder.wait_past(limit, lambda: self._is_closed, self._timeout_s) and not self._is_closed

    def close(self) -> None:
        """Stop yielding and release the recording; a second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self._on_close(self)
        if self._source.recorder is not None:
            self._source.recorder.wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
