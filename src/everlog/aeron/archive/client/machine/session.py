"""A control session after it is connected: requests out, answers in. A machine without I/O or clock.

Any number of requests may be in flight; answers are matched by correlation id, in whatever order they come.

=======  ====================================================  ===================
request  next                                                  ends with
=======  ====================================================  ===================
waiting  sent; an exclusive one when no other of them is open  Failed, not sent
sent     answered; a list by its last item or UNKNOWN          Answered, Failed
=======  ====================================================  ===================

A request's deadline begins when its turn comes; each item of a list renews it. When the session is lost, all open
requests fail with an error that says whether they may have been done.

Source: AeronArchive, ControlResponsePoller, RecordingDescriptorPoller.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from everlog.aeron.archive.client.errors import lost, timeout
from everlog.aeron.archive.client.machine.call import Call
from everlog.aeron.archive.client.values import NULL_VALUE, ErrorResponse
from everlog.aeron.archive.protocol.codec import decode, encode
from everlog.aeron.archive.protocol.responses import (
    ControlResponse,
    RecordingDescriptorMessage,
    RecordingSignalEvent,
    RecordingSubscription,
    ResponseCode,
)
from everlog.aeron.archive.recording.refusals import ArchiveError, ErrorCode
from everlog.aeron.messages import Message
from everlog.errors import CorruptData, EverlogError, UnknownMessage, UsageError


@dataclass(frozen=True, slots=True)
class Answered:
    """A request was done. ``value`` is the answer's relevant id, or the list's messages."""

    correlation_id: int
    value: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """A request failed: refused, without an answer in time, or its session is lost."""

    correlation_id: int
    error: EverlogError


MAX_RECORDS = 1000
Event = Answered | Failed | RecordingSignalEvent | ErrorResponse


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """What became of a request: ``answered``, ``failed``, ``unanswered`` (it may have been done) or ``not sent``."""

    correlation_id: int
    name: str
    outcome: str


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session that was lost: why, what it was asked last, at most 1,000 requests, and what it left open."""

    session_id: int
    reason: str
    answered: tuple[RequestRecord, ...]
    unanswered: tuple[RequestRecord, ...]


@dataclass(slots=True, eq=False)
class _Request:
    call: Call[Any]
    correlation_id: int
    data: bytes
    deadline_ns: int | None = None
    was_sent: bool = False
    items: list[Message] = field(default_factory=list)


