"""Publications of a client: the compiled appenders plus destinations, closing and sending with a timeout. Source:
Aeron's Publication, ConcurrentPublication, ExclusivePublication."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Self

from everlog.aeron.transport.client.appending.appenders import (
    ADMIN_ACTION,
    BACK_PRESSURED,
    CLOSED,
    MAX_POSITION_EXCEEDED,
    NOT_CONNECTED,
    ConcurrentAppender,
    ExclusiveAppender,
)
from everlog.aeron.transport.client.channel_state import ChannelState
from everlog.aeron.transport.client.errors import BackPressured, MaxPositionExceeded, NotConnected, closed_error
from everlog.aeron.transport.client.registration import Registration
from everlog.aeron.transport.memory.log_memory import LogMemory
from everlog.aeron.transport.protocol.commands import AddDestination, RemoveDestination, RemoveDestinationById
from everlog.errors import EverlogError, WrongType
from everlog.kernel.memory import Memory
from everlog.layout import Readable

if TYPE_CHECKING:
    from everlog.aeron.transport.client.owner import Owner

SPINS = 200
"""Offers in a row before :meth:`Publication.send` sleeps, to leave the CPU to the driver and the subscribers."""
SLEEP_SECONDS = 50e-6
SEND_TIMEOUT_S = 10.0

OUTCOMES = {
    NOT_CONNECTED: "NOT_CONNECTED",
    BACK_PRESSURED: "BACK_PRESSURED",
    ADMIN_ACTION: "ADMIN_ACTION",
    CLOSED: "CLOSED",
    MAX_POSITION_EXCEEDED: "MAX_POSITION_EXCEEDED",
}


def outcome_name(result: int) -> str:
    """The name of an offer's result: ``NONE`` for a position, else the code's name, for example ``BACK_PRESSURED``."""
    return "NONE" if result >= 0 else OUTCOMES.get(result, "UNKNOWN")


@dataclass(frozen=True, slots=True)
class PublicationGrant:
    """What the driver granted: the arguments of a publication's constructor."""

    owner: Owner
    channel: str
    log: LogMemory
    counters_values: Memory
    limit_offset: int
    registration_id: int
    original_registration_id: int
    channel_status_id: int


