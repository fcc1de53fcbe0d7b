"""Lists segments, and reads one into a sink, past any damage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from everlog.core.files.storage import Entry, ReadableFile
from everlog.core.files.window import Window
from everlog.core.report import Fault
from everlog.errors import FileChanged
from everlog.jlog.format.faults import fault, note
from everlog.jlog.format.framing import Framing
from everlog.jlog.format.index import SegmentIndex
from everlog.jlog.format.names import parse_segment_name
from everlog.jlog.reading.damage import describe_damage
from everlog.jlog.reading.recovery import SegmentData, Verdict, detect_framing, examine, examine_suspect, is_followed
from everlog.jlog.reading.walk import END, FAULT, FULL, STOP, SUSPECT, walk_messages
from everlog.kernel.columns import RowSink

NO_STOP = 1 << 62
"""A message number that is never reached."""
MAX_REREADS = 3
MAY_BE_WHOLE = frozenset({"merged-records", "torn-record"})
"""Fault codes of a message that contains another one."""
WRITE_WAIT_S = 0.001
"""A message appears in the file page by page; a writer gets this long to continue."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment file as listed."""

    log: int
    byte_count: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a segment: from offset ``start``, where message ``marker`` is, to offset ``end``, or to the segment's
    end for ``None``."""

    start: int
    marker: int
    end: int | None


def list_segments(entries: Iterable[Entry]) -> list[Segment]:
    """The segments among a folder's entries, in order."""
    found = []
    for entry in entries:
        log = parse_segment_name(entry.name)
        if log is not None and entry.is_file:
            found.append(Segment(log, entry.size))
    return sorted(found, key=lambda segment: segment.log)


def not_locked() -> bool:
    """``is_locked`` of data without writers."""
    return False


def no_index() -> SegmentIndex:
    """The index of a segment without one."""
    return SegmentIndex(0, 0)


