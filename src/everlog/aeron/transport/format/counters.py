"""Decodes a driver's counters: metadata (type, key, label) and values (value, ids). Source: Agrona's CountersReader;
AeronCounters for the types and their keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any

from everlog.aeron.transport.format.layouts import (
    ArchiveKey,
    ChannelKey,
    ClusterKey,
    CounterMetaData,
    CounterValue,
    HeartbeatKey,
    LocalSocketKey,
    NeighborKey,
    RecordingKey,
    ServiceKey,
    StreamKey,
    SystemKey,
)
from everlog.layout import Layout, Readable

METADATA_LENGTH = CounterMetaData.size
VALUE_LENGTH = CounterValue.size
UNUSED, ALLOCATED, RECLAIMED = 0, 1, -1
STATES = {UNUSED: "unused", ALLOCATED: "allocated", RECLAIMED: "reclaimed"}
_KEY = CounterMetaData.field("key")
_LABEL = CounterMetaData.field("label")
MAX_KEY_LENGTH = _KEY.size
MAX_LABEL_LENGTH = _LABEL.size

PUBLISHER_LIMIT = 1
SENDER_POSITION = 2
RECEIVER_HWM = 3
SUBSCRIBER_POSITION = 4
RECEIVER_POSITION = 5
SEND_CHANNEL_STATUS = 6
RECEIVE_CHANNEL_STATUS = 7
SENDER_LIMIT = 9
PER_IMAGE = 10
HEARTBEAT = 11
PUBLISHER_POSITION = 12
SENDER_BPE = 13
SENDER_NAKS_RECEIVED = 19
RECEIVER_NAKS_SENT = 20
SYSTEM = 0

TYPES: dict[int, str] = {
    0: "system",
    1: "publisher-limit",
    2: "sender-position",
    3: "receiver-hwm",
    4: "subscriber-position",
    5: "receiver-position",
    6: "send-channel-status",
    7: "receive-channel-status",
    9: "sender-limit",
    10: "per-image",
    11: "client-heartbeat",
    12: "publisher-position",
    13: "sender-bpe",
    14: "local-socket-address",
    15: "name-resolver-neighbors",
    16: "name-resolver-cache-entries",
    17: "flow-control-receivers",
    18: "mdc-destinations",
    19: "sender-naks-received",
    20: "receiver-naks-sent",
    21: "name-resolver-bootstrap-neighbor",
    100: "archive-recording-position",
    101: "archive-error-count",
    102: "archive-control-sessions",
    103: "archive-max-cycle-time",
    104: "archive-cycle-time-threshold-exceeded",
    105: "archive-recorder-max-write-time",
    106: "archive-recorder-total-write-bytes",
    107: "archive-recorder-total-write-time",
    108: "archive-replayer-max-read-time",
    109: "archive-replayer-total-read-bytes",
    110: "archive-replayer-total-read-time",
    111: "archive-recording-session-count",
    112: "archive-replay-session-count",
    113: "archive-control-session",
    200: "cluster-consensus-module-state",
    201: "cluster-node-role",
    202: "cluster-control-toggle",
    203: "cluster-commit-position",
    204: "cluster-recovery-state",
    205: "cluster-snapshot-counter",
    207: "cluster-election-state",
    208: "cluster-backup-state",
    209: "cluster-backup-live-log-position",
    210: "cluster-backup-query-deadline",
    211: "cluster-backup-error-count",
    212: "cluster-consensus-module-error-count",
    213: "cluster-client-timeout-count",
    214: "cluster-invalid-request-count",
    215: "cluster-service-error-count",
    216: "cluster-max-cycle-time",
    217: "cluster-cycle-time-threshold-exceeded",
    218: "cluster-service-max-cycle-time",
    219: "cluster-service-cycle-time-threshold-exceeded",
    234: "cluster-total-max-snapshot-duration",
    235: "cluster-total-snapshot-duration-threshold-exceeded",
    236: "cluster-service-max-snapshot-duration",
    237: "cluster-service-snapshot-duration-threshold-exceeded",
    238: "cluster-election-count",
    239: "cluster-leadership-term-id",
}
"""Type id to name, for the types of driver, archive and cluster."""

STREAM_TYPES = frozenset({1, 2, 3, 4, 5, 9, 10, 12, 13, 17, 19, 20})
"""Types whose key is a :class:`StreamKey`."""

_KEYS: dict[int, type[Layout]] = (
    {0: SystemKey, 21: NeighborKey, 11: HeartbeatKey, 14: LocalSocketKey, 100: RecordingKey}
    | dict.fromkeys(STREAM_TYPES, StreamKey)
    | dict.fromkeys((6, 7, 18), ChannelKey)
    | dict.fromkeys(range(101, 113), ArchiveKey)
    | dict.fromkeys((200, 201, 202, 203, 205, 207, 212, 213, 214, 216, 217, 234, 235, 238, 239), ClusterKey)
    | dict.fromkeys((215, 218, 219, 236, 237), ServiceKey)
)
_TEXTS: dict[type[Layout], str] = {
    StreamKey: "channel",
    ChannelKey: "channel",
    LocalSocketKey: "local_address",
    RecordingKey: "source_identity",
}
"""The text that follows a key's fields; its length is the last field."""
_INT64 = Struct("<q")


