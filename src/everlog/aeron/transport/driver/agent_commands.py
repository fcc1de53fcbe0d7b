"""Commands for an agent that may run in another thread: one is done in each of its cycles."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

AgentCommands = deque[Callable[[int], None]]
"""Each is called with the cycle's time in nanoseconds. Appending and taking are atomic."""


class ErrorRecorder(Protocol):
    """Where errors go that nobody waits for."""

    def record(self, error: BaseException | str, now_ms: int | None = None) -> None: ...


def do_command(commands: AgentCommands, errors: ErrorRecorder, now_ns: int, now_ms: int) -> int:
    """Do the first command, if there is one; how many were done. Its error is recorded and stops nothing."""
    if not commands:
        return 0
    try:
        commands.popleft()(now_ns)
    except Exception as error:
        errors.record(error, now_ms)
    return 1
