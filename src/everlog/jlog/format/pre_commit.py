"""The pre-commit buffer: messages, framed as in a segment, that a writer has taken and not yet written there.

The original trusts the first field; here it is bounded by the file. ``used`` may end behind a header whose payload
never came, when the writer was killed between its two copies.
"""

from __future__ import annotations

from dataclasses import dataclass

from everlog.core.files.storage import Storage
from everlog.errors import EverlogError
from everlog.jlog.format.layouts import FLUSH_NOTE_MAGIC, JlogFlushNote, JlogPreCommit
from everlog.jlog.format.names import PRE_COMMIT

START = JlogPreCommit.size
"""Where the messages begin."""


@dataclass(frozen=True, slots=True)
class PreCommit:
    """The buffer as found: ``used`` as the file says, ``readable`` the part of it that is there."""

    byte_count: int
    used: int

    @property
    def capacity(self) -> int:
        """Bytes of messages that fit; 0 when there is no buffer."""
        return max(0, self.byte_count - START)

    @property
    def readable(self) -> int:
        """Bytes in use, as far as the file goes."""
        return min(self.used, self.capacity)

    @property
    def end(self) -> int:
        """Offset behind the last byte in use."""
        return START + self.readable

    def to_dict(self) -> dict[str, object]:
        """Plain values for ``info``."""
        return {"capacity_bytes": self.capacity, "used_bytes": self.used}


def read_pre_commit(storage: Storage) -> PreCommit | None:
    """The buffer's state, or ``None`` when there is no such file, or it can't be read."""
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
    """Where an everlog writer is writing what waits, or was when it died: there the next writer looks what of it is in
    the journal already. ``None`` when nothing is under way, or the file can't be read."""
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
