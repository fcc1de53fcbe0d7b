"""A media driver's folder as a store: each log buffer is a stream, its records are messages, their addresses positions.

Nothing in it is durable: terms are used again and again. A stream has what its terms hold at the moment.
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
from everlog.aeron.transport.folder.log_scan import LogContext, LogScan
from everlog.aeron.transport.format.cnc_file import CNC_NAME, CncFile
from everlog.aeron.transport.format.counters import PUBLISHER_POSITION, RECEIVER_HWM, RECEIVER_POSITION, Counter
from everlog.aeron.transport.format.log_buffers import (
    FOLDERS,
    LogBuffer,
    Term,
    list_names,
    parse_name,
    read_log_buffer,
    terms_of,
)
from everlog.aeron.transport.format.loss_report import LOSS_REPORT_NAME, load_losses
from everlog.core.batch import Batch
from everlog.core.columns import Column
from everlog.core.files.storage import ReadableFile, Storage
from everlog.core.options import fill
from everlog.core.report import Fault, Progress, Report
from everlog.core.splits import Split
from everlog.core.store import DEFAULT_SPLIT_BYTES, Level, ScanRequest, StreamInfo
from everlog.errors import CorruptData, EverlogError, StoreUnavailable, UnknownStream
from everlog.kernel import columns as kernel

if TYPE_CHECKING:
    from everlog.sbe import Schema

NS_PER_MS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to read a driver's folder. ``timestamp_from``: where a message's time is, ``reserved_value:ns``, ``:us`` or
    ``:ms``; frames have none of their own; or ``sbe:FIELD`` with an optional unit (see :mod:`everlog.sbe.times`), then
    ``sbe_schema`` is the schema or its file."""

    timestamp_from: str | None = None
    sbe_schema: str | Schema | None = None

    def __post_init__(self) -> None:
        check_source(self.timestamp_from, self.sbe_schema)


