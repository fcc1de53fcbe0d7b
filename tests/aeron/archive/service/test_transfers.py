"""Recorder and replayer in threads of their own."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.aeron import archive as archives
from everlog.aeron.archive.client import ReplayParams
from everlog.aeron.archive.recording.refusals import ArchiveError
from everlog.aeron.archive.service.counters import CycleTime
from everlog.aeron.archive.service.embedded import EmbeddedArchive
from everlog.aeron.archive.service.transfers import Transfers
from everlog.aeron.transport.client import Aeron
from everlog.aeron.transport.driver.running_driver import RunningDriver
from everlog.runtime.quiet import BUSY, FOREVER
from tests.aeron.archive.client.scripted_archive import in_process_driver
from tests.aeron.archive.service.served import CHANNEL, CONTROL, connect, record, settings, until

THREADS = {"archive-conductor", "archive-recorder", "archive-replayer"}


@pytest.fixture(scope="module")
def driver() -> Iterator[RunningDriver]:
    with in_process_driver() as running:
        yield running


def dedicated(**other: Any) -> Any:
    return settings(threading_mode="DEDICATED", **other)


def running_threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()} & THREADS


class Given:
    """A session that says how much it has done."""

    def __init__(self, done: int) -> None:
        self.done = done
        self.times = 0

    def transfer(self) -> int:
        self.times += 1
        return self.done


class Number:
    """A counter."""

    is_closed = False
    value = 0


def test_each_session_is_transferred_once_in_a_cycle_from_its_addition_to_its_removal() -> None:
    longest, exceeded = Number(), Number()
    transfers = Transfers(CycleTime(longest, exceeded, 50), lambda: 0)  # type: ignore[arg-type]
    first, second = Given(3), Given(4)
    assert transfers.do_work(0) == 0
    transfers.add(first)
    transfers.add(second)
    assert transfers.do_work(10) == 7
    transfers.remove(first)
    assert transfers.do_work(100) == 4
    transfers.close()
    assert transfers.do_work(110) == 0
    assert (first.times, second.times) == (1, 2)
    assert (longest.value, exceeded.value) == (90, 1)


def test_without_sessions_it_rests_until_one_is_added() -> None:
    longest, exceeded = Number(), Number()
    transfers = Transfers(CycleTime(longest, exceeded, 50), lambda: 30)  # type: ignore[arg-type]
    ((memory, one, _, other),) = transfers.words
    transfers.do_work(0)
    assert transfers.quiet_until() == FOREVER
    assert memory.get_i64(one) == memory.get_i64(other)
    session = Given(1)
    transfers.add(session)
    assert memory.get_i64(one) != memory.get_i64(other)
    assert transfers.do_work(1_000_000) == 1
    assert transfers.quiet_until() == BUSY
    transfers.remove(session)
    assert transfers.quiet_until() == FOREVER
    assert (longest.value, exceeded.value) == (30, 0)  # the rest was no long cycle


def test_three_threads_serve_and_end(driver: RunningDriver, tmp_path: Path) -> None:
    assert not running_threads()
    with EmbeddedArchive(tmp_path / "shared", settings(), driver_folder=driver.dir):
        assert running_threads() == {"archive-conductor"}
    chosen = dedicated(recorder_idle_strategy="sleep-ms", replayer_idle_strategy="yield")
    with EmbeddedArchive(tmp_path, chosen, driver_folder=driver.dir):
        assert running_threads() == THREADS
        with connect(driver.dir) as client:
            payloads = [os.urandom(1000) for _ in range(300)]  # over several segments
            end = record(client, payloads)
            with client.replay_messages(0, CONTROL, 4000, ReplayParams(length=end)) as messages:
                assert [payload for payload, _ in messages] == payloads
    assert not running_threads()
    with archives.open_archive(tmp_path) as closed:  # the recording was going on: its stop position was written
        assert closed.recovered == []
        assert closed.stop_position(0) == end


def test_many_streams_are_recorded_and_replayed_while_others_end(driver: RunningDriver, tmp_path: Path) -> None:
    chosen = dedicated(recording_events_channel=CHANNEL)
    with EmbeddedArchive(tmp_path, chosen, driver_folder=driver.dir), connect(driver.dir) as client:
        for stream_id in range(2000, 2010):
            payloads = [b"%d.%d" % (stream_id, number) for number in range(50)]
            publication = client.add_recorded_exclusive_publication(CHANNEL, stream_id)
            until(lambda at=publication: at.is_connected)  # type: ignore[misc]
            for payload in payloads:
                end = publication.send(payload)
            (recording_id,) = [each.recording_id for each in client.list_recordings_for_uri("ipc", stream_id)]
            until(lambda number=recording_id, at=end: client.recording_position(number) == at)  # type: ignore[misc]
            params = ReplayParams(length=end)
            with client.replay_messages(recording_id, CONTROL, 4000, params) as messages:
                assert [payload for payload, _ in messages] == payloads
            if stream_id % 2:
                client.stop_recording_of(publication)
                until(lambda number=recording_id: client.stop_position(number) is not None)  # type: ignore[misc]
            publication.close()
        until(lambda: all(each.stop_position is not None for each in client.list_recordings()))


def test_a_replay_that_fails_tells_its_client(driver: RunningDriver, tmp_path: Path) -> None:
    with EmbeddedArchive(tmp_path, dedicated(), driver_folder=driver.dir), connect(driver.dir) as client:
        end = record(client, [bytes([number]) * 992 for number in range(4)])
        with open(tmp_path / "0-0.rec", "r+b") as file:
            file.seek(2048)
            file.write(bytes(32))
        with client.replay_messages(0, CONTROL, 4000, ReplayParams(length=end)) as messages:
            found = iter(messages)
            assert [next(found)[0][0], next(found)[0][0]] == [0, 1]
            with pytest.raises(ArchiveError, match="unexpected end of recording at position=2048"):
                next(found)
        assert client.recording_position(0) == end


def test_a_driver_that_ends_ends_all_threads_and_nothing_is_lost(tmp_path: Path) -> None:
    with in_process_driver() as driver:
        running = EmbeddedArchive(tmp_path, dedicated(), driver_folder=driver.dir)
        client = connect(driver.dir)
        end = record(client, [b"one", b"two"])
    assert running.wait(20)
    client.close()
    running.close()
    until(lambda: not running_threads())
    with everlog.open_store(tmp_path) as store:
        assert next(iter(store.streams())).details["stop_position"] is None
    with archives.open_archive(tmp_path, liveness_timeout_s=0) as again:
        assert again.stop_position(0) == end


def test_agents_have_cycle_counters_of_their_own(driver: RunningDriver, tmp_path: Path) -> None:
    with (
        EmbeddedArchive(tmp_path, dedicated(archive_id=9), driver_folder=driver.dir),
        Aeron.connect(driver.dir) as aeron,
    ):
        cycles = {each.label.split()[0]: each.counter_id for each in aeron.counters if each.type_id == 103}
        assert set(cycles) == THREADS
        until(lambda: all(aeron.counters.value(number) > 0 for number in cycles.values()))
