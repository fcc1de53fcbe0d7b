"""Creates, changes and frees a driver's counters. Source: Agrona, CountersManager, CountersReader and AtomicCounter.

Only the driver creates counters; every process may read them, and clients write the values of their own. A freed
counter is not reused for a while, so that readers that still use its id don't read another counter's value. Which
counters are in use, and when the others may be reused, is also kept outside the shared memory, where clients can't
overwrite it.
"""

from __future__ import annotations

from collections import deque

from everlog.aeron.transport.format.counters import ALLOCATED, METADATA_LENGTH, RECLAIMED, STATES, VALUE_LENGTH
from everlog.aeron.transport.format.layouts import CounterMetaData, CounterValue
from everlog.errors import CorruptData, LimitExceeded, UsageError
from everlog.kernel.memory import Memory
from everlog.layout import Layout

WHERE = "counters"
NOT_FREE = (1 << 63) - 1
"""Deadline of a counter in use."""
REUSE_TIMEOUT_MS = 1000


def _at(layout: type[Layout], name: str) -> int:
    return layout.field(name).offset


_TYPE, _DEADLINE = _at(CounterMetaData, "type_id"), _at(CounterMetaData, "free_for_reuse_deadline")
_KEY, _LABEL = _at(CounterMetaData, "key"), _at(CounterMetaData, "label")
_LABEL_LENGTH = _at(CounterMetaData, "label_length")
_REGISTRATION, _OWNER = _at(CounterValue, "registration_id"), _at(CounterValue, "owner_id")
_REFERENCE = _at(CounterValue, "reference_id")
MAX_KEY_LENGTH = CounterMetaData.field("key").size
MAX_LABEL_LENGTH = CounterMetaData.field("label").size


