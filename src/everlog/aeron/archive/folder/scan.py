"""Scans one recording: runs the walker over a window of its segments, and handles what stops the walker.

Damage is reported once, by the scan in whose range it lies, and the scan continues at the next intact frame. It yields
all records before and after the damage, but no message with a damaged fragment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from everlog.aeron.archive.format.segments import SegmentMap, SegmentReader
from everlog.aeron.family_options import Checksum
from everlog.aeron.frames import walk_twin as codes
from everlog.aeron.frames.constants import (
    FLAG_BEGIN,
    FRAME_ALIGNMENT,
    HEADER_LENGTH,
    MAX_FRAME_LENGTH,
    MAX_MESSAGE_BYTES,
    TYPE_DATA,
    align,
)
from everlog.aeron.frames.position import FOREVER, term_id_of, term_offset_of, term_start
from everlog.aeron.frames.walk import Geometry, Walker
from everlog.aeron.layouts import DataHeader
from everlog.core.files.window import Window
from everlog.core.report import Fault, Severity
from everlog.core.store import FaultSink
from everlog.kernel.columns import RowSink
from everlog.kernel.crc32 import CASTAGNOLI, IEEE, Crc32

POLYNOMIALS: dict[Checksum, int] = {"crc32": IEEE, "crc32c": CASTAGNOLI}
WINDOW_BYTES = MAX_MESSAGE_BYTES * 2
"""The most bytes of a recording in memory at once: enough for the largest message with its frame headers."""


@dataclass(frozen=True, slots=True)
class ScanContext:
    """What a scan needs to know about a recording, so that it does not read the catalog again. ``stop_position`` is
    ``None`` while the recording is active; then the scan ends with the segment at ``last_base``. ``is_live``: an
    archive is running. ``frame_start``: a position at which a frame begins, if one is known."""

    segments: SegmentMap
    geometry: Geometry
    stop_position: int | None
    last_base: int | None
    checksum: Checksum = "none"
    is_live: bool = False
    frame_start: int | None = None

    @property
    def stream(self) -> str:
        """The stream's name."""
        return str(self.segments.recording_id)

    @property
    def limit(self) -> int:
        """The position after the last byte that can belong to the recording."""
        if self.stop_position is not None:
            return self.stop_position
        if self.last_base is None:
            return self.segments.start_position
        return self.last_base + self.segments.segment_length


