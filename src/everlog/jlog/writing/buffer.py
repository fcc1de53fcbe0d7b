"""The pre-commit buffer of a writer: a file that collects messages until a batch is written to the journal.

It survives the death of the process, but not a power cut. One everlog writer at a time owns it by holding the file's
lock, so that no other writer, including the C library, flushes its messages. The next writer flushes what a dead one
left, without the messages that are already in the journal.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from everlog.core.files.writable import WritableFile, WritableStorage
from everlog.core.report import Fault
from everlog.errors import CorruptData, LimitExceeded, StoreUnavailable, WriteFailed
from everlog.jlog.format.framing import Framing
from everlog.jlog.format.layouts import FLUSH_NOTE_MAGIC, JlogFlushNote, JlogPreCommit
from everlog.jlog.format.names import PRE_COMMIT
from everlog.jlog.format.pre_commit import read_pre_commit
from everlog.jlog.reading.message_scan import check_framing, check_no_other_framing, whole_messages
from everlog.jlog.reading.recovery import TORN, SegmentData, holds_header
from everlog.jlog.writing.append import buffer_appender

DEFAULT_BUFFER_BYTES = 1 << 20
MAX_BUFFER_BYTES = 1 << 30
START = JlogPreCommit.size
LOCK_TIMEOUT_S = 1.0
"""The C library holds the lock briefly while it opens the file."""
ABANDONED_BUFFER_TRIES = 12
"""Takes under 0.1 s: the delay for an unbuffered writer that finds a live writer's buffer in use."""


@dataclass(frozen=True, slots=True)
class LeftMessages:
    """Messages that a dead writer left: ``data`` holds the whole ones, framed and contiguous, and ``starts`` their
    offsets. ``stray`` is the range of the buffer that contains all other bytes, at offset ``stray_at`` of the file.
    ``stray_code`` is their fault code, empty if they were never acknowledged (a torn message at the end, or zeros)."""

    data: bytes
    starts: tuple[int, ...]
    stray: bytes = b""
    stray_at: int = 0
    stray_code: str = ""

    @property
    def count(self) -> int:
        """Number of messages."""
        return len(self.starts)


def _check_in_time(deadline: float) -> None:
    if time.monotonic() >= deadline:
        raise StoreUnavailable(
            PRE_COMMIT,
            found="in use by another writer",
            expected="one buffered writer at a time",
            hint="durability 'written' needs no buffer",
            message="the pre-commit buffer is in use by another writer",
        )


def _pause() -> None:
    """The length is random: checking whether the file is open elsewhere opens it, so two processes in step would block
    each other."""
    time.sleep(random.uniform(0.002, 0.01))


def _wait_until(deadline: float, is_free: Callable[[], bool]) -> None:
    while not is_free():
        _check_in_time(deadline)
        _pause()


def _is_mapped(storage: WritableStorage) -> bool:
    """Whether a C library writer may have the file mapped. It maps the file when it opens the journal and holds no lock
    afterwards. Even without a buffer of its own it marks the buffer as empty after each message."""
    return storage.is_open_elsewhere(PRE_COMMIT) is True


def _open_locked(storage: WritableStorage, mode: int, deadline: float) -> WritableFile:
    """Open and lock the file. If it was replaced while this process waited for the lock, open the new one."""
    while True:
        _wait_until(deadline, lambda: not _is_mapped(storage))
        file = storage.open_writable(PRE_COMMIT, create=True, mode=mode)
        try:
            _wait_until(deadline, partial(file.lock, wait=False))
            if file.is_current():
                return file
            _check_in_time(deadline)
        except BaseException:
            file.close()
            raise
        file.close()


