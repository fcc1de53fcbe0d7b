"""A request to the driver whose answer may still be pending."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, Protocol, TypeVar

from everlog.errors import EverlogError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
POLL_SECONDS = 0.001
"""How often ``await`` checks for the answer."""


class Waiter(Protocol):
    """Waits for the driver's answers; the client implements it."""

    def wait(self, registration: Registration[Any], timeout_s: float | None) -> None:
        """Wait until ``registration.done``, at most ``timeout_s`` seconds. Raises :class:`UsageError` if called in a
        handler."""

    def work(self) -> int:
        """Read the driver's answers, unless another thread does so now. Returns the amount of work done."""

    def cancel(self, registration: Registration[Any]) -> None:
        """Stop waiting; the client gives back what the driver still grants."""


class Registration(Generic[T]):
    """A pending answer of the driver: wait for it with :meth:`result`, check :attr:`done`, or ``await`` it in an
    asyncio program. ``registration_id`` is the id in the driver's counters and logs."""

    def __init__(self, registration_id: int, what: str, waiter: Waiter) -> None:
        self.registration_id = registration_id
        self.what = what
        """The command, for error messages: ``add-publication aeron:ipc, stream 1001``."""
        self.is_cancelled = False
        self._waiter = waiter
        self._value: T | None = None
        self._error: EverlogError | None = None
        self._is_done = False

    @property
    def done(self) -> bool:
        """Whether :meth:`result` returns or raises without waiting."""
        return self._is_done

    def result(self, timeout_s: float | None = None) -> T:
        """Wait for the result, by default as long as the client's ``driver_timeout_ms``. Raises
        :class:`RegistrationRefused` if the driver refused, :class:`DriverTimeout` if it did not answer in time (this
        cancels the request), and the error that ended the client."""
        if not self._is_done:
            self._waiter.wait(self, timeout_s)
        if self._error is not None:
            # Drop the traceback, which would grow with every raise.
            raise self._error.with_traceback(None)
        return self._value  # type: ignore[return-value]

    def cancel(self) -> None:
        """Stop waiting. The client gives back what the driver grants later."""
        if not self._is_done:
            self._waiter.cancel(self)

    def __await__(self) -> Generator[Any, None, T]:
        return self._awaited().__await__()

    async def _awaited(self) -> T:
        try:
            while not self._is_done:
                await asyncio.sleep(POLL_SECONDS)
                self._waiter.work()
        except asyncio.CancelledError:
            self.cancel()
            raise
        return self.result()

    def succeed(self, value: T) -> None:
        """For the conductor: set the result."""
        self._value = value
        self._is_done = True

    def fail(self, error: EverlogError) -> None:
        """For the conductor: set the error."""
        self._error = error
        self._is_done = True

    def succeed_with(self, make: Callable[[], T]) -> None:
        """For the conductor: set what ``make`` returns, or the error that it raises."""
        try:
            self.succeed(make())
        except EverlogError as error:
            self.fail(error)

    def __repr__(self) -> str:
        state = "done" if self._is_done else "waiting"
        return f"<Registration {self.registration_id} {self.what}: {state}>"
