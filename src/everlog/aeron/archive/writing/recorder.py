"""Writing to one recording: messages are framed, written at its end, and acknowledged.

Threads may share a recorder. Under one lock a message is framed, written to the segment and given its position; waiting
for the disk happens outside of it, many threads in one sync (:mod:`everlog.core.group_commit`).

What fails leaves no half message in the way: a write that fails is cut away again, and the next append goes to the same
place. After a sync that failed nothing is certain of what was not acknowledged: the recorder takes no more, and
``stop`` ends the recording after the last acknowledged message. Source: RecordingSession, RecordingWriter.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from everlog.aeron.archive.writing.block_writer import BlockWriter
from everlog.aeron.archive.writing.ownership import SILENT_S
from everlog.aeron.frames.framing import SLOW_PATH, Framer, Tail, longest_of
from everlog.aeron.frames.framing_inputs import check_payloads, contiguous, integer_view
from everlog.aeron.frames.position import max_position
from everlog.core.files.durability import Durability
from everlog.core.group_commit import GroupCommit, Round
from everlog.errors import Closed, CorruptData, EverlogError, UsageError, WriteFailed

BLOCK_BYTES = 1 << 20
"""Most that one write brings: Aeron's file IO length."""
WRITES_OUTSIDE = 64
"""Single messages that are written outside of a window before there is a new one, which costs as much as some of them.
"""
ALL = 1 << 62


class Owner(Protocol):
    """What a recorder asks of its archive."""

    def check(self) -> None:
        """Raises :class:`StoreUnavailable` if another archive owns the folder."""

    def offered(self) -> None:
        """Schedule the writing of offered messages."""

    def stopped(self, recorder: Recorder, position: int) -> None:
        """Write the recording's stop position to the catalog."""

    def report_stopped(self, recorder: Recorder) -> None:
        """Report to listeners that the recording was stopped."""

    def sync_catalog(self) -> None:
        """Return when the catalog on disk knows the recording."""


