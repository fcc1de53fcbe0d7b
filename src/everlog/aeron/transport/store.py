"""A media driver's folder as a store: each log buffer is a stream, its records are messages, their addresses positions.

Nothing in it is durable: terms are reused. A stream has only the messages that its terms hold at the moment.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from everlog.aeron.frames.columns import COLUMNS, make_sink, take_batch
from everlog.aeron.frames.position import FOREVER
from everlog.aeron.frames.record_times import RecordTimes, check_source
from everlog.aeron.positional_store import PositionalStore
from everlog.aeron.transport.folder.driver import DriverFolder, channels_of, high_water_marks
from everlog.aeron.transport.folder.log_scan import LogContext, LogScan
from everlog.aeron.transport.format.log_buffers import (
    LogBuffer,
    Term,
)
from everlog.aeron.transport.format.loss_report import load_losses
from everlog.aeron.transport.verify.folder import Verification
from everlog.core.batch import Batch
from everlog.core.columns import Column
from everlog.core.files.storage import ReadableFile, Storage
from everlog.core.options import fill
from everlog.core.report import Progress, Report
from everlog.core.splits import Split
from everlog.core.store import DEFAULT_SPLIT_BYTES, Level, ScanRequest, StreamInfo
from everlog.errors import CorruptData, EverlogError, StoreUnavailable, UnknownStream
from everlog.time_units import NS_PER_MS

if TYPE_CHECKING:
    from everlog.sbe import Schema


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to read a driver's folder. Frames carry no time, so ``timestamp_from`` names the place of a message's time:
    ``reserved_value:ns``, ``:us`` or ``:ms``, or ``sbe:FIELD`` with an optional unit (see :mod:`everlog.sbe.times`);
    the latter needs ``sbe_schema``, the schema or its file."""

    timestamp_from: str | None = None
    sbe_schema: str | Schema | None = None

    def __post_init__(self) -> None:
        check_source(self.timestamp_from, self.sbe_schema)


class DriverStore(PositionalStore):
    """A folder with ``cnc.dat``, ``loss-report.dat``, ``publications`` and ``images``, or some of them. Its driver may
    be running or not."""

    family = "aeron-driver"
    options_class = Options

    def __init__(self, storage: Storage, options: Options) -> None:
        super().__init__(storage)
        self.options = options
        self._times = RecordTimes(options.timestamp_from, options.sbe_schema)
        self.folder = DriverFolder(storage)

    @classmethod
    def open(cls, storage: Storage, options: Mapping[str, Any]) -> Self:
        """Open the folder. Nothing is read yet; each call reads what it needs."""
        return cls(storage, fill(Options, options))

    @classmethod
    def detect(cls, storage: Storage) -> bool:
        """Whether the folder has a ``cnc.dat``, a loss report or a log buffer."""
        return DriverFolder(storage).is_drivers

    # Streams

    def streams(self, *, include_all: bool = False) -> list[StreamInfo]:
        """List the log buffers, without those whose metadata can't be read; ``verify`` reports these."""
        counters = self.folder.counters()
        marks, channels = high_water_marks(counters), channels_of(counters)
        found = []
        for name in self.folder.log_names():
            try:
                file, log = self.folder.open_log(name)
            except (CorruptData, StoreUnavailable, UnknownStream):
                continue
            with file:
                found.append(self._info(file, log, marks, channels))
        return found

    def _info(
        self, file: ReadableFile, log: LogBuffer, marks: Mapping[int, int], channels: Mapping[int, str]
    ) -> StreamInfo:
        context = self.folder.context(file, log, marks)
        end = self.folder.end(file, context, marks)
        start = min(context.start, end)
        count = 0 if end == start else None
        details = details_of(log, channels.get(log.registration_id))
        return StreamInfo(log.name, self.family, None, None, str(end), count, end - start, details)

    # Scans

    def family_columns(self, level: Level = Level.RECORD) -> tuple[Column, ...]:
        """The same columns as those of archives, at both levels."""
        return COLUMNS

    def walk(self, stream: str, request: ScanRequest) -> Iterator[Batch]:
        """Read messages, or data frames, in the order of their positions."""
        file, log = self.folder.open_log(stream)
        with file:
            given = request.split.context if request.split is not None else None
            context = given if isinstance(given, LogContext) else self.folder.context(file, log)
            times, needed = self._times, self._times.needed(request.columns)
            sink = make_sink(
                needed,
                checked=False,
                timestamps=times.factor > 0,
                max_rows=request.max_rows,
                max_bytes=request.max_bytes,
            )
            first = 0 if request.start is None else max(request.start, 0)
            stop = FOREVER if request.end is None else request.end
            scan = LogScan(context, file, sink, request.on_fault, request.level is Level.RECORD, first, stop)
            for _ in scan.run():
                batch = take_batch(sink, needed, times.factor)
                if batch is not None:
                    yield times.fill(batch, request.columns)

    def splits(
        self, stream: str, *, start: int | None = None, end: int | None = None, split_bytes: int = DEFAULT_SPLIT_BYTES
    ) -> list[Split]:
        """Split by term, as messages never cross terms. Small terms are grouped."""
        file, log = self.folder.open_log(stream)
        with file:
            context = self.folder.context(file, log)
        groups: list[list[Term]] = []
        for term in context.terms:
            if (start is not None and term.end <= start) or (end is not None and term.start >= end):
                continue
            if groups and sum(t.length for t in groups[-1]) + term.length <= split_bytes:
                groups[-1].append(term)
            else:
                groups.append([term])
        found = []
        for group in groups:
            part = LogContext(log, tuple(group))
            found.append(Split(stream, start, end, sum(term.length for term in group), part))
        return found

    # State

    def info(self) -> dict[str, Any]:
        """Report ``cnc.dat``, all counters, distinct errors, losses, and each log buffer's metadata."""
        state: dict[str, Any] = {"family": self.family, "live": False, "cnc": None, "counters": [], "errors": []}
        try:
            with self.folder.open_cnc() as cnc:
                state["live"] = cnc.is_live(time.time_ns() // NS_PER_MS)
                state["cnc"] = cnc.to_dict()
                state["counters"] = [counter.to_dict() for counter in cnc.counters()]
                state["errors"] = [error.to_dict() for error in cnc.errors()]
        except EverlogError as error:
            state["cnc_problem"] = str(error)
        try:
            losses = load_losses(self.storage)
        except EverlogError as error:
            losses = None
            state["loss_report_problem"] = str(error)
        state["losses"] = [] if losses is None else [loss.to_dict() for loss in losses[0]]
        state["log_buffers"] = list(self._log_states())
        return state

    def _log_states(self) -> Iterator[dict[str, Any]]:
        for name in self.folder.log_names():
            try:
                file, log = self.folder.open_log(name)
            except EverlogError as error:
                yield {"stream": name, "problem": str(error)}
                continue
            file.close()
            yield log.to_dict()

    def verify(self, progress: Progress | None = None) -> Report:
        """Check ``cnc.dat``, the loss report, each log buffer and each frame, and whether they are consistent."""
        report = Report(self.path, self.family)
        Verification(self.folder, report, progress).run()
        return report


def details_of(log: LogBuffer, channel: str | None) -> dict[str, Any]:
    """The details of a log buffer that ``ls`` shows."""
    header, metadata = log.default_header, log.metadata
    return {
        "registration_id": log.registration_id,
        "session_id": header.session_id,
        "stream_id": header.stream_id,
        "channel": channel,
        "initial_term_id": metadata.initial_term_id,
        "term_length": log.term_length,
        "mtu_length": metadata.mtu_length,
        "is_connected": metadata.is_connected == 1,
    }
