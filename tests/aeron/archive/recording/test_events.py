"""Events of recordings, for listeners and iterators."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.recording.events import (
    Event,
    RecordingProgress,
    RecordingSignal,
    RecordingStarted,
    RecordingStopped,
    SignalEvent,
)
from everlog.errors import (
    Closed,
)
from tests.aeron.archive.recorded import CHANNEL, STREAM

# Events


def test_listeners_are_told_what_happens_as_it_does(store: Archive) -> None:
    told: list[Event] = []
    end = store.listen(told.append)
    recorder = store.start_recording(CHANNEL, STREAM)
    recorder.append(b"x")
    recorder.append_many([b"y", b"z"])
    recorder.offer(b"o")
    recorder.sync()
    recorder.stop()
    store.extend_recording(0, session_id=4).stop()
    end()
    store.extend_recording(0).stop()
    assert told == [
        RecordingStarted(0, 0, -99, STREAM, CHANNEL, "aeron:ipc"),
        SignalEvent(0, 0, RecordingSignal.START),
        RecordingProgress(0, 0, 64),
        RecordingProgress(0, 0, 192),
        RecordingProgress(0, 0, 256),
        RecordingStopped(0, 0, 256),
        SignalEvent(0, 256, RecordingSignal.STOP),
        RecordingStarted(0, 0, 4, STREAM, "aeron:ipc?term-length=64k", "aeron:ipc"),
        SignalEvent(0, 256, RecordingSignal.EXTEND),
        RecordingStopped(0, 0, 256),
        SignalEvent(0, 256, RecordingSignal.STOP),
    ]


def test_events_as_an_iterator_join_progress_that_nobody_has_taken(store: Archive) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    with store.events() as events:
        for _ in range(10):
            recorder.append(b"x")
        assert events.take(5) == RecordingProgress(0, 0, 640)
        assert events.take(0.01) is None
        recorder.append(b"x")
        recorder.stop()
        store.close()
        assert list(events) == [
            RecordingProgress(0, 0, 704),
            RecordingStopped(0, 0, 704),
            SignalEvent(0, 704, RecordingSignal.STOP),
        ]
        assert events.take() is None


def test_a_listener_that_fails_or_calls_back_does_no_harm(store: Archive, caplog: pytest.LogCaptureFixture) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)

    def fail(event: Event) -> None:
        raise ValueError("a listener's own fault")

    def call_back(event: Event) -> None:
        if isinstance(event, RecordingStopped):
            assert recorder.stop() == 64
            store.extend_recording(event.recording_id)

    store.listen(fail)
    store.listen(call_back)
    recorder.append(b"x")
    recorder.stop()
    assert store.stop_position(0) is None  # extended by the listener
    assert "a listener failed" in caplog.text


def test_nobody_waits_for_events_of_a_closed_archive(store: Archive) -> None:
    events = store.events()
    waiting = threading.Thread(target=lambda: list(events))
    waiting.start()
    store.close()
    waiting.join(20)
    assert not waiting.is_alive()
    with pytest.raises(Closed, match="archive is closed"):
        store.events()


def test_streams_of_events_that_were_closed_are_let_go(store: Archive) -> None:
    kept = store.events()
    with store.events() as events:
        gone = weakref.ref(events)
    del events
    gc.collect()
    assert gone() is None
    store.close()
    assert list(kept) == []
