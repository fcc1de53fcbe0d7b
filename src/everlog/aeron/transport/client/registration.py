"""What a client asked its driver for, and may not have yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, Protocol, TypeVar

from everlog.errors import EverlogError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
POLL_SECONDS = 0.001
"""How often ``await`` looks; the client's thread looks for itself."""


class Waiting(Protocol):
    """Who can wait until the driver has answered."""

    def wait(self, registration: Registration[Any], timeout: float | None) -> None:
        """Until ``registration.done``, or ``timeout`` seconds are over. Raises :class:`UsageError` in a handler."""

    def work(self) -> int:
        """Read the driver's answers now, if nobody else is at it; how many."""

    def cancel(self, registration: Registration[Any]) -> None:
        """Give up: what the driver grants yet is given back to it."""


class Registration(Generic[T]):
    """An answer that is on its way: wait for it with :meth:`result`, look with :attr:`done`, or ``await`` it in an
    asyncio program. ``registration_id`` is Aeron's: the driver's counters and logs name it."""

    def __init__(self, registration_id: int, what: str, waiting: Waiting) -> None:
        self.registration_id = registration_id
        self.what = what
        """The command, for messages: ``add-publication aeron:ipc, stream 1001``."""
        self.is_cancelled = False
        self._waiting = waiting
        self._value: T | None = None
        self._error: EverlogError | None = None
        self._is_done = False

    @property
    def done(self) -> bool:
        """Whether :meth:`result` would not wait."""
        return self._is_done

    def result(self, timeout: float | None = None) -> T:
        """What was asked for. ``timeout``: seconds; ``None``: the client's ``driver_timeout_ms``. Raises
        :class:`RegistrationRefused` when the driver said no, :class:`DriverTimeout` when it said nothing in time (then
        the request is cancelled), and what ended the client, if it has ended."""
        if not self._is_done:
            self._waiting.wait(self, timeout)
        if self._error is not None:
            # Anew each time: a traceback grows with every raise.
            raise self._error.with_traceback(None)
        return self._value  # type: ignore[return-value]

    def cancel(self) -> None:
        """Give up waiting. What the driver grants later is given back to it."""
        if not self._is_done:
            self._waiting.cancel(self)

    def __await__(self) -> Generator[Any, None, T]:
        return self._awaited().__await__()

    async def _awaited(self) -> T:
        try:
            while not self._is_done:
                await asyncio.sleep(POLL_SECONDS)
                self._waiting.work()
        except asyncio.CancelledError:
            self.cancel()
            raise
        return self.result()

    def succeed(self, value: T) -> None:
        """For the conductor: the answer is here."""
        self._value = value
        self._is_done = True

    def fail(self, error: EverlogError) -> None:
        """For the conductor: there will be none."""
        self._error = error
        self._is_done = True

    def succeed_with(self, make: Callable[[], T]) -> None:
        """For the conductor: the answer is what ``make`` gives or the error that it raises."""
        try:
            self.succeed(make())
        except EverlogError as error:
            self.fail(error)

    def __repr__(self) -> str:
        state = "done" if self._is_done else "waiting"
        return f"<Registration {self.registration_id} {self.what}: {state}>"