class PublicationBase(ChannelState):
    """The common part of concurrent and exclusive publications, except appending."""

    channel: str
    """The channel as it was added."""
    registration_id: int
    """Registration id of this publication."""
    original_registration_id: int
    """Registration id of the first publication with this channel, stream and session; part of the log buffer's name."""
    channel_status_id: int
    """Id of the channel's status counter; -1 for IPC."""
    revoke_on_close: bool
    """Whether :meth:`close` is a :meth:`revoke`."""
    log: LogMemory | None
    _owner: Owner

    def _set_up(self, terms: PublicationGrant) -> None:
        self.channel = terms.channel
        self.registration_id = terms.registration_id
        self.original_registration_id = terms.original_registration_id
        self.channel_status_id = terms.channel_status_id
        self.revoke_on_close = False
        self.log = terms.log
        self._owner = terms.owner

    @property
    def is_original(self) -> bool:
        """Whether it was the first publication on its log."""
        return self.original_registration_id == self.registration_id

    @property
    def _is_detached(self) -> bool:
        return self.log is None

    def add_destination(self, channel: str) -> int:
        """Add an endpoint to send to (needs ``control-mode=manual``). Returns an id for :meth:`remove_destination`.
        Raises :class:`RegistrationRefused`, :class:`DriverTimeout`."""
        return self.async_add_destination(channel).result()

    def remove_destination(self, destination: str | int) -> None:
        """Remove a destination, given its channel or its id. Raises the errors of :meth:`add_destination`."""
        self.async_remove_destination(destination).result()

    def async_add_destination(self, channel: str) -> Registration[int]:
        """Like :meth:`add_destination`, without waiting."""
        self._check_open()
        return self._owner.destination(AddDestination, self.original_registration_id, channel)

    def async_remove_destination(self, destination: str | int) -> Registration[int]:
        """Like :meth:`remove_destination`, without waiting."""
        self._check_open()
        kind = RemoveDestination if isinstance(destination, str) else RemoveDestinationById
        return self._owner.destination(kind, self.original_registration_id, destination)

    def close(self) -> None:
        """Close the publication. The driver keeps sent messages until subscribers have received them or the channel's
        ``linger`` timeout has passed. A second call does nothing."""
        if self.log is not None:
            self._owner.close_publication(self.registration_id, revoke=self.revoke_on_close)

    def revoke(self) -> None:
        """Close without lingering: subscribers lose the image at once, including messages they have not read."""
        if self.log is not None:
            self._owner.close_publication(self.registration_id, revoke=True)

    @abstractmethod
    def detach(self) -> None:
        """For the conductor: close the publication and drop its log buffer."""

    def _check_open(self) -> None:
        if self.log is None:
            raise closed_error(f"publication {self.channel}", self._owner.failure)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _raise_refused(self, result: int, timeout_s: float) -> NoReturn:
        """Raise the error of an offer that was not accepted in time or never will be."""
        where = f"publication {self.channel}"
        error: EverlogError
        if result == CLOSED:
            error = closed_error(where, self._owner.failure)
        elif result == MAX_POSITION_EXCEEDED:
            hint = "add a new publication; it gets another session id"
            error = MaxPositionExceeded(where, found="its last term is full", hint=hint)
        elif result == NOT_CONNECTED:
            hint = "does a subscription use the same channel and stream id?"
            error = NotConnected(where, found=f"no subscriber within {timeout_s:g} s", hint=hint)
        else:
            hint = "subscribers are too slow or stopped"
            error = BackPressured(where, found=f"{outcome_name(result)} for {timeout_s:g} s", hint=hint)
        raise error

    def _attempts(self, offer: Callable[[], int], timeout_s: float) -> Generator[float, None, int]:
        """Offer until it is accepted. Yields the seconds to sleep before the next attempt; returns the result."""
        deadline: float | None = None
        spins = 0
        while (result := offer()) < 0:
            if result in (CLOSED, MAX_POSITION_EXCEEDED):
                self._raise_refused(result, timeout_s)
            now = time.monotonic()
            deadline = now + timeout_s if deadline is None else deadline
            if now >= deadline:
                self._raise_refused(result, timeout_s)
            if result == ADMIN_ACTION:  # the next offer succeeds, unless the metadata is damaged
                continue
            spins += 1
            yield 0 if spins < SPINS else SLEEP_SECONDS
        return result

    def _persist(self, offer: Callable[[], int], timeout_s: float) -> int:
        attempts = self._attempts(offer, timeout_s)
        while True:
            try:
                time.sleep(next(attempts))
            except StopIteration as accepted:
                return int(accepted.value)

    async def _persist_async(self, offer: Callable[[], int], timeout_s: float) -> int:
        attempts = self._attempts(offer, timeout_s)
        while True:
            try:
                seconds = next(attempts)
            except StopIteration as accepted:
                return int(accepted.value)
            await asyncio.sleep(seconds)


