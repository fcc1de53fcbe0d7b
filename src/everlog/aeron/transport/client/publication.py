"""Publications of a client: the compiled appenders with what Aeron's publications have besides. Source: Aeron's
Publication, ConcurrentPublication, ExclusivePublication."""

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
from everlog.aeron.transport.client.errors import BackPressured, MaxPositionExceeded, NotConnected, ended
from everlog.aeron.transport.client.registration import Registration
from everlog.aeron.transport.memory.log_memory import LogMemory
from everlog.aeron.transport.protocol.commands import AddDestination, RemoveDestination, RemoveDestinationById
from everlog.errors import EverlogError
from everlog.kernel.memory import Memory
from everlog.layout import Readable

if TYPE_CHECKING:
    from everlog.aeron.transport.client.owner import Owner

SPINS = 200
"""Offers in a row before :meth:`Publication.send` sleeps: the driver and the subscribers need the processor."""
SLEEP_SECONDS = 50e-6
SEND_TIMEOUT = 10.0

OUTCOMES = {
    NOT_CONNECTED: "NOT_CONNECTED",
    BACK_PRESSURED: "BACK_PRESSURED",
    ADMIN_ACTION: "ADMIN_ACTION",
    CLOSED: "CLOSED",
    MAX_POSITION_EXCEEDED: "MAX_POSITION_EXCEEDED",
}


def outcome_name(result: int) -> str:
    """What the result of an offer means: ``NONE`` for a position, else such as ``BACK_PRESSURED``."""
    return "NONE" if result >= 0 else OUTCOMES.get(result, "UNKNOWN")


@dataclass(frozen=True, slots=True)
class PublicationGrant:
    """What the driver granted, for a publication's constructor."""

    owner: Owner
    channel: str
    log: LogMemory
    counters_values: Memory
    limit_offset: int
    registration_id: int
    original_registration_id: int
    channel_status_id: int


class PublicationBase(ChannelState):
    """What concurrent and exclusive publications share, but for the appending."""

    channel: str
    """As it was asked for."""
    registration_id: int
    """Of this publication."""
    original_registration_id: int
    """Of the first that was added of those that share channel, stream and session; the log buffer's name."""
    channel_status_id: int
    """Id of the counter of the channel's state; -1 for IPC."""
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
        """Whether no other publication was there before it with which it shares a log."""
        return self.original_registration_id == self.registration_id

    @property
    def _is_over(self) -> bool:
        return self.log is None

    def add_destination(self, channel: str) -> int:
        """Send to one more endpoint, in ``control-mode=manual``; gives an id for :meth:`remove_destination`. Raises
        :class:`RegistrationRefused`, :class:`DriverTimeout`."""
        return self.async_add_destination(channel).result()

    def remove_destination(self, destination: str | int) -> None:
        """Send there no more: the channel, or the id that adding it gave. Raises as :meth:`add_destination`."""
        self.async_remove_destination(destination).result()

    def async_add_destination(self, channel: str) -> Registration[int]:
        """As :meth:`add_destination`, without waiting."""
        self._check_open()
        return self._owner.destination(AddDestination, self.original_registration_id, channel)

    def async_remove_destination(self, destination: str | int) -> Registration[int]:
        """As :meth:`remove_destination`, without waiting."""
        self._check_open()
        kind = RemoveDestination if isinstance(destination, str) else RemoveDestinationById
        return self._owner.destination(kind, self.original_registration_id, destination)

    def close(self) -> None:
        """Publish no more. The driver keeps what was sent until subscribers have it, or the channel's ``linger`` is
        over. A second call does nothing."""
        if self.log is not None:
            self._owner.close_publication(self.registration_id, revoke=self.revoke_on_close)

    def revoke(self) -> None:
        """Close without lingering: subscribers lose the image at once, with what they did not read yet."""
        if self.log is not None:
            self._owner.close_publication(self.registration_id, revoke=True)

    @abstractmethod
    def detach(self) -> None:
        """For the conductor: it is out of use. Drops the log buffer."""

    def _check_open(self) -> None:
        if self.log is None:
            raise ended(f"publication {self.channel}", self._owner.failure)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refused(self, result: int, timeout: float) -> NoReturn:
        """The error of an offer that was not accepted in time, or never will be."""
        where = f"publication {self.channel}"
        error: EverlogError
        if result == CLOSED:
            error = ended(where, self._owner.failure)
        elif result == MAX_POSITION_EXCEEDED:
            hint = "add a new publication: its session id is another"
            error = MaxPositionExceeded(where, found="its last term is full", expected="a free term", hint=hint)
        elif result == NOT_CONNECTED:
            hint = "is one there, with the same channel and stream id?"
            error = NotConnected(where, found=f"no subscriber in {timeout:g} s", expected="one", hint=hint)
        else:
            found = f"{outcome_name(result)} for {timeout:g} s"
            error = BackPressured(where, found=found, expected="subscribers that keep up")
        raise error

    def _attempts(self, offer: Callable[[], int], timeout: float) -> Generator[float, None, int]:
        """Offer until it is accepted: gives how many seconds to sleep before it goes on, and at last the result."""
        deadline: float | None = None
        spins = 0
        while (result := offer()) < 0:
            if result in (CLOSED, MAX_POSITION_EXCEEDED):
                self._refused(result, timeout)
            now = time.monotonic()
            deadline = now + timeout if deadline is None else deadline
            if now >= deadline:
                self._refused(result, timeout)
            if result == ADMIN_ACTION:  # over at once, but in damaged metadata
                continue
            spins += 1
            yield 0 if spins < SPINS else SLEEP_SECONDS
        return result

    def _persist(self, offer: Callable[[], int], timeout: float) -> int:
        attempts = self._attempts(offer, timeout)
        while True:
            try:
                time.sleep(next(attempts))
            except StopIteration as accepted:
                return int(accepted.value)

    async def _persist_async(self, offer: Callable[[], int], timeout: float) -> int:
        attempts = self._attempts(offer, timeout)
        while True:
            try:
                seconds = next(attempts)
            except StopIteration as accepted:
                return int(accepted.value)
            await asyncio.sleep(seconds)


