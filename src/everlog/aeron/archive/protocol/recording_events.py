"""What an archive publishes about all its recordings on its events channel. Source: aeron-archive-codecs.xml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from everlog.aeron.messages import Int32, Int64, Message, Text


@dataclass(frozen=True, slots=True)
class RecordingStartedMessage(Message):
    """A recording was started or extended."""

    template_id: ClassVar[int] = 101
    recording_id: Int64
    start_position: Int64
    session_id: Int32
    stream_id: Int32
    channel: Text
    source_identity: Text


@dataclass(frozen=True, slots=True)
class RecordingProgressMessage(Message):
    """Everything up to ``position`` is recorded."""

    template_id: ClassVar[int] = 102
    recording_id: Int64
    start_position: Int64
    position: Int64


@dataclass(frozen=True, slots=True)
class RecordingStoppedMessage(Message):
    """A recording was stopped."""

    template_id: ClassVar[int] = 103
    recording_id: Int64
    start_position: Int64
    stop_position: Int64


EVENTS: tuple[type[Message], ...] = (
    RecordingStartedMessage,
    RecordingProgressMessage,
    RecordingStoppedMessage,
)
