"""The operations of an archive as calls: the request, and what its answer means. Source: AeronArchive, ArchiveProxy."""

from __future__ import annotations

from typing import Any

from everlog.aeron.archive.client.machine.call import Call
from everlog.aeron.archive.client.values import (
    NULL_VALUE,
    RecordingDescriptor,
    ReplayParams,
    SubscriptionDescriptor,
    known,
)
from everlog.aeron.archive.protocol import requests
from everlog.aeron.archive.protocol.requests import SourceLocation
from everlog.aeron.archive.protocol.responses import RecordingDescriptorMessage, RecordingSubscription
from everlog.aeron.archive.recording.refusals import ArchiveError, ErrorCode
from everlog.errors import UsageError

MAX_LIST = 1000
"""The longest list that is asked for at once: its items are kept until the last one is there."""

PAGE_SIZE = 100
"""How many recordings are asked for at once by default."""


def text(name: str, value: str) -> str:
    """A channel or fragment of one. Raises :class:`UsageError` if it can't be sent as it is."""
    if not value.isascii():
        raise UsageError(name, found=repr(value), expected="ASCII characters")
    return value


def _number(value: int) -> int:
    return value


def _nothing(_: int) -> None:
    return None


# Recording


def start_recording(channel: str, stream_id: int, location: SourceLocation, *, auto_stop: bool) -> Call[int]:
    """The answer is the id of the subscription that records."""
    fields = (stream_id, location, auto_stop, text("channel", channel))
    return Call(requests.StartRecording2, fields, _number)


def extend_recording(
    recording_id: int, channel: str, stream_id: int, location: SourceLocation, *, auto_stop: bool
) -> Call[int]:
    """The answer is the id of the subscription that records."""
    fields = (recording_id, stream_id, location, auto_stop, text("channel", channel))
    return Call(requests.ExtendRecording2, fields, _number)


def stop_recording(channel: str, stream_id: int) -> Call[None]:
    """Stop what was started with this channel and stream."""
    return Call(requests.StopRecording, (stream_id, text("channel", channel)), _nothing)


def try_stop_recording(channel: str, stream_id: int) -> Call[bool]:
    """Like :func:`stop_recording`; false if nothing was."""
    return _tried(requests.StopRecording, (stream_id, text("channel", channel)))


def stop_recording_by_subscription(subscription_id: int) -> Call[None]:
    """Stop the recordings of a subscription."""
    return Call(requests.StopRecordingSubscription, (subscription_id,), _nothing)


def try_stop_recording_by_subscription(subscription_id: int) -> Call[bool]:
    """Like :func:`stop_recording_by_subscription`; false if it is unknown."""
    return _tried(requests.StopRecordingSubscription, (subscription_id,))


class _Success:
    """The answer to a request whose refusal with a certain code is an answer, too."""

    def __call__(self, relevant_id: int | None) -> bool:
        return relevant_id is not None


def _tried(kind: type[requests.SessionRequest], fields: tuple[Any, ...]) -> Call[bool]:
    return Call(kind, fields, _Success(), allowed=ErrorCode.UNKNOWN_SUBSCRIPTION)


def try_stop_recording_by_identity(recording_id: int) -> Call[bool]:
    """Stop a recording; false if it is not active."""
    return Call(requests.StopRecordingByIdentity, (recording_id,), bool)


def check_stopped(recording_id: int, was_active: bool) -> None:
    """Raise :class:`ArchiveError` unless the answer says that it was active."""
    if not was_active:
        message = f"recording {recording_id} is not active"
        raise ArchiveError("stop-recording-by-identity", message=message).coded(ErrorCode.UNKNOWN_SUBSCRIPTION)


# Replay


def replay(recording_id: int, channel: str, stream_id: int, params: ReplayParams, token: int = NULL_VALUE) -> Call[int]:
    """The answer is the replay session's id, whose low 32 bits are the session id of the replayed stream."""
    position = NULL_VALUE if params.position is None else params.position
    file_io = NULL_VALUE if params.file_io_max_length is None else params.file_io_max_length
    place = (stream_id, file_io, token, text("replay_channel", channel))
    if params.limit_counter_id is None:
        return Call(requests.Replay, (recording_id, position, params.wire_length, *place), _number)
    fields = (recording_id, position, params.wire_length, params.limit_counter_id, *place)
    return Call(requests.BoundedReplay, fields, _number)


def stop_replay(replay_session_id: int) -> Call[None]:
    """Stop a replay."""
    return Call(requests.StopReplay, (replay_session_id,), _nothing)


def stop_all_replays(recording_id: int | None) -> Call[None]:
    """Stop the replays of a recording, or all."""
    return Call(requests.StopAllReplays, (NULL_VALUE if recording_id is None else recording_id,), _nothing)


