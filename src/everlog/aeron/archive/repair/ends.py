"""Finds where an active recording ends: after the last good frame of the last segment file that has one.

A good frame is complete, its header matches its position, and its checksum, if the recording has checksums, is right.
Anything else at the end was torn by the crash. Damage followed by good frames was not: both stay. But a hole of zeros
is the end even if frames follow: a power cut kept later pages and lost earlier ones, and nothing after the hole was
ever synced.

An incomplete last message keeps the fragments it has: their positions may have been acknowledged, as a cluster does
with its log, and a publisher that extends the recording continues at the stop position. Readers skip these dead bytes
at the next start of a message. The original does the same.

A recording with a stop time but no stop position was stopped before: a migration of its segments was interrupted
(:mod:`everlog.aeron.archive.maintenance.migration`). All its frames stay.

Source of the search: Catalog.computeStopPosition, recoverStopOffset.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from everlog.aeron.archive.folder.archive import ArchiveFolder
from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.folder.scan import POLYNOMIALS, WINDOW_BYTES
from everlog.aeron.archive.format.segments import SegmentMap, SegmentReader
from everlog.aeron.family_options import Checksum, ReadChecksum
from everlog.aeron.frames import walk_twin as codes
from everlog.aeron.frames.constants import FRAME_ALIGNMENT, HEADER_LENGTH, TYPE_DATA, align
from everlog.aeron.frames.position import FOREVER, max_position
from everlog.aeron.frames.walk import Geometry, Walker
from everlog.aeron.layouts import DataHeader
from everlog.core.files.crc import crc32_of
from everlog.core.files.storage import ReadableFile, Storage
from everlog.core.files.window import Window
from everlog.core.files.zeros import nonzero_blocks
from everlog.kernel.columns import RowSink
from everlog.kernel.crc32 import Crc32

EMPTY_PAGE = "a frame with an empty page in it"
_PROBLEMS = {
    codes.UNSET: "a frame without a length",
    codes.FRAME_LENGTH: "a frame with an impossible length",
    codes.FRAME_TYPE: "a frame of an unknown type",
    codes.TERM_OFFSET: "a frame with the term offset of another position",
    codes.TERM_ID: "a frame with the term id of another position",
    codes.STREAM_ID: "a frame of another stream",
    codes.CHECKSUM: "a frame with a wrong checksum",
    codes.PADDING_DATA: "a padding frame with bytes in it",
    codes.TORN: EMPTY_PAGE,
}
CUT_OFF = "a frame cut off by the file's end"
HOLE = "frames after a hole of zeros"
LEFTOVER = "bytes that are no frame"


@dataclass(frozen=True, slots=True)
class TailFingerprint:
    """Identifies a segment file's contents from ``offset`` on: ``byte_count`` up to the last byte that is not zero, and
    the CRC-32 of these bytes."""

    file: str
    size: int
    offset: int
    byte_count: int
    crc: int

    def is_there(self, file: ReadableFile) -> bool:
        """Whether the file is unchanged."""
        return file.size() == self.size and crc32_of(file, self.offset, self.offset + self.byte_count) == self.crc


@dataclass(frozen=True, slots=True)
class RecoveredEnd:
    """Where an active recording ends, and what must be done before writing can go on there.

    ``torn`` names what follows the end in the same file, and ``tail`` gives its bytes. ``has_hole``: frames follow a
    hole. ``after`` lists the files after the last one: zeros (``byte_count`` 0), or frames that follow a hole.
    ``short`` is the last file if it is shorter than ``segment_length``. ``missing`` names the file to make if the owner
    died after it filled one file and before it made the next. ``damaged`` gives the positions of bad frames that stay
    because good ones follow.
    """

    recording_id: int
    stop_position: int
    segment_length: int
    torn: str | None = None
    has_hole: bool = False
    tail: TailFingerprint | None = None
    after: tuple[TailFingerprint, ...] = ()
    short: TailFingerprint | None = None
    missing: str | None = None
    damaged: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Walked:
    """``end`` follows the last good frame; ``problem`` is what stopped the walk, ``None`` for zeros or the segment's
    end."""

    end: int
    problem: str | None
    damaged: tuple[int, ...]


def recover_end(archive: ArchiveFolder, recording: Recording, checksum: ReadChecksum = "auto") -> RecoveredEnd:
    """Find a recording's end as if it were active; changes nothing. ``checksum`` as in the store's options. Raises
    :class:`StoreUnavailable`."""
    segments = archive.segment_map(recording)
    geometry, kind = recovery_geometry(archive, recording, segments, checksum)
    if recording.is_active and recording.stop_timestamp is not None:
        geometry = replace(geometry, limit=FOREVER)
    first, start = segments.base(recording.start_position), recording.start_position
    bases = [b for b in segments.bases(archive.segment_index().get(recording.recording_id, [])) if b >= first]
    walked = _Walked(start, None, ())
    problems: dict[int, str | None] = {}
    reader = SegmentReader(archive.storage, segments)
    try:
        for base in sorted(bases, reverse=True):
            begin = max(base, start)
            found = walk_segment(reader, geometry, kind, begin, base + segments.segment_length)
            problems[base] = found.problem
            if found.end > begin:
                walked = found
                break
    finally:
        reader.close()
    walked = replace(walked, problem=problems.get(segments.base(walked.end)))
    return _with_fingerprints(archive.storage, recording, segments, bases, walked)


def recovery_geometry(
    archive: ArchiveFolder, recording: Recording, segments: SegmentMap, checksum: ReadChecksum
) -> tuple[Geometry, Checksum]:
    """Return the geometry for the search of a recording's end, and the kind of its checksums.

    Frames with the descriptor's session id have no checksum: an archive without checksums extended the recording. The
    requested checksum is used only if some frame has it; otherwise frames acknowledged before checksums were enabled
    would count as torn.
    """
    wanted = archive.checksum if checksum == "auto" else checksum
    geometry, kind = archive.geometry(recording, segments, "none" if wanted == "none" else "auto")
    if wanted in POLYNOMIALS and kind != wanted and _any_has(archive, recording, segments, wanted):
        kind = wanted
    plain = geometry.plain_sessions
    if recording.session_id not in plain:
        plain = (*plain, recording.session_id)
    return replace(geometry, limit=-1, plain_sessions=plain if kind != "none" else ()), kind


def _any_has(archive: ArchiveFolder, recording: Recording, segments: SegmentMap, kind: Checksum) -> bool:
    """Whether any frame of the last segment file with frames has a checksum of that kind."""
    crc, limit = Crc32(POLYNOMIALS[kind]), segments.base(recording.start_position)
    reader = SegmentReader(archive.storage, segments)
    try:
        bases = archive.segment_index().get(recording.recording_id, [])
        for base in sorted((b for b in segments.bases(bases) if b >= limit), reverse=True):
            at, end = max(base, recording.start_position), base + segments.segment_length
            begin = at
            while len(header := reader.read(at, HEADER_LENGTH) if at < end else b"") == HEADER_LENGTH:
                frame = DataHeader.unpack_from(header)
                next_at = at + align(frame.frame_length)
                if frame.frame_length < HEADER_LENGTH or next_at > end:
                    break
                if frame.type == TYPE_DATA and next_at > at + HEADER_LENGTH:
                    body = reader.read(at + HEADER_LENGTH, next_at - at - HEADER_LENGTH)
                    if crc.checksum(body) == frame.session_id & 0xFFFFFFFF:
                        return True
                at = next_at
            if at > begin:
                return False
        return False
    finally:
        reader.close()


def walk_segment(reader: SegmentReader, geometry: Geometry, kind: Checksum, begin: int, limit: int) -> _Walked:
    """Walk the frames of one segment file from ``begin``, a frame's start, up to ``limit``. A ``geometry`` with a limit
    belongs to a stopped recording: none of its frames is torn, and a hole is not its end."""
    window = Window(reader.read_into, begin, limit, max_bytes=WINDOW_BYTES)
    walker = _walker(geometry, kind)
    sink = RowSink([], 1 << 62, 1 << 62)
    end = chain = begin
    bad: list[tuple[int, str]] = []
    while True:
        status = walker.walk(window.buffer, window.at, window.filled, window.base, window.at_end, sink)
        position = window.base + walker.at
        if position > chain:
            end = min(position, limit)
        if status in (codes.END, codes.NEED_MORE):
            window.seek(position)
            if window.refill():
                continue
            if any(window.buffer[window.at : window.filled]):
                bad.append((position, CUT_OFF))
            return _walked(end, bad)
        header = bytes(window.buffer[walker.at : walker.at + HEADER_LENGTH])
        if status == codes.UNSET and not any(header):
            next_at = (
                None if geometry.limit < 0 else find_frame(walker, window, position + HEADER_LENGTH, reader, limit)
            )
            if next_at is None:
                return _walked(end, bad)
            bad.append((position, HOLE))
            chain = next_at
            window.seek(next_at)
            continue
        following = _following(reader, position, header, limit) if status == codes.CHECKSUM else b""
        if status == codes.CHECKSUM and _same_session(header, following):
            session_id = DataHeader.unpack_from(header).session_id
            geometry = replace(geometry, plain_sessions=(*geometry.plain_sessions, session_id))
            walker, chain = _walker(geometry, kind), min(chain, position)
            window.seek(position)
            continue
        bad.append((position, _PROBLEMS[status]))
        if status == codes.TORN:
            return _walked(end, bad)
        resume = window.base + walker.resume
        start = resume if status == codes.PADDING_DATA else position + HEADER_LENGTH
        next_at = find_frame(walker, window, start, reader, limit)
        # A good frame inside a bad one means that the bad one's length is wrong.
        is_last = status == codes.CHECKSUM and not any(following)
        if next_at is None or (is_last and next_at >= _frame_end(position, header)):
            return _walked(end, bad)
        chain = next_at
        window.seek(next_at)


def _walker(geometry: Geometry, kind: Checksum) -> Walker:
    polynomial = POLYNOMIALS.get(kind)
    walker = Walker(geometry, False, None if polynomial is None else Crc32(polynomial))
    walker.select(0, FOREVER, False)
    return walker


def _following(reader: SegmentReader, position: int, header: bytes, limit: int) -> bytes:
    """The header after a frame; empty at the segment's end."""
    end = _frame_end(position, header)
    return reader.read(end, HEADER_LENGTH) if end < limit else b""


