"""Encodes and decodes the cluster's messages. Source: aeron-cluster-codecs.xml."""

from __future__ import annotations

from everlog.aeron.cluster.protocol.consensus import CONSENSUS
from everlog.aeron.cluster.protocol.log import LOG
from everlog.aeron.cluster.protocol.services import SERVICES
from everlog.aeron.cluster.protocol.sessions import SESSIONS
from everlog.aeron.cluster.protocol.snapshot import SNAPSHOT
from everlog.aeron.messages import Message, MessageCodec
from everlog.errors import UnknownMessage
from everlog.layout import Readable

SCHEMA_ID = 111
SCHEMA_VERSION = 16
"""The version that is written, that of Aeron 1.51.0."""

MESSAGES: tuple[type[Message], ...] = (*SESSIONS, *LOG, *SERVICES, *CONSENSUS, *SNAPSHOT)
CODEC = MessageCodec(SCHEMA_ID, SCHEMA_VERSION, MESSAGES)
encode = CODEC.encode
decode = CODEC.decode


def decode_known(data: Readable, where: str = "cluster message") -> Message | None:
    """Decode a message; ``None`` for one of another schema (an extension of the consensus module, a service's state) or
    of a template that the schema lacks. Raises :class:`CorruptData` if it is malformed."""
    try:
        return decode(data, where)
    except UnknownMessage:
        return None