class Publication(PublicationBase, ConcurrentAppender):
    """A publication that many threads and processes may share: those with the same channel and stream id on one driver
    write into one log, each message whole.

    ``offer`` and its relatives give the position behind the message, or, below 0, why there is none: ``NOT_CONNECTED``,
    ``BACK_PRESSURED``, ``ADMIN_ACTION`` (a term has ended: try again), ``CLOSED``, ``MAX_POSITION_EXCEEDED``. They
    never wait, and raise only for what can never be sent. :meth:`send` waits, and raises."""

    def __init__(self, terms: PublicationGrant) -> None:
        ConcurrentAppender.__init__(self, terms.log, terms.counters_values, terms.limit_offset)
        self._set_up(terms)

    def detach(self) -> None:
        """For the conductor: it is out of use. Drops the log buffer."""
        ConcurrentAppender.close(self)
        self.log = None

    def send(self, data: Readable, *, reserved_value: int = 0, timeout: float = SEND_TIMEOUT) -> int:
        """Offer one message until it is accepted; gives the position behind it. Raises :class:`NotConnected` or
        :class:`BackPressured` after ``timeout`` seconds; at once :class:`ClientClosed` or what ended the client, and
        :class:`MaxPositionExceeded`."""
        return self._persist(lambda: self.offer(data, reserved_value), timeout)

    async def async_send(self, data: Readable, *, reserved_value: int = 0, timeout: float = SEND_TIMEOUT) -> int:
        """As :meth:`send`, in an asyncio program: others go on meanwhile."""
        return await self._persist_async(lambda: self.offer(data, reserved_value), timeout)

    def send_many(self, messages: Sequence[Readable], *, timeout: float = SEND_TIMEOUT) -> None:
        """Offer all messages, in order, until they are accepted. Raises as :meth:`send`, when not even one more is
        accepted in ``timeout`` seconds; the error's ``appended`` says how many were."""
        _send_many(self, self.offer_many, messages, timeout)

    def __repr__(self) -> str:
        return _described(self, self.stream_id, self.session_id)


class ExclusivePublication(PublicationBase, ExclusiveAppender):
    """A publication of one thread, with a log of its own: faster, and its positions are its own. Results of offers are
    those of :class:`Publication`."""

    def __init__(self, terms: PublicationGrant) -> None:
        ExclusiveAppender.__init__(self, terms.log, terms.counters_values, terms.limit_offset)
        self._set_up(terms)

    def detach(self) -> None:
        """For the conductor: it is out of use. Drops the log buffer."""
        ExclusiveAppender.close(self)
        self.log = None

    def send(self, data: Readable, *, reserved_value: int = 0, timeout: float = SEND_TIMEOUT) -> int:
        """As :meth:`Publication.send`."""
        return self._persist(lambda: self.offer(data, reserved_value), timeout)

    async def async_send(self, data: Readable, *, reserved_value: int = 0, timeout: float = SEND_TIMEOUT) -> int:
        """As :meth:`Publication.send`, in an asyncio program: others go on meanwhile."""
        return await self._persist_async(lambda: self.offer(data, reserved_value), timeout)

    def send_many(self, messages: Sequence[Readable], *, timeout: float = SEND_TIMEOUT) -> None:
        """As :meth:`Publication.send_many`."""
        _send_many(self, self.offer_many, messages, timeout)

    def __repr__(self) -> str:
        return _described(self, self.stream_id, self.session_id)


def _send_many(
    publication: Publication | ExclusivePublication,
    offer_many: Callable[[Sequence[Readable], int], int],
    messages: Sequence[Readable],
    timeout: float,
) -> None:
    done = 0
    try:
        while done < len(messages):
            start = done
            done += publication._persist(lambda: offer_many(messages, start), timeout)  # noqa: B023, run at once
    except EverlogError as error:
        error.appended = done
        raise


def _described(publication: PublicationBase, stream_id: int, session_id: int) -> str:
    state = "closed" if publication.log is None else "open"
    kind = type(publication).__name__
    return f"<{kind} {publication.channel} stream {stream_id} session {session_id}: {state}>"
