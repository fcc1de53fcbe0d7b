"""Requests of clients to an archive. Source: aeron-archive-codecs.xml.

A class has the name of its template without the suffix ``Request``. All but :class:`AuthConnect` and
:class:`CloseSession` begin with the control session and a correlation id, which the answer repeats."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, ClassVar

from everlog.aeron.messages import Bytes, Flag, Int32, Int64, Message, Number, Since, Text

NULL_VALUE = -1
"""No id, position or token."""
NULL_INT = -1


class SourceLocation(IntEnum):
    """Where a recorded stream comes from: a publisher on the archive's own driver (``LOCAL``, recorded by a spy where
    the channel is UDP), or any publisher."""

    LOCAL = 0
    REMOTE = 1


Location = Annotated[SourceLocation, Number("i", kind=SourceLocation)]


@dataclass(frozen=True, slots=True)
class SessionRequest(Message):
    """A request of a control session."""

    control_session_id: Int64
    correlation_id: Int64


@dataclass(frozen=True, slots=True)
class Connect(Message):
    """Open a control session, as clients did before :class:`AuthConnect`. ``version`` is the protocol's, 0 if the
    client did not say it."""

    template_id: ClassVar[int] = 2
    correlation_id: Int64
    response_stream_id: Int32
    version: Annotated[Int32, Since(2)] = 0
    response_channel: Text = ""


@dataclass(frozen=True, slots=True)
class CloseSession(Message):
    """Close a control session. There is no answer."""

    template_id: ClassVar[int] = 3
    control_session_id: Int64


@dataclass(frozen=True, slots=True)
class StartRecording(SessionRequest):
    """Record a stream. The answer's relevant id is the subscription's id."""

    template_id: ClassVar[int] = 4
    stream_id: Int32
    source_location: Location
    channel: Text


@dataclass(frozen=True, slots=True)
class StopRecording(SessionRequest):
    """Stop the recordings that were started with this channel and stream."""

    template_id: ClassVar[int] = 5
    stream_id: Int32
    channel: Text


@dataclass(frozen=True, slots=True)
class Replay(SessionRequest):
    """Replay a recording to a channel. The answer's relevant id is the replay session's."""

    template_id: ClassVar[int] = 6
    recording_id: Int64
    position: Int64
    length: Int64
    replay_stream_id: Int32
    file_io_max_length: Annotated[Int32, Since(7)] = NULL_INT
    replay_token: Annotated[Int64, Since(10)] = NULL_VALUE
    replay_channel: Text = ""


@dataclass(frozen=True, slots=True)
class StopReplay(SessionRequest):
    """Stop a replay."""

    template_id: ClassVar[int] = 7
    replay_session_id: Int64


@dataclass(frozen=True, slots=True)
class ListRecordings(SessionRequest):
    """List recordings by id."""

    template_id: ClassVar[int] = 8
    from_recording_id: Int64
    record_count: Int32


@dataclass(frozen=True, slots=True)
class ListRecordingsForUri(SessionRequest):
    """List recordings of a stream whose channel contains a fragment."""

    template_id: ClassVar[int] = 9
    from_recording_id: Int64
    record_count: Int32
    stream_id: Int32
    channel: Text


@dataclass(frozen=True, slots=True)
class ListRecording(SessionRequest):
    """List one recording."""

    template_id: ClassVar[int] = 10
    recording_id: Int64


@dataclass(frozen=True, slots=True)
class ExtendRecording(SessionRequest):
    """Continue a stopped recording with a stream."""

    template_id: ClassVar[int] = 11
    recording_id: Int64
    stream_id: Int32
    source_location: Location
    channel: Text


@dataclass(frozen=True, slots=True)
class RecordingPosition(SessionRequest):
    """Ask for the recorded position of an active recording; -1 if it is not active."""

    template_id: ClassVar[int] = 12
    recording_id: Int64


@dataclass(frozen=True, slots=True)
class TruncateRecording(SessionRequest):
    """Cut off everything after a position of a stopped recording."""

    template_id: ClassVar[int] = 13
    recording_id: Int64
    position: Int64


@dataclass(frozen=True, slots=True)
class StopRecordingSubscription(SessionRequest):
    """Stop the recordings of a subscription."""

    template_id: ClassVar[int] = 14
    subscription_id: Int64


@dataclass(frozen=True, slots=True)
class StopPosition(SessionRequest):
    """Ask for the stop position of a recording; -1 while it is active."""

    template_id: ClassVar[int] = 15
    recording_id: Int64


@dataclass(frozen=True, slots=True)
class FindLastMatchingRecording(SessionRequest):
    """Find the last recording of a session and stream whose channel contains a fragment."""

    template_id: ClassVar[int] = 16
    min_recording_id: Int64
    session_id: Int32
    stream_id: Int32
    channel: Text


@dataclass(frozen=True, slots=True)
class ListRecordingSubscriptions(SessionRequest):
    """List the subscriptions that record, of all sessions."""

    template_id: ClassVar[int] = 17
    pseudo_index: Int32
    subscription_count: Int32
    apply_stream_id: Flag
    stream_id: Int32
    channel: Text


@dataclass(frozen=True, slots=True)
class BoundedReplay(SessionRequest):
    """Replay a recording up to the value of a counter."""

    template_id: ClassVar[int] = 18
    recording_id: Int64
    position: Int64
    length: Int64
    limit_counter_id: Int32
    replay_stream_id: Int32
    file_io_max_length: Annotated[Int32, Since(7)] = NULL_INT
    replay_token: Annotated[Int64, Since(10)] = NULL_VALUE
    replay_channel: Text = ""


@dataclass(frozen=True, slots=True)
class StopAllReplays(SessionRequest):
    """Stop the replays of a recording; of all recordings for -1."""

    template_id: ClassVar[int] = 19
    recording_id: Int64


@dataclass(frozen=True, slots=True)
class Replicate(SessionRequest):
    """Copy a recording from another archive."""

    template_id: ClassVar[int] = 50
    source_recording_id: Int64
    target_recording_id: Int64
    source_control_stream_id: Int32
    source_control_channel: Text
    live_destination: Text


@dataclass(frozen=True, slots=True)
class StopReplication(SessionRequest):
    """Stop a replication."""

    template_id: ClassVar[int] = 51
    replication_id: Int64


@dataclass(frozen=True, slots=True)
class StartPosition(SessionRequest):
    """Ask for the start position of a recording."""

    template_id: ClassVar[int] = 52
    recording_id: Int64


@dataclass(frozen=True, slots=True)
class DetachSegments(SessionRequest):
    """Move a recording's start; the segments before it stay in the folder."""

    template_id: ClassVar[int] = 53
    recording_id: Int64
    new_start_position: Int64