class KeyDamaged(ValueError):
    """A counter's key does not fit its type; the text says why."""


@dataclass(frozen=True, slots=True)
class Counter:
    """A snapshot of one counter. ``key`` has all 112 bytes; those that the type does not use are zeros."""

    counter_id: int
    type_id: int
    state: int
    key: bytes
    label: str
    value: int
    registration_id: int
    owner_id: int
    reference_id: int
    free_for_reuse_deadline: int

    @property
    def type_name(self) -> str | None:
        """The type's name, for example ``publisher-limit``; ``None`` for types that are not Aeron's."""
        return TYPES.get(self.type_id)

    @property
    def key_fields(self) -> dict[str, Any]:
        """The decoded key; empty if the type is unknown or the key damaged."""
        try:
            return decode_key(self.type_id, self.key)
        except KeyDamaged:
            return {}

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values."""
        return {
            "counter_id": self.counter_id,
            "type_id": self.type_id,
            "type": self.type_name,
            "state": STATES.get(self.state, str(self.state)),
            "label": self.label,
            "value": self.value,
            "registration_id": self.registration_id,
            "owner_id": self.owner_id,
            "reference_id": self.reference_id,
            "free_for_reuse_deadline": self.free_for_reuse_deadline,
            "key": self.key_fields,
            "key_hex": self.key.rstrip(b"\0").hex(),
        }


def decode_key(type_id: int, key: bytes) -> dict[str, Any]:
    """Decode a key into its fields by name, without the lengths of its texts; empty if the type's key is unknown.
    Raises :class:`KeyDamaged` if a text does not fit."""
    layout = _KEYS.get(type_id)
    if layout is None:
        return {}
    fields = layout.unpack_from(key).as_dict()
    name = _TEXTS.get(layout)
    if name is not None:
        length = fields.pop(f"{name}_length")
        room = MAX_KEY_LENGTH - layout.size - (_INT64.size if layout is RecordingKey else 0)
        if not 0 <= length <= room:
            raise KeyDamaged(f"{name} of {length} bytes, with room for {room}")
        end = layout.size + length
        fields[name] = key[layout.size : end].decode("ascii", "replace")
        if layout is RecordingKey:
            (fields["archive_id"],) = _INT64.unpack_from(key, end)
    return fields


def parse_counters(metadata: Readable, values: Readable, first_id: int = 0) -> Iterator[Counter]:
    """Decode the counters that are whole in both buffers, including reclaimed ones, up to the first that was never
    used. ``first_id`` is the id of the first. A label with a length out of bounds is truncated."""
    unpack_metadata, unpack_value = CounterMetaData.struct.unpack_from, CounterValue.struct.unpack_from
    count = min(len(metadata) // METADATA_LENGTH, len(values) // VALUE_LENGTH)
    for index in range(count):
        state, type_id, deadline, key, label_length, label = unpack_metadata(metadata, index * METADATA_LENGTH)
        if state == UNUSED:
            return
        text = label[: max(label_length, 0)].decode("ascii", "replace")
        value, registration_id, owner_id, reference_id = unpack_value(values, index * VALUE_LENGTH)
        yield Counter(
            first_id + index, type_id, state, key, text, value, registration_id, owner_id, reference_id, deadline
        )


def used_length(metadata: Readable) -> int:
    """Length of the whole metadata records before the first that was never used."""
    end = len(metadata) // METADATA_LENGTH * METADATA_LENGTH
    for at in range(0, end, METADATA_LENGTH):
        if metadata[at : at + 4] == b"\0\0\0\0":
            return at
    return end
