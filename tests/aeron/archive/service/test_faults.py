"""A live archive whose disk is full or broken, or whose folder is taken: recordings stop at their last good block,
their clients are told, and the service goes on for others."""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron.archive.client import AeronArchive, ArchiveError, ErrorCode, RecordingSignal
from everlog.aeron.archive.client.blocking.signals import SignalStream
from everlog.aeron.archive.opening import open_archive
from everlog.aeron.archive.service.embedded import EmbeddedArchive
from everlog.aeron.transport.client import Aeron, ExclusivePublication
from everlog.aeron.transport.client.counters_reader import CountersReader
from everlog.core.files.writable import LocalWritableStorage
from everlog.testing.storage.faulty_writes import FaultyWrites, WriteFaults
from everlog.time_units import NS_PER_S
from tests.aeron.archive.service.live_world import (
    IPC,
    SECONDS,
    SEGMENT,
    STREAMS,
    connected,
    launch,
    running_driver,
    until,
)

ALL = 1 << 40
BLOCK = b"x" * 1000
BEATS = 2
"""How often the archive's client beats again before its slow folder is open."""


@pytest.fixture(scope="module")
def driver() -> Iterator[str]:
    with running_driver() as folder:
        yield folder


class Recorded:
    """A stream that a client records."""

    def __init__(self, aeron: Aeron, archive: AeronArchive) -> None:
        self._archive = archive
        self.stream_id = next(STREAMS)
        self.signals: SignalStream = archive.recording_signals()
        self.subscription_id = archive.start_recording(IPC, self.stream_id)
        self.publication: ExclusivePublication = aeron.add_exclusive_publication(IPC, self.stream_id)
        started = self.take()
        assert started.signal is RecordingSignal.START
        self.recording_id = started.recording_id
        self.published: list[bytes] = []

    def take(self) -> Any:
        """The next signal of this recording."""
        while True:
            signal = self.signals.take(SECONDS)
            assert signal is not None, "a signal"
            if signal.subscription_id == self.subscription_id:
                return signal

    def publish(self, count: int = 10) -> int:
        """Publish, and wait until all is recorded; returns the position."""
        for _ in range(count):
            self.published.append(b"%d " % len(self.published) + BLOCK)
            self.publication.send(self.published[-1], timeout_s=SECONDS)
        position = self.publication.position
        until(lambda: self._archive.recording_position(self.recording_id) == position)
        return position

    def publish_in_vain(self) -> None:
        """Publish what can't be recorded."""
        self.publication.send(BLOCK, timeout_s=SECONDS)


class World:
    """A live archive on a disk that can fail, and its client."""

    def __init__(self, folder: Path, storage: FaultyWrites, running: EmbeddedArchive, aeron: Aeron) -> None:
        self.folder, self.storage, self.running, self.aeron = folder, storage, running, aeron
        self.archive = connected(aeron)

    def record(self) -> Recorded:
        return Recorded(self.aeron, self.archive)

    def fail(self, count: int = ALL, *operations: str, error: int = errno.ENOSPC, **more: Any) -> None:
        """Let the next operations of some kinds fail."""
        self.storage.operation_count = 0
        self.storage.faults = WriteFaults(fail_at=0, count=count, operations=frozenset(operations), error=error, **more)

    def work_again(self) -> None:
        self.storage.faults = WriteFaults()

    def error(self) -> ArchiveError:
        """The next error that answers no request."""
        deadline = time.monotonic() + SECONDS
        while (response := self.archive.poll_for_error_response()) is None:
            assert time.monotonic() < deadline, "an error"
            time.sleep(0.001)
        assert isinstance(response.error, ArchiveError)
        return response.error

    def error_count(self) -> int:
        return next(counter.value for counter in self.aeron.counters if counter.type_id == 101)

    def replayed(self, recording_id: int) -> list[bytes]:
        with self.archive.replay_messages(recording_id, IPC, next(STREAMS)) as replay:
            return [payload for payload, _ in replay]

    def check_others(self) -> None:
        """Another client records, replays and asks."""
        with connected(self.aeron) as other:
            recorded = Recorded(self.aeron, other)
            recorded.publish()
            assert self.replayed(recorded.recording_id) == recorded.published
            other.stop_recording_by_subscription(recorded.subscription_id)
            assert recorded.take().signal is RecordingSignal.STOP
            recorded.publication.close()