class PreCommitBuffer:
    """The buffer file, open and locked by this writer. Raises :class:`StoreUnavailable` if another writer has it."""

    def __init__(self, storage: WritableStorage, framing: Framing, mode: int, *, wait_s: float) -> None:
        self._framing = framing
        self._is_note_old = False  # the buffer is empty, but its flush note could not be cleared
        self.is_flush_begun = False
        """A flush failed: the journal may hold some of these messages."""
        self._file = _open_locked(storage, mode, time.monotonic() + wait_s)
        try:
            head = self._file.read_at(0, START)
            if len(head) < START:
                self._file.write_at(0, bytes(START))
                head = bytes(START)
            self._capacity = self._file.size() - START
            self._was_there = self._capacity > 0
            used = min(JlogPreCommit.unpack_from(head).used, self._capacity)
            self._appender = buffer_appender(self._file, framing.magic, used, 0)
        except BaseException:
            self._file.close()
            raise
        self.append = self._appender.append

    @property
    def used(self) -> int:
        """Bytes of messages in the buffer."""
        return self._appender.used

    @property
    def capacity(self) -> int:
        """Bytes of messages that fit into the file."""
        return max(0, self._capacity - JlogFlushNote.size)

    def mode(self) -> int:
        """The file's permission bits."""
        return self._file.mode()

    def begin(self, capacity: int) -> None:
        """Prepare the empty buffer for up to ``capacity`` bytes of messages. The file grows if needed but never
        shrinks, because another process may have it mapped."""
        wanted = capacity + JlogFlushNote.size
        if self._capacity < wanted:
            # Zeros, not a hole: a full disk must fail here, not at a later append.
            self._file.write_at(START + self._capacity, bytes(wanted - self._capacity))
            self._capacity = wanted
        self.empty()
        self._appender = buffer_appender(self._file, self._framing.magic, 0, capacity)
        self.append = self._appender.append

    def read(self) -> tuple[bytes, int]:
        """The messages that this writer appended, framed, and their number."""
        return self._file.read_at(START, self.used), self._appender.count

    def left_messages(self) -> LeftMessages:
        """Find the whole messages in the buffer.

        If the headers chain exactly to the end of the used bytes, these are the messages. Otherwise the buffer is read
        like a segment: C library writers that are killed leave partial messages, and others append after them. (A
        partial message that happens to end where a later one ends is written together with it.)

        Raises :class:`CorruptData` if the buffer holds no message, or if its framing differs from the metastore's.
        """
        if self.used > MAX_BUFFER_BYTES:
            found = f"{self.used} bytes of messages that an earlier writer left in this file"
            raise LimitExceeded(PRE_COMMIT, found=found, expected=f"at most {MAX_BUFFER_BYTES}")
        data = self._file.read_at(START, self.used)
        starts = self._starts(data)
        return self._found_in(data) if starts is None else LeftMessages(data, starts)

    def _starts(self, data: bytes) -> tuple[int, ...] | None:
        """Offsets of messages that fill the data exactly; ``None`` if they don't."""
        starts = []
        at = 0
        while (header := self._framing.parse(data, at, at)) is not None and header.end <= len(data):
            starts.append(at)
            at = header.end
        return tuple(starts) if at == len(data) else None

    def _found_in(self, data: bytes) -> LeftMessages:
        there = SegmentData(self._file, START, START + len(data))
        check_framing(there, self._framing)
        faults: list[Fault] = []
        places = [
            (header.offset - START, header.end - START)
            for header in whole_messages(self._file, START, there.end, self._framing, faults.append)
        ]
        starts, gaps = [], []
        size = at = 0
        for start, end in [*places, (len(data), len(data))]:
            if start > at:
                gaps.append((at, start))
            if end > start:
                starts.append(size)
                size += end - start
            at = end
        if not gaps:
            return LeftMessages(data, tuple(starts))
        code = self._stray_code(there, START + gaps[0][0], len(gaps), faults[-1].code if faults else "damaged-bytes")
        if not places and code and data[:4] != self._framing.magic_bytes:
            raise CorruptData(
                PRE_COMMIT,
                offset=START,
                found=f"the {len(data)} bytes in use are not messages",
                expected=f"messages with magic {self._framing.magic:#010x}",
                hint="everlog repair empties it and keeps a copy",
            )
        whole = b"".join(data[start:end] for start, end in places)
        return LeftMessages(whole, tuple(starts), data[gaps[0][0] : gaps[-1][1]], START + gaps[0][0], code)

    def _stray_code(self, there: SegmentData, at: int, gap_count: int, code: str) -> str:
        """The fault code of the bytes that are not messages, the first of which are at ``at``."""
        if there.is_zero(at, there.end):
            return ""
        check_no_other_framing(there, at, self._framing)
        is_torn = gap_count == 1 and code in TORN and not holds_header(there, at + 1, self._framing)
        return "" if is_torn else code

    def note_flush(self, log: int, offset: int) -> None:
        """Record where the flush is about to write. If this process dies before the buffer is marked as empty, the next
        writer searches from there. The note of a failed flush stays, because its messages are after that place."""
        if self._is_note_old:
            self._clear_note()
        if self.flush_note() is not None:
            return
        room = self._capacity - self.used - JlogFlushNote.size
        if room < 0:  # the C library filled the buffer completely
            self._file.write_at(START + self._capacity, bytes(-room))
            self._capacity -= room
        note = JlogFlushNote.pack(magic=FLUSH_NOTE_MAGIC, log=log, offset=offset)
        self._file.write_at(self._note_at, note)
        self.is_flush_begun = True

    def flush_note(self) -> JlogFlushNote | None:
        """The note of a dead writer or of a failed flush, if present."""
        if self._capacity < JlogFlushNote.size + self.used:
            return None
        note = JlogFlushNote.unpack_from(self._file.read_at(self._note_at, JlogFlushNote.size))
        return note if note.magic == FLUSH_NOTE_MAGIC else None

    @property
    def _note_at(self) -> int:
        return START + self._capacity - JlogFlushNote.size

    def empty(self) -> None:
        """Mark the buffer as empty after its messages were written to the journal."""
        self._appender.clear()
        self._is_note_old = True
        self.is_flush_begun = False
        self._clear_note()

    def _clear_note(self) -> None:
        if self._capacity >= JlogFlushNote.size:
            self._file.write_at(self._note_at, bytes(JlogFlushNote.size))
        self._is_note_old = False

    def remove(self) -> None:
        """Call before :meth:`close`. If the journal had no buffer before and it is empty now, remove it: C library
        writers use any buffer that they find, and two of them damage it."""
        if not self._was_there and not self.used:
            self._appender.close()
            self._file.truncate(START)

    def close(self) -> None:
        """Close the file and release its lock."""
        self._appender.close()
        self._file.close()


def open_abandoned_buffer(storage: WritableStorage, framing: Framing, mode: int) -> PreCommitBuffer | None:
    """The buffer, if it holds messages of a dead writer. Retried briefly, because a process that opens the file only
    for a moment (a starting writer, or a lag check) can't be distinguished from a live writer."""
    for number in range(ABANDONED_BUFFER_TRIES):
        if number:
            _pause()
        found = read_pre_commit(storage)
        if found is None or not found.readable:
            return None
        try:
            return PreCommitBuffer(storage, framing, mode, wait_s=0.0)
        except WriteFailed:
            raise
        except StoreUnavailable:
            continue
    return None
