"""The message types of a cluster's log and snapshots, and decoding of single messages into dictionaries.

:mod:`everlog.aeron.cluster.format.decode` decodes batches into columns. Source: LogAdapter,
ConsensusModuleSnapshotAdapter, ServiceSnapshotLoader."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass
from typing import Any

from everlog.aeron.cluster.format import layouts
from everlog.aeron.layouts import SbeMessageHeader
from everlog.errors import CorruptData
from everlog.layout import Layout, Readable
from everlog.sbe.decode import decode_block

SCHEMA_ID = 111
SCHEMA_VERSION = 17
HEADER_BYTES = SbeMessageHeader.size

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
    """A kind of message, its template ID in schema 111, and its struct."""

    kind: str
    template_id: int
    layout: type[Layout]

    @property
    def has_texts(self) -> bool:
        """Whether variable-length data follows the block."""
        return bool(self.layout.var_data)


TYPES = (
    MessageType("session-message", 1, layouts.SessionMessageHeader),
    MessageType("timer", 20, layouts.TimerEvent),
    MessageType("session-open", 21, layouts.SessionOpenEvent),
    MessageType("session-close", 22, layouts.SessionCloseEvent),
    MessageType("cluster-action", 23, layouts.ClusterActionRequest),
    MessageType("new-leadership-term", 24, layouts.NewLeadershipTermEvent),
    MessageType("membership-change", 25, layouts.MembershipChangeEvent),
    MessageType("snapshot-marker", 100, layouts.SnapshotMarker),
    MessageType("client-session", 102, layouts.ClientSession),
    MessageType("cluster-session", 103, layouts.ClusterSession),
    MessageType("scheduled-timer", 104, layouts.ScheduledTimer),
    MessageType("consensus-module", 105, layouts.ConsensusModuleState),
    MessageType("cluster-members", 106, layouts.ClusterMembers),
    MessageType("pending-message-tracker", 107, layouts.PendingMessageTracker),
)
SESSION_MESSAGE = TYPES[0]
BY_TEMPLATE = {item.template_id: item for item in TYPES}
BY_KIND = {item.kind: item for item in TYPES}

UNKNOWN, EXTENSION, STATE, UNDECODABLE = range(len(TYPES), len(TYPES) + 4)
"""Kinds that are not messages of the cluster's schema: an unknown template, another schema (an extension of the
consensus module), a service's own state after its snapshot's end marker, and malformed bytes."""
KINDS = (*(item.kind for item in TYPES), "unknown", "extension", "state", "undecodable")


@dataclass(frozen=True, slots=True)
class Message:
    """A decoded message: its kind, its fields by name, its writer's schema version, and the offset after it."""

    kind: str
    fields: dict[str, Any]
    version: int
    block_length: int
    end: int


def decode_message(data: Readable, where: str = "cluster message") -> Message | None:
    """Decode the cluster message in ``data``. Returns ``None`` for another schema or template.

    A session message's payload starts at ``end``. Raises :class:`CorruptData` if the message is malformed."""
    if len(data) < HEADER_BYTES:
        raise CorruptData(where, offset=0, found=f"{len(data)} bytes", expected=f"a header of {HEADER_BYTES} bytes")
    header = SbeMessageHeader.unpack_from(data)
    kind = BY_TEMPLATE.get(header.template_id)
    if header.schema_id != SCHEMA_ID or kind is None:
        return None
    length = header.block_length
    fields, end = decode_block(
        kind.layout.block, data, HEADER_BYTES, len(data), block_length=length, version=header.version, where=where
    )
    return Message(kind.kind, fields, header.version, length, end)


def encode_message(kind: str, texts: tuple[bytes, ...] = (), payload: bytes = b"", **fields: int) -> bytes:
    """Encode a message of this schema version from raw numbers; absent fields are 0. ``texts`` is its variable-length
    data, ``payload`` follows a session message's header."""
    item = BY_KIND[kind]
    block = item.layout.pack(**fields)
    head = SbeMessageHeader.pack(
        block_length=len(block), template_id=item.template_id, schema_id=SCHEMA_ID, version=SCHEMA_VERSION
    )
    return head + block + b"".join(len(text).to_bytes(4, "little") + text for text in texts) + payload


def fields_json(message: Message) -> str:
    """Return the fields that have no own column as a JSON object, with bytes in base64."""
    return json.dumps({k: _plain(v) for k, v in message.fields.items() if k not in COLUMN_FIELDS})


def _plain(value: Any) -> Any:
    return b64encode(value).decode() if isinstance(value, bytes) else value
