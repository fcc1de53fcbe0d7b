"""The message types of a cluster's log and snapshots, and their fields as plain values, as readers show them. A
null and what an older writer lacks are ``None``; an enumeration's value is its name, or its number if it has no name.

:mod:`everlog.aeron.cluster.protocol` declares the messages. :mod:`everlog.aeron.cluster.format.decode` decodes batches
into columns. Source: LogAdapter, ConsensusModuleSnapshotAdapter, ServiceSnapshotLoader."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass
from typing import Any

from everlog.aeron.cluster.protocol import log, sessions, snapshot
from everlog.aeron.cluster.protocol.codec import SCHEMA_ID
from everlog.aeron.layouts import SbeMessageHeader
from everlog.aeron.messages import HEADER_LENGTH, Message, block_of
from everlog.errors import CorruptData
from everlog.fields import Block
from everlog.layout import Readable
from everlog.sbe.decode import decode_block

CONSENSUS_MODULE_TYPE = 1
SERVICE_TYPE = 2
"""Type IDs of snapshot markers."""
CONSENSUS_MODULE = -1
"""The consensus module's service ID."""

UNIT_NS = {"MILLIS": 1_000_000, "MICROS": 1_000, "NANOS": 1}
COLUMN_FIELDS = ("leadership_term_id", "timestamp", "cluster_session_id")
"""Fields that have their own columns. A message's other fields make up its column ``fields``."""


@dataclass(frozen=True, slots=True)
class MessageType:
    """A kind of message: the name that readers show, and its declaration."""

    kind: str
    message: type[Message]

    @property
    def template_id(self) -> int:
        """Its template in the cluster's schema."""
        return self.message.template_id

    @property
    def block(self) -> Block:
        """Its fields."""
        return block_of(self.message)

    @property
    def has_texts(self) -> bool:
        """Whether variable-length data follows the block."""
        return bool(self.block.var_data)


TYPES = (
    MessageType("session-message", sessions.SessionMessageHeader),
    MessageType("timer", log.TimerEvent),
    MessageType("session-open", log.SessionOpenEvent),
    MessageType("session-close", log.SessionCloseEvent),
    MessageType("cluster-action", log.ClusterActionRequest),
    MessageType("new-leadership-term", log.NewLeadershipTermEvent),
    MessageType("membership-change", log.MembershipChangeEvent),
    MessageType("snapshot-marker", snapshot.SnapshotMarker),
    MessageType("client-session", snapshot.ClientSession),
    MessageType("cluster-session", snapshot.ClusterSession),
    MessageType("scheduled-timer", snapshot.Timer),
    MessageType("consensus-module", snapshot.ConsensusModule),
    MessageType("cluster-members", snapshot.ClusterMembers),
    MessageType("pending-message-tracker", snapshot.PendingMessageTracker),
)
SESSION_MESSAGE = TYPES[0]
BY_TEMPLATE = {item.template_id: item for item in TYPES}

UNKNOWN, EXTENSION, STATE, UNDECODABLE = range(len(TYPES), len(TYPES) + 4)
"""Kinds that are not messages of the cluster's schema: an unknown template, another schema (an extension of the
consensus module), a service's own state after its snapshot's end marker, and malformed bytes."""
KINDS = (*(item.kind for item in TYPES), "unknown", "extension", "state", "undecodable")


@dataclass(frozen=True, slots=True)
class MessageFields:
    """A message's kind, its fields by name, its writer's schema version, and the offset after it."""

    kind: str
    fields: dict[str, Any]
    version: int
    block_length: int
    end: int


def decode_fields(data: Readable, where: str = "cluster message") -> MessageFields | None:
    """Decode the cluster message in ``data``. Returns ``None`` for another schema or template.

    A session message's payload starts at ``end``. Raises :class:`CorruptData` if the message is malformed."""
    if len(data) < HEADER_LENGTH:
        raise CorruptData(where, offset=0, found=f"{len(data)} bytes", expected=f"a header of {HEADER_LENGTH} bytes")
    header = SbeMessageHeader.unpack_from(data)
    kind = BY_TEMPLATE.get(header.template_id)
    if header.schema_id != SCHEMA_ID or kind is None:
        return None
    length = header.block_length
    # The block's length tells which fields there are, whatever the version says.
    fields, end = decode_block(kind.block, data, HEADER_LENGTH, len(data), block_length=length, where=where)
    return MessageFields(kind.kind, fields, header.version, length, end)


def fields_json(message: MessageFields) -> str:
    """Return the fields that have no own column as a JSON object, with bytes in base64."""
    return json.dumps({k: _plain(v) for k, v in message.fields.items() if k not in COLUMN_FIELDS})


def _plain(value: Any) -> Any:
    return b64encode(value).decode() if isinstance(value, bytes) else value
