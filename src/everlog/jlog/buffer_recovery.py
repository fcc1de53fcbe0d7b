"""Writing out what a writer that died, or a flush that failed, left in the pre-commit buffer, without writing a message
twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from everlog.core.writable import WritableStorage
from everlog.errors import StoreUnavailable
from everlog.jlog.buffer import PreCommitBuffer, Waiting
from everlog.jlog.framing import Framing
from everlog.jlog.layouts import JlogFlushNote
from everlog.jlog.names import parse_segment_name, segment_name
from everlog.jlog.tail import settle

MAX_SEARCH_BYTES = 256 << 20
"""So far behind the noted place the journal is searched."""


def write_out(
    storage: WritableStorage, buffer: PreCommitBuffer, framing: Framing, append: Callable[[bytes, int], None]
) -> int:
    """Give the whole messages that wait to ``append``, but for those that are in the journal already; then say that
    nothing waits. The number given.

    A crash in it leaves the messages waiting; ``append`` notes where it writes, so that those which were written are
    found again.
    """
    waiting = buffer.waiting()
    note = buffer.flush_note()
    skip = 0 if note is None else count_written(waiting, _messages_behind(storage, note, framing))
    if skip < waiting.count:
        append(waiting.data[waiting.starts[skip] :], waiting.count - skip)
    if buffer.used:
        buffer.empty()
    return waiting.count - skip


def count_written(waiting: Waiting, written: Iterator[bytes]) -> int:
    """How many of the first messages that wait are among ``written``, framed, in their order. Messages of other writers
    may lie between; one that is the same to the microsecond and the byte would be taken for ours."""
    ends = (*waiting.starts[1:], len(waiting.data))
    count = 0
    for message in written:
        if count == waiting.count:
            break
        count += message == waiting.data[waiting.starts[count] : ends[count]]
    return count


def _messages_behind(storage: WritableStorage, note: JlogFlushNote, framing: Framing) -> Iterator[bytes]:
    """The messages, framed, from the noted place on, over all segments that follow."""
    logs = sorted(log for log in map(parse_segment_name, storage.names()) if log is not None and log >= note.log)
    left = MAX_SEARCH_BYTES
    for log in logs:
        try:
            opened = storage.open_writable(segment_name(log))
        except StoreUnavailable:
            if storage.exists(segment_name(log)):
                raise
            continue  # a process of the C library has removed it
        with opened as file:
            at = note.offset if log == note.log else 0
            if file.size() <= at:
                continue
            end = settle(storage, log, file, framing).end
            data = file.read_at(at, min(end - at, left)) if end > at else b""
        left -= len(data)
        at = 0
        while (header := framing.parse(data, at, at)) is not None and header.end <= len(data):
            yield data[at : header.end]
            at = header.end
