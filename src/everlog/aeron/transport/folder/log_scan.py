"""Scans one log buffer: runs the walker over each term, and handles what stops it.

A log buffer is in use: drivers clean terms from their start on, publishers claim room before they write, receivers
leave room for lost frames. A term may therefore begin with zeros or the rest of a frame, and have holes; none of this
is a fault. Rows are returned only if their first frame is still there after the read: terms are cleaned from low to
high, so everything after that frame was whole when it was read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from everlog.aeron.frames import walk_twin as codes
from everlog.aeron.frames.constants import FRAME_ALIGNMENT, HEADER_LENGTH, MAX_MESSAGE_BYTES, TYPE_PADDING, align
from everlog.aeron.frames.position import FOREVER, term_id_of, term_offset_of
from everlog.aeron.frames.walk import Geometry, Walker
from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.folder.faults import fault
from everlog.aeron.transport.format.log_buffers import TERM_COUNT, LogBuffer, Term, read_raw_tails
from everlog.core.files.storage import ReadableFile
from everlog.core.files.window import Window
from everlog.core.store import FaultSink
from everlog.kernel.columns import RowSink

WINDOW_BYTES = MAX_MESSAGE_BYTES * 2
MESSAGE_STATUS = (codes.INCOMPLETE, codes.TOO_LONG, codes.ORPHAN, codes.PADDING_DATA)


@dataclass(frozen=True, slots=True)
class LogContext:
    """A log buffer and the terms to scan. Small and picklable."""

    log: LogBuffer
    terms: tuple[Term, ...]

    @property
    def start(self) -> int:
        """The position at which the oldest term begins."""
        return self.terms[0].start if self.terms else 0

    @property
    def end(self) -> int:
        """The position after the claimed bytes."""
        return self.terms[-1].end if self.terms else 0


@dataclass(slots=True)
class LogScan:
    """Walks records with ``first <= position < stop`` into ``sink``. ``end_position`` is the position after the last
    intact frame."""

    context: LogContext
    file: ReadableFile
    sink: RowSink
    on_fault: FaultSink
    assemble: bool
    first: int = 0
    stop: int = FOREVER
    end_position: int | None = None
    _term: Term = field(init=False)
    _walker: Walker = field(init=False)
    _window: Window = field(init=False)
    _witness: tuple[int, bytes] | None = field(init=False, default=None)
    _read_again: int = field(init=False, default=-1)
    _hole: int = field(init=False, default=-1)

    def run(self) -> Iterator[None]:
        """Yield each time the sink must be emptied, and once at the end."""
        for term in self.context.terms:
            if term.end <= self.first or term.start >= self.stop:
                continue
            self._begin(term)
            while self._step():
                if self._is_whole():
                    yield
        if self._is_whole():
            yield

    def _begin(self, term: Term) -> None:
        """Start at the term's first intact frame. A term that is being cleaned begins with zeros."""
        log = self.context.log
        geometry = Geometry(
            log.metadata.initial_term_id, log.term_length, log.default_header.stream_id, log.mtu_length, term.end
        )
        self._term = term
        self._walker = Walker(geometry, self.assemble, None)
        self._walker.select(self.first, min(self.stop, FOREVER), True)
        self._restart(term.start)
        self._window.refill()
        if not any(self._header(term.start)):
            self._resync(term.start)

    def _restart(self, position: int) -> None:
        self._window = Window(self._read_into, position, self._term.end, max_bytes=WINDOW_BYTES)

    def _read_into(self, position: int, buffer: memoryview) -> int:
        return self.file.read_into(self._offset(position), buffer)

    def _offset(self, position: int) -> int:
        """The file offset of a position in the current term."""
        return self._term.index * self.context.log.term_length + position - self._term.start

    def _header(self, position: int) -> bytes:
        at = position - self._window.base
        return bytes(self._window.buffer[at : min(at + HEADER_LENGTH, self._window.filled)])

    def _step(self) -> bool:
        """Walk until the sink is full (true) or the term is done (false)."""
        walker = self._walker
        while True:
            window = self._window  # reading again replaces it
            if self._witness is None:
                self._witness = self._offset(window.address), self._header(window.address)
            start = window.address
            filled, final = window.filled, window.at_end
            if start < self._hole:
                filled, final = self._hole - window.base, True
            status = walker.walk(window.buffer, window.at, filled, window.base, final, self.sink)
            position = window.base + walker.at
            if position > start:
                self.end_position = position
            if status == codes.FULL:
                window.at = walker.at
                return True
            if status == codes.END and position >= self.stop:
                return False
            if not self._go_on(status, position):
                return False

    def _is_whole(self) -> bool:
        """Whether the rows read since the last call are still valid; if not, they are dropped, with a note."""
        witness, self._witness = self._witness, None
        if witness is None or self.sink.row_count == 0:
            return True
        offset, header = witness
        if self.file.read_at(offset, len(header)) == header:
            return True
        self.sink.reset()
        found = "frames cleaned or overwritten during the read"
        log = self.context.log
        expected, lost = "unchanged frames", "these frames"
        self.on_fault(
            fault("log-buffer-changed", log.file_name, offset, found, expected, lost, note=True, stream=log.name)
        )
        return False

    def _go_on(self, status: int, position: int) -> bool:
        """Handle what stopped the walk at ``position``. Returns false at the end of the term."""
        window, walker = self._window, self._walker
        if status in (codes.END, codes.NEED_MORE) and position <= self._hole:
            if position < self._hole:
                self._report_unfinished(position)
                walker.skipping = True
            window.seek(self._hole)
            self._hole = -1
            return True
        if status in (codes.END, codes.NEED_MORE):
            window.seek(position)
            return window.refill() or self._end_of_bytes(position)
        if status in MESSAGE_STATUS:
            resume = window.base + walker.resume
            self._report_message(status, position, resume)
            window.seek(resume)
            return True
        message = window.base + walker.message_at if walker.message_at >= 0 else position
        header = self._header(position)
        if self._read_again != position and self.file.read_at(self._offset(position), len(header)) != header:
            self._read_again = position  # the frame was written after it was read
            self._restart(message)
            return True
        if status == codes.FRAME_LENGTH and self._is_before_hole(position, header):
            window.seek(message)
            return True
        return self._hole_or_damage(status, position, message, header)

    def _is_before_hole(self, position: int, header: bytes) -> bool:
        """Whether an intact frame only looks cut because zeros follow it: in recordings that is damage, here the next
        frame is still missing. The walk then continues up to the hole."""
        window, walker = self._window, self._walker
        after = position + align(DataHeader.unpack_from(header).frame_length)
        nothing = bytes(HEADER_LENGTH)
        if walker.find(header, 0, HEADER_LENGTH, position) != 0 or self._hole == after:
            return False
        if after + HEADER_LENGTH > window.base + window.filled or self._header(after) != nothing:
            return False
        self._hole = after
        return True

    def _end_of_bytes(self, position: int) -> bool:
        """Handle the end of the term's bytes, which may cut a message or frame. Returns whether the walk continues."""
        term, header = self._term, self._header(position)
        if position >= term.end:
            if position > term.end:  # a padding frame, of which only the header is read
                found, expected = f"a frame up to {position}", f"no frame beyond {term.end}"
                self._report("frame-length", term.end, found, expected, "the frame")
            return False
        if len(header) < HEADER_LENGTH:
            found, expected = "the end of the file", f"a term up to {term.end}"
            self._report("log-buffer-size", position, found, expected, "the rest of the term")
            return False
        after = position + align(DataHeader.unpack_from(header).frame_length)
        if after > term.end:
            found, expected = f"a frame up to {after}", f"no frame beyond {term.end}"
            self._report("frame-length", position, found, expected, "the frame")
            return self._resync(position + HEADER_LENGTH) is not None
        self._report_unfinished(position)
        return False

    def _hole_or_damage(self, status: int, position: int, message: int, header: bytes) -> bool:
        """Handle bytes at ``position`` that are no intact frame: not written (yet), or damaged. Returns whether the
        walk continues."""
        log = self.context.log
        if status == codes.TERM_ID and self._is_used_again(header):
            found, expected = "a later term", "the term that was there when the read began"
            self._report("log-buffer-changed", position, found, expected, "the rest of that term", message, note=True)
            return False
        after = self._resync(position + HEADER_LENGTH)
        end = self._term.end if after is None else after
        lost = f"positions {message} to {end}"
        length = DataHeader.unpack_from(header).frame_length
        if length <= 0 and (status == codes.FRAME_LENGTH or not any(header)):
            if log.is_image and after is not None:
                self._report("frame-gap", position, "no frame (zeros)", "a frame", lost, message, note=True)
            elif log.is_image and message < position:
                self._report_unfinished(message)
            elif not log.is_image:
                found = "no frame (zeros)" if length == 0 else f"frame length {length}: a frame that is being written"
                self._report("frame-uncommitted", position, found, "a frame", lost, message, note=True)
        elif not (log.is_image and after is None and status == codes.TERM_ID and position > self._term.start):
            # After the last frame of an image, the rest of the term that used the place before may follow.
            code, found, expected = self._describe(status, position, header)
            self._report(code, position, found, expected, lost, message)
        return after is not None

    def _is_used_again(self, header: bytes) -> bool:
        """Whether a frame belongs to a later term in the same place: the stream advanced during the read."""
        log = self.context.log
        ahead = log.term_count_of(DataHeader.unpack_from(header).term_id) - log.term_count_of(self._term.term_id)
        if ahead <= 0 or ahead % TERM_COUNT:
            return False
        return log.is_image or read_raw_tails(self.file, log) != log.raw_tails

    def _resync(self, position: int) -> int | None:
        """Move to the next intact frame from ``position`` on. Returns its position, or ``None``."""
        window, walker = self._window, self._walker
        walker.skipping = True
        window.seek(position)
        while True:
            found = walker.find(window.buffer, window.at, window.filled, window.base)
            if found >= 0:
                window.seek(window.base + found)
                return window.address
            rest = (window.filled - window.at) % HEADER_LENGTH
            window.seek(window.base + window.filled - rest)
            offset = self._offset(window.address)
            window.skip_to(window.address + self.file.next_data(offset) - offset, FRAME_ALIGNMENT)
            if not window.refill():
                return None

    def _describe(self, status: int, position: int, header: bytes) -> tuple[str, str, str]:
        """Fault code, found, expected."""
        log = self.context.log
        frame = DataHeader.unpack_from(header)
        offset = term_offset_of(position, log.term_length)
        term_id = term_id_of(position, log.metadata.initial_term_id, log.term_length)
        room = log.term_length - offset
        length = (
            "frame-length",
            f"frame length {frame.frame_length}",
            f"{HEADER_LENGTH} to {room}, up to the next frame",
        )
        return {
            codes.FRAME_TYPE: ("frame-type", f"frame type {frame.type}", "0 (padding) or 1 (data)"),
            codes.TERM_OFFSET: ("frame-term-offset", f"term offset {frame.term_offset}", str(offset)),
            codes.TERM_ID: ("frame-term-id", f"term id {frame.term_id}", str(term_id)),
            codes.STREAM_ID: ("frame-stream-id", f"stream id {frame.stream_id}", str(log.default_header.stream_id)),
        }.get(status, length)

    def _report_unfinished(self, position: int) -> None:
        found, expected = "a message without its last fragment", "a whole message, once all of it is written"
        self._report("incomplete-message", position, found, expected, "the message", note=True)

    def _report_message(self, status: int, position: int, resume: int) -> None:
        """Report a message that can't be assembled although its frames are intact."""
        if status == codes.TOO_LONG:
            found, expected = f"a message of more than {MAX_MESSAGE_BYTES} bytes", f"at most {MAX_MESSAGE_BYTES}"
            self._report("message-too-long", position, found, expected, "the message")
        elif status == codes.PADDING_DATA:
            frame = DataHeader.unpack_from(self._header(position))
            assert frame.type == TYPE_PADDING
            found = "a padding frame with data"
            self._report("padding-data", position, found, "zeros", "the frame, if it was data")
        elif status == codes.ORPHAN:
            found = "a fragment of a message whose beginning is missing"
            self._report("incomplete-message", position, found, "a whole message", "the message")
        else:
            found, lost = "fragments that are not consecutive", f"positions {position} to {resume}"
            self._report("incomplete-message", position, found, "a whole message", lost)

    def _report(
        self,
        code: str,
        position: int,
        found: str,
        expected: str,
        lost: str,
        message: int | None = None,
        *,
        note: bool = False,
    ) -> None:
        """Report a fault at ``position``, if it, or the message that it cuts short, is in the range."""
        start = position if message is None else message
        if not (self.first <= position < self.stop or self.first <= start < self.stop):
            return
        log = self.context.log
        offset = self._offset(position)
        self.on_fault(
            fault(code, log.file_name, offset, found, expected, lost, note=note, stream=log.name, position=start)
        )
