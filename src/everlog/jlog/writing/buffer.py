"""The pre-commit buffer, as a writer uses it: a file in which messages wait until there are enough to write at once.

It survives the death of the process, not a power cut. One everlog writer at a time has it: it holds the file's lock as
long as it is open, so that nobody, the C library neither, writes out its messages behind its back. What a dead writer
left is written out by the next one; messages of it that are in the journal already are left out.
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
from everlog.jlog.reading.message_scan import check_framing, check_no_other, whole_messages
from everlog.jlog.reading.recovery import TORN, SegmentData, holds_header
from everlog.jlog.writing.append import buffer_appender

DEFAULT_BUFFER_BYTES = 1 << 20
MAX_BUFFER_BYTES = 1 << 30
START = JlogPreCommit.size
SECONDS_FOR_THE_LOCK = 1.0
"""The C library holds the lock for a moment while it opens the file."""
TRIES_FOR_A_LEFT_BUFFER = 12
"""Under 0.1 s: so long a writer of another durability that finds messages waiting is held up by one that lives."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a writer that died left: whole messages, framed, one behind the other, and where each begins. ``odd`` are
    the bytes from the first to the last that are none, as they are in the buffer, at offset ``odd_at`` of its file;
    ``odd_code`` says what they are, empty for what nobody acknowledged: a torn message at the end, or zeros."""

    data: bytes
    starts: tuple[int, ...]
    odd: bytes = b""
    odd_at: int = 0
    odd_code: str = ""

    @property
    def count(self) -> int:
        """Messages."""
        return len(self.starts)


def _check_in_time(deadline: float) -> None:
    if time.monotonic() >= deadline:
        raise StoreUnavailable(
            PRE_COMMIT,
            found="a pre-commit buffer that another writer has",
            expected="one writer with it at a time",
            hint="durability 'written' needs no buffer",
        )


def _pause() -> None:
    """A chance length: who asks whether somebody has the file open has it open too, so that two in step would each keep
    the other from it."""
    time.sleep(random.uniform(0.002, 0.01))


def _wait_until(deadline: float, is_free: Callable[[], bool]) -> None:
    while not is_free():
        _check_in_time(deadline)
        _pause()


def _is_mapped(storage: WritableStorage) -> bool:
    """Whether a writer of the C library may have it. That one maps what there is of it when it is opened, and has no
    lock on it from then on; even one without a buffer says with each message that nothing waits, whoever's it is."""
    return storage.is_open_elsewhere(PRE_COMMIT) is True


