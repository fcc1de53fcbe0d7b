"""One recording of an image.

========= ==================================================================================================
state     what a cycle does
========= ==================================================================================================
INIT      publishes that the recording has started; RECORDING
RECORDING writes the image's next block and publishes the position after it; INACTIVE when the image has
          ended and all of it is recorded, after an error, or when it is aborted
INACTIVE  ends the recording: stop position, answer for an error, STOP signal; STOPPED. If the stop position
          can't be written, STOP waits until it is (:mod:`everlog.aeron.archive.service.recording.unstopped`)
STOPPED   nothing
========= ==================================================================================================

The position's counter moves only after a block is written and, if the archive syncs, on disk. Source: RecordingSession,
RecordingWriter, ArchiveConductor.closeRecordingSession.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from everlog.aeron.archive.recording.events import RecordingSignal
from everlog.aeron.archive.recording.refusals import ErrorCode
from everlog.aeron.archive.service.counters import TransferTimes
from everlog.aeron.archive.service.recording.events import RecordingEventsPublisher
from everlog.aeron.archive.service.recording.streams import RecordingRequest
from everlog.aeron.archive.writing.recorder import Recorder
from everlog.aeron.frames.constants import HEADER_LENGTH, TYPE_PADDING
from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.client.counter import Counter
from everlog.aeron.transport.client.image import Image
from everlog.errors import EverlogError

_TYPE_AT = DataHeader.field("type").offset
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class State(Enum):
    """Where a session is in its life."""

    INIT = auto()
    RECORDING = auto()
    INACTIVE = auto()
    STOPPED = auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionSurroundings:
    """What all sessions of a service share. ``events`` is ``None`` if no events are published; ``usable_space`` returns
    bytes. ``write_times`` counts what is written. ``is_dedicated``: a dedicated thread calls
    :meth:`RecordingSession.transfer`."""

    events: RecordingEventsPublisher | None
    block_length_limit: int
    usable_space: Callable[[], int]
    on_error: Callable[[BaseException], None]
    write_times: TransferTimes | None = None
    is_dedicated: bool = False


class RecordingSession:
    """Records one image. ``subscription_id`` is the driver's id of its subscription. The session owns ``recorder`` and
    ``position``."""

    def __init__(
        self,
        request: RecordingRequest,
        image: Image,
        subscription_id: int,
        recorder: Recorder,
        position: Counter,
        surroundings: SessionSurroundings,
    ) -> None:
        self.state = State.INIT
        self.abort_reason: str | None = None
        self.position = position
        self.unstopped: Recorder | None = None
        """The recorder, if the recording has ended but its stop position could not be written."""
        self.recording_id = recorder.recording_id
        self._request = request
        self.image = image
        self._subscription_id = subscription_id
        self._recorder = recorder
        self._surroundings = surroundings
        self._limit = min(image.term_buffer_length, surroundings.block_length_limit)
        self._block_length = 0
        self._published_position = image.join_position
        self._error: tuple[ErrorCode, str] | None = None

    @property
    def recorded_position(self) -> int:
        """The position up to which the image is recorded."""
        return self._recorder.recorded_position

    @property
    def is_done(self) -> bool:
        """Whether the recording has ended."""
        return self.state is State.STOPPED

    @property
    def has_failed(self) -> bool:
        """Whether an error has ended the recording."""
        return self._error is not None

    def do_work(self, now_ns: int) -> int:
        """Record a block, or take a step to the end. Returns the amount of work done; raises nothing: an error ends
        this recording, and is logged and answered."""
        done = 0
        if self.state is State.INIT:
            done += self._begin()
        if not self._surroundings.is_dedicated:
            done += self.transfer()
        if self.state is State.INACTIVE:
            done += self._end()
        return done

    def transfer(self) -> int:
        """Record what has come, if the state is RECORDING: only one thread may call it then. Returns the amount of work
        done; raises nothing."""
        if self.state is not State.RECORDING:
            return 0
        if self.abort_reason is not None:
            self.state = State.INACTIVE
            return 1
        return self._record()

    def abort(self, reason: str) -> None:
        """End at the next cycle, after what is recorded by then. A second call does nothing."""
        if self.abort_reason is None:
            self.abort_reason = reason

    def close(self) -> None:
        """Free the position's counter. A second call does nothing."""
        self.position.close()

    def abandon(self) -> None:
        """Leave the recording active, as the death of the process does."""
        self.state = State.STOPPED
        self._recorder.abandon()

    def _begin(self) -> int:
        if self.abort_reason is not None:
            self.state = State.INACTIVE
            return 1
        image, events = self.image, self._surroundings.events
        if events is not None:
            texts = self._request.channel, image.source_identity
            events.started(self.recording_id, image.join_position, image.session_id, image.stream_id, *texts)
        self.state = State.RECORDING
        return 1

    def _record(self) -> int:
        image = self.image
        try:
            length = self._record_blocks() or image.block_poll(self._write, self._limit)
            if length:
                self.position.value = self._recorder.recorded_position
        except Exception as error:
            self._fail(error)
            self.state = State.INACTIVE
            return 1
        if not length and (image.is_end_of_stream or image.is_closed):
            self.state = State.INACTIVE
            return 1
        if self._surroundings.events is not None:
            self._publish_progress(self._surroundings.events)
        return length

    def _record_blocks(self) -> int:
        """Record what is published, without the GIL. Returns 0 if :meth:`_write` must do the next block."""
        length = self._recorder.append_blocks(self.image, self._limit)
        times = self._surroundings.write_times
        if length and times is not None:
            times.add(*self._recorder.block_times())
        return length

    def _write(self, block: memoryview, session_id: int, term_id: int) -> None:
        self._block_length = len(block)
        times = self._surroundings.write_times
        begun_ns = 0 if times is None else times.clock_ns()
        self._recorder.append_block(block)
        if times is not None:
            # Of padding, which is a block of its own, only the header is written.
            is_padding = block[_TYPE_AT] == TYPE_PADDING
            times.add(HEADER_LENGTH if is_padding else len(block), times.clock_ns() - begun_ns)

    def _publish_progress(self, events: RecordingEventsPublisher) -> None:
        position = self._recorder.recorded_position
        if self._published_position < position and events.progress(
            self.recording_id, self.image.join_position, position
        ):
            self._published_position = position

    def _fail(self, error: Exception) -> None:
        self._surroundings.on_error(error)
        if isinstance(error, EverlogError):
            text = error.message or str(error)
        else:
            text = f"{type(error).__name__}: {error}"
        self._error = self._error or (self._code_of(error), text)

    def _code_of(self, error: BaseException) -> ErrorCode:
        cause: BaseException | None = error
        is_io = False
        while cause is not None:
            if isinstance(cause, OSError):
                is_io = True
                if cause.errno in _NO_SPACE:
                    return ErrorCode.STORAGE_SPACE
            cause = cause.__cause__
        if is_io:
            try:
                if self._surroundings.usable_space() < self._block_length:
                    return ErrorCode.STORAGE_SPACE
            except OSError as unknown:
                self._surroundings.on_error(unknown)
        return ErrorCode.GENERIC

    def _end(self) -> int:
        """Write the stop position, then report it. If it can't be written, ``unstopped`` gets the recorder, and STOP is
        not sent yet."""
        self.state = State.STOPPED
        position = self._stop()
        request = self._request
        if self._error is not None:
            request.requester.send_error(request.correlation_id, *self._error)
        if position is not None:
            if not self.position.is_closed:
                self.position.value = position
            self.report_stop(position)
        return 1

    def _stop(self) -> int | None:
        recorder = self._recorder
        try:
            return recorder.stop(may_retry=True)
        except Exception as error:
            self._fail(error)
            if recorder.is_cataloged:
                return recorder.recorded_position
            if not recorder.is_lost:
                self.unstopped = recorder
        return None

    def report_stop(self, position: int) -> None:
        """Report that the recording has stopped. Call it when the stop position is in the catalog."""
        if self._surroundings.events is not None:
            self._surroundings.events.stopped(self.recording_id, self.image.join_position, position)
        self._signal(position, RecordingSignal.STOP)

    def signal_start(self) -> None:
        """Tell the client that asked for it that the recording has started, or goes on."""
        extends = self._request.recording_id is not None
        self._signal(self.image.join_position, RecordingSignal.EXTEND if extends else RecordingSignal.START)

    def _signal(self, position: int, signal: RecordingSignal) -> None:
        request = self._request
        request.requester.send_signal(
            request.correlation_id, self.recording_id, self._subscription_id, position, signal
        )
