"""What each request does: passes it to the part of the service that can do it, and answers refusals.

Source: ControlSessionAdapter, ControlSession.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from everlog.aeron.archive.protocol import requests as asked
from everlog.aeron.archive.protocol.requests import NULL_VALUE, SessionRequest
from everlog.aeron.archive.recording.refusals import ArchiveError, ErrorCode
from everlog.aeron.archive.service.channels import refusal_text
from everlog.aeron.archive.service.control.session import ControlSession
from everlog.aeron.archive.service.queries.queries import Queries
from everlog.aeron.archive.service.recording.service import RecordingService
from everlog.aeron.archive.service.replay.service import ReplayService
from everlog.aeron.archive.service.requester import Requester, Session
from everlog.aeron.archive.service.upkeep.upkeep import Upkeep
from everlog.aeron.channel_uri import ChannelUri, InvalidChannel
from everlog.aeron.transport.client.errors import RegistrationRefused
from everlog.aeron.transport.client.image import Image
from everlog.errors import UnknownStream


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """The parts of a service. ``add_session`` has the service run a session until it is done."""

    recordings: RecordingService
    replays: ReplayService
    queries: Queries
    upkeep: Upkeep
    add_session: Callable[[Session], None]
    archive_id: int


@dataclass(frozen=True, slots=True)
class Call:
    """A request on its way: the session that is answered, the image it came over, the time."""

    parts: Parts
    session: ControlSession
    request: Any
    image: Image
    now_ns: int

    @property
    def answered(self) -> tuple[Requester, int]:
        """The session itself, and the request's correlation id: the first two arguments of what answers a request."""
        return self.session, self.request.correlation_id


def asks_elsewhere(request: asked.Replay | asked.BoundedReplay) -> bool:
    """Whether a replay was asked for over another publication than its session's: with a token, to a response
    channel."""
    if request.replay_token == NULL_VALUE:
        return False
    try:
        return ChannelUri.parse(request.replay_channel).get("control-mode") == "response"
    except InvalidChannel:
        return False


Action = Callable[[Call], int | None]
"""Does what a request asks for. Returns the relevant id of the answer OK; ``None`` if it is answered elsewhere."""


class Dispatch:
    """Calls the action of each request. A refusal becomes the answer ERROR; so does any other error, which is also
    given to ``on_error``."""

    def __init__(self, parts: Parts, on_error: Callable[[BaseException], None]) -> None:
        self._parts = parts
        self._on_error = on_error

    def handle(self, session: ControlSession, request: SessionRequest, image: Image, now_ns: int) -> None:
        """Do what a request asks for, and answer it."""
        action = _ACTIONS[type(request)]
        correlation_id = request.correlation_id
        try:
            relevant_id = action(Call(self._parts, session, request, image, now_ns))
        except ArchiveError as error:
            session.send_error(correlation_id, error.code, error.message or str(error))
        except RegistrationRefused as error:
            session.send_error(correlation_id, ErrorCode.GENERIC, refusal_text(error))
        except UnknownStream:
            recording_id = getattr(request, "recording_id", NULL_VALUE)
            session.send_error(correlation_id, ErrorCode.UNKNOWN_RECORDING, f"unknown recording id: {recording_id}")
        except Exception as error:  # whatever it is, the client gets an answer and the service goes on
            session.send_error(correlation_id, ErrorCode.GENERIC, str(error) or type(error).__name__)
            self._on_error(error)
        else:
            if relevant_id is not None:
                session.send_ok(correlation_id, relevant_id)

    def is_elsewhere(self, request: asked.Replay | asked.BoundedReplay) -> bool:
        """Whether the replay is asked for with a token, over another publication than its session's."""
        return asks_elsewhere(request)

    def session_of_token(self, request: asked.Replay | asked.BoundedReplay, now_ns: int) -> int | None:
        """The id of the session that asked for a replay request's token; ``None`` if the token is not valid."""
        found = self._parts.replays.session_for_token(request.replay_token, request.recording_id, now_ns)
        return None if found is None else found.session_id


# Recording


def _start(call: Call) -> int | None:
    r = call.request
    auto_stop = getattr(r, "auto_stop", False)
    return call.parts.recordings.start(*call.answered, r.stream_id, r.channel, r.source_location, auto_stop)


def _extend(call: Call) -> int | None:
    r = call.request
    auto_stop = getattr(r, "auto_stop", False)
    recordings = call.parts.recordings
    return recordings.extend(*call.answered, r.recording_id, r.stream_id, r.channel, r.source_location, auto_stop)


def _stop_by_channel(call: Call) -> int | None:
    return call.parts.recordings.stop_by_channel(*call.answered, call.request.stream_id, call.request.channel)


def _stop_subscription(call: Call) -> int | None:
    return call.parts.recordings.stop_subscription(*call.answered, call.request.subscription_id)


def _stop_by_identity(call: Call) -> int | None:
    return call.parts.recordings.stop_by_identity(*call.answered, call.request.recording_id)


# Replay


def _replay(call: Call) -> int | None:
    r = call.request
    is_response = asks_elsewhere(r)
    call.parts.replays.start(
        *call.answered,
        r.recording_id,
        r.position,
        r.length,
        r.file_io_max_length,
        r.replay_stream_id,
        r.replay_channel,
        limit_counter_id=getattr(r, "limit_counter_id", None),
        response_correlation_id=call.image.correlation_id if is_response else None,
    )
    return None


def _stop_replay(call: Call) -> int | None:
    call.parts.replays.stop(call.request.replay_session_id)
    return 0