class Counters:
    """All counters, in the two counter sections of ``cnc.dat``. ``now_ms`` is the clock for the reuse of freed
    counters; the driver's duty cycle updates it. Raises :class:`CorruptData` if the metadata section is too short."""

    def __init__(self, metadata: Memory, values: Memory, reuse_timeout_ms: int = REUSE_TIMEOUT_MS) -> None:
        if metadata.length < values.length // VALUE_LENGTH * METADATA_LENGTH:
            expected = f"{values.length // VALUE_LENGTH * METADATA_LENGTH} bytes or more"
            raise CorruptData(WHERE, found=f"{metadata.length} bytes of metadata", expected=expected)
        self.metadata = metadata
        self.values = values
        self.capacity = values.length // VALUE_LENGTH
        self.now_ms = 0
        self._reuse_timeout_ms = reuse_timeout_ms
        self._used = 0
        self._allocated: set[int] = set()
        self._free: deque[tuple[int, int]] = deque()
        """Deadlines and ids in the order they were freed, which is the order of the deadlines unless the clock goes
        back."""

    def allocate(
        self,
        type_id: int,
        key: bytes,
        label: str,
        *,
        registration_id: int = 0,
        owner_id: int = 0,
        reference_id: int = 0,
        value: int = 0,
        now_ms: int | None = None,
    ) -> AtomicCounter:
        """Allocate a counter with ``value``. Truncates the key to 112 bytes and the label to 380 ASCII characters.
        Raises :class:`LimitExceeded` if all counters are in use."""
        counter_id = self._next_id(self._told(now_ms))
        at, value_at = counter_id * METADATA_LENGTH, counter_id * VALUE_LENGTH
        metadata, values = self.metadata, self.values
        metadata.put_i32(at + _TYPE, type_id)
        metadata.write(at + _KEY, key[:MAX_KEY_LENGTH])
        metadata.put_i64(at + _DEADLINE, NOT_FREE)
        values.put_i64_release(value_at + _REGISTRATION, registration_id)
        values.put_i64(value_at + _OWNER, owner_id)
        values.put_i64(value_at + _REFERENCE, reference_id)
        values.put_i64_release(value_at, value)
        self.set_label(counter_id, label)
        # Written last: a reader that sees the state sees the whole counter.
        metadata.put_i32_release(at, ALLOCATED)
        self._allocated.add(counter_id)
        return AtomicCounter(self, counter_id)

    def _next_id(self, now_ms: int) -> int:
        if self._free and now_ms >= self._free[0][0]:
            return self._free.popleft()[1]
        if self._used >= self.capacity:
            for index, (deadline, counter_id) in enumerate(self._free):
                if now_ms >= deadline:
                    del self._free[index]
                    return counter_id
            hint = "more room: aeron.counters.buffer.length"
            raise LimitExceeded(WHERE, found="all in use", expected=f"at most {self.capacity}", hint=hint)
        self._used += 1
        return self._used - 1

    def free(self, counter_id: int, now_ms: int | None = None) -> None:
        """Free a counter. Raises :class:`UsageError` if it is not in use."""
        self._check(counter_id)
        if counter_id not in self._allocated:
            raise UsageError(WHERE, found=f"counter {counter_id} is not in use")
        self._allocated.discard(counter_id)
        at = counter_id * METADATA_LENGTH
        self.metadata.put_i32_release(at, RECLAIMED)
        self.metadata.zero(at + _KEY, MAX_KEY_LENGTH)
        deadline = self._told(now_ms) + self._reuse_timeout_ms
        self.metadata.put_i64(at + _DEADLINE, deadline)
        self._free.append((deadline, counter_id))

    def _told(self, now_ms: int | None) -> int:
        if now_ms is not None:
            self.now_ms = now_ms
        return self.now_ms

    def counter(self, counter_id: int) -> AtomicCounter:
        """An allocated counter. Raises :class:`UsageError` for an id out of range."""
        self._check(counter_id)
        return AtomicCounter(self, counter_id)

    @property
    def used_count(self) -> int:
        """The number of ids in use so far: all counters ever allocated have ids ``0 <= id < used_count``."""
        return self._used

    @property
    def available_count(self) -> int:
        """How many counters can be allocated now."""
        return self.capacity - self._used + sum(deadline <= self.now_ms for deadline, _ in self._free)

    def state(self, counter_id: int) -> int:
        """One of :data:`~everlog.aeron.transport.format.counters.STATES`."""
        self._check(counter_id)
        return self.metadata.get_i32_acquire(counter_id * METADATA_LENGTH)

    def type_id(self, counter_id: int) -> int:
        """The counter's type id."""
        self._check(counter_id)
        return self.metadata.get_i32(counter_id * METADATA_LENGTH + _TYPE)

    def key(self, counter_id: int) -> bytes:
        """The key, all 112 bytes."""
        self._check(counter_id)
        return self.metadata.read(counter_id * METADATA_LENGTH + _KEY, MAX_KEY_LENGTH)

    def label(self, counter_id: int) -> str:
        """The label's text."""
        at = self._label_at(counter_id)
        return self.metadata.read(at + _LABEL, self._label_length(at)).decode("ascii", "replace")

    def value(self, counter_id: int) -> int:
        """The current value."""
        self._check(counter_id)
        return self.values.get_i64_acquire(counter_id * VALUE_LENGTH)

    def set_label(self, counter_id: int, label: str) -> None:
        """Replace the label: writes the text, then its length, which readers read first."""
        at = self._label_at(counter_id)
        data = label.encode("ascii", "replace")[:MAX_LABEL_LENGTH]
        self.metadata.write(at + _LABEL, data)
        self.metadata.put_i32_release(at + _LABEL_LENGTH, len(data))

    def append_label(self, counter_id: int, suffix: str) -> None:
        """Append to the label as much as fits."""
        at = self._label_at(counter_id)
        length = self._label_length(at)
        data = suffix.encode("ascii", "replace")[: MAX_LABEL_LENGTH - length]
        self.metadata.write(at + _LABEL + length, data)
        self.metadata.put_i32_release(at + _LABEL_LENGTH, length + len(data))

    def set_key(self, counter_id: int, key: bytes) -> None:
        """Replace the key, at most 112 bytes."""
        self._check(counter_id)
        self.metadata.write(counter_id * METADATA_LENGTH + _KEY, key[:MAX_KEY_LENGTH])

    def set_registration_id(self, counter_id: int, registration_id: int) -> None:
        """Set the registration id, for example that of a publication."""
        self._check(counter_id)
        self.values.put_i64_release(counter_id * VALUE_LENGTH + _REGISTRATION, registration_id)

    def set_owner_id(self, counter_id: int, owner_id: int) -> None:
        """Set the id of the owning client."""
        self._check(counter_id)
        self.values.put_i64(counter_id * VALUE_LENGTH + _OWNER, owner_id)

    def set_reference_id(self, counter_id: int, reference_id: int) -> None:
        """Set the reference id, for example the image of a subscriber position."""
        self._check(counter_id)
        self.values.put_i64(counter_id * VALUE_LENGTH + _REFERENCE, reference_id)

    def registration_id(self, counter_id: int) -> int:
        """The registration id, for example that of a publication."""
        self._check(counter_id)
        return self.values.get_i64_acquire(counter_id * VALUE_LENGTH + _REGISTRATION)

    def owner_id(self, counter_id: int) -> int:
        """The id of the owning client."""
        self._check(counter_id)
        return self.values.get_i64(counter_id * VALUE_LENGTH + _OWNER)

    def reference_id(self, counter_id: int) -> int:
        """The reference id, for example the image of a subscriber position."""
        self._check(counter_id)
        return self.values.get_i64(counter_id * VALUE_LENGTH + _REFERENCE)

    def _label_at(self, counter_id: int) -> int:
        self._check(counter_id)
        return counter_id * METADATA_LENGTH

    def _label_length(self, at: int) -> int:
        return min(max(self.metadata.get_i32_acquire(at + _LABEL_LENGTH), 0), MAX_LABEL_LENGTH)

    def _check(self, counter_id: int) -> None:
        if not 0 <= counter_id < self.capacity:
            raise UsageError("counter id", found=str(counter_id), expected=f"0 to {self.capacity - 1}")


