"""The pre-commit buffer: messages, framed as in a segment, that a writer has accepted but not yet written to the
journal.

The C library trusts the first field; everlog limits it to the file's size. ``used`` may end after a header without
payload, if the writer was killed between copying the two.
"""

from __future__ import annotations

from dataclasses import dataclass

from everlog.core.files.storage import Storage
from everlog.errors import EverlogError
from everlog.jlog.format.layouts import FLUSH_NOTE_MAGIC, JlogFlushNote, JlogPreCommit
from everlog.jlog.format.names import PRE_COMMIT

START = JlogPreCommit.size
"""Offset of the first message."""


@dataclass(frozen=True, slots=True)
class PreCommit:
    """State of the buffer: ``used`` as stored; ``readable`` is the part of it inside the file."""

    byte_count: int
    used: int

    @property
    def capacity(self) -> int:
        """Bytes of messages that fit; 0 without a buffer."""
        return max(0, self.byte_count - START)

    @property
    def readable(self) -> int:
        """Bytes in use, limited to the file."""
        return min(self.used, self.capacity)

    @property
    def end(self) -> int:
        """Offset after the last byte in use."""
        return START + self.readable

    def to_dict(self) -> dict[str, object]:
        """Plain values for ``info``."""
        return {"capacity_bytes": self.capacity, "used_bytes": self.used}


def read_pre_commit(storage: Storage) -> PreCommit | None:
    """The buffer's state; ``None`` if the file is missing or unreadable."""
    try:
        if not storage.exists(PRE_COMMIT):
            return None
        with storage.open(PRE_COMMIT) as file:
            size = file.size()
            head = file.read_at(0, START)
    except EverlogError:
        return None
    return PreCommit(size, JlogPreCommit.unpack_from(head).used if len(head) == START else 0)


def read_flush_note(storage: Storage) -> JlogFlushNote | None:
    """Where an everlog writer is flushing, or was when it died; the next writer searches the journal from there.
    ``None`` if no flush is unfinished, or the file can't be read."""
    try:
        if not storage.exists(PRE_COMMIT):
            return None
        with storage.open(PRE_COMMIT) as file:
            size = file.size()
            head = file.read_at(0, START)
            tail = file.read_at(size - JlogFlushNote.size, JlogFlushNote.size) if size > JlogFlushNote.size else b""
    except EverlogError:
        return None
    if len(head) < START or len(tail) < JlogFlushNote.size:
        return None
    used, note = JlogPreCommit.unpack_from(head).used, JlogFlushNote.unpack_from(tail)
    is_there = 0 < used <= size - START - JlogFlushNote.size and note.magic == FLUSH_NOTE_MAGIC
    return note if is_there else None
