"""One message, as a subscriber gets it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Any, NamedTuple

from everlog.core.batch import Batch
from everlog.jlog.format.addresses import Address

COLUMNS = ("payload", "timestamp_ns", "log", "marker")
"""Columns of a batch that messages are made of, in the order of their fields."""


class Message(NamedTuple):
    """``timestamp_ns``: nanoseconds since 1970, as the writer said. ``log`` and ``marker``: segment, and number in it,
    from 1."""

    payload: bytes
    timestamp_ns: int
    log: int
    marker: int

    @property
    def address(self) -> Address:
        """Where it is; a checkpoint there says that it is done."""
        return Address.of(self.log, self.marker)


_new: Any = tuple.__new__


def messages_of(batch: Batch) -> list[Message]:
    """A batch with ``COLUMNS`` as messages."""
    fields: Iterable[tuple[Any, ...]] = zip(*map(batch.to_list, COLUMNS), strict=True)
    return list(map(_new, repeat(Message), fields))  # Message(*fields), without a call in Python for each