@dataclass(frozen=True, slots=True)
class DeleteDetachedSegments(SessionRequest):
    """Delete the segments before a recording's start."""

    template_id: ClassVar[int] = 54
    recording_id: Int64


@dataclass(frozen=True, slots=True)
class PurgeSegments(SessionRequest):
    """Move a recording's start and delete the segments before it."""

    template_id: ClassVar[int] = 55
    recording_id: Int64
    new_start_position: Int64


@dataclass(frozen=True, slots=True)
class AttachSegments(SessionRequest):
    """Attach the segments directly before a recording's start."""

    template_id: ClassVar[int] = 56
    recording_id: Int64


@dataclass(frozen=True, slots=True)
class MigrateSegments(SessionRequest):
    """Move the segments of a recording to another one."""

    template_id: ClassVar[int] = 57
    source_recording_id: Int64
    target_recording_id: Int64


@dataclass(frozen=True, slots=True)
class AuthConnect(Message):
    """Open a control session. ``version`` is the protocol's."""

    template_id: ClassVar[int] = 58
    correlation_id: Int64
    response_stream_id: Int32
    version: Int32
    response_channel: Text
    encoded_credentials: Bytes
    client_info: Annotated[Text, Since(12)] = ""


@dataclass(frozen=True, slots=True)
class ChallengeResponse(SessionRequest):
    """Answer a challenge."""

    template_id: ClassVar[int] = 60
    encoded_credentials: Bytes


@dataclass(frozen=True, slots=True)
class KeepAlive(SessionRequest):
    """Show that the client is alive. There is no answer."""

    template_id: ClassVar[int] = 61


