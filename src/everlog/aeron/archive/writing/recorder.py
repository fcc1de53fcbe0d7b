"""Appends messages to one recording: frames them, writes them at its end, and acknowledges them.

Threads may share a recorder. Under one lock, a message is framed, written to the segment and given its position.
Outside of it, threads wait for the disk, many of them for one sync (:mod:`everlog.core.group_commit`).

:class:`RecordingEnd` writes and syncs; :class:`Progress` wakes the threads that follow the recording. After a failed
sync, ``stop`` ends the recording after the last acknowledged message.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from everlog.aeron.archive.writing.block_writer import BlockWriter
from everlog.aeron.archive.writing.progress import Progress
from everlog.aeron.archive.writing.recording_end import RecordingEnd
from everlog.aeron.frames.framing import SLOW_PATH, Framer, longest_of
from everlog.aeron.frames.framing_inputs import check_payloads, contiguous, integer_view
from everlog.core.files.durability import Durability
from everlog.errors import CorruptData, EverlogError, StoreUnavailable, UsageError, WriteFailed
from everlog.kernel.memory import BlockSink

BLOCK_BYTES = 1 << 20
"""Most bytes in one write: Aeron's file IO length."""


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


class BlockSource(Protocol):
    """A log that is read block by block, such as an image."""

    def block_poll_into(self, sink: BlockSink, most: int) -> int:
        """Give the sink what is published, up to ``most`` bytes. Returns how many it took."""


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
        self._owner = owner
        self._framer = framer
        self._progress = Progress()
        self._end = RecordingEnd(recording_id, framer, writer, durability, self._progress)
        self._tail = self._end.tail
        self.is_cataloged = False
        """Whether the catalog has the stop position."""
        self.is_lost = False
        """Whether ``stop`` found that the folder has another owner, whose recovery stops the recording."""
        self._may_retry = False

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
        """Whether a thread waits for messages, or a listener is called for each new position."""
        return self._progress.is_watched

    @property
    def is_stopped(self) -> bool:
        """Whether ``stop`` was called."""
        return self._end.is_stopped

    # Messages

    def append(self, payload: Any, reserved_value: int = 0) -> int:
        """Record one bytes-like message; returns the position after it. Raises :class:`UsageError` for one over
        ``max_message_length``, :class:`Closed` after ``stop``, and :class:`WriteFailed`, also when the stream has
        reached its maximum position, 2^31 terms; then the message is not recorded."""
        position: int = self._tail.append(payload, reserved_value)
        if position >= 0:
            return position
        end = self._end
        if position == SLOW_PATH:
            self._tail.acquire()
        try:
            if position == SLOW_PATH:
                self._ready()
                while not self._framer.frame(payload, reserved_value):
                    self._end.make_room()
            end.write_block()
            end.move_window()
            position = self._tail.written
            joined = end.join()
        finally:
            self._tail.release()
        end.acknowledge(joined)
        return position

    def append_many(self, payloads: Sequence[Any], reserved_values: Sequence[int] | None = None) -> int:
        """Record a list or tuple of bytes-like messages in order; returns the position after the last one.

        Raises as ``append``; the error's ``appended`` is then the number of leading messages that are recorded.
        """
        check_payloads(payloads, 0)
        return self._append_all(
            len(payloads), lambda start: self._framer.frame_many(payloads, start, reserved_values), check=payloads
        )

    def append_column(self, data: Any, offsets: Any, reserved_values: Any = None) -> int:
        """Record messages from an Arrow column of bytes: ``data`` holds them one after another, ``offsets`` (int32 or
        int64, one more than messages) where each begins. Returns the position after the last one. Raises as
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
                raise UsageError(
                    "message", found=str(longest), expected=f"at most {self.max_message_length} bytes long"
                )
            done = recorded = 0
            try:
                if not count:
                    self._end.write_block()  # offered messages
                while done < count:
                    taken = frame(done)
                    self._end.write_block()
                    done += taken
                    if self._tail.acknowledged == self._tail.written:
                        recorded = done
                    if not taken:
                        self._end.check_room()
            except EverlogError as error:
                if self._end.error is None:  # what is written stays, so it must be recorded
                    with contextlib.suppress(EverlogError):
                        self._end.settle()
                        recorded = done
                error.appended = recorded
                raise
            position = self._tail.written
            joined = self._end.join()
        self._end.acknowledge(joined)
        return position

    def append_block(self, block: Any) -> int:
        """Record whole frames unchanged, as an image of the stream gives them: contiguous, with positions that continue
        this recording's. Returns the position after the last one. Raises :class:`WriteFailed`, and
        :class:`CorruptData` for a frame that does not belong here; then only frames of earlier terms are recorded.

        A last frame that ends in a page of zeros looks torn as long as nothing follows it: if the process is killed
        then, recovery cuts it off, unless the recording has checksums."""
        view = contiguous(block, "block", is_cast=False).cast("B")
        with self._tail:
            self._ready()
            self._end.write_block(may_pad=False)
            done = 0
            while done < len(view):
                try:
                    taken = self._framer.frame_block(view[done:])
                except CorruptData as error:
                    raise CorruptData(
                        error.where, offset=done + (error.offset or 0), found=error.found, expected=error.expected
                    ) from None
                done += taken
                self._end.write_block(may_pad=False)
                if not taken:
                    self._end.check_room()
            position = self._tail.written
            joined = self._end.join()
        self._end.acknowledge(joined)
        return position

    def append_blocks(self, log: BlockSource, most: int) -> int:
        """Record what is published in a log, about ``most`` bytes, in one compiled loop. Returns the number of bytes: 0
        if there are none, or if the next block needs :meth:`append_block`, which syncs or raises. The next segment is
        made as soon as one is full."""
        if self._tail.fd < 0:
            return 0
        with self._tail:
            length = log.block_poll_into(self._tail, most)
            if length:
                self._end.begin_next_segment()
        return length

    def block_times(self) -> tuple[int, int, int]:
        """Return what :meth:`append_blocks` has written since the last call: bytes, nanoseconds, those of the longest
        write."""
        return self._tail.block_times()

    def offer(self, payload: Any, reserved_value: int = 0) -> int:
        """Accept one message, to be recorded together with others; returns the position after it. The message is lost
        if the process dies before ``recorded_position`` reaches it. Raises as ``append``; with :class:`WriteFailed`,
        all messages that were offered and not yet recorded are lost."""
        with self._tail:
            self._ready()
            was_empty = self._framer.length == 0
            while not self._framer.frame(payload, reserved_value):
                self._end.make_room()
            position = self._framer.position
        if was_empty:
            self._owner.offered()
        return position

    def flush(self) -> int:
        """Record what was offered; returns the recorded position. Raises :class:`WriteFailed`."""
        with self._tail:
            self._ready()
            self._end.write_block()
            position = self._tail.written
            joined = self._end.join()
        self._end.acknowledge(joined)
        return position

    def flush_offered(self) -> None:
        """``flush``, if messages wait and the recorder still works. If it raises :class:`WriteFailed`, so does the next
        call, because the positions that ``offer`` returned are void."""
        with self._tail:
            if not self._framer.length or self._end.error is not None or self._end.is_stopped:
                return
            try:
                self._owner.check()
                self._end.write_block()
            except EverlogError as error:
                self._end.defer(error)
                raise
            joined = self._end.join()
        self._end.acknowledge(joined)

    def sync(self) -> int:
        """Wait until all accepted messages are on disk, whatever the durability; returns the position after them.
        Raises :class:`WriteFailed`."""
        if self._end.is_synced:
            return self.flush()
        with self._tail:
            self._ready()
            self._end.write_block()
            self._end.sync()
            position = self._tail.written
        self._owner.sync_catalog()
        self._end.acknowledge(None)
        return position

    def stop(self, *, may_retry: bool = False) -> int:
        """End the recording: record what was offered, write the stop position to the catalog and return it. A second
        call does nothing.

        Raises :class:`WriteFailed` if offered messages could not be recorded (the recording stops without them), or if
        the catalog could not be written: the recording then stays active, and opening the archive ends it after its
        last message. With ``may_retry`` the next call tries again, until ``is_cataloged``; ``abandon`` gives up.
        """
        with self._tail:
            if self.is_cataloged or (self._end.is_stopped and not self._may_retry):
                return self._tail.acknowledged
            self._may_retry = may_retry
            try:
                self._owner.check()
                failure = self._end.stop()
                self._owner.stopped(self, self._tail.acknowledged)
                self.is_cataloged = True
            except StoreUnavailable as error:
                self.is_lost = not isinstance(error, WriteFailed)
                self._may_retry = may_retry and not self.is_lost
                raise
            finally:
                if self.is_cataloged or not self._may_retry:
                    self._end.close()
        self.wake()
        self._owner.report_stopped(self)
        if failure is not None:
            raise failure
        return self._tail.acknowledged

    def renew(self) -> None:
        """Called by the owner when it has checked that the folder is its own."""
        self._end.renew()

    def fence(self) -> None:
        """Called by the owner when it may have lost the folder: from now on, each message checks that first."""
        self._end.fence()

    def abandon(self) -> None:
        """Close the file and leave the recording active, as the death of the process does."""
        with self._tail:
            self._may_retry = False
            self._end.close()
        self.wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _ready(self) -> None:
        if not self._end.is_usable:
            self._end.check()
        self._owner.check()

    # Progress

    def report_to(self, report: Callable[[Recorder], None]) -> None:
        """Call ``report`` after each append, in its thread."""
        with self._tail:
            self._progress.listener = functools.partial(report, self)
            self._end.select_path()

    def wait_past(self, position: int, is_over: Callable[[], bool], timeout_s: float | None) -> bool:
        """Wait until more than ``position`` is acknowledged, the recorder is stopped, or ``is_over`` returns true,
        which is called after each :meth:`wake`. Returns false after ``timeout_s``."""
        self._watch(1)
        try:
            return self._progress.wait(
                lambda: self.recorded_position > position or self.is_stopped or is_over(), timeout_s
            )
        finally:
            self._watch(-1)

    def _watch(self, count: int) -> None:
        with self._tail:  # not during a direct append, which reports to nobody
            self._progress.add_waiting(count)
            self._end.select_path()

    def wake(self) -> None:
        """Have waiting threads check their condition again."""
        self._progress.wake()