@dataclass(slots=True)
class SegmentReader:
    """Reads the messages ``first <= marker < stop`` of ``file[start:end]`` into ``sink``.

    ``fill`` is a generator that yields whenever the sink is full, so that the caller takes its rows. At its end rows
    may be left in the sink, and ``marker`` is the number after the last message. Damage before message ``first`` is not
    reported.

    With ``at`` reading resumes at that offset, where message ``marker`` is; after ``fill`` it is the offset reached.
    ``is_live``: the segment is growing, so incomplete bytes at its end may become a message; they are left unread and
    unreported. With ``waits`` the same holds for a last message that may be whole, or two with the first one torn:
    whatever is written after it decides. ``is_locked`` returns whether a writer is in the middle of a message.
    ``is_piece``: a message ends at ``end``, but not the segment.
    """

    file: ReadableFile
    log: int
    start: int
    end: int
    framing: Framing
    sink: RowSink
    on_fault: Callable[[Fault], None]
    on_note: Callable[[Fault], None] | None = None
    load_index: Callable[[], SegmentIndex] = no_index
    first: int = 1
    stop: int = NO_STOP
    marker: int = 1
    at: int = 0
    is_live: bool = False
    waits: bool = True
    is_piece: bool = False
    is_locked: Callable[[], bool] = not_locked
    _rereads: int = 0
    _has_waited: bool = False
    _is_filled: bool = False

    def fill(self) -> Iterator[None]:
        """Continue reading; see the class."""
        data = SegmentData(self.file, self.start, self.end)
        index: SegmentIndex | None = None
        if self.first > self.marker and self.at <= self.start:
            index = self.load_index()
        window = Window(self.file.read_into, max(self.at, self._begin(data, index)), self.end)
        trusted = -1
        while True:
            status = self._walk(window, trusted)
            here = self.at = window.address
            if status in (END, STOP):
                return
            if status == FULL:
                yield
            elif status in (FAULT, SUSPECT) or (trusted != here and self._reaches_far(data, window)):
                if status == SUSPECT and self._fills_buffer(data, here):
                    trusted = here
                    continue
                changed = None if status == SUSPECT else self._changed_framing(data, here)
                if changed is not None:
                    self.framing = changed
                    continue
                index = index or self.load_index()
                verdict = examine_suspect(data, here, self.framing, index) if status == SUSPECT else None
                verdict = verdict or examine(data, here, self.framing, index)
                if data.cut_at is not None:
                    if self.sink.row_count:
                        yield
                    self._cut(data, data.cut_at)
                    return
                if self._is_being_written(data, verdict):
                    return
                if verdict.whole:
                    if trusted == here:
                        self._read_again(window)
                    trusted = here
                    continue
                if self.sink.row_count:
                    yield  # give the rows before the damage is reported
                self._skip(data, here, verdict, index)
                window.seek(verdict.resume)
                self.at = verdict.resume
            else:
                window.refill()
                if window.at_end and window.base + window.filled < data.end:
                    if self.sink.row_count:
                        yield
                    self._cut(data, window.base + window.filled)

    def _walk(self, window: Window, trusted: int) -> int:
        """Walk messages from the window into the sink; returns the walker's status."""
        window.at, self.marker, status = walk_messages(
            window.buffer,
            window.at,
            window.filled,
            window.at_end,
            window.base,
            self.framing.magic,
            self.framing.provider,
            self.log,
            self.marker,
            self.first,
            self.stop,
            trusted - window.base if trusted >= window.base else -1,
            self.sink,
        )
        return status

    def _begin(self, data: SegmentData, index: SegmentIndex | None) -> int:
        """The start: message ``first`` if the index has it and the data around it agrees."""
        if index is None or not index.is_sound:
            return self.start
        before, there = index.offset_of(self.first - 1), index.offset_of(self.first)
        if before is None or there is None or data.header(there, self.framing) is None:
            return self.start
        header = data.header(before, self.framing)
        if header is None or header.end != there:
            return self.start
        self.marker = self.first
        return there

    def _fills_buffer(self, data: SegmentData, at: int) -> bool:
        """Whether the headers in a pre-commit buffer chain from an offset to the end of the used bytes: then those
        messages are flushed whole (:meth:`everlog.jlog.writing.buffer.PreCommitBuffer.left_messages`)."""
        if self.start == 0 or self._is_filled:
            return self._is_filled
        header = data.header(at, self.framing)
        while header is not None and header.end < data.end and data.steps_left > 0:
            data.steps_left -= 1
            header = data.header(header.end, self.framing)
        self._is_filled = header is not None and header.end == data.end
        return self._is_filled

    def _is_being_written(self, data: SegmentData, verdict: Verdict) -> bool:
        """Whether a writer is in the middle of the torn message at the end of the data: then the file grows, and the
        message is left for the next read. See also ``waits``."""
        if verdict.whole:
            return False
        if self.is_live:
            ends_there = verdict.header is not None and verdict.header.end == data.end
            if verdict.resume >= data.end or (self.waits and ends_there and verdict.code in MAY_BE_WHOLE):
                return True
            return self._is_begun(data, verdict)
        is_buffer = self.start > 0  # it has room after its used bytes
        if is_buffer or self.is_piece or verdict.code not in ("torn-record", "torn-header"):
            return False
        if verdict.resume < data.end and (verdict.header is None or verdict.header.end <= data.end):
            return False
        size = self.file.size()
        if size <= data.end and not self._has_waited:
            time.sleep(WRITE_WAIT_S)
            self._has_waited = True  # any writer has continued by now: wait only once
            size = self.file.size()
        return size > data.end and (verdict.resume >= data.end or not self._leads_to(size, verdict))

    def _leads_to(self, size: int, verdict: Verdict) -> bool:
        """Whether messages chain from inside a torn one to the file's present end, which is not the torn one's end:
        then they are not payload of a message being written."""
        assert verdict.header is not None
        data = SegmentData(self.file, self.start, size)
        header = data.header(verdict.resume, self.framing)
        while header is not None and header.end < size and header.end != verdict.header.end and data.steps_left > 0:
            data.steps_left -= 1
            header = data.header(header.end, self.framing)
        return header is not None and header.end == size != verdict.header.end

    def _is_begun(self, data: SegmentData, verdict: Verdict) -> bool:
        """Whether an apparent message after a torn one may be that one's payload, written so far."""
        if verdict.header is None or verdict.header.end <= data.end:
            return False
        return self.is_locked() or self.file.size() != data.end

    def _reaches_far(self, data: SegmentData, window: Window) -> bool:
        """Whether a message needs a larger buffer and has no valid successor: then examine it before spending memory on
        it."""
        room = len(window.buffer)
        seen = self.framing.parse(memoryview(window.buffer)[: window.filled], window.at, window.address)
        if seen is not None and seen.end + self.framing.header_bytes - window.address <= room:
            return False  # it fits into the buffer
        header = data.header(window.address, self.framing)
        if header is None or header.end + self.framing.header_bytes - window.address <= room:
            return False
        return header.end > data.end or not is_followed(data, header, self.framing)

    def _read_again(self, window: Window) -> None:
        """File and buffer differ: the file was changed in place, which no writer does. Reread, then give up."""
        self._rereads += 1
        if self._rereads > MAX_REREADS:
            raise FileChanged(self.file.name, offset=window.address, found="its bytes change while they are read")
        window.base, window.at, window.filled = window.address, 0, 0

    def _cut(self, data: SegmentData, reached: int) -> None:
        if self.is_live:  # a writer cuts a torn message before it appends
            data.end = reached
            return
        self.on_fault(
            fault(
                "segment-cut-while-read",
                self.file.name,
                reached,
                f"{reached} bytes",
                f"{data.end} bytes, as when it was opened",
                loses="everything after it",
                repair="read again",
            )
        )
        data.end = reached

    def _changed_framing(self, data: SegmentData, at: int) -> Framing | None:
        """Another framing with the same provider, if the message at ``at`` has it: a newer version continues a 1.x
        journal."""
        if data.header(at, self.framing) is not None:
            return None
        framing = detect_framing(data, at, None)
        if framing is None or framing.provider != self.framing.provider:
            return None
        if self.on_note is not None:
            self.on_note(
                note(
                    "framing-changes",
                    self.file.name,
                    at,
                    f"magic {framing.magic:#010x}",
                    f"magic {self.framing.magic:#010x}",
                    loses="nothing here; the C library reads only messages with the metastore's magic",
                    repair="rewrite the journal with everlog",
                )
            )
        return framing

    def _skip(self, data: SegmentData, here: int, verdict: Verdict, index: SegmentIndex) -> None:
        if self.marker >= self.first:
            self.on_fault(describe_damage(data, self.log, self.marker, here, verdict, self.framing))
        following = index.marker_at(verdict.resume)
        holds_message = verdict.resume - here >= self.framing.header_bytes
        self.marker = following if following is not None and following > self.marker else self.marker + holds_message
