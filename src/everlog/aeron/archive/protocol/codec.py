"""Encodes and decodes the messages of an archive's control protocol. Source: aeron-archive-codecs.xml,
AeronArchive.Configuration."""

from __future__ import annotations

from everlog.aeron.archive.protocol.recording_events import EVENTS
from everlog.aeron.archive.protocol.requests import REQUESTS
from everlog.aeron.archive.protocol.responses import RESPONSES
from everlog.aeron.messages import Message, MessageCodec

SCHEMA_ID = 101
SCHEMA_VERSION = 13
"""The version that is written."""
PROTOCOL_VERSION = 1 << 16 | 12 << 8 | 0
"""The protocol's version, as in the connect request and in each answer: 1.12.0. Versions with the same major number
understand each other."""
VERSION_WITH_ARCHIVE_ID = 1 << 16 | 11 << 8
"""The first version of an archive that can be asked for its id."""

MESSAGES: tuple[type[Message], ...] = (*REQUESTS, *RESPONSES, *EVENTS)
CODEC = MessageCodec(SCHEMA_ID, SCHEMA_VERSION, MESSAGES)
encode = CODEC.encode
decode = CODEC.decode
