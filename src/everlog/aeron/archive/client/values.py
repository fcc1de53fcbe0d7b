"""What a client gets from an archive, and the options of a replay."""

from __future__ import annotations

from dataclasses import dataclass

from everlog.aeron.archive.protocol.responses import RecordingDescriptorMessage, RecordingSubscription
from everlog.errors import EverlogError, UsageError

NULL_VALUE = -1
FOLLOW_LENGTH = -1
"""Length of a replay that follows an active recording (``REPLAY_ALL_AND_FOLLOW``)."""
STOP_LENGTH = -2
"""Length of a replay that ends at what is recorded when it starts (``REPLAY_ALL_AND_STOP``)."""


@dataclass(frozen=True, slots=True)
class RecordingDescriptor:
    """A recording as its archive lists it. Times are milliseconds since 1970, lengths are bytes. ``stop_timestamp`` and
    ``stop_position`` are ``None`` while it is active."""

    recording_id: int
    start_timestamp: int
    stop_timestamp: int | None
    start_position: int
    stop_position: int | None
    initial_term_id: int
    segment_file_length: int
    term_buffer_length: int
    mtu_length: int
    session_id: int
    stream_id: int
    stripped_channel: str
    original_channel: str
    source_identity: str

    @classmethod
    def of(cls, message: RecordingDescriptorMessage) -> RecordingDescriptor:
        """The descriptor in a message."""
        return cls(
            recording_id=message.recording_id,
            start_timestamp=message.start_timestamp,
            stop_timestamp=known(message.stop_timestamp),
            start_position=message.start_position,
            stop_position=known(message.stop_position),
            initial_term_id=message.initial_term_id,
            segment_file_length=message.segment_file_length,
            term_buffer_length=message.term_buffer_length,
            mtu_length=message.mtu_length,
            session_id=message.session_id,
            stream_id=message.stream_id,
            stripped_channel=message.stripped_channel,
            original_channel=message.original_channel,
            source_identity=message.source_identity,
        )


@dataclass(frozen=True, slots=True)
class SubscriptionDescriptor:
    """A subscription with which an archive records; its id stops its recordings."""

    subscription_id: int
    stream_id: int
    stripped_channel: str

    @classmethod
    def of(cls, message: RecordingSubscription) -> SubscriptionDescriptor:
        """The descriptor in a message."""
        return cls(message.subscription_id, message.stream_id, message.stripped_channel)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayParams:
    """What to replay, and how. Source: ReplayParams.

    With neither ``length`` nor ``follow`` the replay ends at the position that is recorded when it starts."""

    position: int | None = None
    """Where to begin, the start of a frame; by default the recording's start."""
    length: int | None = None
    """Bytes to replay; may reach beyond what is recorded yet."""
    follow: bool = False
    """Whether to go on with what is recorded later, until the recording stops."""
    limit_counter_id: int | None = None
    """A counter of the archive's driver, whose value the replay does not pass."""
    file_io_max_length: int | None = None
    """Bytes that the archive reads at a time; by default the archive's own limit."""
    subscription_registration_id: int | None = None
    """For ``start_replay`` to a response channel: the subscription that receives it."""

    def __post_init__(self) -> None:
        if self.follow and self.length is not None:
            raise UsageError("replay", found="both length and follow", expected="one of them")
        for name in ("position", "length"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise UsageError(name, found=str(value), expected="0 or more")

    @property
    def wire_length(self) -> int:
        """The length in the request."""
        if self.length is not None:
            return self.length
        return FOLLOW_LENGTH if self.follow else STOP_LENGTH


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """An error that answers no waiting request: a recording or replay failed after it was started.
    ``correlation_id`` is that of the request that started it, -1 if the error is in the archive's messages."""

    correlation_id: int
    error: EverlogError


def known(value: int) -> int | None:
    """A position, time or id; ``None`` for -1."""
    return None if value == NULL_VALUE else value
