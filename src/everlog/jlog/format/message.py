"""A message as given to a subscriber."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Any, NamedTuple

from everlog.core.batch import Batch
from everlog.jlog.format.addresses import Address

COLUMNS = ("payload", "timestamp_ns", "log", "marker")
"""Batch columns that messages are made of, in the order of their fields."""


class Message(NamedTuple):
    """``timestamp_ns``: nanoseconds since 1970, from the writer. ``log`` and ``marker``: segment, and number in it,
    from 1."""

    payload: bytes
    timestamp_ns: int
    log: int
    marker: int

    @property
    def address(self) -> Address:
        """The message's address; a checkpoint at it marks the message as consumed."""
        return Address.of(self.log, self.marker)


_new: Any = tuple.__new__


def messages_of(batch: Batch) -> list[Message]:
    """Converts a batch with ``COLUMNS`` to messages."""
    fields: Iterable[tuple[Any, ...]] = zip(*map(batch.to_list, COLUMNS), strict=True)
    return list(map(_new, repeat(Message), fields))  # Message(*fields), without a Python call for each