class AtomicCounter:
    """One counter's value. ``memory`` and ``offset`` are for compiled code."""

    __slots__ = ("_counters", "id", "memory", "offset")

    def __init__(self, counters: Counters, counter_id: int) -> None:
        self.id = counter_id
        self.memory = counters.values
        self.offset = counter_id * VALUE_LENGTH
        self._counters: Counters | None = counters

    def __repr__(self) -> str:
        return f"AtomicCounter({self.id}, value={self.get()})"

    @property
    def state(self) -> str:
        """``allocated``, or ``closed`` if it was closed."""
        return "closed" if self._counters is None else STATES.get(self._counters.state(self.id), "unknown")

    @property
    def is_closed(self) -> bool:
        """Whether this object has closed the counter."""
        return self._counters is None

    def get(self) -> int:
        """The value, unordered: for its only writer."""
        return self.memory.get_i64(self.offset)

    def get_acquire(self) -> int:
        """The value, read with acquire order."""
        return self.memory.get_i64_acquire(self.offset)

    def set(self, value: int) -> None:
        """Write the value, unordered."""
        self.memory.put_i64(self.offset, value)

    def set_release(self, value: int) -> None:
        """Write the value with release order."""
        self.memory.put_i64_release(self.offset, value)

    def increment(self) -> int:
        """Add one atomically, also with other writers. Returns the value before."""
        return self.memory.get_and_add_i64(self.offset, 1)

    def add(self, delta: int) -> int:
        """Add atomically. Returns the value before."""
        return self.memory.get_and_add_i64(self.offset, delta)

    def increment_release(self) -> int:
        """Add one atomically, with release order. Returns the value before."""
        return self.add_release(1)

    def add_release(self, delta: int) -> int:
        """Add atomically, with release order. Returns the value before."""
        return self.memory.get_and_add_i64(self.offset, delta)

    def propose_max(self, value: int) -> bool:
        """Raise the value to a larger one, as the only writer. Returns whether it changed."""
        if self.memory.get_i64(self.offset) >= value:
            return False
        self.memory.put_i64(self.offset, value)
        return True

    def propose_max_release(self, value: int) -> bool:
        """Like :meth:`propose_max`, with release order."""
        if self.memory.get_i64(self.offset) >= value:
            return False
        self.memory.put_i64_release(self.offset, value)
        return True

    def close(self, now_ms: int | None = None) -> None:
        """Free the counter; a second call does nothing."""
        if self._counters is not None:
            self._counters.free(self.id, now_ms)
            self._counters = None
