"""What an archive sends to its clients: answers, lists, signals, pings. Source: aeron-archive-codecs.xml."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, ClassVar

from everlog.aeron.archive.recording.events import RecordingSignal
from everlog.aeron.messages import Bytes, Int32, Int64, Message, Number, Since, Text


class ResponseCode(IntEnum):
    """The outcome of a request. An unknown recording's id is the answer's relevant id."""

    OK = 0
    ERROR = 1
    RECORDING_UNKNOWN = 2
    SUBSCRIPTION_UNKNOWN = 3


Code = Annotated[ResponseCode, Number("i", kind=ResponseCode)]
Signal = Annotated[RecordingSignal, Number("i", kind=RecordingSignal)]


@dataclass(frozen=True, slots=True)
class ControlResponse(Message):
    """The answer to a request. ``relevant_id`` is an error's code, ``version`` the archive's protocol version."""

    template_id: ClassVar[int] = 1
    control_session_id: Int64
    correlation_id: Int64
    relevant_id: Int64
    code: Code
    version: Annotated[Int32, Since(4)] = 0
    error_message: Text = ""


@dataclass(frozen=True, slots=True)
class RecordingDescriptorMessage(Message):
    """A recording of a list. Times are milliseconds since 1970; stop time and position are -1 while it is active."""

    template_id: ClassVar[int] = 22
    control_session_id: Int64
    correlation_id: Int64
    recording_id: Int64
    start_timestamp: Int64
    stop_timestamp: Int64
    start_position: Int64
    stop_position: Int64
    initial_term_id: Int32
    segment_file_length: Int32
    term_buffer_length: Int32
    mtu_length: Int32
    session_id: Int32
    stream_id: Int32
    stripped_channel: Text
    original_channel: Text
    source_identity: Text


@dataclass(frozen=True, slots=True)
class RecordingSubscription(Message):
    """A subscription of a list."""

    template_id: ClassVar[int] = 23
    control_session_id: Int64
    correlation_id: Int64
    subscription_id: Int64
    stream_id: Int32
    stripped_channel: Text


@dataclass(frozen=True, slots=True)
class RecordingSignalEvent(Message):
    """Something happened to a recording. ``correlation_id`` is that of the request that started it."""

    template_id: ClassVar[int] = 24
    control_session_id: Int64
    correlation_id: Int64
    recording_id: Int64
    subscription_id: Int64
    position: Int64
    signal: Signal


@dataclass(frozen=True, slots=True)
class Challenge(Message):
    """The archive wants other credentials."""

    template_id: ClassVar[int] = 59
    control_session_id: Int64
    correlation_id: Int64
    version: Int32
    encoded_challenge: Bytes


@dataclass(frozen=True, slots=True)
class Ping(Message):
    """Sent once a second, so that a dead client is noticed."""

    template_id: ClassVar[int] = 106
    control_session_id: Int64


RESPONSES: tuple[type[Message], ...] = (
    ControlResponse,
    RecordingDescriptorMessage,
    RecordingSubscription,
    RecordingSignalEvent,
    Challenge,
    Ping,
)
