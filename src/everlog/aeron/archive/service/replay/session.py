"""One replay: reads blocks of a recording and puts them into a publication.

========  ============================================================================================
state     the replay
========  ============================================================================================
INIT      waits for the segment file, then for a subscriber; OK is sent when the file is open
REPLAY    sends a block in each cycle
INACTIVE  tells the client of an error
DONE      has ended, its publication is closed: revoked after an error or abort, with an end of stream else
========  ============================================================================================

Source: ReplaySession.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from everlog.aeron.archive.format.catalog_bytes import CHECKSUMS
from everlog.aeron.archive.format.segments import SegmentMap
from everlog.aeron.archive.recording.refusals import ErrorCode, refusal
from everlog.aeron.archive.service.counters import TransferTimes
from everlog.aeron.archive.service.replay.blocks import DAMAGED, NO_FRAME, WRONG_CHECKSUM, Preparer
from everlog.aeron.archive.service.replay.limits import Limit
from everlog.aeron.archive.service.replay.refusals import Range
from everlog.aeron.archive.service.requester import Requester
from everlog.aeron.family_options import Checksum
from everlog.aeron.frames.constants import HEADER_LENGTH, align
from everlog.aeron.frames.position import term_id_of, term_offset_of, wrap_int32
from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.client.appending.appenders import ADMIN_ACTION, BACK_PRESSURED
from everlog.core.files.storage import ReadableFile, Storage
from everlog.errors import EverlogError


class ReplayPublication(Protocol):
    """The part of an exclusive publication that a replay uses."""

    channel: str
    stream_id: int

    @property
    def session_id(self) -> int:
        """The session id of the replayed stream."""

    @property
    def is_connected(self) -> bool:
        """Whether it has a subscriber."""

    @property
    def available_window(self) -> int:
        """How many bytes may be appended now."""

    def append_block(self, block: memoryview) -> int:
        """Append whole frames."""

    def append_padding(self, length: int) -> int:
        """Append a padding frame with ``length`` bytes behind its header."""

    def close(self) -> None:
        """End the stream."""

    def revoke(self) -> None:
        """End the stream at once."""


class State(Enum):
    """The state of a replay."""

    INIT = auto()
    REPLAY = auto()
    INACTIVE = auto()
    DONE = auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayOrder:
    """What is replayed, for whom: ``range`` of a recording; ``limit`` while it may grow. ``deadline_ns`` is the time by
    which the segment file and a subscriber must be there; ``block_length`` the most bytes that are read at a time."""

    replay_session_id: int
    correlation_id: int
    segments: SegmentMap
    initial_term_id: int
    stream_id: int
    mtu_length: int
    range: Range
    limit: Limit | None
    deadline_ns: int
    block_length: int
    checksum: Checksum


class ReplaySession:
    """Replays one recording. ``on_error`` logs each error that the client receives; ``read_times`` counts what is
    read. ``is_dedicated``: a dedicated thread calls :meth:`transfer`."""

    def __init__(
        self,
        order: ReplayOrder,
        publication: ReplayPublication,
        requester: Requester,
        storage: Storage,
        on_error: Callable[[BaseException], None],
        read_times: TransferTimes | None = None,
        *,
        is_dedicated: bool = False,
    ) -> None:
        segments = order.segments
        self.order = order
        self.state = State.INIT
        self.recording_id = segments.recording_id
        self.position = order.range.position
        self._requester = requester
        self._publication = publication
        self._storage = storage
        self._on_error = on_error
        self._read_times = read_times
        self._is_dedicated = is_dedicated
        self._failure: tuple[ErrorCode, str] | None = None
        self._end_position, self._stop = order.range.limit, order.range.stop
        self._is_final = order.limit is None
        self._base = segments.base(self.position)
        self._file: ReadableFile | None = None
        self._block = memoryview(bytearray(min(order.block_length, segments.term_length)))
        self._crc = CHECKSUMS.get(order.checksum)
        ids = publication.session_id, publication.stream_id
        self._preparer = Preparer(*ids, order.mtu_length, segments.term_length, self._crc)
        self._is_answered = self._is_aborted = self._is_revoked = self._is_released = False

    # What others ask

    @property
    def segment_base(self) -> int:
        """The beginning of the segment that is read next."""
        return self._base

    @property
    def state_name(self) -> str:
        """The state, as the original's texts name it."""
        return self.state.name

    @property
    def session_id(self) -> int:
        """The session id of the publication."""
        return self._publication.session_id

    @property
    def stream_id(self) -> int:
        """The stream that is replayed to."""
        return self._publication.stream_id

    @property
    def channel(self) -> str:
        """The channel that is replayed to."""
        return self._publication.channel

    @property
    def is_done(self) -> bool:
        """Whether the replay has ended."""
        return self.state is State.DONE

    def close(self) -> None:
        """End at the next cycle; any thread may call it."""
        self._is_aborted = True

    # Duty

    def do_work(self, now_ns: int) -> int:
        """Do the next step. Returns the amount of work done."""
        if self.state is State.DONE:
            return 0
        done = 0
        if self.state is State.INIT:
            done += self._guarded(lambda: self._begin(now_ns))
        if not self._is_dedicated:
            done += self.transfer()
        if self.state is State.INACTIVE:
            if self._failure is not None:
                self._requester.send_error(self.order.correlation_id, *self._failure)
            self.state = State.DONE
            done += 1
        return done

    def transfer(self) -> int:
        """Send the next block, if the state is REPLAY: only one thread may call it then. Returns the amount of work
        done; raises nothing."""
        return self._guarded(self._replay) if self.state is State.REPLAY else 0

    def _guarded(self, step: Callable[[], int]) -> int:
        """Take a step, unless the replay is to end. An error ends it."""
        try:
            if not self._is_aborted:
                return step()
            self._abort()
        except EverlogError as error:
            self._fail(str(error))
        except Exception as error:
            self._fail(f"{type(error).__name__}: {error}")
        return 1

    def release(self) -> None:
        """Close the file and the publication. A second call does nothing."""
        if self._is_released:
            return
        self._is_released = True
        if self.state is not State.DONE:
            self._is_revoked, self.state = True, State.DONE
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._is_revoked:
            self._publication.revoke()
        else:
            self._publication.close()

    def _abort(self) -> None:
        if not self._is_answered:  # the original leaves the client without an answer
            self._fail("replay aborted")
        self._end(is_revoked=True)

    def _begin(self, now_ns: int) -> int:
        is_late = now_ns > self.order.deadline_ns
        if not self._is_answered:
            if not self._is_open() and not self._try_open():
                # A file that a finished recording lacks does not come any more.
                if is_late or self._is_final:
                    self._fail("recording segment file not created")
                return 0
            if self._file is not None and self.order.segments.start_position < self.position:
                self._check_frame(self._file)
                if self.state is not State.INIT:
                    return 1
            self._is_answered = True
            self._requester.send_ok(self.order.correlation_id, self.order.replay_session_id)
        if not self._publication.is_connected:
            if is_late:
                where = f"replayChannel={self.channel}, replayStreamId={self.stream_id}"
                self._fail(f"no connection established for {where}")
            return 0
        self.state = State.REPLAY
        return 1

    def _is_open(self) -> bool:
        """Whether the file is open, or not needed yet: there is nothing to read by now."""
        return self._file is not None or self.position >= self._stop

    def _try_open(self) -> bool:
        name = self.order.segments.name(self._base)
        if self._storage.exists(name):
            self._file = self._storage.open(name)
        return self._file is not None

    def _check_frame(self, file: ReadableFile) -> None:
        """Fail if no frame begins at the position."""
        data = file.read_at(self.position - self._base, HEADER_LENGTH)
        if len(data) < HEADER_LENGTH:
            self._fail("failed to read fragment header")
            return
        header = DataHeader.unpack_from(data)
        if (header.term_offset, header.term_id, header.stream_id) != (*self._term_place, self.order.stream_id):
            self._fail(f"replayPosition={self._place()} does not point to a valid frame", ErrorCode.INVALID_POSITION)

    @property
    def _term_place(self) -> tuple[int, int]:
        """Offset and id of the position's term."""
        term_length = self.order.segments.term_length
        return term_offset_of(self.position, term_length), term_id_of(
            self.position, self.order.initial_term_id, term_length
        )

    # Replay

    def _replay(self) -> int:
        if not self._publication.is_connected:
            self._end(is_revoked=True)
            return 1
        self._read_limit()
        if self.position >= self._end_position or (self._is_final and self.position >= self._stop):
            self._end(is_revoked=False)
            return 1
        if self.position >= self._stop or self._publication.available_window <= 0:
            return 0
        self._open_segment()
        assert self._file is not None
        term_offset, term_id = self._term_place
        left = min(self._stop - self.position, self.order.segments.term_length - term_offset)
        # A frame that begins before the end is sent whole.
        wanted = min(left, len(self._block), self._end_position - self.position + self.order.mtu_length)
        read = self._read(self._file, wanted)
        limit = self._end_position - self.position
        length, follows = self._preparer.prepare(self._block, read, limit, term_offset, term_id)
        if length == 0 and follows < 0:
            self._fail(self._fault(follows))
            return 1
        if length == 0 and (follows == 0 or align(follows) > left):
            return self._stuck(is_cut=read < wanted or (follows == 0 and wanted < left))
        done = 0
        if length:
            done = self._advance(self._publication.append_block(self._block[:length]), length)
            if not done or follows <= 0 or align(follows) > left - length:
                return done
        if self.state is State.REPLAY and follows > 0 and self.position < self._end_position:
            done += self._advance(self._publication.append_padding(follows - HEADER_LENGTH), align(follows))
        return done

    def _read(self, file: ReadableFile, wanted: int) -> int:
        times, block = self._read_times, self._block[:wanted]
        begun_ns = 0 if times is None else times.clock_ns()
        read = file.read_into(self.position - self._base, block)
        if times is not None:
            times.add(read, times.clock_ns() - begun_ns)
        return read

    def _read_limit(self) -> None:
        """Note how far the recording is now. A limit that was final once stays so, also if the recording is extended
        later."""
        if not self._is_final and self.order.limit is not None:
            self._stop, self._is_final = self.order.limit.read()

    def _open_segment(self) -> None:
        """Open the file of the position, if another one or none is open. Raises :class:`ArchiveError` if it is
        missing."""
        base = self.order.segments.base(self.position)
        if self._file is not None and base == self._base:
            return
        if self._file is not None:
            self._file.close()
            self._file = None
        self._base = base
        if not self._try_open():
            raise refusal("replay", "recording segment not found")

    def _stuck(self, *, is_cut: bool) -> int:
        """No whole frame came: the limit is inside of one, or the recording is damaged."""
        if is_cut:
            self._fail(f"unexpected end of recording at position={self._place()}")
        elif self._is_final:
            self._end(is_revoked=False)
        else:
            return 0
        return 1

    def _fault(self, follows: int) -> str:
        place = self._place()
        if follows == NO_FRAME:
            return f"unexpected end of recording at position={place}"
        if follows == WRONG_CHECKSUM and self._crc is not None:
            header = DataHeader.unpack_from(self._block)
            computed = wrap_int32(self._crc.checksum(self._block[HEADER_LENGTH : align(header.frame_length)]))
            checksums = f"recorded checksum={header.session_id}, computed checksum={computed}"
            return f"CRC checksum mismatch at position={place}: {checksums}"
        assert follows == DAMAGED
        return f"damaged frame at position={place}"

    def _advance(self, result: int, length: int) -> int:
        """Take note of what the publication has accepted. Returns 1 if it has."""
        if result > 0:
            self.position += length
            return 1
        if result not in (BACK_PRESSURED, ADMIN_ACTION):
            self._end(is_revoked=True)
        return 0

    # End

    def _end(self, *, is_revoked: bool) -> None:
        self._is_revoked = self._is_revoked or is_revoked
        self.state = State.INACTIVE

    def _fail(self, text: str, code: ErrorCode = ErrorCode.GENERIC) -> None:
        name = self.order.segments.name(self._base)
        ids = f"recordingId={self.recording_id}, replaySessionId={self.order.replay_session_id}"
        error = refusal(f"recording {self.recording_id}", f"{text}, {ids}, segmentFile={name}", code)
        self._failure = code, str(error.message)
        self._on_error(error)
        self._is_answered = True
        self._end(is_revoked=True)

    def _place(self) -> str:
        term_offset, _ = self._term_place
        segment_offset = self.position - self._base - term_offset
        return (
            f"{self.position} (segmentFilePosition={self._base}, segmentOffset={segment_offset}, "
            f"termOffset={term_offset}, frameOffset=0)"
        )
