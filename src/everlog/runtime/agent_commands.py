"""What the conductor asks of an agent: by a queue when the agent runs in another thread, which does one command in each
of its cycles, or by a direct call when both run in one thread. Source: CommandProxy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

from everlog.runtime.doorbell import RungQueue

AgentCommands = RungQueue[Callable[[int], None]]
"""Each is called with the cycle's time in nanoseconds."""


class ErrorRecorder(Protocol):
    """Where errors go that nobody waits for."""

    def record(self, error: BaseException | str, now_ms: int | None = None) -> None: ...


class Caller(Protocol):
    """The conductor, as far as a direct call needs it."""

    @property
    def now_ns(self) -> int:
        """The time of its cycle."""

    @property
    def errors(self) -> ErrorRecorder:
        """Where the errors of commands go."""


class CommandedAgent(Protocol):
    """An agent with a queue."""

    @property
    def commands(self) -> AgentCommands: ...


A = TypeVar("A", bound=CommandedAgent)


class AgentProxy(Generic[A]):
    """Passes commands on to ``agent``; there is nobody to ask while it is ``None``. With a ``caller`` the agent shares
    the conductor's thread: a command is done before the call returns. A command's error is recorded and stops nothing,
    in either way."""

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
    """Do the first command, if there is one; how many were done. Its error is recorded and stops nothing."""
    if not commands:
        return 0
    try:
        commands.popleft()(now_ns)
    except Exception as error:
        errors.record(error, now_ms)
    return 1
