"""Signals and errors that answer nothing: who gets them, and how many wait."""

from __future__ import annotations

import pytest

from everlog.aeron.archive.client.connection import inbox as module
from everlog.aeron.archive.client.connection.inbox import Inbox
from everlog.aeron.archive.client.values import ErrorResponse
from everlog.aeron.archive.protocol.responses import RecordingSignalEvent
from everlog.aeron.archive.recording.events import RecordingSignal
from everlog.aeron.archive.recording.refusals import ArchiveError
from everlog.errors import LimitExceeded

SIGNAL = RecordingSignalEvent(1, 2, 3, 4, 64, RecordingSignal.STOP)


def error(correlation_id: int) -> ErrorResponse:
    return ErrorResponse(correlation_id, ArchiveError("test"))


def test_each_queue_has_the_signals_since_it_was_opened() -> None:
    inbox = Inbox(None, None)
    first = inbox.open_queue()
    inbox.put_signal(SIGNAL)
    second = inbox.open_queue()
    inbox.put_signal(SIGNAL)
    inbox.close_queue(second)
    inbox.put_signal(SIGNAL)
    assert [queue.take() for queue in (first, first, first, first)] == [SIGNAL, SIGNAL, SIGNAL, None]
    assert [second.take(), second.take()] == [SIGNAL, None]
    inbox.close_queue(second)


def test_a_queue_that_nobody_reads_is_full_at_last_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 3)
    inbox = Inbox(None, None)
    queue = inbox.open_queue()
    for _ in range(5):
        inbox.put_signal(SIGNAL)
    assert [queue.take() for _ in range(3)] == [SIGNAL] * 3
    with pytest.raises(LimitExceeded):
        queue.take()


def test_an_error_goes_to_the_replay_that_watches_for_it_and_only_there() -> None:
    seen: list[ErrorResponse] = []
    inbox = Inbox(None, seen.append)
    inbox.watch(5)
    inbox.put_error(error(5))
    inbox.put_error(error(6))
    found = inbox.watched(5)
    assert found is not None
    assert found.correlation_id == 5
    assert [each.correlation_id for each in seen] == [6]
    inbox.unwatch(5)
    inbox.unwatch(5)
    inbox.put_error(error(5))
    assert [each.correlation_id for each in seen] == [6, 5]


def test_without_a_handler_errors_wait() -> None:
    inbox = Inbox(None, None)
    inbox.put_error(error(5))
    assert [each.correlation_id for each in inbox.errors] == [5]
