"""A subscriber's position in a growing journal: reads to the end, into the next segment, and past damage.

| after the last message | action |
| --- | --- |
| nothing, or an incomplete message, in the current segment | wait: it may become a message |
| nothing, and the segment is finished | move to the next segment |
| bytes that are not a message, with messages after them or in a finished segment | report a fault, skip them |
| a partial message that contains possible messages, while a writer has the segment's lock | wait: it may be completed |
| the segment is missing, and a later one exists | report a fault, move to that one |

A segment is finished if a later one has messages or the metastore names a later one, and it has also reached the limit
or nobody has it open for writing. This is checked before the file size is read, so that earlier appends are seen.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

from everlog.core.batch import Batch
from everlog.core.columns import Column, ColumnData
from everlog.core.files.storage import ReadableFile
from everlog.core.files.writable import WritableStorage
from everlog.core.report import Fault
from everlog.errors import StoreUnavailable, UnsupportedVersion, WriteFailed
from everlog.jlog.format.addresses import Address
from everlog.jlog.format.compression import NEEDED, Decode, decompress, lz4_decoder
from everlog.jlog.format.faults import fault
from everlog.jlog.format.framing import Framing, Provider
from everlog.jlog.format.index import read_index
from everlog.jlog.format.names import MAX_LOG, parse_segment_name, segment_name
from everlog.jlog.reading.growth import MAX_WRITTEN
from everlog.jlog.reading.journal import COLUMNS, SOURCES, empty_closed_segment, missing_segments
from everlog.jlog.reading.recovery import SegmentData, detect_framing
from everlog.jlog.reading.segments import SegmentReader
from everlog.jlog.writing.metastore_file import MetastoreFile
from everlog.kernel.columns import RowSink

RECHECK_BYTES = 64 << 10
"""Up to this many bytes that were not a message are examined again even if the file has not grown."""
QUIET_S = 60.0
"""A segment below the limit, followed by another, counts as finished after this long without an append, even if a
process has it open: the C library's readers open segments the way its writers do."""
_PLACE = frozenset(("log", "marker"))
_ENDED = object()


@dataclass(frozen=True, slots=True)
class Request:
    """The contents of a batch. Its data always includes ``log`` and ``marker``."""

    columns: tuple[Column, ...]
    max_rows: int
    max_bytes: int
    _sinks: dict[bool, RowSink] = field(default_factory=dict)

    def sink(self, *, is_lz4: bool) -> RowSink:
        """The sink for segments that are, or are not, LZ4 compressed."""
        if is_lz4 not in self._sinks:
            names = _PLACE.union(column.name for column in self.columns)
            if is_lz4:
                names = names.union(NEEDED)
            columns = [(c.name, c.type.code, SOURCES[c.name]) for c in COLUMNS if c.name in names]
            self._sinks[is_lz4] = RowSink(columns, self.max_rows, self.max_bytes)
        return self._sinks[is_lz4]

    def forget_rows(self) -> None:
        """Drop rows that were not taken."""
        for sink in self._sinks.values():
            sink.reset()

    @property
    def has_payload(self) -> bool:
        """Whether payloads are needed."""
        return any(column.name == "payload" for column in self.columns)


