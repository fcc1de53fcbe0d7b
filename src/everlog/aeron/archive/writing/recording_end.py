"""The end of one active recording: writes framed blocks there, and knows what is written, acknowledged or failed.

The framer holds frames that are not written yet. Three positions follow each other: the framer's, after everything
accepted; ``written``; and ``acknowledged``, which depends on the durability. A failed write is cut off again, and the
next block goes to the same place. After a failed sync, messages that were not acknowledged are in doubt: every later
call raises its error. Source: RecordingSession, RecordingWriter.
"""

from __future__ import annotations

import contextlib

from everlog.aeron.archive.writing.block_writer import BlockWriter
from everlog.aeron.archive.writing.ownership import SILENT_S
from everlog.aeron.archive.writing.progress import Progress
from everlog.aeron.frames.framing import Framer, Tail
from everlog.aeron.frames.position import max_position
from everlog.core.files.durability import Durability
from everlog.core.group_commit import GroupCommit, Round
from everlog.errors import Closed, EverlogError, WriteFailed

WRITES_OUTSIDE = 64
"""How many single messages are written outside a mapped window before the next one is made, which costs as much as a
few of them."""
ALL = 1 << 62


class RecordingEnd:
    """Where a recording's next frames go. Callers hold the lock of ``tail``, except for :meth:`acknowledge`."""

    def __init__(
        self, recording_id: int, framer: Framer, writer: BlockWriter, durability: Durability, progress: Progress
    ) -> None:
        self.recording_id = recording_id
        self.framer = framer
        self.tail = Tail(framer)
        self.is_synced = durability is Durability.SYNCED
        self.is_stopped = False
        self.is_usable = True
        """False if :meth:`check` would raise."""
        self.error: EverlogError | None = None
        """Why nothing more can be recorded."""
        self._is_fenced = False
        self._deferred_error: EverlogError | None = None
        self._progress = progress
        self._writer = writer
        self._max_position = max_position(writer.segments.term_length)
        self._commit = GroupCommit()
        self.tail.writes_left = WRITES_OUTSIDE
        self.select_path()

    @property
    def acknowledged(self) -> int:
        """The position after the last acknowledged message."""
        return self.tail.acknowledged

    def check(self) -> None:
        """Raises :class:`Closed` after the end, and :class:`WriteFailed` if nothing more can be recorded or messages
        that were accepted before are lost."""
        if self.is_stopped:
            raise Closed(f"recorder of recording {self.recording_id}")
        error = self.error
        if error is None and self._deferred_error is not None:
            error, self._deferred_error = self._deferred_error, None
            self.is_usable = True
            self.select_path()
        if error is not None:
            raise WriteFailed(
                error.where, found=error.found, expected=error.expected, hint=error.hint, message=error.message
            ) from error

    # Blocks

    def write_block(self, *, may_pad: bool = True) -> None:
        """Write the framed frames, if there are any, and empty the framer; at a segment's end, continue in the next.

        If recovery would take the last frame for a torn one, a padding frame follows it, which readers of real archives
        skip: the message is acknowledged, and must survive the death of this process. ``may_pad=False`` writes no
        padding, because the positions belong to another process's stream.
        """
        framer, writer, tail = self.framer, self._writer, self.tail
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
            tail.written = framer.position
            if not self.is_synced:
                tail.acknowledged = tail.written
            framer.begin(tail.written, writer.end)
        self.begin_next_segment(is_needed=not has_written)
        if is_in_doubt and framer.pad():
            with contextlib.suppress(WriteFailed):  # the message is recorded; the next one ends the doubt
                self.write_block()

    def make_room(self) -> None:
        """Write the frames of a full framer. Raises :class:`WriteFailed`, also at the stream's maximum position."""
        self.write_block()
        self.check_room()

    def check_room(self) -> None:
        """Raises :class:`WriteFailed` at the stream's maximum position."""
        if self._is_at_max:
            raise WriteFailed(
                f"recording {self.recording_id}",
                found=f"max position exceeded: {self._max_position} is reached",
                expected="at most 2^31 terms",
                hint="start a new recording; longer terms hold more",
            )

    @property
    def _is_at_max(self) -> bool:
        return self.tail.written >= self._max_position

    def begin_next_segment(self, *, is_needed: bool = False) -> None:
        """Continue in the next segment, if the open one is full. While the segment is not needed yet, an error is
        ignored: the messages are written, and the next call that needs the segment raises."""
        if self.tail.written < self._writer.end or self._is_at_max:
            return
        self.settle()
        try:
            self._writer.roll()
        except EverlogError:
            if is_needed:
                raise
            return
        self._drop_window()
        self.framer.begin(self.tail.written, self._writer.end)
        self.select_path()

    def _cut_back(self, position: int) -> None:
        self._drop_window()
        try:
            self._writer.cut_back(position)
        except EverlogError as error:
            self._fail(error)

    # Single messages

    def select_path(self) -> None:
        """Choose how the tail appends single messages: directly to the open file, if each is written at once and nobody
        waits for it, else through the framer."""
        is_direct = not (self.is_synced or self.is_stopped or self._is_fenced or self._progress.is_watched)
        is_direct = is_direct and self.error is None and self._deferred_error is None
        self.tail.base, self.tail.end = self._writer.base, self._writer.end
        self.tail.fd = self._writer.fd if is_direct else -1
        self.renew()

    def renew(self) -> None:
        """Let the tail append directly for a while longer: the folder has just been checked to be ours."""
        self.tail.renew(SILENT_S)

    def fence(self) -> None:
        """From now on, no message is appended directly, because the folder may have another owner."""
        self._is_fenced = True
        self.tail.fd = -1

    def move_window(self) -> None:
        """Map the next window of the file, if single messages have left the last one."""
        tail = self.tail
        if tail.fd < 0 or tail.writes_left > 0:
            return
        found = self._writer.window(tail.written)
        tail.writes_left = ALL if found is None else WRITES_OUTSIDE
        tail.set_window(*(found or (None, 0)))

    def _drop_window(self) -> None:
        """Call before the file is cut or closed."""
        self.tail.set_window(None, 0)
        self.tail.writes_left = WRITES_OUTSIDE

    # Durability

    def join(self) -> Round | None:
        """The sync to wait for after a write, or ``None`` if written means acknowledged."""
        return self._commit.join() if self.is_synced else None

    def acknowledge(self, joined: Round | None) -> None:
        """Wait for that sync, then report the progress. Call without the lock. Raises :class:`WriteFailed`."""
        if joined is not None:
            self._commit.wait(joined, self.sync)
        self._progress.report()

    def settle(self) -> None:
        """Acknowledge everything written. Raises :class:`WriteFailed`."""
        if self.is_synced:
            self._commit.settle(self.sync)

    def sync(self) -> None:
        """Sync everything written. One thread at a time is here, and no other one changes the file."""
        if self.error is not None:
            raise self.error
        position = self.tail.written
        try:
            self._writer.sync()
        except EverlogError as error:
            self._fail(error)
            raise
        self.tail.acknowledged = max(self.tail.acknowledged, position)

    def defer(self, error: EverlogError) -> None:
        """Raise ``error`` in the next call: messages that were accepted, but that nobody waited for, are lost."""
        self._deferred_error, self.is_usable, self.tail.fd = error, False, -1

    def _fail(self, error: EverlogError) -> None:
        self.error = error
        self.is_usable = False
        self.tail.fd = -1

    # The end

    def stop(self) -> EverlogError | None:
        """Write and acknowledge what can be, and cut off the rest. Returns the first error that lost a message. The
        file stays open for :meth:`close`, so that the catalog can be written first. Raises :class:`WriteFailed` if
        the rest can't be cut off."""
        failure = self._deferred_error
        for do in (self.write_block, self.settle):  # other threads may wait for what they have written
            try:
                if self.error is None:
                    do()
            except EverlogError as error:
                failure = failure or error
        self._retire()
        tail = self.tail
        if tail.acknowledged < tail.written or self.error is not None:
            self._writer.cut_back(tail.acknowledged)
            tail.written = tail.acknowledged
        return failure

    def _retire(self) -> None:
        self.is_stopped = True
        self.is_usable = False
        self.tail.fd = -1
        self._drop_window()

    def close(self) -> None:
        """Close the file. Without :meth:`stop`, the recording stays active, as after the death of its process."""
        self._retire()
        self._writer.close()