@dataclass(frozen=True, slots=True)
class TaggedReplicate(SessionRequest):
    """Copy a recording from another archive over a subscription with tags."""

    template_id: ClassVar[int] = 62
    source_recording_id: Int64
    target_recording_id: Int64
    channel_tag_id: Int64
    subscription_tag_id: Int64
    source_control_stream_id: Int32
    source_control_channel: Text
    live_destination: Text


@dataclass(frozen=True, slots=True)
class StartRecording2(SessionRequest):
    """Record a stream. With ``auto_stop`` the subscription ends with its first recording."""

    template_id: ClassVar[int] = 63
    stream_id: Int32
    source_location: Location
    auto_stop: Flag
    channel: Text


@dataclass(frozen=True, slots=True)
class ExtendRecording2(SessionRequest):
    """Continue a stopped recording with a stream; ``auto_stop`` as in :class:`StartRecording2`."""

    template_id: ClassVar[int] = 64
    recording_id: Int64
    stream_id: Int32
    source_location: Location
    auto_stop: Flag
    channel: Text


@dataclass(frozen=True, slots=True)
class StopRecordingByIdentity(SessionRequest):
    """Stop an active recording. The answer's relevant id is 1 if it was active, else 0."""

    template_id: ClassVar[int] = 65
    recording_id: Int64


@dataclass(frozen=True, slots=True)
class Replicate2(SessionRequest):
    """Copy a recording from another archive, with all options."""

    template_id: ClassVar[int] = 66
    source_recording_id: Int64
    target_recording_id: Int64
    stop_position: Int64
    channel_tag_id: Int64
    subscription_tag_id: Int64
    source_control_stream_id: Int32
    file_io_max_length: Annotated[Int32, Since(7)] = NULL_INT
    replication_session_id: Annotated[Int32, Since(8)] = NULL_INT
    source_control_channel: Text = ""
    live_destination: Text = ""
    replication_channel: Text = ""
    encoded_credentials: Annotated[Bytes, Since(8)] = b""
    source_response_channel: Annotated[Text, Since(10)] = ""


@dataclass(frozen=True, slots=True)
class MaxRecordedPosition(SessionRequest):
    """Ask for the recorded position of an active recording, the stop position of a stopped one."""

    template_id: ClassVar[int] = 67
    recording_id: Int64


@dataclass(frozen=True, slots=True)
class ArchiveId(SessionRequest):
    """Ask for the archive's id."""

    template_id: ClassVar[int] = 68


@dataclass(frozen=True, slots=True)
class PurgeRecording(SessionRequest):
    """Delete a stopped recording."""

    template_id: ClassVar[int] = 104
    recording_id: Int64


@dataclass(frozen=True, slots=True)
class ReplayToken(SessionRequest):
    """Ask for a token, with which a replay may be asked for over another publication."""

    template_id: ClassVar[int] = 105
    recording_id: Int64


@dataclass(frozen=True, slots=True)
class UpdateChannel(SessionRequest):
    """Change a recording's channel in the catalog."""

    template_id: ClassVar[int] = 107
    recording_id: Int64
    channel: Text


REQUESTS: tuple[type[Message], ...] = (
    Connect,
    CloseSession,
    StartRecording,
    StopRecording,
    Replay,
    StopReplay,
    ListRecordings,
    ListRecordingsForUri,
    ListRecording,
    ExtendRecording,
    RecordingPosition,
    TruncateRecording,
    StopRecordingSubscription,
    StopPosition,
    FindLastMatchingRecording,
    ListRecordingSubscriptions,
    BoundedReplay,
    StopAllReplays,
    Replicate,
    StopReplication,
    StartPosition,
    DetachSegments,
    DeleteDetachedSegments,
    PurgeSegments,
    AttachSegments,
    MigrateSegments,
    AuthConnect,
    ChallengeResponse,
    KeepAlive,
    TaggedReplicate,
    StartRecording2,
    ExtendRecording2,
    StopRecordingByIdentity,
    Replicate2,
    MaxRecordedPosition,
    ArchiveId,
    PurgeRecording,
    ReplayToken,
    UpdateChannel,
)
