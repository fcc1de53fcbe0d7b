"""What a batch is appended to."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Self

from everlog.errors import EverlogError
from everlog.pipelines.append.messages import Messages
from everlog.pipelines.append.notes import Place


class Uncertain(EverlogError):
    """What was appended behind a note is there no more, so that nobody can tell how much of it there was."""


class Target(ABC):
    """A journal or a recording, open to be appended to by one commit. In a ``with`` statement it is closed at the end;
    an error of the block's goes before one of closing, because it tells more."""

    @abstractmethod
    def check(self, longest: int) -> None:
        """Raises :class:`UsageError` for a message of so many bytes that is too long."""

    @abstractmethod
    def has(self, place: Place) -> bool:
        """Whether a place in the same store is in this target."""

    @abstractmethod
    def count_found(self, place: Place, messages: Messages, time_ns: int) -> int:
        """How many of the messages are there, one behind the other from ``place`` on; on return they are as safe as the
        durability says. Raises :class:`Uncertain`, :class:`CorruptData`."""

    @abstractmethod
    def append(self, messages: Messages, time_ns: int, note: Callable[[Place], None]) -> int:
        """Append the first of the messages; their count, at least 1. ``note`` is called with the place of the first
        one before it is written, and again for another place when nothing was written there."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the store."""

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
