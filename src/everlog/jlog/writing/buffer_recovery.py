"""Flushes what a dead writer or a failed flush left in the pre-commit buffer, writing each message once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import count

from everlog.core.files.writable import WritableStorage
from everlog.core.report import Fault
from everlog.errors import StoreUnavailable
from everlog.jlog.format.framing import Framing, Header
from everlog.jlog.format.layouts import JlogFlushNote
from everlog.jlog.format.names import PRE_COMMIT, parse_segment_name, segment_name
from everlog.jlog.reading.message_scan import whole_messages
from everlog.jlog.reading.recovery import SegmentData, detect_framing
from everlog.jlog.writing.buffer import LeftMessages, PreCommitBuffer

_log = logging.getLogger("everlog.jlog")


def write_out(
    storage: WritableStorage, buffer: PreCommitBuffer, framing: Framing, append: Callable[[bytes, int], None]
) -> int:
    """Pass the whole messages in the buffer to ``append``, except those already in the journal, and empty the buffer.
    Returns how many were passed. Bytes that are not messages are first saved to a file, unless they were never
    acknowledged. Raises as :meth:`PreCommitBuffer.left_messages`; nothing is changed then.

    A crash leaves the messages in the buffer. ``append`` records where it writes, so that the messages written before
    the crash are found.
    """
    if not buffer.used:
        return 0
    left = buffer.left_messages()
    if left.stray:
        _set_aside(storage, left, mode=buffer.mode())
    note = buffer.flush_note()
    skip = 0 if note is None else count_written(left, _messages_from(storage, note, framing))
    if skip < left.count:
        append(left.data[left.starts[skip] :], left.count - skip)
    buffer.empty()
    return left.count - skip


def _set_aside(storage: WritableStorage, left: LeftMessages, *, mode: int) -> None:
    kept = ""
    if left.stray_code:
        for kept in _names(f"cut.{PRE_COMMIT}.{left.stray_at}"):
            if storage.publish(kept, left.stray, replace=False, mode=mode, sync=True):
                break
            with storage.open(kept) as file:
                if file.size() == len(left.stray) and file.read_at(0, len(left.stray)) == left.stray:
                    break  # saved by a writer that died before it emptied the buffer
    _log.warning(
        "%s: skipping bytes at offset %d that are not a message (%s)%s",
        PRE_COMMIT,
        left.stray_at,
        left.stray_code or "torn",
        f"; saved in {kept}" if kept else "",
    )


def _names(first: str) -> Iterator[str]:
    """Every buffer starts at the same offset, so an earlier one may have left a file of that name."""
    yield first
    yield from (f"{first}.{number}" for number in count(2))


def count_written(left: LeftMessages, written: Iterator[bytes]) -> int:
    """How many of the buffer's first messages are in ``written`` (framed), in order. Messages of other writers may lie
    between. A message that is identical to the microsecond and byte is counted as ours."""
    ends = (*left.starts[1:], len(left.data))
    found = 0
    for message in written:
        if found == left.count:
            break
        found += message == left.data[left.starts[found] : ends[found]]
    return found


def _messages_from(storage: WritableStorage, note: JlogFlushNote, framing: Framing) -> Iterator[bytes]:
    """The framed messages from the noted place on, past damage, through all later segments. Includes messages that may
    be whole although reading prefers the ones inside them: the caller knows what was to be written."""
    logs = sorted(log for log in map(parse_segment_name, storage.names()) if log is not None and log >= note.log)
    for log in logs:
        try:
            opened = storage.open(segment_name(log))
        except StoreUnavailable:
            if storage.exists(segment_name(log)):
                raise
            continue  # a C library process removed it
        with opened as file:
            data = SegmentData(file, 0, file.size())
            at = note.offset if log == note.log else 0
            if data.end <= at:
                continue
            found = detect_framing(data, 0, framing) or framing
            torn: list[Header] = []

            def collect_torn(
                fault: Fault, data: SegmentData = data, torn: list[Header] = torn, found: Framing = found
            ) -> None:
                header = None if fault.offset is None else data.header(fault.offset, found)
                if header is not None and header.end <= data.end:
                    torn.append(header)

            for header in whole_messages(file, 0, data.end, found, collect_torn, at=at):
                while torn:
                    yield _bytes_of(data, torn.pop(0))
                yield _bytes_of(data, header)
            yield from (_bytes_of(data, header) for header in torn)


def _bytes_of(data: SegmentData, header: Header) -> bytes:
    return data.read(header.offset, header.end - header.offset)