@contextmanager
def world_of(driver: str, folder: Path, **settings: Any) -> Iterator[World]:
    folder.mkdir()
    storage = FaultyWrites(LocalWritableStorage(folder))
    with launch(driver, folder, storage, **settings) as running, Aeron.connect(driver) as aeron:
        world = World(folder, storage, running, aeron)
        yield world
        assert running.is_running
        world.archive.close()


def stop_positions(folder: Path) -> dict[int, int | None]:
    """As they are after the archive is opened again."""
    with open_archive(folder, liveness_timeout_s=0) as archive:
        return {recording.recording_id: recording.stop_position for recording in archive.recordings()}


def replayed_offline(folder: Path, recording_id: int) -> tuple[int, list[bytes]]:
    """The end of a recording and its messages, after the archive is opened again."""
    with open_archive(folder, liveness_timeout_s=0) as archive, archive.replay(recording_id) as replay:
        return archive.stop_position(recording_id) or 0, [bytes(record.payload) for record in replay]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errno.ENOSPC, ErrorCode.STORAGE_SPACE),
        pytest.param(errno.EDQUOT, ErrorCode.STORAGE_SPACE, marks=pytest.mark.long),
        (errno.EIO, ErrorCode.GENERIC),
    ],
)
def test_a_write_that_fails_stops_its_recording_at_the_last_good_block(
    driver: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, error: int, code: ErrorCode
) -> None:
    with world_of(driver, tmp_path / "a") as world:
        failing, other = world.record(), world.record()
        good, _ = failing.publish(), other.publish()
        before = world.error_count()
        with caplog.at_level(logging.ERROR, "everlog.aeron.archive"):
            world.fail(1, "write", error=error)
            failing.publish_in_vain()
            found = world.error()
        assert (found.code, os.strerror(error).lower() in str(found)) == (code, True)
        stop = failing.take()
        assert (stop.signal, stop.position) == (RecordingSignal.STOP, good)
        assert world.error_count() > before
        assert os.strerror(error).lower() in caplog.text
        assert world.archive.stop_position(failing.recording_id) == good
        assert world.replayed(failing.recording_id) == failing.published
        other.publish()
        assert world.replayed(other.recording_id) == other.published
        world.check_others()
    assert stop_positions(tmp_path / "a")[failing.recording_id] == good


def test_on_a_full_disk_a_recording_stops_when_its_stop_position_can_be_written(driver: str, tmp_path: Path) -> None:
    """Not even the stop position can be written: STOP comes later, what was acknowledged stays, and the service goes
    on."""
    with world_of(driver, tmp_path / "a") as world:
        recorded = world.record()
        good = recorded.publish()
        world.fail(ALL, "write", "truncate", "publish")
        recorded.publish_in_vain()
        assert world.error().code is ErrorCode.STORAGE_SPACE
        with pytest.raises(ArchiveError):
            world.archive.update_channel(recorded.recording_id, "aeron:ipc?alias=other")
        assert [found.recording_id for found in world.archive.list_recordings()] == [recorded.recording_id]
        vain_stream = next(STREAMS)
        world.archive.start_recording(IPC, vain_stream)
        with world.aeron.add_exclusive_publication(IPC, vain_stream):
            assert world.error().code in (ErrorCode.STORAGE_SPACE, ErrorCode.GENERIC)
        assert world.archive.recording_position(recorded.recording_id) == good
        world.work_again()
        stopped = recorded.take()
        assert (stopped.signal, stopped.position) == (RecordingSignal.STOP, good)
        assert world.archive.stop_position(recorded.recording_id) == good
        assert world.replayed(recorded.recording_id) == recorded.published
        world.check_others()
    assert replayed_offline(tmp_path / "a", recorded.recording_id) == (good, recorded.published)


def test_a_sync_that_fails_stops_the_recording_where_all_was_synced(driver: str, tmp_path: Path) -> None:
    with world_of(driver, tmp_path / "a", file_sync_level=1, catalog_file_sync_level=1) as world:
        recorded = world.record()
        good = recorded.publish()
        world.fail(1, "sync", error=errno.EIO)
        recorded.publish_in_vain()
        assert world.error().code is ErrorCode.GENERIC
        assert recorded.take().position == good
        assert world.archive.max_recorded_position(recorded.recording_id) == good
        world.check_others()
    assert stop_positions(tmp_path / "a")[recorded.recording_id] == good


