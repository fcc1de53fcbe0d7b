"""A request with what its answer means. :mod:`everlog.aeron.archive.client.machine.calls` has one of each kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from everlog.aeron.archive.protocol.requests import SessionRequest
from everlog.aeron.archive.recording.refusals import ErrorCode
from everlog.aeron.messages import Message

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request of class ``kind`` whose fields after session and correlation id are ``fields``.

    ``result`` makes the caller's value of the answer: of its relevant id, or, if ``item`` is set, of the list of
    messages of this class. ``limit`` is how many of them end the list. If ``allowed`` is set, that error is the answer
    ``None``."""

    kind: type[SessionRequest]
    fields: tuple[Any, ...]
    result: Callable[[Any], T]
    item: type[Message] | None = None
    limit: int = 0
    allowed: ErrorCode | None = None
    is_exclusive: bool = False
    """Whether the archive does only one of these at a time for a session: lists, and what it does as one."""

    @property
    def name(self) -> str:
        """The request's name, for error messages: ``stop-replay``."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", self.kind.__name__).rstrip("2").lower()

    def message(self, session_id: int, correlation_id: int) -> SessionRequest:
        """The request of a session."""
        return self.kind(session_id, correlation_id, *self.fields)