class Cursor:
    """Reads on from an address. ``on_cross(done, log)`` is called when reading moves from the segment of ``done``, its
    last message given, to segment ``log``. ``on_past_end(address)`` is called if the start address is above the last
    message of the current segment, ``address``; reading continues after that.

    After an exception reading resumes at the same place, so a fault whose ``on_fault`` raised is reported again.
    """

    def __init__(
        self,
        storage: WritableStorage,
        metastore: MetastoreFile,
        on_fault: Callable[[Fault], None],
        on_cross: Callable[[Address, int], None],
        on_past_end: Callable[[Address], None],
    ) -> None:
        self.storage = storage
        self.metastore = metastore
        self.on_fault = on_fault
        self.on_cross = on_cross
        self.on_past_end = on_past_end
        self.given = Address(0)
        self._file: ReadableFile | None = None
        self._decode: Decode | None = None
        self._request: Request | None = None
        self._batch_start: tuple[int, int, int] = (-1, 0, 1)
        self._rows: Iterator[None] | None = None
        self._reader: SegmentReader | None = None
        self._reader_is_lz4 = False
        self._decoded: Iterator[Batch] | None = None
        self._checked: tuple[int, bool] | None = None
        # Segments as last listed; no new ones appear below `_settled_below`.
        self._listed: list[int] = []
        self._settled_below = 0
        self.log, self.first = 0, 1
        self.offset, self.marker = 0, 1

    def seek(self, address: Address) -> None:
        """Continue after an address."""
        self._open_at(address.log, address.marker + 1)
        self.given = address

    def rewind(self, address: Address) -> None:
        """As :meth:`seek`, to a place at or before the end of the last batch, without searching for it."""
        log, offset, marker = self._batch_start
        if (log, log) == (address.log, self.log) and marker <= address.marker + 1:
            self._leave_reader()
            self._decoded = None
            self.offset, self.marker, self.first = offset, marker, address.marker + 1
            self.given, self._checked = address, None
        else:
            self.seek(address)

    def read(self, request: Request) -> Batch | None:
        """The next batch; ``None`` if nothing is available now."""
        if request is not self._request:
            if self._decoded is not None:  # read with other columns
                self.rewind(self.given)
            self._request = request
        try:
            batch = self._next_decoded()
            while batch is None:
                batch = self._fill(request)
                if batch is None:
                    return None
                if self._reader_is_lz4 and request.has_payload:
                    self._decoded = self._decompress(batch, request)
                    batch = self._next_decoded()
        except BaseException:
            request.forget_rows()
            self.rewind(self.given)
            raise
        last = batch.row_count - 1
        self.given = Address.of(batch.data["log"].values[last], batch.data["marker"].values[last])
        return Batch(request.columns, batch.row_count, batch.data)

    def close(self) -> None:
        """Close the file."""
        self._leave_reader()
        if self._file is not None:
            self._file.close()
            self._file = None

    # Batches

    def _fill(self, request: Request) -> Batch | None:
        """Rows as stored, until the sink is full, a fault is due, or nothing is left."""
        sink: RowSink | None = None
        self._batch_start = (self.log, self.offset, self.marker)
        if self._checked is not None and self._checked[0] - self.offset <= RECHECK_BYTES:
            self._checked = None
        while self._rows is not None or self._begin_read(sink is not None and sink.row_count > 0):
            assert self._reader is not None
            assert self._rows is not None
            wanted = request.sink(is_lz4=self._reader_is_lz4 and request.has_payload)
            if sink is not None and sink is not wanted and sink.row_count:
                break
            sink = self._reader.sink = wanted
            is_paused = next(self._rows, _ENDED) is not _ENDED
            self.offset, self.marker = self._reader.at, self._reader.marker
            if is_paused:
                break
            self._leave_reader()
        if sink is None or not sink.row_count:
            return None
        count, taken = sink.take()
        data = {c.name: ColumnData(c.type, *taken[c.name]) for c in COLUMNS if c.name in taken}
        return Batch(tuple(c for c in COLUMNS if c.name in taken), count, data)

    def _next_decoded(self) -> Batch | None:
        batch = None if self._decoded is None else next(self._decoded, None)
        if batch is None:
            self._decoded = None
        return batch

    def _decompress(self, batch: Batch, request: Request) -> Iterator[Batch]:
        if self._decode is None:
            self._decode = lz4_decoder()
        names = _PLACE.union(column.name for column in request.columns)
        wanted = tuple(column for column in COLUMNS if column.name in names)
        return decompress(batch, wanted, self._decode, request.max_bytes, self.on_fault)

    # Segments

    def _open_at(self, log: int, first: int) -> None:
        """Move to the start of segment ``log``, to give its messages from number ``first`` on."""
        self.close()
        self.log, self.first = log, first
        self.offset, self.marker = 0, 1
        self._decoded = self._checked = None
        self._reader_is_lz4 = False

    def _leave_reader(self) -> None:
        if self._reader is not None:
            self.offset, self.marker = self._reader.at, self._reader.marker
        self._rows = self._reader = None

    def _begin_read(self, has_rows: bool) -> bool:
        """Start reading new data in this or a later segment. False if there is none, or if rows must be given before an
        event is reported."""
        while True:
            if self._file is None and not self._open_file():
                following = self._following()
                if following is None or has_rows:
                    return False
                self.on_fault(_segment_missing(self.log, following))
                self._cross(following, has_rows)
                continue
            assert self._file is not None
            is_followed = self._is_followed()
            is_finished = is_followed and self._is_finished(self._file)
            size = self._file.size()
            if size < self.offset:
                if has_rows:
                    return False
                self.on_fault(_segment_cut(self.log, self.offset, size))
                self.offset, self.first, self.marker, self._checked = 0, self.marker, 1, None
            if size > self.offset and self._checked != (size, is_finished):
                self._begin_reader(self._file, size, is_finished)
                return True
            if not is_finished:
                if self.first > self.marker and not has_rows and not is_followed:
                    self._go_back_to_end()
                return False
            if not self._leave_segment(size, has_rows):
                return False

    def _open_file(self) -> bool:
        name = segment_name(self.log)
        for is_last in (False, True):
            try:
                self._file = self.storage.open(name)
                return True
            except StoreUnavailable:
                if not self.storage.exists(name):
                    return False
                if is_last:  # else a writer created it since
                    raise
        return False

    def _begin_reader(self, file: ReadableFile, size: int, is_finished: bool) -> None:
        preferred = Framing(self.metastore.read().magic)
        framing = detect_framing(SegmentData(file, 0, size), 0, preferred) or preferred
        if framing.provider is Provider.UNKNOWN:
            raise UnsupportedVersion(
                file.name,
                found=f"unknown compression provider in magic {framing.magic:#010x}",
                expected="0 (null) or 1 (LZ4)",
            )
        self._checked = (size, is_finished)
        self._reader_is_lz4 = framing.provider is Provider.LZ4
        reader = SegmentReader(file, self.log, 0, size, framing, _NO_SINK, self.on_fault)
        reader.at, reader.marker, reader.first = self.offset, self.marker, max(self.first, 1)
        reader.is_live = not is_finished
        reader.is_locked = self._is_locked
        reader.load_index = lambda: read_index(self.storage, reader.log, size, framing.header_bytes)
        self._reader, self._rows = reader, reader.fill()

    def _is_followed(self) -> bool:
        """Whether a later segment is the current one."""
        if self.metastore.read().storage_log > self.log:
            return True
        if self.log == MAX_LOG:
            return False
        # An empty one was left by a writer that died before it updated the metastore: this one may still grow.
        following = segment_name(self.log + 1)
        with suppress(StoreUnavailable):
            return self.storage.exists(following) and self.storage.size(following) > 0
        return False

    def _is_finished(self, file: ReadableFile) -> bool:
        """Whether nobody appends to a followed segment any more. At the limit nobody does. Below it a C library writer
        may: of two that finish segments at the same time, one can skip a number, and the other continues in the segment
        with that number."""
        if file.size() >= self.metastore.read().unit_limit:
            return True
        return not self.storage.may_be_written(segment_name(self.log), QUIET_S)

    def _is_locked(self) -> bool:
        """Whether a writer is in the middle of an append and holds the segment's lock."""
        try:
            with self.storage.open_writable(segment_name(self.log)) as file:
                return not file.lock(wait=False)
        except WriteFailed:
            return False  # this process may not lock it

    def _following(self) -> int | None:
        """The next existing segment. All names are listed only if its number is not the next one."""
        if self.log == MAX_LOG:
            return None
        if self.storage.exists(segment_name(self.log + 1)):
            return self.log + 1
        written = self.metastore.read().storage_log
        if written <= self.log:
            return None
        for log in self._listed_after():  # avoids listing once for each hole
            if log >= self._settled_below:
                break
            if self.storage.exists(segment_name(log)):
                return log
        # A listing may miss a name created during it, so list twice.
        for _ in range(2):
            self._listed = sorted(log for log in map(parse_segment_name, self.storage.names()) if log is not None)
        self._settled_below = written - MAX_WRITTEN
        return next(self._listed_after(), None)

    def _listed_after(self) -> Iterator[int]:
        """The segments after this one, as last listed."""
        return islice(self._listed, bisect_right(self._listed, self.log), None)

    def _leave_segment(self, size: int, has_rows: bool) -> bool:
        """Move to the next segment if it exists and nothing must be given before events are reported."""
        following = self._following()
        assert self._file is not None
        if following is None:
            return False
        if self._file.size() != size:
            return True  # a writer that had not noticed the move appended
        is_told = size == 0 or following > self.log + 1
        if has_rows and (is_told or self._reader_is_lz4):  # the last message is known only after decoding
            return False
        if size == 0:
            self.on_fault(empty_closed_segment(self.log))
        if following > self.log + 1:
            self.on_fault(missing_segments(self.log, following))
        self._cross(following, has_rows)
        return True

    def _cross(self, following: int, has_rows: bool) -> None:
        last = self.given.marker if self.given.log == self.log else 0
        self.on_cross(Address.of(self.log, self.marker - 1 if has_rows else last), following)
        self._open_at(following, 1)

    def _go_back_to_end(self) -> None:
        end = Address.of(self.log, self.marker - 1)
        self.on_past_end(end)
        self.first, self.given = self.marker, end


def _segment_missing(log: int, following: int) -> Fault:
    """The segment to read is missing, though a later one exists."""
    return fault(
        "missing-segments",
        segment_name(log),
        None,
        f"no segment {log:08x}" if following == log + 1 else f"no segments {log:08x} to {following - 1:08x}",
        f"segment {log:08x}, where the subscriber is",
        loses="their messages, from the subscriber's checkpoint on",
        repair="none: the messages are gone",
        address=f"{log:08x}:{1:08x}",
    )


def _segment_cut(log: int, offset: int, size: int) -> Fault:
    """The segment is shorter than what was read of it."""
    return fault(
        "segment-cut-while-read",
        segment_name(log),
        size,
        f"{size} bytes",
        f"at least {offset}, which were read before",
        loses="messages written later under numbers that the subscriber has already read",
        repair="none: reading continues after the last message",
    )


_NO_SINK = RowSink([], 1, 1)
