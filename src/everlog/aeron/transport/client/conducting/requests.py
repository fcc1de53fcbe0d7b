"""What a client has asked its driver for, and waits for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from everlog.aeron.transport.client.conducting.driver_proxy import DriverProxy
from everlog.aeron.transport.client.registration import Registration, Waiting
from everlog.aeron.transport.protocol.commands import Message
from everlog.errors import CorruptData, EverlogError


@dataclass(frozen=True, slots=True)
class _Pending:
    """A registration, what makes its result of an event, and the command that gives it back."""

    registration: Registration[Any]
    answers: tuple[type[Message], ...]
    make: Callable[[Any], Any]
    undo: Callable[[int, int], Message] | None


class Requests:
    """Registrations by their ids, from when the command is sent until the answer is there. Once :meth:`end` was called
    no command is sent any more."""

    def __init__(self, proxy: DriverProxy, waiting: Waiting) -> None:
        self._proxy = proxy
        self._waiting = waiting
        self._pending: dict[int, _Pending] = {}
        self._is_ended = False

    def ask(
        self,
        command: Callable[[int], Message],
        what: str,
        answers: tuple[type[Message], ...],
        make: Callable[[Any], Any],
        undo: Callable[[int, int], Message] | None = None,
    ) -> Registration[Any]:
        """Send the command of a new id. ``answers``: the events that grant it; ``make`` makes the result of one;
        ``undo`` gives the command, of a new id and the registration's, that gives back what was granted. Raises
        :class:`LimitExceeded` where the driver reads no commands."""
        new = self._proxy.next_correlation_id()
        self._proxy.send(command(new))
        registration: Registration[Any] = Registration(new, what, self._waiting)
        self._pending[new] = _Pending(registration, answers, make, undo)
        return registration

    def tell(self, command: Callable[[int], Message]) -> None:
        """Send the command of a new id, whose answer matters to nobody; later, if there is no room now."""
        if not self._is_ended:
            self._proxy.send_sooner_or_later(command(self._proxy.next_correlation_id()))

    def answer(self, event: Any) -> bool:
        """The driver has done what the event's id is of; ids that nobody waits for are other clients'. Whether all is
        well: not when the event is of another kind than what was asked for."""
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
        """The command that is waited for, in words; ``None`` when nobody waits."""
        pending = self._pending.get(correlation_id)
        return None if pending is None else pending.registration.what

    def refuse(self, correlation_id: int, error: EverlogError) -> None:
        """There will be no result."""
        pending = self._pending.pop(correlation_id, None)
        if pending is not None:
            pending.registration.fail(error)

    def give_up(self, registration: Registration[Any], error: EverlogError) -> None:
        """Wait no more, and give back what the driver has granted or will."""
        pending = self._pending.pop(registration.registration_id, None)
        if pending is None:
            return
        registration.is_cancelled = True
        registration.fail(error)
        undo = pending.undo
        if undo is not None:
            # The driver reads commands in order: it has granted what it is then told to take back.
            self.tell(lambda new: undo(new, registration.registration_id))

    def end(self, error: EverlogError) -> None:
        """Nothing more will come."""
        self._is_ended = True
        for pending in self._pending.values():
            pending.registration.fail(error)
        self._pending.clear()