def _stop_all_replays(call: Call) -> int | None:
    call.parts.replays.stop_all(call.request.recording_id)
    return 0


def _token(call: Call) -> int | None:
    return call.parts.replays.make_token(call.session, call.request.recording_id, call.now_ns)


# Queries


def _require_no_listing(session: ControlSession) -> None:
    """A session has one listing at a time, and a catalog entry does not change under it."""
    if session.is_listing:
        message = "active listing already in progress"
        error = ArchiveError("listing", found="an active one", expected="one at a time", message=message)
        raise error.coded(ErrorCode.ACTIVE_LISTING)


def _listing(list_with: Callable[[Call], Session | None]) -> Action:
    """An action that begins a listing, unless it is answered at once."""

    def begin(call: Call) -> None:
        _require_no_listing(call.session)
        listing = list_with(call)
        if listing is not None:
            call.session.listing = listing
            call.parts.add_session(listing)

    return begin


def _list(call: Call) -> Session | None:
    r = call.request
    return call.parts.queries.list_recordings(*call.answered, r.from_recording_id, r.record_count)


def _list_for_uri(call: Call) -> Session | None:
    r = call.request
    queries = call.parts.queries
    return queries.list_recordings_for_uri(*call.answered, r.from_recording_id, r.record_count, r.stream_id, r.channel)


def _list_one(call: Call) -> Session | None:
    return call.parts.queries.list_recording(*call.answered, call.request.recording_id)


def _list_subscriptions(call: Call) -> Session | None:
    r = call.request
    return call.parts.recordings.list_subscriptions(
        *call.answered, r.pseudo_index, r.subscription_count, r.apply_stream_id, r.stream_id, r.channel
    )


def _find_last(call: Call) -> int | None:
    r = call.request
    return call.parts.queries.find_last_matching(r.min_recording_id, r.session_id, r.stream_id, r.channel)


def _start_position(call: Call) -> int | None:
    return call.parts.queries.start_position(call.request.recording_id)


def _stop_position(call: Call) -> int | None:
    return call.parts.queries.stop_position(call.request.recording_id)


def _recording_position(call: Call) -> int | None:
    return call.parts.queries.recording_position(call.request.recording_id)


def _max_recorded_position(call: Call) -> int | None:
    return call.parts.queries.max_recorded_position(call.request.recording_id)


def _archive_id(call: Call) -> int | None:
    return call.parts.archive_id


# Maintenance


def _truncate(call: Call) -> int | None:
    call.parts.upkeep.truncate(*call.answered, call.request.recording_id, call.request.position)
    return None


def _purge_recording(call: Call) -> int | None:
    call.parts.upkeep.purge_recording(*call.answered, call.request.recording_id)
    return None


def _detach(call: Call) -> int | None:
    return call.parts.upkeep.detach_segments(*call.answered, call.request.recording_id, call.request.new_start_position)


def _delete_detached(call: Call) -> int | None:
    call.parts.upkeep.delete_detached_segments(*call.answered, call.request.recording_id)
    return None


def _purge_segments(call: Call) -> int | None:
    call.parts.upkeep.purge_segments(*call.answered, call.request.recording_id, call.request.new_start_position)
    return None


def _attach(call: Call) -> int | None:
    return call.parts.upkeep.attach_segments(*call.answered, call.request.recording_id)


def _migrate(call: Call) -> int | None:
    r = call.request
    call.parts.upkeep.migrate_segments(*call.answered, r.source_recording_id, r.target_recording_id)
    return None


def _update_channel(call: Call) -> int | None:
    _require_no_listing(call.session)
    return call.parts.upkeep.update_channel(*call.answered, call.request.recording_id, call.request.channel)


# Replication


def _no_replication(call: Call) -> int | None:
    message = "replication is not supported"
    raise ArchiveError("replication", found="a request for it", expected="another request", message=message)


_ACTIONS: dict[type[SessionRequest], Action] = {
    asked.StartRecording: _start,
    asked.StartRecording2: _start,
    asked.ExtendRecording: _extend,
    asked.ExtendRecording2: _extend,
    asked.StopRecording: _stop_by_channel,
    asked.StopRecordingSubscription: _stop_subscription,
    asked.StopRecordingByIdentity: _stop_by_identity,
    asked.Replay: _replay,
    asked.BoundedReplay: _replay,
    asked.StopReplay: _stop_replay,
    asked.StopAllReplays: _stop_all_replays,
    asked.ReplayToken: _token,
    asked.ListRecordings: _listing(_list),
    asked.ListRecordingsForUri: _listing(_list_for_uri),
    asked.ListRecording: _listing(_list_one),
    asked.ListRecordingSubscriptions: _listing(_list_subscriptions),
    asked.FindLastMatchingRecording: _find_last,
    asked.StartPosition: _start_position,
    asked.StopPosition: _stop_position,
    asked.RecordingPosition: _recording_position,
    asked.MaxRecordedPosition: _max_recorded_position,
    asked.ArchiveId: _archive_id,
    asked.TruncateRecording: _truncate,
    asked.PurgeRecording: _purge_recording,
    asked.DetachSegments: _detach,
    asked.DeleteDetachedSegments: _delete_detached,
    asked.PurgeSegments: _purge_segments,
    asked.AttachSegments: _attach,
    asked.MigrateSegments: _migrate,
    asked.UpdateChannel: _update_channel,
    asked.Replicate: _no_replication,
    asked.TaggedReplicate: _no_replication,
    asked.Replicate2: _no_replication,
    asked.StopReplication: _no_replication,
}
