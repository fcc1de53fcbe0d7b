"""Repairs the pre-commit buffer.

Whole messages that are not in the journal stay in the buffer; the next writer flushes them. Incomplete messages, and
those already in the journal, are dropped. Messages that the original marked as flushed but lost in the journal are put
back in use.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from everlog.core.columns import MAX_BATCH_BYTES, MAX_BATCH_ROWS
from everlog.core.files.storage import ReadableFile
from everlog.core.files.writable import WritableFile, WritableStorage
from everlog.core.plan.backup import Backup
from everlog.core.plan.changed import changed
from everlog.core.plan.step import FolderStep
from everlog.errors import EverlogError, StoreUnavailable
from everlog.jlog.format.framing import Header
from everlog.jlog.format.layouts import JlogPreCommit
from everlog.jlog.format.names import PRE_COMMIT, segment_name
from everlog.jlog.format.pre_commit import START, PreCommit
from everlog.jlog.reading.journal import SOURCES, Journal
from everlog.jlog.reading.message_scan import whole_messages
from everlog.jlog.reading.segments import SegmentReader
from everlog.jlog.repair.segments import KeptBytes
from everlog.jlog.repair.steps import (
    DRAFT_PREFIX,
    chunks,
    journal_locked,
    keep,
    refuse_open,
)
from everlog.kernel.columns import RowSink


@dataclass(frozen=True, kw_only=True)
class SettleBuffer(FolderStep):
    """Keeps the messages at ``kept`` in the file. If they are its first ones, only the field with the used size is
    written; otherwise the file is replaced atomically by one of the same size."""

    after_crash = "the old buffer or the new one, and maybe a draft, which planning again deletes"

    old_head: bytes
    size: int
    kept: tuple[tuple[int, int], ...]

    @property
    def used(self) -> int:
        """How many bytes are kept."""
        return sum(end - start for start, end in self.kept)

    def check(self) -> None:
        self.expect_size(self.file, self.size)
        refuse_open(self.storage, PRE_COMMIT)

    def apply(self, backup: Backup | None) -> str:
        with journal_locked(self.storage):
            self.check()
            with self.storage.open_writable(PRE_COMMIT) as file:
                if not file.lock(wait=False):
                    raise StoreUnavailable(PRE_COMMIT, found="locked by a writer", expected="no writer")
                if not file.is_current():
                    raise changed(PRE_COMMIT, "a new file", "the file that was planned for")
                if file.read_at(0, START) != self.old_head:
                    raise changed(PRE_COMMIT, file.read_at(0, START).hex(), self.old_head.hex())
                keep(backup, file)
                head = JlogPreCommit.struct.pack(self.used)
                if all(start == START for start, _ in self.kept[:1]) and len(self.kept) <= 1:
                    file.write_at(0, head)
                    file.sync()
                else:
                    self._rewrite(file, head)
        return f"set {PRE_COMMIT} to {self.used} bytes in use"

    def _rewrite(self, file: WritableFile, head: bytes) -> None:
        draft_name = DRAFT_PREFIX + PRE_COMMIT
        self.storage.remove(draft_name)
        kept = KeptBytes(file, self.kept)
        try:
            with self.storage.open_writable(draft_name, create=True, exclusive=True, mode=file.mode()) as draft:
                draft.write_at(0, head)
                at = START
                for chunk in chunks(kept, 0, kept.size()):
                    draft.write_at(at, chunk)
                    at += len(chunk)
                draft.truncate(self.size)
                draft.sync()
            self.storage.rename(draft_name, PRE_COMMIT)
        except BaseException:
            with contextlib.suppress(EverlogError):
                self.storage.remove(draft_name)
            raise
        self.storage.sync_folder()


def settle_buffer(storage: WritableStorage, journal: Journal, codes: set[str]) -> SettleBuffer | None:
    """Return the step for a buffer with these faults; ``None`` if it can stay."""
    state = journal.pre_commit()
    if state is None:
        return None
    with storage.open(PRE_COMMIT) as file:
        head = file.read_at(0, START)
        if state.byte_count < START:
            messages, kept = [], []
        else:
            end = file.size() if "pre-commit-lost" in codes else min(state.end, file.size())
            framing = journal.framing_of(file, START, end)
            messages = list(whole_messages(file, START, end, framing, lambda fault: None))
            kept = _not_written(journal, file, messages, is_past="pre-commit-lost" in codes)
    parts = tuple(_join(kept))
    used = sum(stop - start for start, stop in parts)
    if used == state.used and (not parts or parts == ((START, START + used),)) and state.byte_count >= START:
        return None
    return SettleBuffer(
        file=PRE_COMMIT,
        before=_describe(state, messages),
        after=f"{used} bytes in use: {len(kept)} messages that are not in the journal",
        loses=_losses(state, messages, kept),
        storage=storage,
        old_head=head,
        size=state.byte_count,
        kept=parts,
    )


def _describe(state: PreCommit, messages: list[Header]) -> str:
    if state.byte_count < START:
        return f"{state.byte_count} bytes, too few for the first field"
    return f"{state.used} bytes in use of {state.capacity}, {len(messages)} whole messages"


def _losses(state: PreCommit, messages: list[Header], kept: list[Header]) -> str:
    damaged = max(0, state.readable - sum(m.end - m.offset for m in messages))
    dropped = len(messages) - len(kept)
    losses = []
    if damaged:
        losses.append(f"{damaged} bytes of incomplete messages")
    if dropped and state.used:
        losses.append(f"{dropped} messages that are in the journal already")
    if not state.used and kept:
        losses.append(f"nothing; readers get {len(kept)} messages that were overwritten, after those written since")
    return "; ".join(losses) or "nothing"


@dataclass(slots=True)
class _Alike:
    """Messages of the buffer with the same time and length. They are grouped by contents only when the journal has such
    a message, so that each message of the journal is compared once."""

    messages: list[Header] = field(default_factory=list)
    _same: dict[int, dict[bytes, deque[Header]]] | None = None

    def strike(self, buffer: ReadableFile, file: ReadableFile, offset: int) -> None:
        """Drop the first message that equals the one at an offset of a segment."""
        if self._same is None:
            self._same = {}
            for message in self.messages:
                size = message.end - message.offset
                same = self._same.setdefault(size, {})
                same.setdefault(_digest(buffer, message.offset, size), deque()).append(message)
        for size, same in self._same.items():
            found = same.get(_digest(file, offset, size))
            if found:
                found.popleft()
                return

    def left(self) -> list[Header]:
        """Return the messages that were not dropped."""
        if self._same is None:
            return self.messages
        return [message for same in self._same.values() for group in same.values() for message in group]


def _digest(file: ReadableFile, offset: int, size: int) -> bytes:
    return hashlib.blake2b(file.read_at(offset, size)).digest()


def _not_written(journal: Journal, buffer: ReadableFile, messages: list[Header], *, is_past: bool) -> list[Header]:
    """The messages that are not in the journal. ``is_past``: they were flushed before; those older than the whole
    journal were deleted from it since."""
    wanted: dict[tuple[int, int], _Alike] = defaultdict(_Alike)
    for message in messages:
        wanted[message.timestamp_us, message.length].messages.append(message)
    earliest: int | None = None
    for segment in journal.segments:
        with journal.storage.open(segment_name(segment.log)) as file:
            for time_us, length, offset in _messages_of(journal, file, segment.log):
                earliest = time_us if earliest is None else earliest
                group = wanted.get((time_us, length))
                if group is not None:
                    group.strike(buffer, file, offset)
    left = [message for group in wanted.values() for message in group.left()]
    if is_past and journal.segments and journal.segments[0].log:
        left = [message for message in left if earliest is not None and message.timestamp_us >= earliest]
    return sorted(left, key=lambda message: message.offset)


def _messages_of(journal: Journal, file: ReadableFile, log: int) -> Iterator[tuple[int, int, int]]:
    names = ("timestamp_ns", "length", "offset")
    sink = RowSink([(name, "q", SOURCES[name]) for name in names], MAX_BATCH_ROWS, MAX_BATCH_BYTES)
    size = file.size()
    reader = SegmentReader(file, log, 0, size, journal.framing_of(file, 0, size), sink, lambda fault: None)

    def taken() -> Iterator[tuple[int, int, int]]:
        count, columns = sink.take()
        if count:
            times, lengths, offsets = (columns[name][0][:count].tolist() for name in names)
            yield from zip((time // 1000 for time in times), lengths, offsets, strict=True)

    for _ in reader.fill():
        yield from taken()
    yield from taken()


def _join(messages: list[Header]) -> Iterator[tuple[int, int]]:
    """Yield their byte ranges in the file; adjacent ones merged."""
    start = stop = -1
    for message in messages:
        if message.offset != stop:
            if stop > start:
                yield start, stop
            start = message.offset
        stop = message.end
    if stop > start:
        yield start, stop