class Recorder:
    """The end of one active recording. Made by :meth:`Archive.start_recording` and :meth:`Archive.extend_recording`.

    ``append`` and ``append_many`` return when the messages are written, or synced, as the archive's durability says.
    ``offer`` returns at once; the message is recorded with the next append, by ``flush``, or a moment later.
    ``recorded_position`` is the position after the last acknowledged message.
    """

    def __init__(
        self, recording_id: int, framer: Framer, writer: BlockWriter, durability: Durability, owner: Owner
    ) -> None:
        self.recording_id = recording_id
        self._framer = framer
        self._writer = writer
        self._max_position = max_position(writer.segments.term_length)
        self._is_synced = durability is Durability.SYNCED
        self._owner = owner
        self._tail = Tail(framer)
        self._commit = GroupCommit()
        self._error: EverlogError | None = None
        self._deferred_error: EverlogError | None = None
        self._is_stopped = self._is_fenced = False
        self._moved = threading.Condition(threading.Lock())
        self._waiting = 0
        self._on_progress: Callable[[Recorder], None] | None = None
        self._tail.writes_left = WRITES_OUTSIDE
        self._select_path()

    # State

    @property
    def position(self) -> int:
        """The position after the last accepted message; offered ones may not be recorded yet."""
        return self._framer.position

    @property
    def recorded_position(self) -> int:
        """The position after the last acknowledged message. Everything before it survives the death of the process and,
        if the durability is ``synced``, a power cut."""
        return self._tail.acknowledged

    @property
    def max_message_length(self) -> int:
        """The longest message, in bytes, that this recording can hold."""
        return self._framer.max_message_length

    @property
    def is_watched(self) -> bool:
        """Whether somebody waits for messages, or is told of each new position."""
        return self._waiting > 0 or self._on_progress is not None

    @property
    def is_stopped(self) -> bool:
        """Whether ``stop`` was called."""
        return self._is_stopped

    # Messages

    def append(self, payload: Any, reserved_value: int = 0) -> int:
        """Record one bytes-like message; returns the position after it. Raises :class:`UsageError` for one over
        ``max_message_length`` or after ``stop``, :class:`WriteFailed`, also where the stream has reached its max
        position, 2^31 terms; then it is not recorded."""
        position: int = self._tail.append(payload, reserved_value)
        if position >= 0:
            return position
        if position == SLOW_PATH:
            self._tail.acquire()
        try:
            if position == SLOW_PATH:
                self._ready()
                while not self._framer.frame(payload, reserved_value):
                    self._make_room()
            self._write_block()
            self._move_window()
            position = self._tail.written
            joined = self._commit.join() if self._is_synced else None
        finally:
            self._tail.release()
        self._acknowledge(position, joined)
        return position

    def append_many(self, payloads: Sequence[Any], reserved_values: Sequence[int] | None = None) -> int:
        """Record a list or tuple of bytes-like messages in order; returns the position after the last one.

        Raises as ``append``; then ``appended`` of the error says how many messages at the front are recorded.
        """
        check_payloads(payloads, 0)
        return self._append_all(
            len(payloads), lambda start: self._framer.frame_many(payloads, start, reserved_values), check=payloads
        )

    def append_column(self, data: Any, offsets: Any, reserved_values: Any = None) -> int:
        """Record messages from a column of bytes as Arrow has it: ``data`` one after another, ``offsets`` (int32 or
        int64, one more than there are messages) where each begins. Returns the position after the last one. Raises as
        ``append_many``."""
        count = max(len(integer_view(offsets, "offsets", (4, 8))) - 1, 0)
        return self._append_all(
            count, lambda start: self._framer.frame_column(data, offsets, start, count, reserved_values)
        )

    def _append_all(self, count: int, frame: Callable[[int], int], check: Sequence[Any] = ()) -> int:
        with self._tail:
            self._ready()
            longest = longest_of(check)
            if longest > self.max_message_length:
                raise UsageError("payload", found=f"{longest} bytes", expected=f"at most {self.max_message_length}")
            done = recorded = 0
            try:
                if not count:
                    self._write_block()  # what was offered
                while done < count:
                    taken = frame(done)
                    self._write_block()
                    done += taken
                    if self._tail.acknowledged == self._tail.written:
                        recorded = done
                    if not taken:
                        self._check_room()
            except EverlogError as error:
                if self._error is None:  # what is written stays, so it is to be recorded
                    with contextlib.suppress(EverlogError):
                        self._settle()
                        recorded = done
                error.appended = recorded
                raise
            position = self._tail.written
            joined = self._commit.join() if self._is_synced else None
        self._acknowledge(position, joined)
        return position

    def append_block(self, block: Any) -> int:
        """Record whole frames as they are, contiguous and with the positions that follow here, such as an image of the
        stream gives them. Returns the position after the last one. Raises :class:`CorruptData` for a frame that does
        not belong here, :class:`WriteFailed`; then nothing of its block is recorded, but frames of the terms before it.

        A last frame that ends in a page of zeros looks torn as long as nothing follows it: if the process is killed
        then, it is cut off, unless there are checksums."""
        view = contiguous(block, "block", is_cast=False).cast("B")
        with self._tail:
            self._ready()
            self._write_block(may_pad=False)
            done = 0
            while done < len(view):
                try:
                    taken = self._framer.frame_block(view[done:])
                except CorruptData as error:
                    raise CorruptData(
                        error.where, offset=done + (error.offset or 0), found=error.found, expected=error.expected
                    ) from None
                done += taken
                self._write_block(may_pad=False)
                if not taken:
                    self._check_room()
            position = self._tail.written
            joined = self._commit.join() if self._is_synced else None
        self._acknowledge(position, joined)
        return position

    def offer(self, payload: Any, reserved_value: int = 0) -> int:
        """Accept one message, to be recorded with others; returns the position after it. The message is lost if the
        process dies before ``recorded_position`` has come so far. Raises as ``append``; a :class:`WriteFailed` takes
        with it all that was offered and not recorded."""
        with self._tail:
            self._ready()
            was_empty = self._framer.length == 0
            while not self._framer.frame(payload, reserved_value):
                self._make_room()
            position = self._framer.position
        if was_empty:
            self._owner.offered()
        return position

    def flush(self) -> int:
        """Record what was offered; returns the recorded position. Raises :class:`WriteFailed`."""
        with self._tail:
            self._ready()
            self._write_block()
            position = self._tail.written
            joined = self._commit.join() if self._is_synced else None
        self._acknowledge(position, joined)
        return position

    def flush_offered(self) -> None:
        """``flush``, if something waits and the recorder still works. Raises :class:`WriteFailed`, and so
        does the next call then, because the positions that ``offer`` returned are void."""
        with self._tail:
            if not self._framer.length or self._error is not None or self._is_stopped:
                return
            try:
                self._owner.check()
                self._write_block()
            except EverlogError as error:
                self._deferred_error, self._tail.fd = error, -1
                raise
            position = self._tail.written
            joined = self._commit.join() if self._is_synced else None
        self._acknowledge(position, joined)

    def sync(self) -> int:
        """Wait until all accepted messages are on disk, whatever the durability; returns the position after them.
        Raises :class:`WriteFailed`."""
        if self._is_synced:
            return self.flush()
        with self._tail:
            self._ready()
            self._write_block()
            self._sync()
            position = self._tail.written
        self._owner.sync_catalog()
        self._acknowledge(position, None)
        return position

    def stop(self) -> int:
        """End the recording: record what was offered, write the stop position to the catalog and return it. A second
        call does nothing.

        Raises :class:`WriteFailed` when what was offered could not be recorded (the recording is stopped without it),
        or when the catalog could not be written: then it is still active, and ends after its last message when the
        archive is opened again.
        """
        with self._tail:
            if self._is_stopped:
                return self._tail.acknowledged
            self._owner.check()
            failure = self._deferred_error
            for do in (self._write_block, self._settle):  # others may wait for what they have written
                try:
                    if self._error is None:
                        do()
                except EverlogError as error:
                    failure = failure or error
            self._is_stopped = True
            self._tail.fd = -1
            self._drop_window()
            try:
                if self._tail.acknowledged < self._tail.written or self._error is not None:
                    self._writer.cut_back(self._tail.acknowledged)
                    self._tail.written = self._tail.acknowledged
                self._owner.stopped(self, self._tail.acknowledged)
            finally:
                self._writer.close()
        self.wake()
        self._owner.report_stopped(self)
        if failure is not None:
            raise failure
        return self._tail.acknowledged

    def renew(self) -> None:
        """The owner has just checked that the folder is its own."""
        self._tail.renew(SILENT_S)

    def fence(self) -> None:
        """The owner may have lost the folder: each message checks with it from now on."""
        self._is_fenced = True
        self._tail.fd = -1

    def abandon(self) -> None:
        """Close the file and leave the recording active, as a process that dies does."""
        with self._tail:
            self._is_stopped = True
            self._tail.fd = -1
            self._drop_window()
            self._writer.close()
        self.wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # Under the lock

    def _ready(self) -> None:
        if self._is_stopped:
            raise Closed(f"recorder of recording {self.recording_id}")
        if self._error is not None:
            error = self._error
            raise WriteFailed(error.where, found=error.found, expected=error.expected, hint=error.hint) from error
        if self._deferred_error is not None:
            error, self._deferred_error = self._deferred_error, None
            self._select_path()
            raise WriteFailed(error.where, found=error.found, expected=error.expected, hint=error.hint) from error
        self._owner.check()

    def _write_block(self, *, may_pad: bool = True) -> None:
        """Write what is framed, if there is something, and empty the framer; at a segment's end, go on in the next.

        A last frame that recovery would take for a torn one gets a padding frame after it, which real archives and
        their readers pass over: it is acknowledged, and must survive the death of this process. Without ``may_pad`` it
        stays so: the positions are those of somebody else's stream.
        """
        framer, writer = self._framer, self._writer
        has_written = framer.length > 0
        is_in_doubt = may_pad and has_written and framer.ends_in_doubt() and not framer.pad()
        if has_written:
            start = framer.start_position
            try:
                writer.write(start, framer.view())
            except BaseException:
                framer.begin(start, writer.end)
                self._cut_back(start)
                raise
            self._tail.written = framer.position
            if not self._is_synced:
                self._tail.acknowledged = self._tail.written
            framer.begin(self._tail.written, writer.end)
        if self._tail.written == writer.end and not self._is_at_max:
            self._roll(is_needed=not has_written)
        if is_in_doubt and framer.pad():
            with contextlib.suppress(WriteFailed):  # the message is recorded, if in doubt; what comes next ends that
                self._write_block()

    def _make_room(self) -> None:
        """The framer takes no more: write what it has. Raises :class:`WriteFailed`, also where the stream ends."""
        self._write_block()
        self._check_room()

    def _check_room(self) -> None:
        if self._is_at_max:
            raise WriteFailed(
                f"recording {self.recording_id}",
                found=f"max position exceeded: {self._max_position} is reached",
                expected="at most 2^31 terms",
                hint="start a new recording; longer terms hold more",
            )

    @property
    def _is_at_max(self) -> bool:
        return self._tail.written >= self._max_position

    def _roll(self, *, is_needed: bool) -> None:
        """Continue in the next segment. An error is ignored while the segment is not needed yet: the messages are
        written, and the next call that needs the segment raises."""
        self._settle()
        try:
            self._writer.roll()
        except EverlogError:
            if is_needed:
                raise
            return
        self._drop_window()
        self._framer.begin(self._tail.written, self._writer.end)
        self._select_path()

    def _select_path(self) -> None:
        """Single messages go the short way where each is written at once, to a file that the system knows."""
        is_plain = not (self._is_synced or self._is_stopped or self._is_fenced or self.is_watched)
        is_plain = is_plain and self._error is None and self._deferred_error is None
        self._tail.base, self._tail.end = self._writer.base, self._writer.end
        self._tail.fd = self._writer.fd if is_plain else -1
        self.renew()

    def _move_window(self) -> None:
        """Single messages have left the window: begin another one where they are."""
        tail = self._tail
        if tail.fd < 0 or tail.writes_left > 0:
            return
        found = self._writer.window(tail.written)
        tail.writes_left = ALL if found is None else WRITES_OUTSIDE
        tail.set_window(*(found or (None, 0)))

    def _drop_window(self) -> None:
        """Before the file is cut, or given back."""
        self._tail.set_window(None, 0)
        self._tail.writes_left = WRITES_OUTSIDE

    def _settle(self) -> None:
        """All that is written is acknowledged on return."""
        if self._is_synced:
            self._commit.settle(self._sync)

    def _cut_back(self, position: int) -> None:
        self._drop_window()
        try:
            self._writer.cut_back(position)
        except EverlogError as error:
            self._fail(error)

    def _fail(self, error: EverlogError) -> None:
        self._error = error
        self._tail.fd = -1

    # Who watches

    def report_to(self, report: Callable[[Recorder], None]) -> None:
        """Call ``report`` after each append, in its thread."""
        with self._tail:
            self._on_progress = report
            self._select_path()

    def wait_past(self, position: int, is_over: Callable[[], bool], timeout_s: float | None) -> bool:
        """Wait until more than ``position`` is acknowledged or the recorder is stopped; false when the time is over.
        ``is_over`` is asked whenever ``wake`` is called: whether to wait no longer."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self._watch(1)
        try:
            with self._moved:
                while self.recorded_position <= position and not self._is_stopped and not is_over():
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        return False
                    self._moved.wait(left)
        finally:
            self._watch(-1)
        return True

    def _watch(self, count: int) -> None:
        with self._tail:  # after an append on the short path, which notifies nobody
            self._waiting += count
            self._select_path()

    # Acknowledging

    def _acknowledge(self, position: int, joined: Round | None) -> None:
        if joined is not None:
            self._commit.wait(joined, self._sync)
        report = self._on_progress
        if report is not None:
            report(self)
        if self._waiting:
            self.wake()

    def wake(self) -> None:
        """Have waiting threads check their condition again."""
        with self._moved:
            self._moved.notify_all()

    def _sync(self) -> None:
        """Sync for all that is written; one thread at a time is here, and no other one changes the file meanwhile."""
        if self._error is not None:
            raise self._error
        position = self._tail.written
        try:
            self._writer.sync()
        except EverlogError as error:
            self._fail(error)
            raise
        self._tail.acknowledged = max(self._tail.acknowledged, position)