class Publication(PublicationBase, ConcurrentAppender):
    """A publication that many threads and processes may share. Publications with the same channel and stream id on one
    driver write into one log; messages never mix.

    ``offer``, ``offer_parts`` and ``try_claim`` return the position after the message or a negative code:
    ``NOT_CONNECTED``, ``BACK_PRESSURED``, ``ADMIN_ACTION`` (a term has ended: try again), ``CLOSED``,
    ``MAX_POSITION_EXCEEDED``. They never wait, and raise only for messages that can never be sent. :meth:`send` waits,
    and raises instead of returning a code."""

    def __init__(self, terms: PublicationGrant) -> None:
        ConcurrentAppender.__init__(self, terms.log, terms.counters_values, terms.limit_offset)
        self._set_up(terms)

    def detach(self) -> None:
        """For the conductor: close the publication and drop its log buffer."""
        ConcurrentAppender.close(self)
        self.log = None

    def send(self, data: Readable, *, reserved_value: int = 0, timeout_s: float = SEND_TIMEOUT_S) -> int:
        """Offer one message until it is accepted; return the position after it. Raises :class:`NotConnected` or
        :class:`BackPressured` after ``timeout_s`` seconds. Raises at once :class:`~everlog.errors.Closed` or the error
        that ended the client, :class:`MaxPositionExceeded`, and :class:`~everlog.errors.WrongType` for a message that
        is not bytes."""
        try:
            return self._persist(lambda: self.offer(data, reserved_value), timeout_s)
        except TypeError as error:
            raise _wrong_message(data, error) from None

    async def async_send(self, data: Readable, *, reserved_value: int = 0, timeout_s: float = SEND_TIMEOUT_S) -> int:
        """Like :meth:`send`, for asyncio programs: other tasks run while it waits."""
        try:
            return await self._persist_async(lambda: self.offer(data, reserved_value), timeout_s)
        except TypeError as error:
            raise _wrong_message(data, error) from None

    def send_many(self, messages: Sequence[Readable], *, timeout_s: float = SEND_TIMEOUT_S) -> None:
        """Offer all messages, in order, until they are accepted. Raises the errors of :meth:`send` if no further
        message is accepted for ``timeout_s`` seconds; the error's ``appended`` is the number of messages accepted."""
        _send_many(self, self.offer_many, messages, timeout_s)

    def __repr__(self) -> str:
        return _described(self, self.stream_id, self.session_id)


class ExclusivePublication(PublicationBase, ExclusiveAppender):
    """A publication for one thread, with its own session and log: faster than a shared one, and the only writer of its
    log. Offers return the results of :class:`Publication`."""

    def __init__(self, terms: PublicationGrant) -> None:
        ExclusiveAppender.__init__(self, terms.log, terms.counters_values, terms.limit_offset)
        self._set_up(terms)

    def detach(self) -> None:
        """For the conductor: close the publication and drop its log buffer."""
        ExclusiveAppender.close(self)
        self.log = None

    def send(self, data: Readable, *, reserved_value: int = 0, timeout_s: float = SEND_TIMEOUT_S) -> int:
        """Like :meth:`Publication.send`."""
        try:
            return self._persist(lambda: self.offer(data, reserved_value), timeout_s)
        except TypeError as error:
            raise _wrong_message(data, error) from None

    async def async_send(self, data: Readable, *, reserved_value: int = 0, timeout_s: float = SEND_TIMEOUT_S) -> int:
        """Like :meth:`Publication.async_send`."""
        try:
            return await self._persist_async(lambda: self.offer(data, reserved_value), timeout_s)
        except TypeError as error:
            raise _wrong_message(data, error) from None

    def send_many(self, messages: Sequence[Readable], *, timeout_s: float = SEND_TIMEOUT_S) -> None:
        """Like :meth:`Publication.send_many`."""
        _send_many(self, self.offer_many, messages, timeout_s)

    def __repr__(self) -> str:
        return _described(self, self.stream_id, self.session_id)


def _send_many(
    publication: Publication | ExclusivePublication,
    offer_many: Callable[[Sequence[Readable], int], int],
    messages: Sequence[Readable],
    timeout_s: float,
) -> None:
    done = 0
    try:
        while done < len(messages):
            start = done
            done += publication._persist(lambda: offer_many(messages, start), timeout_s)  # noqa: B023, run at once
    except EverlogError as error:
        error.appended = done
        raise
    except TypeError as error:
        raise _wrong_messages(messages[done:], done, error) from None


def _wrong_message(message: object, error: TypeError) -> TypeError:
    """The error for a message that is not bytes; ``error`` if it is, and something else had a wrong type."""
    try:
        memoryview(message)  # type: ignore[arg-type]
    except TypeError:
        return WrongType("message", found=type(message).__name__, expected="bytes")
    return error


def _wrong_messages(messages: Sequence[object], done: int, error: TypeError) -> TypeError:
    """The error for a sequence with a message that is not bytes."""
    for message in messages:
        wrong = _wrong_message(message, error)
        if isinstance(wrong, WrongType):
            wrong.appended = done
            return wrong
    return error


def _described(publication: PublicationBase, stream_id: int, session_id: int) -> str:
    state = "closed" if publication.log is None else "open"
    kind = type(publication).__name__
    return f"<{kind} {publication.channel} stream {stream_id} session {session_id}: {state}>"
