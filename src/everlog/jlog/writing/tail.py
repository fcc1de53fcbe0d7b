"""The end of the current segment, where the next message goes.

A killed writer or a power cut leaves a torn message at the end. Readers could not separate it from messages appended
after it, so a writer first truncates it under the segment's lock. A torn message was never acknowledged, nor were
zeros. Any other bytes are saved to a file next to the segment before they are cut.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from everlog.core.columns import MAX_BATCH_BYTES, MAX_BATCH_ROWS
from everlog.core.files.storage import MAX_SMALL_FILE_BYTES
from everlog.core.files.writable import WritableFile, WritableStorage, locked
from everlog.core.report import Fault
from everlog.errors import LimitExceeded
from everlog.jlog.format.framing import Framing
from everlog.jlog.format.index import ENTRY, read_index
from everlog.jlog.format.names import index_name
from everlog.jlog.reading.journal import SOURCES
from everlog.jlog.reading.message_scan import check_framing, check_no_other_framing
from everlog.jlog.reading.recovery import TORN, SegmentData, holds_header
from everlog.jlog.reading.segments import SegmentReader
from everlog.kernel.columns import RowSink

TRIM_BYTES = 1 << 16
"""An index is trimmed in blocks of this size."""
_log = logging.getLogger("everlog.jlog")


@dataclass(frozen=True, slots=True)
class Tail:
    """The next message goes to offset ``end`` and gets number ``marker``."""

    end: int
    marker: int


def known_tail(storage: WritableStorage, log: int, file: WritableFile, framing: Framing) -> Tail:
    """Where to start following a segment: after the last message in its index if that is sound, else at the
    beginning."""
    index = read_index(storage, log, file.size(), framing.header_bytes)
    if index.is_sound and index.good and not index.closed:
        data = SegmentData(file, 0, file.size())
        header = data.header(index.entries[index.good - 1], framing)
        if header is not None and header.end <= data.end:
            return Tail(header.end, index.good + 1)
    return Tail(0, 1)


def recover_tail(storage: WritableStorage, log: int, file: WritableFile, framing: Framing) -> Tail:
    """Read the whole segment, truncate whatever follows its last message, and return the new tail.

    Locks the index before the segment, in the order of the C library's readers when they repair a segment. A crash
    leaves the segment cut or uncut. Raises :class:`WriteFailed`, and :class:`CorruptData` with nothing cut if the
    messages' framing differs from ``framing``, by which they would not be messages.
    """
    with _locked_index(storage, log) as index, locked(file):
        size = file.size()
        there = SegmentData(file, 0, size)
        check_framing(there, framing)
        faults: list[Fault] = []
        tail, found = _read(storage, log, there, framing, faults, is_live=False)
        dead: set[int] = set()
        if any(_count_to_end(there, fault.offset or 0, found, dead) for fault in faults):
            # Keep a message that may be whole, even if reading calls it torn: it may be acknowledged.
            known, found = _read(storage, log, there, framing, [], is_live=True)
            count = _count_to_end(there, known.end, found, set())
            if count:
                return Tail(size, known.marker + count)
        if tail.end < size:
            code = faults[-1].code if faults else "torn-record"
            is_torn = code in TORN and not holds_header(there, tail.end + 1, found)
            if not is_torn:
                check_no_other_framing(there, tail.end, found)
            _set_aside(storage, log, file, tail.end, size, "" if is_torn else code)
            if index is not None:
                _trim(index, tail.end)
            file.truncate(tail.end)
        return tail


def _read(
    storage: WritableStorage, log: int, data: SegmentData, framing: Framing, faults: list[Fault], *, is_live: bool
) -> tuple[Tail, Framing]:
    """The end of the last message that reading gives, and the framing there."""
    sink = RowSink([(name, "q", SOURCES[name]) for name in ("marker", "offset")], MAX_BATCH_ROWS, MAX_BATCH_BYTES)
    reader = SegmentReader(data.file, log, 0, data.end, framing, sink, faults.append, is_live=is_live)
    reader.load_index = lambda: read_index(storage, log, data.end, framing.header_bytes)
    last: tuple[int, int] | None = None
    for _ in reader.fill():
        last = _take(sink) or last
    last = _take(sink) or last
    if last is None:
        return Tail(0, 1), reader.framing
    header = data.header(last[1], reader.framing)
    assert header is not None
    return Tail(header.end, last[0] + 1), reader.framing


def _count_to_end(data: SegmentData, at: int, framing: Framing, dead: set[int]) -> int:
    """How many contiguous messages lead from an offset exactly to the end of the data; 0 if they don't. ``dead``
    collects headers that don't lead there."""
    path: list[int] = []
    header = data.header(at, framing)
    while header is not None and header.offset not in dead:
        path.append(header.offset)
        if header.end >= data.end:
            break
        header = data.header(header.end, framing)
    if header is not None and header.offset not in dead and header.end == data.end:
        return len(path)
    dead.update(path)
    return 0


def _take(sink: RowSink) -> tuple[int, int] | None:
    """Number and offset of the last message in the sink."""
    count, taken = sink.take()
    return (taken["marker"][0][count - 1], taken["offset"][0][count - 1]) if count else None


def _set_aside(storage: WritableStorage, log: int, file: WritableFile, end: int, size: int, code: str) -> None:
    """Save the bytes to cut, unless they are only a torn message or zeros (``code`` is empty)."""
    kept = ""
    if code:
        if size - end > MAX_SMALL_FILE_BYTES:
            raise LimitExceeded(
                file.name,
                offset=end,
                found=f"{size - end} bytes are not messages",
                expected=f"at most {MAX_SMALL_FILE_BYTES}",
                hint="everlog repair cuts them",
            )
        kept = f"cut.{log:08x}.{end}"
        storage.publish(kept, file.read_at(end, size - end), replace=True, mode=file.mode(), sync=True)
    _log.warning(
        "%s: cutting %d bytes at offset %d that are not a message (%s)%s",
        file.name,
        size - end,
        end,
        code or "torn",
        f"; saved in {kept}" if kept else "",
    )


@contextmanager
def _locked_index(storage: WritableStorage, log: int) -> Iterator[WritableFile | None]:
    """The segment's index, locked, if it exists. One created during the search contains whole messages only."""
    name = index_name(log)
    if not storage.exists(name):
        yield None
        return
    with storage.open_writable(name) as index, locked(index):
        yield index


def _trim(index: WritableFile, end: int) -> None:
    """Remove entries past the end, which would permanently stop the C library's readers."""
    size = index.size()
    keep = size // ENTRY * ENTRY if end else 0
    while keep:
        start = max(0, keep - TRIM_BYTES)
        raw = index.read_at(start, keep - start)
        block = array("Q", raw[: len(raw) // ENTRY * ENTRY])
        while block and block[-1] >= end:
            block.pop()
        keep = start + len(block) * ENTRY
        if block:
            break
    if keep < size:
        index.truncate(keep)
