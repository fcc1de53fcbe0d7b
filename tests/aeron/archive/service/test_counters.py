"""The counters that an archive has once."""

from __future__ import annotations

from typing import Any

import pytest

from everlog.aeron.archive.service.counters import (
    ARCHIVE_ERRORS_TYPE_ID,
    ArchiveCounters,
    CycleThresholds,
    CycleTime,
    Level,
    TransferTimes,
    recording_position_key,
)
from everlog.aeron.transport.client import Aeron
from tests.aeron.archive.client.scripted_archive import in_process_driver

MS = 1_000_000
OWN_TYPES = range(101, 113)


class Counted:
    """A counter that keeps all values that it was set to."""

    def __init__(self) -> None:
        self.is_closed = False
        self.values: list[int] = []

    @property
    def value(self) -> int:
        return self.values[-1] if self.values else 0

    @value.setter
    def value(self, value: int) -> None:
        assert not self.is_closed
        self.values.append(value)


def counted(number: int) -> list[Any]:
    return [Counted() for _ in range(number)]


def test_the_longest_cycle_and_those_above_the_threshold_are_counted() -> None:
    longest, exceeded = counted(2)
    cycle = CycleTime(longest, exceeded, 100 * MS)
    for now_ns in (5_000 * MS, 5_001 * MS, 5_101 * MS, 5_202 * MS, 5_203 * MS, 5_403 * MS):
        cycle.measure(now_ns)
    assert longest.values == [1 * MS, 100 * MS, 101 * MS, 200 * MS]
    assert exceeded.values == [1, 2]


def test_a_pause_between_cycles_does_not_count_but_the_cycle_before_it_does() -> None:
    longest, exceeded = counted(2)
    cycle = CycleTime(longest, exceeded, 100 * MS)
    cycle.measure(1_000 * MS)
    cycle.pause(1_150 * MS)
    cycle.pause(9_000 * MS)
    cycle.measure(20_000 * MS)
    cycle.measure(20_010 * MS)
    assert (longest.values, exceeded.values) == ([150 * MS], [1])


def test_transfers_are_summed_and_shown_once_a_cycle() -> None:
    longest, total_bytes, total_time = counters = counted(3)
    times = TransferTimes(*counters, clock_ns=lambda: 0)
    times.publish()
    assert [counter.values for counter in counters] == [[], [], []]
    times.add(64, 10)
    times.add(32, 4)
    times.publish()
    times.publish()
    assert (longest.values, total_bytes.values, total_time.values) == ([10], [96], [14])


def test_a_level_is_set_when_it_changes() -> None:
    (counter,) = counted(1)
    level = Level(counter)
    for value in (0, 1, 1, 2, 0):
        level.show(value)
    assert counter.values == [1, 2, 0]


def test_counters_of_a_driver_that_has_ended_are_left_alone() -> None:
    counters = counted(3)
    for counter in counters:
        counter.is_closed = True
    Level(counters[0]).show(1)
    cycle = CycleTime(counters[0], counters[1], 0)
    cycle.measure(1)
    cycle.measure(2)
    times = TransferTimes(*counters, clock_ns=lambda: 0)
    times.add(1, 1)
    times.publish()
    assert [counter.values for counter in counters] == [[], [], []]


def test_all_are_there_until_they_are_closed() -> None:
    with in_process_driver() as driver, Aeron.connect(driver.dir) as aeron:
        counters = ArchiveCounters(aeron, 4_711, CycleThresholds(250 * MS, MS, MS))
        found = {counter.type_id: counter for counter in aeron.counters if counter.type_id in OWN_TYPES}
        assert [*sorted(found)] == [*OWN_TYPES]
        assert {counter.key[:8] for counter in found.values()} == {(4_711).to_bytes(8, "little")}
        labels = {type_id: counter.label for type_id, counter in found.items()}
        assert labels[103] == "archive-conductor max cycle time in ns: SHARED - archiveId=4711"
        assert labels[104] == (
            "archive-conductor work cycle time exceeded count: threshold=250ms SHARED - archiveId=4711"
        )
        assert labels[109] == "archive-replayer total read bytes - archiveId=4711"
        counters.count_error()
        assert aeron.counters.value(found[ARCHIVE_ERRORS_TYPE_ID].counter_id) == 1
        counters.close()
        counters.close()
        assert aeron.wait_until(lambda: not [each for each in aeron.counters if each.type_id in OWN_TYPES])
        counters.count_error()


def test_recorder_and_replayer_have_cycles_of_their_own_in_threads_of_their_own() -> None:
    with in_process_driver() as driver, Aeron.connect(driver.dir) as aeron:
        thresholds = CycleThresholds(1_000 * MS, 2 * MS, 3 * MS)
        counters = ArchiveCounters(aeron, 5, thresholds, threading_mode="DEDICATED")
        labels = [counter.label for counter in aeron.counters if counter.type_id in (103, 104)]
        assert labels == [
            "archive-conductor max cycle time in ns: DEDICATED - archiveId=5",
            "archive-conductor work cycle time exceeded count: threshold=1s DEDICATED - archiveId=5",
            "archive-recorder max cycle time in ns: DEDICATED - archiveId=5",
            "archive-recorder work cycle time exceeded count: threshold=2ms DEDICATED - archiveId=5",
            "archive-replayer max cycle time in ns: DEDICATED - archiveId=5",
            "archive-replayer work cycle time exceeded count: threshold=3ms DEDICATED - archiveId=5",
        ]
        counters.close()


@pytest.mark.parametrize("source", ["aeron:ipc", "127.0.0.1:40123", "x" * 200])
def test_the_key_of_a_recordings_position_has_the_archives_id_right_behind_the_source(source: str) -> None:
    key = recording_position_key(7, -5, source, 4_711)
    length = min(len(source), 112 - 24)
    assert key == (
        (7).to_bytes(8, "little")
        + (-5).to_bytes(4, "little", signed=True)
        + length.to_bytes(4, "little")
        + source[:length].encode()
        + (4_711).to_bytes(8, "little")
    )
    assert len(key) <= 112
