"""Writing out what a writer that died left in the pre-commit buffer, without writing a message twice."""

from __future__ import annotations

from collections.abc import Callable

from everlog.core.writable import WritableStorage
from everlog.jlog.buffer import PreCommitBuffer, Waiting, already_written
from everlog.jlog.framing import Framing
from everlog.jlog.names import segment_name
from everlog.jlog.tail import settle

MAX_SEARCH_BYTES = 256 << 20
"""So far behind the noted place a segment is searched."""


def write_out(
    storage: WritableStorage, buffer: PreCommitBuffer, framing: Framing, append: Callable[[bytes, int], None]
) -> int:
    """Give the whole messages that wait to ``append``, but for those that are in the journal already; then say that
    nothing waits. The number given.

    A crash in it leaves the messages waiting; those that were written are found again by the note that is made before.
    """
    waiting = buffer.waiting()
    if waiting.count:
        skip = _already_written(storage, buffer, framing, waiting)
        start = waiting.starts[skip] if skip < waiting.count else len(waiting.data)
        if skip < waiting.count:
            append(waiting.data[start:], waiting.count - skip)
        written = waiting.count - skip
    else:
        written = 0
    if buffer.used:
        buffer.empty()
    return written


def _already_written(storage: WritableStorage, buffer: PreCommitBuffer, framing: Framing, waiting: Waiting) -> int:
    note = buffer.flush_note()
    if note is None or not storage.exists(segment_name(note.log)):
        return 0
    with storage.open_writable(segment_name(note.log)) as file:
        size = file.size()
        if note.offset >= size:
            return 0
        end = settle(storage, note.log, file, framing).end
        length = min(end - note.offset, MAX_SEARCH_BYTES)
        return already_written(waiting, file.read_at(note.offset, length), framing) if length > 0 else 0