def _frame_end(position: int, header: bytes) -> int:
    return position + align(DataHeader.unpack_from(header).frame_length)


def _same_session(header: bytes, following: bytes) -> bool:
    """Whether two successive frames have the same session id. Then neither has a checksum in its place: they were
    recorded while the archive had checksums disabled."""
    if len(following) < HEADER_LENGTH:
        return False
    first, second = DataHeader.unpack_from(header), DataHeader.unpack_from(following)
    return second.frame_length >= HEADER_LENGTH and first.session_id == second.session_id


def _walked(end: int, bad: list[tuple[int, str]]) -> _Walked:
    problem = next((what for position, what in bad if position >= end), None)
    return _Walked(end, problem, tuple(position for position, _ in bad if position < end))


def find_frame(walker: Walker, window: Window, position: int, reader: SegmentReader, limit: int) -> int | None:
    """Return the position of the next intact frame from ``position`` on, in the window's range, which ends at
    ``limit``."""
    window.seek(position)
    while True:
        found = walker.find(window.buffer, window.at, window.filled, window.base)
        if found >= 0:
            return window.base + found
        rest = (window.filled - window.at) % HEADER_LENGTH
        window.seek(window.base + window.filled - rest)
        window.skip_to(reader.next_data(window.address, limit), FRAME_ALIGNMENT)
        if not window.refill():
            return None


