"""Starts, runs and stops replays. Source: ArchiveConductor.startReplay, CreateReplayPublicationSession."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everlog.aeron.archive.folder.recordings import Recording, segment_map
from everlog.aeron.archive.recording.refusals import ErrorCode
from everlog.aeron.archive.service.context import ServiceContext
from everlog.aeron.archive.service.queries.queries import known_recording
from everlog.aeron.archive.service.replay.limits import ActiveRecordings, CounterLimit, Limit, RecordedLimit
from everlog.aeron.archive.service.replay.refusals import Range, refusal, replayed_range
from everlog.aeron.archive.service.replay.session import ReplayOrder, ReplaySession
from everlog.aeron.archive.service.replay.tokens import Tokens
from everlog.aeron.archive.service.requester import Requester
from everlog.aeron.archive.writing.stream_parameters import stripped
from everlog.aeron.channel_uri import ChannelUri
from everlog.aeron.frames.position import term_id_of, term_offset_of
from everlog.aeron.transport.client.errors import RegistrationRefused
from everlog.aeron.transport.client.publication import ExclusivePublication
from everlog.aeron.transport.client.registration import Registration
from everlog.aeron.transport.format.error_codes import ErrorCode as DriverErrorCode
from everlog.errors import EverlogError

REPLAY_ID_BITS = 31
ALL_RECORDINGS = -1


@dataclass(slots=True)
class _Beginning:
    """A replay whose publication is being added."""

    requester: Requester
    correlation_id: int
    recording: Recording
    range: Range
    limit: Limit | None
    block_length: int
    channel: str
    stream_id: int
    adding: Registration[ExclusivePublication] | None = None


class ReplayService:
    """All replays of a service."""

    def __init__(self, context: ServiceContext, active: ActiveRecordings) -> None:
        self._context = context
        self._active = active
        self._tokens = Tokens(context.settings.connect_timeout_ns)
        self._beginning: list[_Beginning] = []
        self._sessions: dict[int, ReplaySession] = {}
        self._next_replay_id = 1

    def __len__(self) -> int:
        return len(self._sessions) + len(self._beginning)

    # Requests

    def start(
        self,
        requester: Requester,
        correlation_id: int,
        recording_id: int,
        position: int,
        length: int,
        file_io_max_length: int,
        replay_stream_id: int,
        replay_channel: str,
        *,
        limit_counter_id: int | None = None,
        response_correlation_id: int | None = None,
    ) -> None:
        """Begin a replay. OK with the replay session's id, or an error, is sent later. Raises :class:`ArchiveError`
        with the original's code and text."""
        settings = self._context.settings
        limit: Limit | None = None
        if limit_counter_id is not None:
            limit = CounterLimit(self._context.aeron.counters, limit_counter_id)
        if len(self) >= settings.max_concurrent_replays:
            text = f"max concurrent replays reached {settings.max_concurrent_replays}"
            raise refusal("replays", text, ErrorCode.MAX_REPLAYS)
        recording = known_recording(self._context, recording_id)
        if limit is None and self._active.recorded_position(recording_id) is not None:
            limit = RecordedLimit(self._context, self._active, recording_id)
        chosen = replayed_range(
            recording,
            position,
            length,
            limit=None if limit is None else limit.read()[0],
            file_io_max_length=file_io_max_length,
            buffer_length=settings.file_io_max_length,
        )
        try:
            channel = self._channel(replay_channel, recording, chosen.position, response_correlation_id)
        except (EverlogError, ValueError) as error:
            raise refusal("replayChannel", f"failed to process replayChannel - {error}") from error
        block = settings.file_io_max_length
        if 0 < file_io_max_length < block:
            block = file_io_max_length
        self._beginning.append(
            _Beginning(requester, correlation_id, recording, chosen, limit, block, channel, replay_stream_id)
        )

    def _channel(self, asked: str, recording: Recording, position: int, response_correlation_id: int | None) -> str:
        """The replay's channel: what identifies the client's stream, the recording's parameters, its position."""
        uri, settings = ChannelUri.parse(asked), self._context.settings
        term_length = recording.term_buffer_length
        linger = uri.get("linger")
        if linger is None and settings.replay_linger_timeout_ns is not None:
            linger = str(settings.replay_linger_timeout_ns)
        own = {
            "init-term-id": str(recording.initial_term_id),
            "term-id": str(term_id_of(position, recording.initial_term_id, term_length)),
            "term-offset": str(term_offset_of(position, term_length)),
            "term-length": str(term_length),
            "mtu": str(recording.mtu_length),
            "eos": uri.get("eos"),
            "sparse": uri.get("sparse"),
            "linger": linger,
        }
        if response_correlation_id is not None:
            own["response-correlation-id"] = str(response_correlation_id)
        return str(ChannelUri.parse(stripped(uri)).with_params(own))

    def stop(self, replay_session_id: int) -> None:
        """Have a replay end; an unknown id is no error."""
        session = self._sessions.get(replay_session_id)
        if session is not None:
            session.abort("stop replay")

    def stop_all(self, recording_id: int) -> None:
        """Have the replays of a recording end, or all of them (-1)."""
        for session in self._sessions.values():
            if recording_id in (ALL_RECORDINGS, session.recording_id):
                session.abort("stop all replays")

    def make_token(self, requester: Requester, recording_id: int, now_ns: int) -> int:
        """Give out a token for a replay over another publication. Raises :class:`ArchiveError`."""
        known_recording(self._context, recording_id)
        return self._tokens.make(requester, recording_id, now_ns)

    def session_for_token(self, token: int, recording_id: int, now_ns: int) -> Requester | None:
        """The session that a token was given to; ``None`` if it is not valid."""
        return self._tokens.find(token, recording_id, now_ns)

    # Maintenance

    def replays_of(self, recording_id: int) -> Sequence[ReplaySession]:
        """The replays of a recording."""
        return [session for session in self._sessions.values() if session.recording_id == recording_id]

    def end_replays_of(self, recording_id: int) -> None:
        """Have the replays of a recording end."""
        self.stop_all(recording_id)

    # Duty

    def do_work(self, now_ns: int) -> int:
        """Run all replays. Returns the amount of work done."""
        done = self._tokens.expire(now_ns)
        for beginning in self._beginning[:]:
            if self._is_begun(beginning, now_ns):
                self._beginning.remove(beginning)
                done += 1
        for replay_session_id, session in list(self._sessions.items()):
            try:
                done += session.do_work(now_ns)
            except Exception as error:  # of one replay: the others go on
                self._context.on_error(error)
                session.abort("failed")
            if session.is_done:
                del self._sessions[replay_session_id]
                session.close()
        return done

    def _is_begun(self, beginning: _Beginning, now_ns: int) -> bool:
        """Add the publication; try again while the driver is short of resources."""
        if beginning.adding is None:
            channel, stream_id = beginning.channel, beginning.stream_id
            beginning.adding = self._context.aeron.async_add_exclusive_publication(channel, stream_id)
        if not beginning.adding.done:
            return False
        try:
            publication = beginning.adding.result()
        except EverlogError as error:
            beginning.adding = None
            is_short = isinstance(error, RegistrationRefused)
            if is_short and error.error_code == DriverErrorCode.RESOURCE_TEMPORARILY_UNAVAILABLE:  # type: ignore[attr-defined]
                return False
            text = f"failed to create replay publication: {error}"
            beginning.requester.send_error(beginning.correlation_id, ErrorCode.GENERIC, text)
            return True
        self._add(beginning, publication, now_ns)
        return True

    def _add(self, beginning: _Beginning, publication: ExclusivePublication, now_ns: int) -> None:
        recording, settings = beginning.recording, self._context.settings
        replay_session_id = self._next_replay_id << 32 | publication.session_id & 0xFFFFFFFF
        self._next_replay_id = (self._next_replay_id + 1) % (1 << REPLAY_ID_BITS)
        order = ReplayOrder(
            replay_session_id=replay_session_id,
            correlation_id=beginning.correlation_id,
            segments=segment_map(recording),
            initial_term_id=recording.initial_term_id,
            stream_id=recording.stream_id,
            range=beginning.range,
            limit=beginning.limit,
            deadline_ns=now_ns + settings.connect_timeout_ns,
            block_length=beginning.block_length,
            checksum=settings.replay_checksum,
        )
        storage = self._context.archive.storage
        self._sessions[replay_session_id] = ReplaySession(order, publication, beginning.requester, storage)

    def close(self) -> None:
        """End all replays."""
        for beginning in self._beginning:
            if beginning.adding is not None:
                beginning.adding.cancel()
        self._beginning.clear()
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()
