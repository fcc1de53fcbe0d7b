"""Every write, sync, truncation, opening, publication and removal of an archive fails once, and for a while: what was
acknowledged is there, what was refused is not read, and work goes on when the disk is whole again."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest
from recorded import CHANNEL, MTU, STREAM, Ledgers, faults, opened, payload, quiet, recordings

from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.recorder import Recorder
from everlog.core.writable import WritableStorage
from everlog.errors import EverlogError, UsageError, WriteFailed
from everlog.testing.crashing_storage import CrashingStorage
from everlog.testing.faulty_writes import FaultyWrites, WriteFaults


class Application:
    """What records, and does not give up: after an error it goes on with the same recorder if that works, else it stops
    and extends, else it opens the archive anew. ``refused`` are the payloads of appends that raised."""

    def __init__(self, storage: WritableStorage, ledgers: Ledgers, *, mtu_length: int = MTU, **options: Any) -> None:
        self.storage = storage
        self.ledgers = ledgers
        self.options = options
        self.mtu_length = mtu_length
        self.refused: list[bytes] = []
        self._archive: Archive | None = None
        self.recorder: Recorder | None = None
        self.recording_id = -1

    def tried(self, call: Callable[[], Any]) -> Any:
        """What a call returns; ``None`` where it raised."""
        try:
            return call()
        except EverlogError as error:
            self.ledgers.errors.append(error)
            return None

    def until_it_works(self, call: Callable[[], Any]) -> Any:
        for _ in range(50):
            found = self.tried(call)
            if found is not None:
                return found
        raise AssertionError(f"it never works again: {self.ledgers.errors[-1]}")

    @property
    def archive(self) -> Archive:
        if self._archive is None:
            self._archive = self.until_it_works(lambda: opened(self.storage, **self.options))
        return self._archive

    def start(self) -> None:
        mtu_length = self.mtu_length
        self.recorder = self.until_it_works(
            lambda: self.archive.start_recording(CHANNEL, STREAM, mtu_length=mtu_length)
        )
        self.recording_id = self.recorder.recording_id

    def stop(self) -> None:
        assert self.recorder is not None
        self.tried(self.recorder.stop)
        self.recorder = None

    def extend(self) -> None:
        for _ in range(50):
            try:
                self.recorder = self.archive.extend_recording(self.recording_id, session_id=-77)
                return
            except WriteFailed as error:
                self.ledgers.errors.append(error)
            except UsageError as error:
                if error.found != "an active recording":
                    raise
                self.close()  # its stop position could not be written: recovery does it
        raise AssertionError(f"it can't be extended any more: {self.ledgers.errors[-1]}")

    def close(self) -> None:
        if self._archive is not None:
            self.tried(self._archive.close)
        self._archive = self.recorder = None

    def go_on(self) -> None:
        """After an error."""
        assert self.recorder is not None
        if self.tried(self.recorder.flush) is None:
            self.stop()
            self.extend()

    def append(self, message: bytes) -> None:
        if not self.ledgers.of(self.recording_id).append(self.recorder, message):
            self.refused.append(message)
            self.go_on()

    def append_many(self, messages: list[bytes]) -> None:
        ledger = self.ledgers.of(self.recording_id)
        if not ledger.append_many(self.recorder, messages):
            self.refused += messages[getattr(ledger.errors[-1], "appended", 0) :]
            self.go_on()

    def offer(self, messages: list[bytes]) -> None:
        """Offered, and flushed: those before the recorded position are acknowledged."""
        assert self.recorder is not None
        ledger, places = self.ledgers.of(self.recording_id), []
        try:
            for message in messages:
                ledger.give(message)
                places.append((self.recorder.offer(message), message))
            self.recorder.flush()
        except EverlogError as error:
            ledger.errors.append(error)
            self.go_on()
            return
        for position, message in places:
            assert position <= self.recorder.recorded_position
            ledger.acknowledge(message)


def numbers(first: int, count: int) -> list[bytes]:
    return [payload(number, 350) for number in range(first, first + count)]


def recording(app: Application) -> None:
    """Everything that records, over several segments."""
    app.start()
    for message in numbers(0, 26):
        app.append(message)
    app.append_many(numbers(26, 30))
    app.offer(numbers(56, 12))
    app.append(payload(68))
    app.offer(numbers(69, 30))
    app.tried(app.recorder.sync)  # type: ignore[union-attr]
    app.append(payload(99))
    app.stop()


def extending(app: Application) -> None:
    """Stopped and extended, with the archive open and opened anew; a second recording beside."""
    app.start()
    app.append_many(numbers(0, 10))
    app.stop()
    app.extend()
    app.append(payload(10))
    app.stop()
    app.close()
    app.extend()
    app.append_many(numbers(11, 20))
    first, app.recorder = app.recorder, None
    app.start()
    app.append(payload(1000))
    app.tried(first.stop)  # type: ignore[union-attr]
    app.append(payload(1001))
    app.stop()


def left_active(app: Application) -> None:
    """Recovered, as its process died."""
    app.start()
    app.append_many(numbers(0, 30))
    archive = app.archive
    for recorder in list(archive._recorders.values()):
        recorder.abandon()
    app.close()
    app.extend()
    app.append(payload(30))


FRAMES: dict[int, dict[str, Any]] = {1: {}, 4: {"checksum": "crc32c", "mtu_length": 8 << 10}}
"""Where even what failed can't be cut away, a checksum tells it from what was written; messages have one frame."""
SCENARIOS = {"recording": recording, "extending": extending, "left active": left_active}


