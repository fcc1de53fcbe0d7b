"""A client's requests to its driver that are not answered yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from everlog.aeron.transport.client.conducting.driver_proxy import DriverProxy
from everlog.aeron.transport.client.registration import Registration, Waiter
from everlog.aeron.transport.protocol.commands import DriverMessage
from everlog.errors import CorruptData, EverlogError


@dataclass(frozen=True, slots=True)
class _Pending:
    """A registration, the function that makes its result from an event, and the command that undoes it."""

    registration: Registration[Any]
    answers: tuple[type[DriverMessage], ...]
    make: Callable[[Any], Any]
    undo: Callable[[int, int], DriverMessage] | None


class Requests:
    """Pending registrations by id, from the command to its answer. Sends nothing after :meth:`end`."""

    def __init__(self, proxy: DriverProxy, waiter: Waiter) -> None:
        self._proxy = proxy
        self._waiter = waiter
        self._pending: dict[int, _Pending] = {}
        self._is_ended = False

    def request(
        self,
        command: Callable[[int], DriverMessage],
        what: str,
        answers: tuple[type[DriverMessage], ...],
        make: Callable[[Any], Any],
        undo: Callable[[int, int], DriverMessage] | None = None,
    ) -> Registration[Any]:
        """Send ``command(correlation_id)``. ``answers`` are the events that grant it; ``make`` turns one into the
        result; ``undo(correlation_id, registration_id)`` is the command that gives back what was granted. Raises
        :class:`LimitExceeded` if unread commands fill the driver's buffer."""
        new = self._proxy.next_correlation_id()
        self._proxy.send(command(new))
        registration: Registration[Any] = Registration(new, what, self._waiter)
        self._pending[new] = _Pending(registration, answers, make, undo)
        return registration

    def send(self, command: Callable[[int], DriverMessage]) -> None:
        """Send a command whose answer is ignored; later if the buffer is full."""
        if not self._is_ended:
            self._proxy.send_or_queue(command(self._proxy.next_correlation_id()))

    def answer(self, event: Any) -> bool:
        """Complete the registration with the event's correlation id; ignores unknown ids, which belong to other
        clients. Returns false if the event is of a kind that can't answer the request."""
        pending = self._pending.pop(event.correlation_id, None)
        if pending is None:
            return True
        if type(event) not in pending.answers:
            expected = " or ".join(kind.__name__ for kind in pending.answers)
            error = CorruptData(pending.registration.what, found=type(event).__name__, expected=expected)
            pending.registration.fail(error)
            return False
        pending.registration.succeed_with(lambda: pending.make(event))
        return True

    def what(self, correlation_id: int) -> str | None:
        """Description of the pending command; ``None`` if no request with this id is pending."""
        pending = self._pending.get(correlation_id)
        return None if pending is None else pending.registration.what

    def refuse(self, correlation_id: int, error: EverlogError) -> None:
        """Fail a pending request."""
        pending = self._pending.pop(correlation_id, None)
        if pending is not None:
            pending.registration.fail(error)

    def give_up(self, registration: Registration[Any], error: EverlogError) -> None:
        """Cancel a pending request, and give back what the driver has granted or will grant."""
        pending = self._pending.pop(registration.registration_id, None)
        if pending is None:
            return
        registration.is_cancelled = True
        registration.fail(error)
        undo = pending.undo
        if undo is not None:
            # The driver reads commands in order, so it grants the request before it reads this one.
            self.send(lambda new: undo(new, registration.registration_id))

    def end(self, error: EverlogError) -> None:
        """Fail all pending requests and send no more commands."""
        self._is_ended = True
        for pending in self._pending.values():
            pending.registration.fail(error)
        self._pending.clear()