class DriverStore(PositionalStore):
    """A folder with ``cnc.dat``, ``loss-report.dat``, ``publications`` and ``images``, or what is left of them, whether
    its driver runs or not."""

    family = "aeron-driver"
    options_class = Options

    def __init__(self, storage: Storage, options: Options) -> None:
        super().__init__(storage)
        self.options = options
        self._times = RecordTimes(options.timestamp_from, options.sbe_schema)
        self._mark_ids: dict[int, int] = {}
        self._newest_registration = -1

    @classmethod
    def open(cls, storage: Storage, options: Mapping[str, Any]) -> Self:
        """Reads nothing yet: whatever is asked for is read when it is asked for."""
        return cls(storage, fill(Options, options))

    @classmethod
    def detect(cls, storage: Storage) -> bool:
        """Whether there is a ``cnc.dat``, a loss report or a log buffer."""
        names = set(storage.names())
        if names & {CNC_NAME, LOSS_REPORT_NAME}:
            return True
        return any(parse_name(n) is not None for f in FOLDERS if f in names for n in _names_in(storage, f))

    # cnc.dat

    def open_cnc(self) -> CncFile:
        """``cnc.dat``, open. Raises as :meth:`CncFile.open` does."""
        return CncFile.open(self.storage)

    def counters(self) -> list[Counter]:
        """The allocated counters; none where ``cnc.dat`` can't be read."""
        try:
            with self.open_cnc() as cnc:
                return cnc.counters()
        except EverlogError:
            return []

    def is_live(self) -> bool:
        """Whether a driver said within the timeout that it runs here."""
        try:
            with self.open_cnc() as cnc:
                return cnc.is_live(time.time_ns() // NS_PER_MS)
        except EverlogError:
            return False

    # Streams

    def open_log(self, stream: str) -> tuple[ReadableFile, LogBuffer]:
        """A log buffer's file, open, and its metadata. Raises :class:`UnknownStream`, :class:`CorruptData`."""
        folder, _, rest = stream.partition("/")
        registration_id = parse_name(f"{rest}.logbuffer")
        known = folder in FOLDERS and registration_id is not None
        if not known or not self.storage.exists(f"{stream}.logbuffer"):
            raise UnknownStream(self.path, found=f"no log buffer {stream!r}", expected="one that ls lists")
        file = self.storage.open(f"{stream}.logbuffer")
        try:
            return file, read_log_buffer(file, stream)
        except BaseException:
            file.close()
            raise

    def context(self, file: ReadableFile, log: LogBuffer, marks: Mapping[int, int] | None = None) -> LogContext:
        """The log and its terms as they are now. ``marks`` are the receivers' high-water marks by registration id."""
        mark = None
        if log.is_image:
            mark = self._mark(log.registration_id) if marks is None else marks.get(log.registration_id)
        return LogContext(log, tuple(terms_of(log, file, mark)))

    def _mark(self, registration_id: int) -> int | None:
        """An image's high-water mark, now. One counter is read where it is known which, so that reading all images does
        not read all counters for each."""
        try:
            with self.open_cnc() as cnc:
                counter_id = self._mark_ids.get(registration_id)
                if counter_id is None and registration_id <= self._newest_registration:
                    return None  # registration ids only rise, and an image has its counters from the beginning
                counter = None if counter_id is None else cnc.counter(counter_id)
                mark = high_water_marks([] if counter is None else [counter]).get(registration_id)
                if mark is not None:
                    return mark
                counters = cnc.counters()
        except EverlogError:
            return None
        self._mark_ids = {c.registration_id: c.counter_id for c in counters if c.type_id == RECEIVER_HWM}
        self._newest_registration = max((c.registration_id for c in counters), default=-1)
        return high_water_marks(counters).get(registration_id)

    def streams(self, *, include_all: bool = False) -> list[StreamInfo]:
        """The log buffers. Those whose metadata can't be read are left out; ``verify`` tells of them."""
        counters = self.counters()
        marks, channels = high_water_marks(counters), channels_of(counters)
        found = []
        for name in list_names(self.storage):
            try:
                file, log = self.open_log(name)
            except (CorruptData, StoreUnavailable, UnknownStream):
                continue
            with file:
                found.append(self._info(file, log, marks, channels))
        return found

    def _info(
        self, file: ReadableFile, log: LogBuffer, marks: Mapping[int, int], channels: Mapping[int, str]
    ) -> StreamInfo:
        context = self.context(file, log, marks)
        end = self._end(file, context, marks)
        start = min(context.start, end)
        count = 0 if end == start else None
        details = details_of(log, channels.get(log.registration_id))
        return StreamInfo(log.name, self.family, None, None, str(end), count, end - start, details)

    def _end(self, file: ReadableFile, context: LogContext, marks: Mapping[int, int]) -> int:
        """A publication's tail, an image's high-water mark; without counters an image's last frame."""
        log = context.log
        mark = marks.get(log.registration_id, -1)
        if not log.is_image:
            return context.end
        if context.terms and context.terms[-1].start <= mark <= context.end:
            return mark
        for term in reversed(context.terms):
            end = _frames_end(file, LogContext(log, (term,)))
            if end is not None:
                return end
        return context.start

    # Scans

    def family_columns(self, level: Level = Level.RECORD) -> tuple[Column, ...]:
        """As those of archives; the same at both levels."""
        return COLUMNS

    def walk(self, stream: str, request: ScanRequest) -> Iterator[Batch]:
        """Messages (or data frames) in position order."""
        file, log = self.open_log(stream)
        with file:
            given = request.split.context if request.split is not None else None
            context = given if isinstance(given, LogContext) else self.context(file, log)
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
        """A term each: messages never cross terms. Small ones are put together."""
        file, log = self.open_log(stream)
        with file:
            context = self.context(file, log)
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
        """``cnc.dat``, every counter, distinct errors, losses, and each log buffer's metadata."""
        state: dict[str, Any] = {"family": self.family, "live": False, "cnc": None, "counters": [], "errors": []}
        try:
            with self.open_cnc() as cnc:
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
        for name in list_names(self.storage):
            try:
                file, log = self.open_log(name)
            except EverlogError as error:
                yield {"stream": name, "problem": str(error)}
                continue
            file.close()
            yield log.to_dict()

    def verify(self, progress: Progress | None = None) -> Report:
        """Check ``cnc.dat``, the loss report, each log buffer and every frame, and whether they agree."""
        from everlog.aeron.transport.verify.folder import verify

        return verify(self, progress)


def high_water_marks(counters: list[Counter]) -> dict[int, int]:
    """Registration id of an image to the highest position that its receiver has seen."""
    return {c.registration_id: c.value for c in counters if c.type_id == RECEIVER_HWM}


def channels_of(counters: list[Counter]) -> dict[int, str]:
    """Registration id of a publication or an image to its channel, cut off where its counter's key had no more room."""
    found: dict[int, str] = {}
    for counter in counters:
        if counter.type_id in (PUBLISHER_POSITION, RECEIVER_POSITION) and "channel" in counter.key_fields:
            found[counter.registration_id] = counter.key_fields["channel"]
    return found


def details_of(log: LogBuffer, channel: str | None) -> dict[str, Any]:
    """What ``ls`` tells of a log buffer."""
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


def _frames_end(file: ReadableFile, context: LogContext) -> int | None:
    sink = kernel.RowSink([], 1 << 62, 1 << 62)
    scan = LogScan(context, file, sink, _pass, False)
    for _ in scan.run():
        sink.reset()
    return scan.end_position


def _names_in(storage: Storage, folder: str) -> list[str]:
    try:
        return storage.names(folder)
    except EverlogError:
        return []


def _pass(fault: Fault) -> None:
    """What is wrong is told by those who read."""