@pytest.mark.parametrize("operation", ["open", pytest.param("truncate", marks=pytest.mark.long)])
def test_a_recording_that_gets_no_next_file_stops_at_the_end_of_the_last_one(
    driver: str, tmp_path: Path, operation: str
) -> None:
    with world_of(driver, tmp_path / "a") as world:
        recorded = world.record()
        world.fail(ALL, operation)
        for _ in range(SEGMENT // len(BLOCK) + 10):
            recorded.publication.send(BLOCK, timeout_s=SECONDS)
        until(lambda: world.archive.recording_position(recorded.recording_id) is None)
        world.work_again()
        assert world.error().code is ErrorCode.STORAGE_SPACE
        stop = recorded.take()
        assert (stop.signal, stop.position) == (RecordingSignal.STOP, SEGMENT)
        assert len(world.replayed(recorded.recording_id)) == 2 * ((64 << 10) // 1056)
        world.check_others()
    assert stop_positions(tmp_path / "a")[recorded.recording_id] == SEGMENT


def test_a_stream_that_cannot_be_cataloged_is_not_recorded_and_its_client_is_told(driver: str, tmp_path: Path) -> None:
    with world_of(driver, tmp_path / "a") as world:
        world.fail(1, "write")
        stream_id = next(STREAMS)
        world.archive.start_recording(IPC, stream_id)
        with world.aeron.add_exclusive_publication(IPC, stream_id):
            assert "no space left" in str(world.error())
        assert list(world.archive.list_recordings()) == []
        world.check_others()


def test_a_folder_that_another_owner_takes_is_written_no_more(driver: str, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    with world_of(driver, folder) as world:
        recorded = world.record()
        good = recorded.publish()
        (folder / "archive-mark.dat").rename(folder / "taken")
        (folder / "archive-mark.dat").write_bytes((folder / "taken").read_bytes())
        catalog = (folder / "archive.catalog").read_bytes()
        until(lambda: world.error_count() > 0 or recorded.publication.offer(BLOCK) == 0)
        found = world.error()
        assert "has another owner" in str(found)
        for write in (
            lambda: world.archive.update_channel(recorded.recording_id, "aeron:ipc?alias=other"),
            lambda: world.archive.purge_recording(recorded.recording_id),
            lambda: world.archive.truncate_recording(recorded.recording_id, 0),
        ):
            with pytest.raises(ArchiveError, match="has another owner"):
                write()
        assert [found.recording_id for found in world.archive.list_recordings()] == [recorded.recording_id]
        with connected(world.aeron) as other:
            assert other.start_position(recorded.recording_id) == 0
    assert (folder / "archive.catalog").read_bytes() == catalog
    (folder / "taken").unlink()
    stop, messages = replayed_offline(folder, recorded.recording_id)
    assert stop >= good
    assert messages[: len(recorded.published)] == recorded.published


class SlowStorage(LocalWritableStorage):
    """A disk on which it takes long to find out what is in a folder: until the archive's client has given its driver
    further signs of life."""

    def __init__(self, folder: Path, counters: CountersReader) -> None:
        super().__init__(folder)
        self._counters = counters
        self.beats: list[int] = []
        """The heartbeats that were seen, in milliseconds since 1970."""

    def names(self, folder: str = "") -> list[str]:
        until(lambda: self._look() > BEATS)
        return super().names(folder)

    def _look(self) -> int:
        counter = next(one for one in self._counters if "name=archive" in one.label)
        if counter.value not in self.beats:
            self.beats.append(counter.value)
        return len(self.beats)


def test_a_folder_that_takes_long_to_open_does_not_cost_the_service_its_driver(tmp_path: Path) -> None:
    """A driver gives up a client that shows no sign of life while it recovers a large archive."""
    folder = tmp_path / "a"
    folder.mkdir()
    liveness = {"client_liveness_timeout_ns": 8 * NS_PER_S, "publication_unblock_timeout_ns": 16 * NS_PER_S}
    with running_driver(**liveness) as driver, Aeron.connect(driver) as aeron:
        storage = SlowStorage(folder, aeron.counters)
        with launch(driver, folder, storage) as running, connected(aeron) as archive:
            assert archive.archive_id == running.archive_id
    assert len(storage.beats) > BEATS
