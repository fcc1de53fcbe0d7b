"""What a client may expect of a control session: one terminal answer for each request, lists that do not mix, signals
in order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NoReturn

from everlog.aeron.archive.client.machine.call import Call
from everlog.aeron.archive.protocol import requests
from everlog.aeron.archive.protocol.responses import (
    ControlResponse,
    Ping,
    RecordingDescriptorMessage,
    RecordingSignalEvent,
    RecordingSubscription,
    ResponseCode,
)
from everlog.aeron.archive.recording.events import RecordingSignal
from everlog.aeron.messages import Message
from everlog.testing.archive.script import Script

DELETIONS = (
    requests.TruncateRecording,
    requests.PurgeRecording,
    requests.PurgeSegments,
    requests.DeleteDetachedSegments,
)
"""What answers OK, deletes files, and then sends DELETE."""
_WITH_TOKEN = (requests.Replay, requests.BoundedReplay)
_STARTS = (requests.StartRecording2, requests.ExtendRecording2)
_MAY_FAIL_LATER = (*_STARTS, requests.Replay, requests.BoundedReplay, *DELETIONS)
_IMPOSSIBLE = (
    "recording segment not found",
    "unexpected end of recording",
    "damaged frame",
    "recording segment file not created",
    "unable to delete segment file",
)
"""Texts of errors that no client's request is the reason for."""


@dataclass(slots=True)
class Asked:
    """A request, and what has come for it."""

    call: Call[Any]
    sent_ns: int
    code: ResponseCode | None = None
    relevant_id: int = 0
    items: int = 0
    last_item: int = -1
    is_deleted: bool = False
    may_lapse: bool = False
    signals: dict[int, RecordingSignalEvent] = field(default_factory=dict)

    @property
    def is_list(self) -> bool:
        """Whether messages of their own are its answer."""
        return self.call.item is not None

    @property
    def recording_id(self) -> int:
        """The recording that a request names first."""
        return int(self.call.fields[0]) if self.call.fields else -1