class ControlSession:
    """The requests of one session with an archive. ``receive``, ``check`` and ``lose`` return what has happened, in
    order."""

    def __init__(self, session_id: int, archive_id: int | None, version: int, message_timeout_ns: int) -> None:
        self.session_id = session_id
        self.archive_id = archive_id
        """The archive's id; ``None`` if it is too old to have one."""
        self.version = version
        """The archive's protocol version: ``major << 16 | minor << 8 | patch``."""
        self.loss: str | None = None
        """Why the session has ended; ``None`` while it lasts."""
        self._timeout_ns = message_timeout_ns
        self._open: dict[int, _Request] = {}
        self._waiting: deque[_Request] = deque()
        self._exclusive_waiting: deque[_Request] = deque()
        self._exclusive: _Request | None = None
        self._answered: deque[RequestRecord] = deque(maxlen=MAX_RECORDS)
        self._unanswered: tuple[RequestRecord, ...] = ()

    @property
    def open_count(self) -> int:
        """The number of requests without an answer."""
        return len(self._open)

    # Requests

    def request(self, call: Call[Any], correlation_id: int, now_ns: int) -> None:
        """Add a request; :meth:`next_to_send` gives its bytes when it is its turn. Raises :class:`UsageError` if its
        values don't fit the protocol, :class:`SessionLost` after the session has ended."""
        if self.loss is not None:
            raise lost(call.name, correlation_id, self.loss, was_sent=False)
        request = _Request(call, correlation_id, encode(call.message(self.session_id, correlation_id)))
        self._open[correlation_id] = request
        if not call.is_exclusive:
            self._queue(request, now_ns)
        elif self._exclusive is None:
            self._exclusive = request
            self._queue(request, now_ns)
        else:
            self._exclusive_waiting.append(request)

    def request_elsewhere(self, call: Call[Any], correlation_id: int, now_ns: int) -> bytes:
        """Add a request that the caller sends on another stream; only its answer comes here. Raises the errors of
        :meth:`request`."""
        if self.loss is not None:
            raise lost(call.name, correlation_id, self.loss, was_sent=False)
        data = encode(call.message(self.session_id, correlation_id))
        self._open[correlation_id] = _Request(call, correlation_id, data, now_ns + self._timeout_ns, was_sent=True)
        return data

    def _queue(self, request: _Request, now_ns: int) -> None:
        request.deadline_ns = now_ns + self._timeout_ns
        self._waiting.append(request)

    def next_to_send(self) -> bytes | None:
        """The bytes of the request that is to be sent next, if any."""
        return self._waiting[0].data if self._waiting else None

    def sent(self) -> None:
        """The request of :meth:`next_to_send` was sent."""
        self._waiting.popleft().was_sent = True

    def unsendable(self, error: EverlogError, now_ns: int) -> list[Event]:
        """The request of :meth:`next_to_send` can never be sent, for example because it is too long."""
        return self._end(self._waiting[0], Failed(self._waiting[0].correlation_id, error), now_ns)

    def cancel(self, correlation_id: int, now_ns: int) -> None:
        """Forget a request. If it was sent, its answer is passed over."""
        request = self._open.get(correlation_id)
        if request is not None:
            self._end(request, Failed(correlation_id, UsageError(request.call.name, found="cancelled")), now_ns)

    def _end(self, request: _Request, event: Answered | Failed, now_ns: int) -> list[Event]:
        del self._open[request.correlation_id]
        outcome = "answered" if isinstance(event, Answered) else "failed"
        self._answered.append(RequestRecord(request.correlation_id, request.call.name, outcome))
        if not request.was_sent:
            for queue in (self._waiting, self._exclusive_waiting):
                if request in queue:
                    queue.remove(request)
        if request is self._exclusive:
            self._exclusive = self._exclusive_waiting.popleft() if self._exclusive_waiting else None
            if self._exclusive is not None:
                self._queue(self._exclusive, now_ns)
        return [event]

    # Answers

    def receive(self, data: bytes, now_ns: int) -> list[Event]:
        """Take a message of the archive. Messages of other sessions, answers for nobody and messages of unknown
        templates are passed over; an error for nobody, and a message that breaks the format, is an
        :class:`ErrorResponse`."""
        try:
            message = decode(data, "answer of the archive")
        except UnknownMessage as error:
            is_foreign = (error.found or "").startswith("schema")
            return [ErrorResponse(NULL_VALUE, error)] if is_foreign else []
        except CorruptData as error:
            return [ErrorResponse(NULL_VALUE, error)]
        take = _TAKERS.get(type(message))
        if take is None or getattr(message, "control_session_id", None) != self.session_id:
            return []
        return take(self, message, now_ns)

    def _take_signal(self, message: RecordingSignalEvent, now_ns: int) -> list[Event]:
        return [message]

    def _take_item(self, message: RecordingDescriptorMessage | RecordingSubscription, now_ns: int) -> list[Event]:
        request = self._open.get(message.correlation_id)
        if request is None or request.call.item is not type(message):
            return []
        request.items.append(message)
        if len(request.items) >= request.call.limit:
            return self._end(request, Answered(message.correlation_id, request.items), now_ns)
        request.deadline_ns = now_ns + self._timeout_ns
        return []

    def _take_answer(self, message: ControlResponse, now_ns: int) -> list[Event]:
        request = self._open.get(message.correlation_id)
        if request is None:
            # OK with correlation id -1 is the ping of archives before 1.48.
            if message.code is ResponseCode.ERROR:
                return [ErrorResponse(message.correlation_id, refusal("the archive", message))]
            return []
        event: Answered | Failed
        if request.call.item is not None and message.code in _ENDS_OF_LISTS:
            event = Answered(message.correlation_id, request.items)
        elif message.code is ResponseCode.OK and request.call.item is None:
            event = Answered(message.correlation_id, message.relevant_id)
        elif message.code is ResponseCode.ERROR and message.relevant_id == request.call.allowed:
            event = Answered(message.correlation_id, None)
        else:
            event = Failed(message.correlation_id, refusal(request.call.name, message))
        return self._end(request, event, now_ns)

    # Ends

    def check(self, now_ns: int) -> list[Event]:
        """Fail the requests whose deadline has passed."""
        late = [each for each in self._open.values() if each.deadline_ns is not None and each.deadline_ns <= now_ns]
        events: list[Event] = []
        for each in late:
            error = timeout(each.call.name, each.correlation_id, self._timeout_ns, was_sent=each.was_sent)
            events += self._end(each, Failed(each.correlation_id, error), now_ns)
        return events

    def lose(self, reason: str) -> list[Event]:
        """End the session, and fail all open requests."""
        if self.loss is None:
            self.loss = reason
        requests = list(self._open.values())
        self._unanswered += tuple(_unanswered(each) for each in requests)
        self._open.clear()
        self._waiting.clear()
        self._exclusive_waiting.clear()
        self._exclusive = None
        return [Failed(each.correlation_id, self._lost_error(each, reason)) for each in requests]

    def record(self) -> SessionRecord:
        """What became of the requests, after the session was lost."""
        return SessionRecord(self.session_id, self.loss or "", tuple(self._answered), self._unanswered)

    def _lost_error(self, request: _Request, reason: str) -> EverlogError:
        return lost(request.call.name, request.correlation_id, reason, was_sent=request.was_sent)


def _unanswered(request: _Request) -> RequestRecord:
    outcome = "unanswered" if request.was_sent else "not sent"
    return RequestRecord(request.correlation_id, request.call.name, outcome)


_ENDS_OF_LISTS = (ResponseCode.RECORDING_UNKNOWN, ResponseCode.SUBSCRIPTION_UNKNOWN)
_TAKERS: dict[type[Message], Callable[[ControlSession, Any, int], list[Event]]] = {
    ControlResponse: ControlSession._take_answer,
    RecordingDescriptorMessage: ControlSession._take_item,
    RecordingSubscription: ControlSession._take_item,
    RecordingSignalEvent: ControlSession._take_signal,
}


def refusal(where: str, message: ControlResponse) -> ArchiveError:
    """The error in an answer that is not OK."""
    if message.code is ResponseCode.ERROR:
        code = next((code for code in ErrorCode if code == message.relevant_id), ErrorCode.GENERIC)
        text = message.error_message or f"error {message.relevant_id}"
        return ArchiveError(where, found=text, message=text).coded(code)
    if message.code is ResponseCode.RECORDING_UNKNOWN:
        found = f"unknown recording id: {message.relevant_id}"
        return ArchiveError(where, found=found, message=found).coded(ErrorCode.UNKNOWN_RECORDING)
    return ArchiveError(where, found=f"unexpected response code {message.code.name}")
