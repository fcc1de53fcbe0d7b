"""Reads a driver's counters. Source: Agrona's CountersReader."""

from __future__ import annotations

from collections.abc import Iterator

from everlog.aeron.transport.format.counters import (
    ALLOCATED,
    METADATA_LENGTH,
    SYSTEM,
    UNUSED,
    VALUE_LENGTH,
    parse_counters,
)
from everlog.aeron.transport.format.counters import Counter as CounterRecord
from everlog.aeron.transport.format.layouts import CounterMetaData, CounterValue
from everlog.errors import UsageError
from everlog.kernel.memory import Memory

__all__ = ["CounterRecord", "CountersReader"]
LOCAL_SOCKET_ADDRESS = 14
CONTROL_PROTOCOL_VERSION = 43
"""Id of the driver's counter for the version of its control protocol; older drivers have none."""
CHANNEL_ACTIVE = 1
_STATE = CounterMetaData.field("state").offset
_VALUE = CounterValue.field("value").offset
CHUNK = 256
"""Counters read at a time."""


class CountersReader:
    """All counters of a driver, read from shared memory without the driver's help. Iterate over it for the allocated
    ones."""

    def __init__(self, metadata: Memory, values: Memory) -> None:
        self.metadata = metadata
        self.values = values
        self.capacity = min(len(metadata) // METADATA_LENGTH, len(values) // VALUE_LENGTH)
        """How many counters the memory has room for."""

    def __iter__(self) -> Iterator[CounterRecord]:
        for first in range(0, self.capacity, CHUNK):
            count = min(CHUNK, self.capacity - first)
            metadata = self.metadata.read(first * METADATA_LENGTH, count * METADATA_LENGTH)
            values = self.values.read(first * VALUE_LENGTH, count * VALUE_LENGTH)
            seen = 0
            for counter in parse_counters(metadata, values, first):
                seen += 1
                if counter.state == ALLOCATED:
                    yield counter
            if seen < count:
                return

    def state(self, counter_id: int) -> int:
        """1 allocated, -1 reclaimed, 0 never used. Raises :class:`UsageError` for an id out of range."""
        return self.metadata.get_i32_acquire(self._checked(counter_id) * METADATA_LENGTH + _STATE)

    def value(self, counter_id: int) -> int:
        """The current value; the last one if the counter is no longer allocated. Raises :class:`UsageError` for an id
        out of range."""
        return self.values.get_i64_acquire(self._checked(counter_id) * VALUE_LENGTH + _VALUE)

    def get(self, counter_id: int) -> CounterRecord | None:
        """The counter's record; ``None`` if it is not allocated. Raises :class:`UsageError` for an id out of range."""
        if self.state(counter_id) != ALLOCATED:
            return None
        metadata = self.metadata.read(counter_id * METADATA_LENGTH, METADATA_LENGTH)
        values = self.values.read(counter_id * VALUE_LENGTH, VALUE_LENGTH)
        return next(parse_counters(metadata, values, counter_id), None)

    def find(self, type_id: int, registration_id: int | None = None) -> CounterRecord | None:
        """The first allocated counter with this type, and with this registration id if given; ``None`` if no counter
        matches."""
        for counter in self:
            if counter.type_id == type_id and registration_id in (None, counter.registration_id):
                return counter
        return None

    def find_by_key(self, type_id: int, key: bytes) -> int | None:
        """Id of the first allocated counter of a type whose key begins with ``key``; ``None`` if no counter matches.
        Fast: decodes no labels."""
        return next(self.find_all_by_key(type_id, key), None)

    def find_all_by_key(self, type_id: int, key: bytes) -> Iterator[int]:
        """Ids of the allocated counters of a type whose key begins with ``key``, as :meth:`find_by_key` finds them."""
        for counter_id in range(self.capacity):
            at = counter_id * METADATA_LENGTH
            state = self.metadata.get_i32_acquire(at + _STATE)
            if state == UNUSED:
                return
            if state == ALLOCATED and self._matches(counter_id, type_id, key):
                yield counter_id

    def matches(self, counter_id: int, type_id: int, key: bytes) -> bool:
        """Whether the counter is allocated, has this type, and its key begins with ``key``."""
        return self.state(counter_id) == ALLOCATED and self._matches(counter_id, type_id, key)

    def _matches(self, counter_id: int, type_id: int, key: bytes) -> bool:
        at = counter_id * METADATA_LENGTH
        key_at = at + CounterMetaData.field("key").offset
        found = self.metadata.get_i32(at + CounterMetaData.field("type_id").offset)
        return found == type_id and self.metadata.read(key_at, len(key)) == key

    def control_protocol_version(self) -> int:
        """The version of the driver's control protocol, major, minor and patch in one number; 0 for older drivers."""
        if self.capacity <= CONTROL_PROTOCOL_VERSION:
            return 0
        counter = self.get(CONTROL_PROTOCOL_VERSION)
        is_it = (
            counter is not None and counter.type_id == SYSTEM and counter.registration_id == CONTROL_PROTOCOL_VERSION
        )
        return counter.value if is_it and counter is not None else 0

    def local_socket_addresses(self, channel_status_id: int) -> list[str]:
        """Addresses (``127.0.0.1:40123``) that a channel's sockets are bound to. ``channel_status_id`` identifies the
        channel."""
        found = []
        for counter in self:
            if counter.type_id == LOCAL_SOCKET_ADDRESS and counter.value == CHANNEL_ACTIVE:
                key = counter.key_fields
                if key and key["channel_status_id"] == channel_status_id and key["local_address"]:
                    found.append(key["local_address"])
        return found

    def append_to_label(self, counter_id: int, text: str) -> None:
        """Append ``text`` to a counter's label, as much as fits. Only for counters of this client."""
        at = self._checked(counter_id) * METADATA_LENGTH
        length_at = at + CounterMetaData.field("label_length").offset
        label = CounterMetaData.field("label")
        length = self.metadata.get_i32(length_at)
        if not 0 <= length <= label.size:
            return
        part = text.encode("ascii", "replace")[: label.size - length]
        self.metadata.write(at + label.offset + length, part)
        self.metadata.put_i32_release(length_at, length + len(part))

    def _checked(self, counter_id: int) -> int:
        if not 0 <= counter_id < self.capacity:
            raise UsageError("counter id", found=str(counter_id), expected=f"0 to {self.capacity - 1}")
        return counter_id
