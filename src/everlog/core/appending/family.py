"""The appending of one family: which columns and options a write has, and what it opens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from everlog.core.appending.target import Target
from everlog.core.appending.target_name import TargetName
from everlog.core.files.durability import Durability
from everlog.core.option_kinds import OptionKind

PAYLOAD, TIMESTAMP, TIMESTAMP_NS, RESERVED_VALUE = "payload", "timestamp", "timestamp_ns", "reserved_value"
"""Columns of a write. A message has one number besides its payload: its time, or its reserved value."""


@dataclass(frozen=True, slots=True)
class WriteOption:
    """An option of a write. ``key`` is its name among those that :class:`Appending` is given."""

    spark: str
    key: str
    kind: OptionKind


class Appending(ABC):
    """Appends rows to stores of a family. One object serves any number of stores, because it has no state. ``columns``
    are the columns that make a message, ``options`` the family's options, whose values the methods get by key."""

    columns: ClassVar[tuple[str, ...]]
    options: ClassVar[tuple[WriteOption, ...]]

    def check(self, given: Mapping[str, Any]) -> None:  # noqa: B027 - most combinations are allowed
        """Raises :class:`UsageError` for options that exclude each other."""

    @abstractmethod
    def target_name(self, store: str, given: Mapping[str, Any]) -> TargetName:
        """How notes name the target in the store at a real path."""

    @abstractmethod
    def open_target(self, path: str, given: Mapping[str, Any], *, create: bool, durability: Durability) -> Target:
        """Open what is appended to; with ``create`` the store is made if there is none. Raises as opening the store
        for writing does."""