def _with_fingerprints(
    storage: Storage, recording: Recording, segments: SegmentMap, bases: list[int], walked: _Walked
) -> RecoveredEnd:
    """Combine the end with fingerprints of what follows it."""
    end, length = walked.end, segments.segment_length
    base = segments.base(end)
    tail = short = missing = None
    if base not in bases and base - length in bases and end == base < max_position(segments.term_length):
        missing = segments.name(base)
    elif base in bases:
        here = fingerprint_of(storage, segments.name(base), end - base)
        tail = here if here.byte_count else None
        short = here if here.size < length else None
    after = tuple(fingerprint_of(storage, segments.name(other), 0) for other in sorted(bases) if other > base)
    torn = has_frames = None
    if tail is not None:
        has_frames = any_frame(storage, segments, recording, end + HEADER_LENGTH, base + length)
        parts = [walked.problem or "", HOLE if has_frames else ""]
        torn = ", ".join(part for part in parts if part) or LEFTOVER
    return RecoveredEnd(
        recording.recording_id,
        end,
        length,
        torn=torn,
        has_hole=bool(has_frames) or any(f.byte_count for f in after),
        tail=tail,
        after=after,
        short=short,
        missing=missing,
        damaged=walked.damaged,
    )


def any_frame(storage: Storage, segments: SegmentMap, recording: Recording, start: int, end: int) -> bool:
    """Whether any bytes between two positions of one segment look like a frame header."""
    geometry = Geometry(recording.initial_term_id, recording.term_buffer_length, recording.stream_id)
    reader = SegmentReader(storage, segments)
    try:
        window = Window(reader.read_into, start, end, max_bytes=WINDOW_BYTES)
        return find_frame(Walker(geometry, False), window, start, reader, end) is not None
    finally:
        reader.close()


def fingerprint_of(storage: Storage, name: str, offset: int) -> TailFingerprint:
    """Return the fingerprint of a file from ``offset`` on."""
    with storage.open(name) as file:
        size, end = file.size(), offset
        for at, block in nonzero_blocks(file, offset, size):
            end = at + len(block.rstrip(b"\0"))
        return TailFingerprint(name, size, offset, end - offset, crc32_of(file, offset, end))