def _open_locked(storage: WritableStorage, mode: int, deadline: float) -> WritableFile:
    """The file, locked. One that was written anew while this process waited for its lock is left, and the new one is
    opened."""
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
    """The file, open and locked by this writer. Raises :class:`StoreUnavailable` where another has it."""

    def __init__(self, storage: WritableStorage, framing: Framing, mode: int, *, wait_s: float) -> None:
        self._framing = framing
        self._is_note_old = False  # nothing waited any more, but the note could not be deleted
        self.is_flush_begun = False
        """A flush failed: some of what waits may be in the journal."""
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
        """Bytes of messages that wait."""
        return self._appender.used

    @property
    def capacity(self) -> int:
        """Bytes of messages that the file has room for."""
        return max(0, self._capacity - JlogFlushNote.size)

    def mode(self) -> int:
        """The file's permission bits."""
        return self._file.mode()

    def begin(self, capacity: int) -> None:
        """Use it from now on, for up to ``capacity`` bytes of messages; it must be empty. The file is made larger where
        it must be, never smaller: another process may have it mapped."""
        wanted = capacity + JlogFlushNote.size
        if self._capacity < wanted:
            # Zeros, not a hole: a full disk shows here, not when a message is put there.
            self._file.write_at(START + self._capacity, bytes(wanted - self._capacity))
            self._capacity = wanted
        self.empty()
        self._appender = buffer_appender(self._file, self._framing.magic, 0, capacity)
        self.append = self._appender.append

    def read(self) -> tuple[bytes, int]:
        """The messages that this writer has put there, framed, and how many."""
        return self._file.read_at(START, self.used), self._appender.count

    def waiting(self) -> Waiting:
        """The whole messages that wait. They are known by their headers where these lead to the end of what is in use;
        else it is read as a segment is: writers of the C library that are killed leave half messages, and others write
        behind them. (Where a half one ends with one behind it by chance, both are written as one.)

        Raises :class:`CorruptData` where there is no message, or where they are not stored as the metastore says."""
        if self.used > MAX_BUFFER_BYTES:
            raise LimitExceeded(PRE_COMMIT, found=f"{self.used} bytes in use", expected=f"at most {MAX_BUFFER_BYTES}")
        data = self._file.read_at(START, self.used)
        starts = self._starts(data)
        return self._found_in(data) if starts is None else Waiting(data, starts)

    def _starts(self, data: bytes) -> tuple[int, ...] | None:
        """Where messages begin that fill the data; ``None`` where they don't."""
        starts = []
        at = 0
        while (header := self._framing.parse(data, at, at)) is not None and header.end <= len(data):
            starts.append(at)
            at = header.end
        return tuple(starts) if at == len(data) else None

    def _found_in(self, data: bytes) -> Waiting:
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
            return Waiting(data, tuple(starts))
        code = self._odd_code(there, START + gaps[0][0], len(gaps), faults[-1].code if faults else "damaged-bytes")
        if not places and code and data[:4] != self._framing.magic_bytes:
            raise CorruptData(
                PRE_COMMIT,
                offset=START,
                found=f"{len(data)} bytes in use that are no message",
                expected=f"messages with magic {self._framing.magic:#010x}",
                hint="everlog repair empties it, and keeps a copy",
            )
        whole = b"".join(data[start:end] for start, end in places)
        return Waiting(whole, tuple(starts), data[gaps[0][0] : gaps[-1][1]], START + gaps[0][0], code)

    def _odd_code(self, there: SegmentData, at: int, gap_count: int, code: str) -> str:
        """What the bytes that are no messages are, of which the first are at ``at``."""
        if there.is_zero(at, there.end):
            return ""
        check_no_other(there, at, self._framing)
        is_torn = gap_count == 1 and code in TORN and not holds_header(there, at + 1, self._framing)
        return "" if is_torn else code

    def note_flush(self, log: int, offset: int) -> None:
        """Note a place behind which what waits is about to be written: if this process dies before it says that nothing
        waits any more, the next writer looks there. A note of a flush that failed stays: what was written of it lies
        behind that."""
        if self._is_note_old:
            self._clear_note()
        if self.flush_note() is not None:
            return
        room = self._capacity - self.used - JlogFlushNote.size
        if room < 0:  # a full buffer of the C library's
            self._file.write_at(START + self._capacity, bytes(-room))
            self._capacity -= room
        note = JlogFlushNote.pack(magic=FLUSH_NOTE_MAGIC, log=log, offset=offset)
        self._file.write_at(self._note_at, note)
        self.is_flush_begun = True

    def flush_note(self) -> JlogFlushNote | None:
        """The note of a writer that died, or of a flush that failed, if there is one."""
        if self._capacity < JlogFlushNote.size + self.used:
            return None
        note = JlogFlushNote.unpack_from(self._file.read_at(self._note_at, JlogFlushNote.size))
        return note if note.magic == FLUSH_NOTE_MAGIC else None

    @property
    def _note_at(self) -> int:
        return START + self._capacity - JlogFlushNote.size

    def empty(self) -> None:
        """Say that nothing waits any more: what did is in the journal."""
        self._appender.clear()
        self._is_note_old = True
        self.is_flush_begun = False
        self._clear_note()

    def _clear_note(self) -> None:
        if self._capacity >= JlogFlushNote.size:
            self._file.write_at(self._note_at, bytes(JlogFlushNote.size))
        self._is_note_old = False

    def remove(self) -> None:
        """Before :meth:`close`: where the journal had no buffer, leave none, if nothing waits: writers of the C library
        use one that they find, and two of them damage it."""
        if not self._was_there and not self.used:
            self._appender.close()
            self._file.truncate(START)

    def close(self) -> None:
        """Give the file and its lock back."""
        self._appender.close()
        self._file.close()


def left_buffer(storage: WritableStorage, framing: Framing, mode: int) -> PreCommitBuffer | None:
    """The buffer, if messages wait in it whose writer is dead. Tried for as long as they wait: somebody who has the
    file open for a moment only, as another writer that starts, or who looks how much waits, may not be told from a
    writer that lives."""
    for number in range(TRIES_FOR_A_LEFT_BUFFER):
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