def replay_token(recording_id: int) -> Call[int]:
    """The answer is a token for a replay over another publication."""
    return Call(requests.ReplayToken, (recording_id,), _number)


# Lists


def _descriptors(messages: list[RecordingDescriptorMessage]) -> list[RecordingDescriptor]:
    return [RecordingDescriptor.of(message) for message in messages]


def _subscriptions(messages: list[RecordingSubscription]) -> list[SubscriptionDescriptor]:
    return [SubscriptionDescriptor.of(message) for message in messages]


def list_recordings(from_recording_id: int, count: int) -> Call[list[RecordingDescriptor]]:
    """Up to ``count`` recordings from an id on."""
    fields = (from_recording_id, count)
    return Call(
        requests.ListRecordings, fields, _descriptors, RecordingDescriptorMessage, limit=count, is_exclusive=True
    )


def list_recordings_for_uri(
    from_recording_id: int, count: int, channel_fragment: str, stream_id: int
) -> Call[list[RecordingDescriptor]]:
    """Up to ``count`` recordings of a stream whose channel contains a fragment."""
    fields = (from_recording_id, count, stream_id, text("channel_fragment", channel_fragment))
    return Call(
        requests.ListRecordingsForUri, fields, _descriptors, RecordingDescriptorMessage, limit=count, is_exclusive=True
    )


def list_recording(recording_id: int) -> Call[RecordingDescriptor | None]:
    """One recording."""

    def only(messages: list[RecordingDescriptorMessage]) -> RecordingDescriptor | None:
        return RecordingDescriptor.of(messages[0]) if messages else None

    return Call(requests.ListRecording, (recording_id,), only, RecordingDescriptorMessage, limit=1, is_exclusive=True)


def list_recording_subscriptions(
    pseudo_index: int, count: int, channel_fragment: str, stream_id: int | None
) -> Call[list[SubscriptionDescriptor]]:
    """Up to ``count`` subscriptions from an index on."""
    applies = stream_id is not None
    fields = (pseudo_index, count, applies, stream_id or 0, text("channel_fragment", channel_fragment))
    kind = requests.ListRecordingSubscriptions
    return Call(kind, fields, _subscriptions, RecordingSubscription, limit=count, is_exclusive=True)


def find_last_matching_recording(
    min_recording_id: int, channel_fragment: str, stream_id: int, session_id: int
) -> Call[int | None]:
    """The answer is the highest id that matches."""
    fields = (min_recording_id, session_id, stream_id, text("channel_fragment", channel_fragment))
    return Call(requests.FindLastMatchingRecording, fields, known)


# Positions


def start_position(recording_id: int) -> Call[int]:
    """Where a recording starts."""
    return Call(requests.StartPosition, (recording_id,), _number)


def stop_position(recording_id: int) -> Call[int | None]:
    """Where a recording stops; ``None`` while it is active."""
    return Call(requests.StopPosition, (recording_id,), known)


def recording_position(recording_id: int) -> Call[int | None]:
    """What is recorded of an active recording; ``None`` if it is not active."""
    return Call(requests.RecordingPosition, (recording_id,), known)


def max_recorded_position(recording_id: int) -> Call[int]:
    """What is recorded."""
    return Call(requests.MaxRecordedPosition, (recording_id,), _number)


# Maintenance


def truncate_recording(recording_id: int, position: int) -> Call[int]:
    """The answer is the number of files that will be deleted, as for the following ones."""
    return Call(requests.TruncateRecording, (recording_id, position), _number)


def purge_recording(recording_id: int) -> Call[int]:
    """Delete a recording."""
    return Call(requests.PurgeRecording, (recording_id,), _number)


def detach_segments(recording_id: int, new_start_position: int) -> Call[None]:
    """Move the start of a recording."""
    return Call(requests.DetachSegments, (recording_id, new_start_position), _nothing)


def delete_detached_segments(recording_id: int) -> Call[int]:
    """Delete the files before the start."""
    return Call(requests.DeleteDetachedSegments, (recording_id,), _number)


def purge_segments(recording_id: int, new_start_position: int) -> Call[int]:
    """Move the start and delete the files before it."""
    return Call(requests.PurgeSegments, (recording_id, new_start_position), _number)


def attach_segments(recording_id: int) -> Call[int]:
    """Attach the files before the start."""
    return Call(requests.AttachSegments, (recording_id,), _number)


def migrate_segments(source_id: int, target_id: int) -> Call[int]:
    """Move all segments to another recording."""
    return Call(requests.MigrateSegments, (source_id, target_id), _number)


def update_channel(recording_id: int, channel: str) -> Call[None]:
    """Change the channel in the catalog. The archive refuses it while it lists recordings."""
    fields = (recording_id, text("channel", channel))
    return Call(requests.UpdateChannel, fields, _nothing, is_exclusive=True)
