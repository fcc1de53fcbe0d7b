"""The part of a store that a batch is appended to."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Self

from everlog.core.appending.messages import Messages
from everlog.errors import EverlogError

Place = dict[str, int]
"""Where a message goes; the target alone reads it."""


class Uncertain(EverlogError):
    """What was appended after a note is gone, so that nobody can say how much of it there was."""


class Target(ABC):
    """A stream, open to be appended to by one commit. Leaving a ``with`` block closes it; an error of the block takes
    precedence over one of closing, because it says more."""

    @abstractmethod
    def check(self, longest: int) -> None:
        """Raises :class:`UsageError` if a message of ``longest`` bytes is too long."""

    @abstractmethod
    def has(self, place: Place) -> bool:
        """Whether a place in the same store is in this target."""

    @abstractmethod
    def count_found(self, place: Place, messages: Messages, time_ns: int) -> int:
        """How many of the messages the target has, consecutively from ``place`` on; on return they are as safe as the
        durability says. Raises :class:`Uncertain`, :class:`CorruptData`."""

    @abstractmethod
    def append(self, messages: Messages, time_ns: int, note: Callable[[Place], None]) -> int:
        """Append at least one of the messages, from the front, and return how many. ``note`` is called with the place
        of the first one before it is written, and again with another place if nothing was written there."""

    @abstractmethod
    def close(self) -> None:
        """Release the store."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            with contextlib.suppress(EverlogError):
                self.close()
