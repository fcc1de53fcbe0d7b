"""Writing out what a writer that died, or a flush that failed, left in the pre-commit buffer, without writing a message
twice."""

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
from everlog.jlog.writing.buffer import PreCommitBuffer, Waiting

_log = logging.getLogger("everlog.jlog")


def write_out(
    storage: WritableStorage, buffer: PreCommitBuffer, framing: Framing, append: Callable[[bytes, int], None]
) -> int:
    """Give the whole messages that wait to ``append``, but for those that are in the journal already; then say that
    nothing waits. The number given. Bytes between and behind them that are no messages are kept in a file first, unless
    nobody acknowledged them. Raises as :meth:`PreCommitBuffer.waiting`; then all is as it was.

    A crash in it leaves the messages waiting; ``append`` notes where it writes, so that those which were written are
    found again.
    """
    if not buffer.used:
        return 0
    waiting = buffer.waiting()
    if waiting.odd:
        _set_aside(storage, waiting, mode=buffer.mode())
    note = buffer.flush_note()
    skip = 0 if note is None else count_written(waiting, _messages_behind(storage, note, framing))
    if skip < waiting.count:
        append(waiting.data[waiting.starts[skip] :], waiting.count - skip)
    buffer.empty()
    return waiting.count - skip


def _set_aside(storage: WritableStorage, waiting: Waiting, *, mode: int) -> None:
    kept = ""
    if waiting.odd_code:
        for kept in _names(f"cut.{PRE_COMMIT}.{waiting.odd_at}"):
            if storage.publish(kept, waiting.odd, replace=False, mode=mode, sync=True):
                break
            with storage.open(kept) as file:
                if file.size() == len(waiting.odd) and file.read_at(0, len(waiting.odd)) == waiting.odd:
                    break  # kept before, by one that died before it had emptied the buffer
    _log.warning(
        "%s: leaving out bytes from offset %d on that are no message (%s)%s",
        PRE_COMMIT,
        waiting.odd_at,
        waiting.odd_code or "torn",
        f", kept in {kept}" if kept else "",
    )


def _names(first: str) -> Iterator[str]:
    """Buffers begin at the same place each time, so that there may be such a file of another one."""
    yield first
    yield from (f"{first}.{number}" for number in count(2))


def count_written(waiting: Waiting, written: Iterator[bytes]) -> int:
    """How many of the first messages that wait are among ``written``, framed, in their order. Messages of other writers
    may lie between; one that is the same to the microsecond and the byte would be taken for ours."""
    ends = (*waiting.starts[1:], len(waiting.data))
    found = 0
    for message in written:
        if found == waiting.count:
            break
        found += message == waiting.data[waiting.starts[found] : ends[found]]
    return found


def _messages_behind(storage: WritableStorage, note: JlogFlushNote, framing: Framing) -> Iterator[bytes]:
    """The messages, framed, from the noted place on, past damage, over all segments that follow; also those that may be
    whole though reading takes others inside for real: who knows what was to be written there can tell."""
    logs = sorted(log for log in map(parse_segment_name, storage.names()) if log is not None and log >= note.log)
    for log in logs:
        try:
            opened = storage.open(segment_name(log))
        except StoreUnavailable:
            if storage.exists(segment_name(log)):
                raise
            continue  # a process of the C library has removed it
        with opened as file:
            data = SegmentData(file, 0, file.size())
            at = note.offset if log == note.log else 0
            if data.end <= at:
                continue
            found = detect_framing(data, 0, framing) or framing
            torn: list[Header] = []

            def told(fault: Fault, data: SegmentData = data, torn: list[Header] = torn, found: Framing = found) -> None:
                header = None if fault.offset is None else data.header(fault.offset, found)
                if header is not None and header.end <= data.end:
                    torn.append(header)

            for header in whole_messages(file, 0, data.end, found, told, at=at):
                while torn:
                    yield _bytes_of(data, torn.pop(0))
                yield _bytes_of(data, header)
            yield from (_bytes_of(data, header) for header in torn)


def _bytes_of(data: SegmentData, header: Header) -> bytes:
    return data.read(header.offset, header.end - header.offset)
