"""A counter that a client added. Source: Aeron's Counter."""

from __future__ import annotations

from typing import Self

from everlog.aeron.transport.client.owner import Owner
from everlog.aeron.transport.format.counters import VALUE_LENGTH
from everlog.aeron.transport.format.layouts import CounterValue
from everlog.errors import Closed
from everlog.kernel.memory import Memory

_VALUE = CounterValue.field("value").offset
_REGISTRATION = CounterValue.field("registration_id").offset


class Counter:
    """A counter that this client added. The driver frees it when the client ends, unless it is static. Any process can
    read it, also with ``everlog driver DIR stat`` or AeronStat. Close it, or use it in a ``with`` statement."""

    def __init__(self, owner: Owner, values: Memory, counter_id: int, correlation_id: int, *, is_static: bool) -> None:
        self.counter_id = counter_id
        self.correlation_id = correlation_id
        self.registration_id = (
            values.get_i64(counter_id * VALUE_LENGTH + _REGISTRATION) if is_static else correlation_id
        )
        self.is_static = is_static
        self._owner = owner
        self._values: Memory | None = values.slice(counter_id * VALUE_LENGTH, VALUE_LENGTH)

    @property
    def is_closed(self) -> bool:
        """Whether the counter or its client was closed."""
        return self._values is None

    @property
    def value(self) -> int:
        """The value, read with acquire and set with release order. Raises :class:`~everlog.errors.Closed` after the
        counter was closed."""
        return self._memory().get_i64_acquire(_VALUE)

    @value.setter
    def value(self, value: int) -> None:
        self._memory().put_i64_release(_VALUE, value)

    def add(self, delta: int = 1) -> int:
        """Add atomically, also among processes. Returns the value before. Raises the errors of :attr:`value`."""
        return self._memory().get_and_add_i64(_VALUE, delta)

    def compare_and_set(self, expected: int, value: int) -> bool:
        """Set it to ``value`` if it is ``expected``, atomically. Returns whether it did."""
        return self._memory().compare_and_set_i64(_VALUE, expected, value)

    def close(self) -> None:
        """Free the counter; a static one stays. A second call does nothing."""
        if not self.is_closed:
            self._owner.close_counter(self.correlation_id)

    def detach(self) -> None:
        """For the conductor: drop the counter's memory."""
        self._values = None

    def _memory(self) -> Memory:
        if self._values is None:
            raise Closed(f"counter {self.counter_id}")
        return self._values

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"value {self.value}"
        return f"<Counter {self.counter_id} registration {self.registration_id}: {state}>"
