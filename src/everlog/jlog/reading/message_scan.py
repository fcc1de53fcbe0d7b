"""Finds the whole messages of a file with the rules of reading, past damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from everlog.core.columns import MAX_BATCH_BYTES, MAX_BATCH_ROWS
from everlog.core.files.storage import ReadableFile
from everlog.core.report import Fault
from everlog.errors import CorruptData
from everlog.jlog.format.framing import KNOWN, LEGACY, Framing, Header
from everlog.jlog.format.layouts import COMPRESSED_MAGIC
from everlog.jlog.reading.journal import SOURCES
from everlog.jlog.reading.recovery import SegmentData, detect_framing, find_message
from everlog.jlog.reading.segments import SegmentReader, no_index
from everlog.kernel.columns import RowSink


def whole_messages(
    file: ReadableFile, start: int, end: int, framing: Framing, on_fault: Callable[[Fault], None], *, at: int = 0
) -> Iterator[Header]:
    """The headers of the whole messages of ``file[start:end]`` in order, from offset ``at`` on, where a message
    starts."""
    sink = RowSink([("offset", "q", SOURCES["offset"])], MAX_BATCH_ROWS, MAX_BATCH_BYTES)
    reader = SegmentReader(file, 0, start, end, framing, sink, on_fault, at=at)
    data = SegmentData(file, start, end)

    def taken() -> Iterator[Header]:
        count, columns = sink.take()
        for offset in columns["offset"][0][:count] if count else ():
            header = data.header(offset, reader.framing)
            if header is None:  # from before the framing changed
                found = detect_framing(data, offset, framing)
                header = None if found is None else data.header(offset, found)
            if header is not None:
                yield header

    for _ in reader.fill():
        yield from taken()
    yield from taken()


def check_framing(data: SegmentData, framing: Framing) -> None:
    """Raises :class:`CorruptData` if the data starts with messages of another framing than ``framing``, the
    metastore's. Writers need this, because they cut whatever is not a message by that framing."""
    magic = int.from_bytes(data.read(data.start, 4), "little")
    found = detect_framing(data, data.start, framing)
    if found is None and magic & ~0xFF == COMPRESSED_MAGIC:  # an unknown provider
        found = Framing(magic)
    if found is not None and found.provider is not framing.provider:
        raise _differs(data, data.start, found, framing)


def check_no_other_framing(data: SegmentData, start: int, framing: Framing) -> None:
    """Raises :class:`CorruptData` if a message of another compression (``provider``) starts at or after ``start``.
    Messages of the legacy framing, whose magic is 0, are not looked for: zeros look like them."""
    for other in KNOWN:
        # Zeros contain magic 0 everywhere: such messages count only at the start of the data.
        if other == LEGACY or other.provider is framing.provider:
            continue
        at = find_message(data, start, other, no_index())
        if at is not None:
            raise _differs(data, at, other, framing)


def _differs(data: SegmentData, at: int, found: Framing, framing: Framing) -> CorruptData:
    return CorruptData(
        data.file.name,
        offset=at,
        found=f"messages with magic {found.magic:#010x}",
        expected=f"{framing.magic:#010x}, as the metastore says",
        hint="nothing was cut; everlog repair sets the metastore's magic if the segments show it",
    )