def check(storage: CrashingStorage, app: Application, context: str) -> None:
    """Who opens the archive next can go on, and a fresh reader finds what was acknowledged, whole and in order."""
    with opened(storage, **app.options) as archive:
        for recording_id, ledger in app.ledgers.ledgers.items():
            assert archive.recording(recording_id).stop_position is not None, context
            with archive.extend_recording(recording_id) as recorder:
                assert ledger.append(recorder, b"after all of it"), context
    assert app.ledgers.complaints(recordings(storage)) == [], context
    assert faults(storage) == [], context
    assert [name for name in storage.names() if name.startswith(".everlog")] == [], context


def not_read(app: Application, storage: CrashingStorage) -> list[bytes]:
    """Of what was refused, what is read nevertheless."""
    found = {message for messages in recordings(storage).values() for message in messages}
    return [message for message in app.refused if message in found]


@pytest.mark.parametrize("count", [1, 4], ids=["once", "for a while"])
@pytest.mark.parametrize("durability", ["written", "synced"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_whatever_fails_nothing_acknowledged_is_lost_and_nothing_is_in_the_way(
    name: str, durability: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet(monkeypatch)
    fail_at = swallowed = 0
    while True:
        inner = CrashingStorage()
        error = (errno.ENOSPC, errno.EIO)[fail_at % 2]
        part = (None, 0, 1, 17)[fail_at % 4]
        storage = FaultyWrites(inner, WriteFaults(fail_at=fail_at, count=count, error=error, part_bytes=part))
        app = Application(storage, Ledgers(), durability=durability, flush_interval_s=3600, **FRAMES[count])
        SCENARIOS[name](app)
        app.close()
        if not storage.failed:
            break
        context = f"{name}, {durability}, operation {fail_at} ({', '.join(storage.failed)}) failed"
        for raised in app.ledgers.all_errors:
            assert isinstance(raised, WriteFailed), f"{context}: {raised!r}"
            assert raised.found == os.strerror(error).lower(), f"{context}: {raised}"
            assert raised.where, context
        swallowed += not app.ledgers.all_errors
        check(inner, app, context)
        if not any(failed.startswith("sync") for failed in storage.failed):
            assert not_read(app, inner) == [], context
        fail_at += 1
    assert app.ledgers.all_errors == []
    check(inner, app, name)
    assert fail_at > 40
    assert swallowed < fail_at / 2, f"{swallowed} of {fail_at}"  # most faults reach the caller