class Answers:
    """The requests of one session. ``who`` names the client in failures."""

    def __init__(self, script: Script, who: str, session_id: int) -> None:
        self.counts: Counter[str] = Counter()
        self.session_id = session_id
        self._script = script
        self._who = who
        self._asked: dict[int, Asked] = {}
        self._open: set[int] = set()
        self._undeleted: set[int] = set()
        self._list: int | None = None
        """The list that has begun and not ended."""

    @property
    def open_count(self) -> int:
        """How many requests wait for an answer."""
        return len(self._open)

    def sent(self, correlation_id: int, call: Call[Any], now_ns: int, *, may_lapse: bool = False) -> None:
        """Note a request. One that ``may_lapse`` need not be answered: it may come when its token is too old."""
        self._asked[correlation_id] = Asked(call, now_ns, may_lapse=may_lapse)
        self._open.add(correlation_id)
        self.counts[call.name] += 1

    def maintained(self) -> set[int]:
        """The recordings whose maintenance was asked for and may not be finished."""
        kinds = (
            *DELETIONS,
            requests.DetachSegments,
            requests.AttachSegments,
            requests.MigrateSegments,
            requests.UpdateChannel,
        )
        found: set[int] = set()
        for correlation_id in self._open | self._undeleted:
            asked = self._asked[correlation_id]
            if asked.call.kind in kinds:
                found.add(asked.recording_id)
            if asked.call.kind is requests.MigrateSegments:
                found.add(int(asked.call.fields[1]))
        return found

    def excuse_tokens(self) -> None:
        """Requests with a token that are on their way may come too late."""
        for correlation_id in self._open:
            asked = self._asked[correlation_id]
            asked.may_lapse = asked.may_lapse or asked.call.kind in _WITH_TOKEN

    def overdue(self, before_ns: int) -> None:
        """Fail for a request that was sent before a time and has no answer, or a deletion without its signal."""
        for correlation_id in sorted(self._open | self._undeleted):
            asked = self._asked[correlation_id]
            if asked.sent_ns < before_ns and not asked.may_lapse:
                what = "no answer" if correlation_id in self._open else "OK, but no DELETE"
                self._fail(f"{what} for {self._name(correlation_id)}")

    def take(self, message: Message) -> Asked | None:
        """Check a message of the archive; returns the request that it ends."""
        if isinstance(message, Ping):
            return None
        session_id = getattr(message, "control_session_id", None)
        self._script.require(session_id == self.session_id, f"{self._who} got a message of session {session_id}")
        if isinstance(message, ControlResponse):
            return self._answer(message)
        if isinstance(message, RecordingDescriptorMessage):
            return self._item(message.correlation_id, message, message.recording_id)
        if isinstance(message, RecordingSubscription):
            return self._item(message.correlation_id, message, message.subscription_id)
        if isinstance(message, RecordingSignalEvent):
            self._signal(message)
        return None

    def _answer(self, message: ControlResponse) -> Asked | None:
        correlation_id = message.correlation_id
        if correlation_id not in self._asked:
            return None  # of the connection
        asked = self._asked[correlation_id]
        text = f"{message.code.name} {message.relevant_id} {message.error_message}"
        if any(each in message.error_message for each in _IMPOSSIBLE):
            self._fail(f"{self._name(correlation_id)}: {text}")
        if correlation_id not in self._open:
            is_late_failure = (
                message.code is ResponseCode.ERROR
                and asked.code is ResponseCode.OK
                and asked.call.kind in _MAY_FAIL_LATER
            )
            self._script.require(
                is_late_failure, f"{self._who}: {self._name(correlation_id)} is answered again: {text}"
            )
            self.counts["late failures"] += 1
            return None
        if asked.is_list and message.code is ResponseCode.OK:
            self._fail(f"{self._name(correlation_id)} is a list, and was answered {text}")
        self._end(correlation_id, message.code, message.relevant_id)
        self.counts[message.code.name] += 1
        if message.code is ResponseCode.OK and asked.call.kind in DELETIONS and not asked.is_deleted:
            self._undeleted.add(correlation_id)
        return asked

    def _end(self, correlation_id: int, code: ResponseCode, relevant_id: int) -> None:
        asked = self._asked[correlation_id]
        asked.code, asked.relevant_id = code, relevant_id
        self._open.discard(correlation_id)
        if self._list == correlation_id:
            self._list = None

    def _item(self, correlation_id: int, message: Message, item_id: int) -> Asked | None:
        asked = self._asked.get(correlation_id)
        if asked is None or correlation_id not in self._open or asked.call.item is not type(message):
            self._fail(f"a {type(message).__name__} came for {self._name(correlation_id)}")
        if self._list not in (None, correlation_id):
            self._fail(f"{self._name(correlation_id)} begins within {self._name(self._list or 0)}")
        self._list = correlation_id
        if isinstance(message, RecordingDescriptorMessage) and item_id <= asked.last_item:
            self._fail(f"recording {item_id} follows {asked.last_item} in {self._name(correlation_id)}")
        asked.items += 1
        asked.last_item = item_id
        if asked.items < asked.call.limit:
            return None
        self._end(correlation_id, ResponseCode.OK, 0)
        return asked

    def _signal(self, message: RecordingSignalEvent) -> None:
        asked = self._asked.get(message.correlation_id)
        text = f"{message.signal.name} of recording {message.recording_id} at {message.position}"
        if asked is None:
            self._fail(f"{text} for a request of nobody")
        self.counts[message.signal.name] += 1
        last = asked.signals.get(message.recording_id)
        if message.signal is RecordingSignal.DELETE:
            is_due = asked.call.kind in (*DELETIONS, requests.MigrateSegments) and not asked.is_deleted
            if not is_due:
                self._fail(f"{text} for {self._name(message.correlation_id)}")
            asked.is_deleted = True
            self._undeleted.discard(message.correlation_id)
            return
        if asked.code is not ResponseCode.OK or asked.relevant_id != message.subscription_id:
            self._fail(f"{text}, subscription {message.subscription_id}, for {self._name(message.correlation_id)}")
        if message.signal is RecordingSignal.STOP:
            is_due = last is not None and last.signal is not RecordingSignal.STOP and last.position <= message.position
        elif message.signal is RecordingSignal.START:
            is_due = last is None and asked.call.kind is requests.StartRecording2
        else:
            # Before its end if it was truncated meanwhile.
            is_extended = asked.call.kind is requests.ExtendRecording2
            is_due = is_extended and (
                last is None or (last.signal is RecordingSignal.STOP and last.position >= message.position)
            )
        if not is_due:
            before = "nothing" if last is None else f"{last.signal.name} at {last.position}"
            self._fail(f"{text} follows {before}")
        asked.signals[message.recording_id] = message

    def _name(self, correlation_id: int) -> str:
        asked = self._asked.get(correlation_id)
        if asked is None:
            return f"request {correlation_id}"
        state = "open" if asked.code is None else asked.code.name
        return f"{asked.call.name}{asked.call.fields} ({correlation_id}, {state})"

    def _fail(self, text: str) -> NoReturn:
        self._script.fail(f"{self._who}: {text}")
