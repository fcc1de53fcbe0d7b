"""A control session over an Aeron client, without waiting: the machines with their two streams. The shells, and an
archive that replicates from another one, poll it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from everlog.aeron.archive.client.connection.inbox import Inbox
from everlog.aeron.archive.client.machine.call import Call
from everlog.aeron.archive.client.machine.session import Answered, ControlSession, Event, Failed
from everlog.aeron.archive.client.values import ErrorResponse
from everlog.aeron.archive.protocol.codec import encode
from everlog.aeron.archive.protocol.requests import CloseSession
from everlog.aeron.transport.client.appending.appenders import ADMIN_ACTION, BACK_PRESSURED
from everlog.aeron.transport.client.images.image_reader import FragmentAssembler
from everlog.aeron.transport.client.publication import ExclusivePublication, outcome_name
from everlog.aeron.transport.client.subscription import Subscription
from everlog.errors import EverlogError

T = TypeVar("T")
FRAGMENT_LIMIT = 64


class Ticket(Generic[T]):
    """A request in flight. ``on_done`` is called once, when it is done."""

    def __init__(self, correlation_id: int, call: Call[T], on_done: Callable[[], object] | None = None) -> None:
        self.correlation_id = correlation_id
        self.done = False
        self._call = call
        self._value: Any = None
        self._error: EverlogError | None = None
        self._on_done = on_done

    def result(self) -> T:
        """The result of a request that is done. Raises what it failed with."""
        if self._error is not None:
            raise self._error.with_traceback(None)
        return self._call.result(self._value)

    def finish(self, event: Answered | Failed) -> None:
        """Set the outcome."""
        if isinstance(event, Failed):
            self._error = event.error
        else:
            self._value = event.value
        self.done = True
        if self._on_done is not None:
            self._on_done()


class ControlLink:
    """A session with its streams. One thread at a time may use it; handlers may call it again."""

    def __init__(
        self,
        session: ControlSession,
        publication: ExclusivePublication,
        subscription: Subscription,
        inbox: Inbox,
        retry_attempts: int,
    ) -> None:
        self.session = session
        self._publication = publication
        self._subscription = subscription
        self._inbox = inbox
        self._retry_attempts = retry_attempts
        self._tickets: dict[int, Ticket[Any]] = {}
        self._received: deque[bytes] = deque()
        self._events: deque[Event] = deque()
        self._assembler = FragmentAssembler(lambda data, _: self._received.append(data))

    def submit(
        self, call: Call[T], correlation_id: int, now_ns: int, on_done: Callable[[], object] | None = None
    ) -> Ticket[T]:
        """Start a request. Raises :class:`SessionLost` after the session has ended, :class:`UsageError` if its values
        don't fit the protocol."""
        self.session.request(call, correlation_id, now_ns)
        ticket = Ticket(correlation_id, call, on_done)
        self._tickets[correlation_id] = ticket
        self._send(now_ns)
        return ticket

    def submit_elsewhere(
        self, call: Call[T], correlation_id: int, now_ns: int, on_done: Callable[[], object] | None = None
    ) -> tuple[bytes, Ticket[T]]:
        """Start a request that the caller sends on another stream; returns its bytes."""
        data = self.session.request_elsewhere(call, correlation_id, now_ns)
        ticket = Ticket(correlation_id, call, on_done)
        self._tickets[correlation_id] = ticket
        return data, ticket

    def cancel(self, ticket: Ticket[Any], now_ns: int) -> None:
        """Forget a request; if it was sent, the archive does it all the same."""
        if self._tickets.pop(ticket.correlation_id, None) is not None:
            self.session.cancel(ticket.correlation_id, now_ns)

    def poll(self, now_ns: int) -> int:
        """Send what waits, read what has come, and finish requests. Returns the number of messages and events. An error
        of a handler propagates; the next poll continues with the next message."""
        done = self._send(now_ns)
        if self.session.loss is None:
            done += self._read(now_ns)
            self._send(now_ns)
            self._events += self.session.check(now_ns)
        done += len(self._events)
        while self._events:
            self._dispatch(self._events.popleft())
        return done

    def _send(self, now_ns: int) -> int:
        count = 0
        while self.session.loss is None and (data := self.session.next_to_send()) is not None:
            try:
                result = self._offer(data)
            except EverlogError as error:
                self._events += self.session.unsendable(error, now_ns)
                continue
            if result >= 0:
                self.session.sent()
                count += 1
            elif result in (BACK_PRESSURED, ADMIN_ACTION):
                break
            else:
                self._events += self.session.lose(f"the request stream is {outcome_name(result)}")
        return count

    def _offer(self, data: bytes) -> int:
        result = BACK_PRESSURED
        for _ in range(self._retry_attempts):
            result = self._publication.offer(data)
            if result not in (BACK_PRESSURED, ADMIN_ACTION):
                break
        return result

    def _read(self, now_ns: int) -> int:
        try:
            count = self._subscription.poll(self._assembler, FRAGMENT_LIMIT)
        except EverlogError as error:
            self._events += self.session.lose(str(error))
            return 1
        while self._received:
            self._events += self.session.receive(self._received.popleft(), now_ns)
        if not count and not self._subscription.is_connected:
            self._events += self.session.lose("its response stream has ended")
        return count

    def _dispatch(self, event: Event) -> None:
        if isinstance(event, Answered | Failed):
            ticket = self._tickets.pop(event.correlation_id, None)
            if ticket is not None:
                ticket.finish(event)
        elif isinstance(event, ErrorResponse):
            self._inbox.put_error(event)
        else:
            self._inbox.put_signal(event)

    def close(self) -> None:
        """Close the session and its streams; requests in flight fail."""
        is_open = self.session.loss is None
        self._events += self.session.lose("it was closed")
        if is_open and self._publication.is_connected:
            self._offer(encode(CloseSession(self.session.session_id)))
        self._publication.close()
        self._subscription.close()
        while self._events:
            self._dispatch(self._events.popleft())
