"""Commands from the conductor to an agent: through a queue if the agent runs in another thread, where it executes one
command per cycle, or by a direct call if both share a thread. Source: CommandProxy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

from everlog.runtime.doorbell import DoorbellQueue

AgentCommands = DoorbellQueue[Callable[[int], None]]
"""A queue of commands. Each is called with the cycle's time in nanoseconds."""


class ErrorRecorder(Protocol):
    """Records errors that no caller waits for."""

    def record(self, error: BaseException | str, now_ms: int | None = None) -> None: ...


class Caller(Protocol):
    """The parts of the conductor that a direct call needs."""

    @property
    def now_ns(self) -> int:
        """The time of the current cycle."""

    @property
    def errors(self) -> ErrorRecorder:
        """The recorder of commands' errors."""


class CommandedAgent(Protocol):
    """An agent with a command queue."""

    @property
    def commands(self) -> AgentCommands: ...


A = TypeVar("A", bound=CommandedAgent)


class AgentProxy(Generic[A]):
    """Passes commands to ``agent``; drops them while it is ``None``. With a ``caller`` the agent shares the conductor's
    thread: a command is executed before the call returns. Either way, a command's error is recorded and not raised."""

    def __init__(self, agent: A | None = None, caller: Caller | None = None) -> None:
        self.agent = agent
        self._caller = caller

    def _ask(self, command: Callable[[A, int], None]) -> None:
        agent, caller = self.agent, self._caller
        if agent is None:
            return
        if caller is None:
            agent.commands.append(partial(command, agent))
            return
        try:
            command(agent, caller.now_ns)
        except Exception as error:
            caller.errors.record(error)


def do_command(commands: AgentCommands, errors: ErrorRecorder, now_ns: int, now_ms: int) -> int:
    """Execute the first command, if any. Returns how many were executed. An error is recorded and not raised."""
    if not commands:
        return 0
    try:
        commands.popleft()(now_ns)
    except Exception as error:
        errors.record(error, now_ms)
    return 1
