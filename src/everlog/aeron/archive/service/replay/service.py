"""Starts, runs and stops replays. Source: ArchiveConductor.startReplay, CreateReplayPublicationSession."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from everlog.aeron.archive.folder.recordings import Recording, segment_map
from everlog.aeron.archive.recording.refusals import ErrorCode, refusal
from everlog.aeron.archive.service.channels import built, duration_text, parse_channel, size_text
from everlog.aeron.archive.service.context import RecordedPositions, ServiceContext
from everlog.aeron.archive.service.counters import TransferTimes
from everlog.aeron.archive.service.queries.queries import known_recording
from everlog.aeron.archive.service.replay.beginning import Beginning
from everlog.aeron.archive.service.replay.limits import CounterLimit, Limit, RecordedLimit
from everlog.aeron.archive.service.replay.refusals import replayed_range
from everlog.aeron.archive.service.replay.session import ReplayOrder, ReplaySession
from everlog.aeron.archive.service.replay.tokens import Tokens
from everlog.aeron.archive.service.requester import Requester
from everlog.aeron.archive.service.transfers import Transfers
from everlog.aeron.frames.constants import NULL_POSITION
from everlog.aeron.frames.position import term_id_of, term_offset_of
from everlog.aeron.transport.client.publication import ExclusivePublication
from everlog.errors import EverlogError

REPLAY_ID_BITS = 31
ALL_RECORDINGS = -1
Running = Beginning | ReplaySession


class ReplayService:
    """All replays of a service. While one runs, the folder's maintenance knows of it and leaves its segments.
    ``read_times`` counts what is read. ``transfers`` is the agent of a thread that replays; without one,
    :meth:`do_work` does."""

    def __init__(
        self,
        context: ServiceContext,
        active: RecordedPositions,
        *,
        read_times: TransferTimes | None = None,
        transfers: Transfers | None = None,
    ) -> None:
        self._context = context
        self._transfers = transfers
        self._active = active
        self._read_times = read_times
        self._tokens = Tokens(context.settings.connect_timeout_ns)
        self._is_deleting: Callable[[int, int], bool] = lambda recording_id, position: False
        self._beginning: list[Beginning] = []
        self._sessions: dict[int, ReplaySession] = {}
        self._next_replay_id = 1

    def __len__(self) -> int:
        return len(self._sessions) + len(self._beginning)

    def refuse_while_deleting(self, is_deleting: Callable[[int, int], bool]) -> None:
        """Have replays refused that go beyond the stop position in the catalog while ``is_deleting(recording_id,
        stop_position)`` tells that files at or after it are being deleted."""
        self._is_deleting = is_deleting

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
        recorded = RecordedLimit(self._context, self._active, recording_id)
        if limit_counter_id is not None:
            limit = CounterLimit(self._context.aeron.counters, limit_counter_id, recorded)
        if len(self) >= settings.max_concurrent_replays:
            text = f"max concurrent replays reached {settings.max_concurrent_replays}"
            raise refusal("replays", text, ErrorCode.MAX_REPLAYS)
        recording = known_recording(self._context, recording_id)
        if limit is None and self._active.recorded_position(recording_id) is not None:
            limit = recorded
        has_limit = limit is not None and not (isinstance(limit, CounterLimit) and limit.value == NULL_POSITION)
        chosen = replayed_range(
            recording,
            position,
            length,
            limit=limit.read()[0] if limit is not None and has_limit else None,
            file_io_max_length=file_io_max_length,
            buffer_length=settings.file_io_max_length,
        )
        self._require_no_deletion(recording, chosen.stop)
        try:
            channel = self._channel(replay_channel, recording, chosen.position, response_correlation_id)
        except (EverlogError, ValueError) as error:
            raise refusal("replayChannel", f"failed to process replayChannel - {error}") from error
        block = settings.file_io_max_length
        if 0 < file_io_max_length < block:
            block = file_io_max_length
        beginning = Beginning(
            requester=requester,
            correlation_id=correlation_id,
            recording=recording,
            range=chosen,
            limit=limit,
            block_length=block,
            channel=channel,
            stream_id=replay_stream_id,
        )
        self._beginning.append(beginning)
        self._register(beginning)

    def _require_no_deletion(self, recording: Recording, stop: int) -> None:
        cataloged = NULL_POSITION if recording.stop_position is None else recording.stop_position
        if stop > cataloged and self._is_deleting(recording.recording_id, cataloged):
            where = f"recording {recording.recording_id}"
            raise refusal(where, f"cannot start replay of {where} due to an outstanding delete operation")

    def _channel(self, asked: str, recording: Recording, position: int, response_correlation_id: int | None) -> str:
        """The replay's channel: what identifies the client's stream, the recording's parameters, its position."""
        uri, settings = parse_channel(asked), self._context.settings
        term_length = recording.term_buffer_length
        linger = uri.get("linger")
        if linger is None and settings.replay_linger_timeout_ns is not None:
            linger = duration_text(settings.replay_linger_timeout_ns)
        own = {
            "init-term-id": str(recording.initial_term_id),
            "term-id": str(term_id_of(position, recording.initial_term_id, term_length)),
            "term-offset": str(term_offset_of(position, term_length)),
            "term-length": size_text(term_length),
            "mtu": size_text(recording.mtu_length),
            "eos": uri.get("eos"),
            "sparse": uri.get("sparse"),
            "linger": linger,
        }
        if response_correlation_id is not None:
            own["response-correlation-id"] = str(response_correlation_id)
        return built(uri, own)

    def stop(self, replay_session_id: int) -> None:
        """Have a replay end; an unknown id is no error."""
        session = self._sessions.get(replay_session_id)
        if session is not None:
            session.close()

    def stop_all(self, recording_id: int) -> None:
        """Have the replays of a recording end, or all of them (-1)."""
        for replay in self._running():
            if recording_id in (ALL_RECORDINGS, replay.recording_id):
                replay.close()

    def make_token(self, requester: Requester, recording_id: int, now_ns: int) -> int:
        """Give out a token for a replay over another publication. Whether the recording is known is asked later."""
        return self._tokens.make(requester, recording_id, now_ns)

    def session_for_token(self, token: int, recording_id: int, now_ns: int) -> Requester | None:
        """The session that a token was given to; ``None`` if it is not valid."""
        return self._tokens.find(token, recording_id, now_ns)

    # Maintenance

    def _running(self) -> list[Running]:
        return [*self._beginning, *self._sessions.values()]

    def replays_of(self, recording_id: int) -> Sequence[Running]:
        """The replays of a recording, also those whose publication is still being added."""
        return [replay for replay in self._running() if replay.recording_id == recording_id]

    def end_replays_of(self, recording_id: int) -> None:
        """Have the replays of a recording end at the next cycle."""
        for replay in self.replays_of(recording_id):
            replay.close()

    def _register(self, replay: Running) -> None:
        with self._context.archive.lock:
            self._context.archive.replays.add(replay)

    def _forget(self, replay: Running) -> None:
        with self._context.archive.lock:
            self._context.archive.replays.discard(replay)

    # Duty

    def expire_tokens(self, now_ns: int) -> int:
        """Forget tokens that are too old. Returns how many."""
        return self._tokens.expire(now_ns)

    def do_work(self, now_ns: int) -> int:
        """Run all replays. Returns the amount of work done."""
        done = self.expire_tokens(now_ns)
        for beginning in self._beginning[:]:
            publication = beginning.poll(self._context.aeron)
            if publication is not None:
                self._add(beginning, publication, now_ns)
            if publication is not None or beginning.is_done:
                self._beginning.remove(beginning)
                self._forget(beginning)
                done += 1
        for replay_session_id, session in list(self._sessions.items()):
            done += session.do_work(now_ns)
            if session.is_done:
                self._end(replay_session_id, session)
        return done

    def _end(self, replay_session_id: int, session: ReplaySession) -> None:
        del self._sessions[replay_session_id]
        if self._transfers is not None:
            self._transfers.remove(session)
        self._forget(session)
        session.release()

    def _add(self, beginning: Beginning, publication: ExclusivePublication, now_ns: int) -> None:
        recording, settings = beginning.recording, self._context.settings
        replay_session_id = self._next_replay_id << 32 | publication.session_id & 0xFFFFFFFF
        self._next_replay_id = (self._next_replay_id + 1) % (1 << REPLAY_ID_BITS)
        order = ReplayOrder(
            replay_session_id=replay_session_id,
            correlation_id=beginning.correlation_id,
            segments=segment_map(recording),
            initial_term_id=recording.initial_term_id,
            stream_id=recording.stream_id,
            mtu_length=recording.mtu_length,
            range=beginning.range,
            limit=beginning.limit,
            deadline_ns=now_ns + settings.connect_timeout_ns,
            block_length=beginning.block_length,
            checksum=settings.replay_checksum,
        )
        storage, on_error = self._context.archive.storage, self._context.on_error
        session = ReplaySession(
            order,
            publication,
            beginning.requester,
            storage,
            on_error,
            self._read_times,
            is_dedicated=self._transfers is not None,
        )
        self._sessions[replay_session_id] = session
        self._register(session)
        if self._transfers is not None:
            self._transfers.add(session)

    def close(self) -> None:
        """End all replays; their streams are revoked."""
        for beginning in self._beginning:
            beginning.cancel()
            self._forget(beginning)
        self._beginning.clear()
        for replay_session_id, session in list(self._sessions.items()):
            self._end(replay_session_id, session)