@dataclass(slots=True)
class Scan:
    """Walks the records with ``first <= position < stop`` and puts them into ``sink``. ``end_position`` is the position
    after the last intact frame."""

    context: ScanContext
    reader: SegmentReader
    sink: RowSink
    on_fault: FaultSink
    assemble: bool
    first: int
    stop: int
    end_position: int = 0
    _walker: Walker = field(init=False)
    _window: Window = field(init=False)

    def run(self) -> Iterator[None]:
        """Yield whenever the caller must empty the sink, and once at the end."""
        context = self.context
        start = context.segments.start_position
        self.first = max(self.first, start)
        # A frame never crosses the end of its term, so a frame surely begins at the start of a term.
        begin = max(start, term_start(self.first, context.geometry.term_length))
        if context.frame_start is not None and begin < context.frame_start <= self.first:
            begin = context.frame_start
        self.end_position = begin
        self._walker = self._new_walker(skipping=begin > start)
        self._window = Window(self.reader.read_into, begin, context.limit, max_bytes=WINDOW_BYTES)
        if begin < context.limit and begin < self.stop:
            while self._step():
                yield
        yield

    def _new_walker(self, *, skipping: bool) -> Walker:
        polynomial = POLYNOMIALS.get(self.context.checksum)
        walker = Walker(self.context.geometry, self.assemble, None if polynomial is None else Crc32(polynomial))
        walker.select(self.first, min(self.stop, FOREVER), skipping)
        return walker

    def _step(self) -> bool:
        """Walk until the sink is full (``True``) or the range is done (``False``)."""
        while True:
            walker, window = self._walker, self._window  # a restart replaces them
            status = walker.walk(window.buffer, window.at, window.filled, window.base, window.at_end, self.sink)
            position = window.base + walker.at
            if status not in (codes.INCOMPLETE, codes.ORPHAN, codes.TOO_LONG):
                self.end_position = max(self.end_position, min(position, self.context.limit))
            if status == codes.FULL:
                window.at = walker.at
                return True
            if status == codes.END and position >= self.stop:
                return False
            if not self._go_on(status, position):
                return False

    def _go_on(self, status: int, position: int) -> bool:
        """Handle what stopped the walk at ``position``; ``False`` if the scan is done."""
        window, walker = self._window, self._walker
        if status in (codes.END, codes.NEED_MORE):
            window.seek(position)
            return window.refill() or self._end_of_bytes(position)
        if status in (codes.INCOMPLETE, codes.TOO_LONG, codes.ORPHAN, codes.PADDING_DATA):
            self._report_message(status, position)
            window.seek(window.base + walker.resume)
            return True
        if status == codes.UNSET and not any(self._header(position)):
            return self._unset(position)
        if status == codes.CHECKSUM and self._has_plain_session(position):
            session_id = DataHeader.unpack_from(self._header(position)).session_id
            geometry = self.context.geometry
            geometry = replace(geometry, plain_sessions=(*geometry.plain_sessions, session_id))
            self.context = replace(self.context, geometry=geometry)
            self._walker = self._new_walker(skipping=walker.skipping)
            window.seek(position)
            return True
        return self._damage(status, position)

    def _header(self, position: int) -> bytes:
        at = position - self._window.base
        return bytes(self._window.buffer[at : at + HEADER_LENGTH])

    def _has_plain_session(self, position: int) -> bool:
        """Whether the frame at ``position`` has no checksum although others do: an archive without checksums recorded
        it, far from the frames that detection reads. This is so if the next frame has the same session id, which is not
        its checksum either: damaged frames have different checksums unless their contents were equal. Always false if
        the user chose the kind of checksum (then ``plain_sessions`` is empty): each frame without it is a fault."""
        if not self.context.geometry.plain_sessions:
            return False
        header = DataHeader.unpack_from(self._header(position))
        after = position + align(header.frame_length)
        if after + HEADER_LENGTH > self.context.limit:
            return False
        data = self.reader.read(after, HEADER_LENGTH)
        if len(data) < HEADER_LENGTH:
            return False
        following = DataHeader.unpack_from(data)
        length = align(following.frame_length)
        if following.type != TYPE_DATA or not HEADER_LENGTH <= following.frame_length <= MAX_FRAME_LENGTH:
            return False
        if following.session_id != header.session_id or after + length > self.context.limit:
            return False
        if following.term_offset != term_offset_of(after, self.context.geometry.term_length):
            return False
        body = self.reader.read(after + HEADER_LENGTH, length - HEADER_LENGTH)
        crc = Crc32(POLYNOMIALS[self.context.checksum])
        return crc.checksum(body) != following.session_id & 0xFFFFFFFF

    # The end of the recording, and what resembles it

    def _end_of_bytes(self, position: int) -> bool:
        """Handle the end of the bytes at ``position``: the recording's end, or a missing or short file."""
        context, window = self.context, self._window
        available = window.base + window.filled
        if position >= context.limit or available >= context.limit:
            return self._last_frame(position)
        if position < available or position == window.base:
            available = max(available, position)
        return self._missing(position, available)

    def _last_frame(self, position: int) -> bool:
        """Report what is left at the recording's end: an incomplete message, or a frame that extends past the end.
        ``True`` if intact frames follow it, because its length is wrong."""
        limit, header = self.context.limit, self._header(position)
        if position == limit:
            return False
        if len(header) < HEADER_LENGTH:
            found = f"a frame that ends at {position}" if position > limit else f"{limit - position} bytes"
            self._report("stop-position", min(position, limit), found, f"a frame that ends at {limit}", "nothing")
            return False
        end = position + align(DataHeader.unpack_from(header).frame_length)
        if end > limit:
            self._report("stop-position", position, f"a frame up to {end}", f"none beyond {limit}", "the frame")
            return self._resync(position) is not None
        self._incomplete_at_end(position)
        return False

    def _incomplete_at_end(self, position: int) -> None:
        found, expected = "a message without its last fragment", "a whole message"
        self._report("incomplete-message", position, found, expected, "the message", severity=Severity.NOTE)

    def _missing(self, position: int, available: int) -> bool:
        """Report that the file that holds ``available`` is missing or ends there, and continue with the next file."""
        context, reader = self.context, self.reader
        segments = context.segments
        base = segments.base(available)
        size = reader.size(base)
        # The size alone is not enough: a file that is cut while it is read has lost the bytes.
        if available == base > segments.start_position and size and reader.read(base, 1):
            return self._short_after_last_frame(available)
        following = reader.next_base(base, context.limit)
        lost = f"positions {position} to {min(following, context.limit)}"
        if size is None:
            count = (following - base) // segments.segment_length
            found = "no file" if count == 1 else f"{count} files missing"
            self._report(
                "segment-missing", available, found, f"a file of {segments.segment_length} bytes", lost, offset=None
            )
        else:
            self._report("segment-short", available, f"{size} bytes", f"{segments.segment_length} bytes", lost)
        if following >= context.limit:
            return False
        self._restart(following)
        return True

    def _short_after_last_frame(self, position: int) -> bool:
        """Report a short file before ``position`` that lacks only the padding of its last frame: nothing is lost."""
        segments = self.context.segments
        before = segments.base(position - 1)
        size = self.reader.size(before) or 0
        if size < segments.segment_length:
            expected = f"{segments.segment_length} bytes"
            self._report("segment-short", before + size, f"{size} bytes", expected, "nothing")
        self._window = Window(self.reader.read_into, position, self.context.limit, max_bytes=WINDOW_BYTES)
        return True

    def _restart(self, position: int) -> None:
        self._window = Window(self.reader.read_into, position, self.context.limit, max_bytes=WINDOW_BYTES)
        self._walker.skipping = True

    def _unset(self, position: int) -> bool:
        """Handle zeros in place of a frame: the end of an active recording, or a hole."""
        context, message_at = self.context, self._walker.message_at
        message = self._window.base + message_at if message_at >= 0 else None
        if context.stop_position is None:
            if any(self.reader.read(position, HEADER_LENGTH)):  # written since it was read
                self._window = Window(self.reader.read_into, message or position, context.limit, max_bytes=WINDOW_BYTES)
                return True
            if context.is_live:
                return False
        resumed = self._resync(position)
        if resumed is None and context.stop_position is None:
            if message is not None:
                self._incomplete_at_end(message)
            return False
        if any(self.reader.read(position, HEADER_LENGTH)):
            self._restart(position)
            return True
        end = context.limit if resumed is None else resumed
        lost = f"positions {position if message is None else message} to {end}"
        self._report("unset-frame", position, "no frame (zeros)", "a frame", lost, message=message)
        return resumed is not None

    # Damage

    def _damage(self, status: int, position: int) -> bool:
        """Report a damaged frame and continue after it."""
        walker, context = self._walker, self.context
        message = self._window.base + walker.message_at if walker.message_at >= 0 else None
        header = self._header(position)
        checksum = self._stored_checksum(position) if status == codes.CHECKSUM else ""
        if status == codes.TORN and context.is_live:
            return False
        resumed = self._resync(position)
        code, found, expected = self._describe(status, position, header, checksum)
        if resumed is None and context.stop_position is None and status == codes.CHECKSUM:
            code = "torn-frame"
        end = context.limit if resumed is None and context.stop_position is not None else resumed
        start = position if message is None else message
        lost = f"positions {start} to {end}" if end is not None else f"the frame at {position}"
        self._report(code, position, found, expected, lost, message=message)
        return resumed is not None

    def _resync(self, position: int) -> int | None:
        """Move to the next intact frame after ``position``, also past missing files. Return its position, or ``None``
        if no intact frame follows."""
        window, limit = self._window, self.context.limit
        self._walker.skipping = True
        window.seek(position + HEADER_LENGTH)
        while True:
            found = self._walker.find(window.buffer, window.at, window.filled, window.base)
            if found >= 0:
                window.seek(window.base + found)
                return window.address
            rest = (window.filled - window.at) % HEADER_LENGTH
            window.seek(window.base + window.filled - rest)
            window.skip_to(self.reader.next_data(window.address, limit), FRAME_ALIGNMENT)
            if window.refill():
                continue
            base = self.reader.next_base(self.context.segments.base(max(window.address, position)), limit)
            if base >= limit:
                return None
            self._restart(base)
            window = self._window

    def _stored_checksum(self, position: int) -> str:
        at = position - self._window.base
        header = DataHeader.unpack_from(self._window.buffer, at)
        end = at + align(header.frame_length)
        crc = Crc32(POLYNOMIALS[self.context.checksum])
        return f"{crc.checksum(self._window.buffer, at + HEADER_LENGTH, end):08x}"

    def _describe(self, status: int, position: int, header: bytes, checksum: str) -> tuple[str, str, str]:
        """Return fault code, found and expected."""
        geometry = self.context.geometry
        frame = DataHeader.unpack_from(header)
        offset = term_offset_of(position, geometry.term_length)
        term_id = term_id_of(position, geometry.initial_term_id, geometry.term_length)
        room = geometry.term_length - offset
        return {
            codes.UNSET: ("frame-length", f"frame length {frame.frame_length}", f"{HEADER_LENGTH} to {room}"),
            codes.FRAME_LENGTH: (
                "frame-length",
                f"frame length {frame.frame_length}",
                f"{HEADER_LENGTH} to {room}, up to the next frame",
            ),
            codes.FRAME_TYPE: ("frame-type", f"frame type {frame.type}", "0 or 1, as its content says"),
            codes.TERM_OFFSET: ("frame-term-offset", f"term offset {frame.term_offset}", str(offset)),
            codes.TERM_ID: ("frame-term-id", f"term id {frame.term_id}", str(term_id)),
            codes.STREAM_ID: ("frame-stream-id", f"stream id {frame.stream_id}", str(geometry.stream_id)),
            codes.CHECKSUM: ("frame-checksum", f"checksum {frame.session_id & 0xFFFFFFFF:08x}", checksum),
            codes.TORN: ("torn-frame", "an empty page in the last frame", "a whole frame"),
        }[status]

    def _report_message(self, status: int, position: int) -> None:
        """Report a message that can't be assembled although its frames are intact."""
        code, expected, severity = "incomplete-message", "a whole message", Severity.FAULT
        lost = "the message"
        if status == codes.TOO_LONG:
            code, found = "message-too-long", f"over {MAX_MESSAGE_BYTES} bytes"
            expected = f"at most {MAX_MESSAGE_BYTES}"
        elif status == codes.ORPHAN:
            found = "a fragment of a message whose beginning is missing"
            if position == self.context.segments.start_position:
                severity = Severity.NOTE  # the recording began in the middle of it
        elif status == codes.PADDING_DATA:
            code, found, expected = "padding-data", "a padding frame with bytes in it", "zeros"
            lost = "the frame, if it was data"
        else:
            resume = self._window.base + self._walker.resume
            found, lost = "fragments that do not follow each other", f"positions {position} to {resume}"
            if self._is_other_session(position, resume):
                # No damage: the publisher or the recording stopped, and later the recording was extended.
                found, lost, severity = "no end before another session", "the message", Severity.NOTE
        self._report(code, position, found, expected, lost, severity=severity)

    def _is_other_session(self, position: int, following: int) -> bool:
        """Whether another session than the one at ``position`` begins a message at ``following``. Checksums replace the
        session ids; then any beginning of a message counts as another session, since the frames are intact."""
        here, there = self._header(position), self._header(following)
        if len(there) < HEADER_LENGTH:
            return False
        first, second = DataHeader.unpack_from(here), DataHeader.unpack_from(there)
        if second.type != TYPE_DATA or not second.flags & FLAG_BEGIN:
            return False
        return self.context.checksum != "none" or first.session_id != second.session_id

    def _report(
        self,
        code: str,
        position: int,
        found: str,
        expected: str,
        lost: str,
        *,
        severity: Severity = Severity.FAULT,
        message: int | None = None,
        offset: int | None = -1,
    ) -> None:
        """Report damage at ``position`` if the damage, or the message that it cuts short, is in the range."""
        inside = self.first <= position < self.stop
        if not inside and (message is None or not self.first <= message < self.stop):
            return
        place = self.context.segments
        name, at = place.place(position)
        if position == self.context.limit and at == 0:
            name, at = place.place(max(position - 1, 0))
        repair = "none: restore the file from a copy, or truncate the recording there"
        self.on_fault(
            Fault(
                code,
                name,
                at if offset == -1 else offset,
                found,
                expected,
                lost,
                repair if severity is Severity.FAULT else "none needed",
                severity,
                self.context.stream,
                str(position if message is None else message),
            )
        )
