"""One replay: reads blocks of a recording and puts them into a publication.

========  ============================================================================================
state     the replay
========  ============================================================================================
INIT      waits for the segment file, then for a subscriber; OK is sent when the file is open
REPLAY    sends a block in each cycle
INACTIVE  has ended, its publication is closed: revoked after an error or abort, with an end of stream else
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
from everlog.aeron.archive.recording.refusals import ErrorCode
from everlog.aeron.archive.service.replay.blocks import prepare_block
from everlog.aeron.archive.service.replay.limits import Limit
from everlog.aeron.archive.service.replay.refusals import Range
from everlog.aeron.archive.service.requester import Requester
from everlog.aeron.family_options import Checksum
from everlog.aeron.frames.constants import HEADER_LENGTH, TYPE_DATA, align
from everlog.aeron.frames.position import term_id_of, term_offset_of
from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.client.appending.appenders import CLOSED, NOT_CONNECTED
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
    which the segment file and a subscriber must be there."""

    replay_session_id: int
    correlation_id: int
    segments: SegmentMap
    initial_term_id: int
    stream_id: int
    range: Range
    limit: Limit | None
    deadline_ns: int
    block_length: int
    checksum: Checksum


class ReplaySession:
    """Replays one recording. ``read`` is called with the bytes of each block."""

    def __init__(
        self,
        order: ReplayOrder,
        publication: ReplayPublication,
        requester: Requester,
        storage: Storage,
        on_read: Callable[[int], None] = lambda length: None,
    ) -> None:
        self.order = order
        self.state = State.INIT
        self.requester = requester
        self.position = order.range.position
        self._publication = publication
        self._storage = storage
        self._on_read = on_read
        self._limit_position, self._stop = order.range.limit, order.range.stop
        self._base = order.segments.base(self.position)
        self._file: ReadableFile | None = None
        self._block = memoryview(bytearray(min(order.block_length, order.segments.term_length)))
        self._is_aborted = self._is_revoked = False
        self._is_closed = False

    # What others ask

    @property
    def recording_id(self) -> int:
        """The replayed recording."""
        return self.order.segments.recording_id

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

    # Duty

    def do_work(self, now_ns: int) -> int:
        """Do the next step. Returns the amount of work done."""
        if self.state is State.DONE:
            return 0
        if self._is_aborted:
            self._end(is_revoked=True)
            return 1
        done = 0
        try:
            if self.state is State.INIT:
                done = self._begin(now_ns)
            if self.state is State.REPLAY:
                done += self._replay()
        except EverlogError as error:
            self._fail(str(error))
        if self.state is State.INACTIVE:
            self.state = State.DONE
            done += 1
        return done

    def abort(self, reason: str) -> None:
        """End at the next cycle."""
        self._is_aborted = True

    def close(self) -> None:
        """Close the file and the publication."""
        if self._is_closed:
            return
        self._is_closed = True
        if self.state is not State.DONE:
            self._is_revoked, self.state = True, State.DONE
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._is_revoked:
            self._publication.revoke()
        else:
            self._publication.close()

    def _begin(self, now_ns: int) -> int:
        is_late = now_ns > self.order.deadline_ns
        if self._file is None:
            name = self.order.segments.name(self._base)
            if not self._storage.exists(name):
                if is_late:
                    self._fail("recording segment file not created")
                return 0
            self._file = self._storage.open(name)
            if self.order.segments.start_position < self.position != self._stop and not self._is_frame_start():
                text = f"replayPosition={self._place(0)} does not point to a valid frame"
                self._fail(text, ErrorCode.INVALID_POSITION)
                return 1
            self.requester.send_ok(self.order.correlation_id, self.order.replay_session_id)
        if not self._publication.is_connected:
            if is_late:
                where = f"replayChannel={self.channel}, replayStreamId={self.stream_id}"
                self._fail(f"no connection established for {where}")
            return 0
        self.state = State.REPLAY
        return 1

    def _is_frame_start(self) -> bool:
        assert self._file is not None
        data = self._file.read_at(self.position - self._base, HEADER_LENGTH)
        if len(data) < HEADER_LENGTH:
            return False
        header, term_length = DataHeader.unpack_from(data), self.order.segments.term_length
        return (header.term_offset, header.term_id, header.stream_id) == (
            term_offset_of(self.position, term_length),
            term_id_of(self.position, self.order.initial_term_id, term_length),
            self.order.stream_id,
        )

    def _replay(self) -> int:
        if not self._publication.is_connected:
            self._end(is_revoked=True)
            return 1
        if self.position >= self._stop and not self._may_go_on():
            return 0
        if self.position >= self._limit_position:
            self._end(is_revoked=False)
            return 1
        if self._publication.available_window <= 0:
            return 0
        segments = self.order.segments
        if self.position >= self._base + segments.segment_length:
            self._open_next()
        assert self._file is not None
        left_in_term = segments.term_length - term_offset_of(self.position, segments.term_length)
        wanted = min(self._stop - self.position, len(self._block), left_in_term)
        read = self._file.read_into(self.position - self._base, self._block[:wanted])
        self._on_read(read)
        if self.order.checksum != "none":
            self._check(read)
        limit = min(self._limit_position - self.position, read)
        length, follows = prepare_block(self._block, read, limit, self.session_id, self._publication.stream_id)
        if length == 0 and follows <= 0 and (follows < 0 or read < wanted or wanted >= len(self._block)):
            self._fail(f"unexpected end of recording at position={self._place(0)}")
            return 1
        done = 0
        if length:
            if not self._advanced(self._publication.append_block(self._block[:length]), length):
                return 0
            done = 1
        if follows > 0 and self.state is State.REPLAY and self.position < self._limit_position:
            result = self._publication.append_padding(follows - HEADER_LENGTH)
            done += self._advanced(result, align(follows))
        return done

    def _may_go_on(self) -> bool:
        """Whether there is more than when the limit was last read. Ends a replay that has reached its end."""
        final = True
        if self.order.limit is not None:
            position, final = self.order.limit.read()
            self._stop = max(self._stop, position)
        if final:
            self._limit_position = min(self._limit_position, self._stop)
        if self.position >= self._limit_position:
            self._end(is_revoked=False)
            return False
        return self._stop > self.position

    def _open_next(self) -> None:
        assert self._file is not None
        self._file.close()
        self._file = None
        self._base += self.order.segments.segment_length
        name = self.order.segments.name(self._base)
        if not self._storage.exists(name):
            self._fail("recording segment not found")
            raise _Failed
        self._file = self._storage.open(name)

    def _check(self, read: int) -> None:
        """Compare the checksums in the session id fields with those of the whole data frames that were read."""
        crc, at = CHECKSUMS[self.order.checksum], 0
        while at + HEADER_LENGTH <= read:
            header = DataHeader.unpack_from(self._block, at)
            end = at + align(header.frame_length)
            if header.frame_length < HEADER_LENGTH or header.type != TYPE_DATA or end > read:
                return
            computed = crc.checksum(self._block[at + HEADER_LENGTH : end])
            if computed != header.session_id & 0xFFFFFFFF:
                recorded, found = header.session_id, computed - (1 << 32) if computed >> 31 else computed
                text = f"CRC checksum mismatch at position={self._place(at)}: recorded checksum={recorded}"
                self._fail(f"{text}, computed checksum={found}")
                raise _Failed
            at = end

    def _advanced(self, result: int, length: int) -> bool:
        if result > 0:
            self.position += length
            if self.position >= self._limit_position:
                self._end(is_revoked=False)
            return True
        if result in (CLOSED, NOT_CONNECTED):
            self._end(is_revoked=True)
        return False

    def _end(self, *, is_revoked: bool) -> None:
        self._is_revoked = is_revoked
        self.state = State.DONE if self.state is State.INIT else State.INACTIVE

    def _fail(self, text: str, code: ErrorCode = ErrorCode.GENERIC) -> None:
        if self.state in (State.INACTIVE, State.DONE):
            return
        name = self.order.segments.name(self._base)
        ids = f"recordingId={self.recording_id}, replaySessionId={self.order.replay_session_id}"
        self.requester.send_error(self.order.correlation_id, code, f"{text}, {ids}, segmentFile={name}")
        self._end(is_revoked=True)

    def _place(self, frame_offset: int) -> str:
        term_offset = term_offset_of(self.position, self.order.segments.term_length)
        segment_offset = self.position - self._base - term_offset
        return (
            f"{self.position + frame_offset} (segmentFilePosition={self._base}, segmentOffset={segment_offset}, "
            f"termOffset={term_offset}, frameOffset={frame_offset})"
        )


class _Failed(EverlogError):
    """The replay has failed, and its client was told."""

    def __init__(self) -> None:
        super().__init__("replay", message="the replay has failed")
