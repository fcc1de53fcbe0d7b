"""A power cut, and the death of the process, after every single operation: what was acknowledged is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from everlog import nats_streaming
from everlog.core.files.storage import Storage
from everlog.core.files.writable import WritableStorage
from everlog.errors import CorruptData, UnknownStream
from everlog.nats_streaming.store import NatsStreamingStore
from everlog.testing.series import Series
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.ledger import Ledger
from everlog.testing.storage.moments import moments

POWER_CUTS = 12
"""At each moment, each with a seed of its own."""
Scenario = Callable[[WritableStorage, Ledger], None]


def read(storage: Storage) -> list[bytes]:
    """All messages, past what is torn."""
    with NatsStreamingStore.open(storage, {}) as store:
        try:
            return [record.payload for record in store.read("foo", on_fault=lambda fault: None)]
        except UnknownStream:
            return []


def faults(storage: Storage) -> list[str]:
    with NatsStreamingStore.open(storage, {}) as store:
        return [str(fault) for fault in store.verify().faults if fault.severity.value == "fault"]


def payload(number: int, size: int = 100) -> bytes:
    """Sizes around those of sectors and pages."""
    return b"message %d." % number + bytes([97 + number % 26]) * (size * (1, 4, 2, 60)[number % 4])


def appends(durability: str, **options: Any) -> Scenario:
    def scenario(storage: WritableStorage, ledger: Ledger) -> None:
        with nats_streaming.open_channel(storage, "foo", durability=durability, **options) as writer:
            for number in range(6):
                ledger.append(writer, payload(number))
            ledger.append_many(writer, [payload(number) for number in range(6, 14)])
            ledger.append(writer, payload(14))
        with nats_streaming.open_channel(storage, "foo", durability=durability, **options) as writer:
            ledger.append_many(writer, [payload(number) for number in range(15, 19)])

    return scenario


def seeds(moment: str) -> range:
    number = int(moment.split(":")[0])
    return range(number * POWER_CUTS, (number + 1) * POWER_CUTS)


def goes_on(storage: CrashingStorage, ledger: Ledger, context: str, **options: Any) -> Ledger:
    """A next writer appends, and is acknowledged with the sequence after the last message."""
    ledger = ledger.copy()
    before = len(read(storage))
    with nats_streaming.open_channel(storage, "foo", **options) as writer:
        sequence = writer.last_sequence
        assert sequence >= before, context
        assert ledger.append(writer, b"after the crash"), context
        assert writer.last_sequence == sequence + 1, context
    return ledger


def all_there(storage: Storage, ledger: Ledger, context: str) -> None:
    """No message is lost, invented or twice, sequences have no gap, and verify finds nothing."""
    assert ledger.complaints(read(storage)) == [], context
    assert faults(storage) == [], context


@pytest.mark.parametrize("durability", ["written", "synced"])
@pytest.mark.parametrize("options", [{}, {"slice_max_msgs": 3}, {"slice_max_bytes": 2000}], ids=str)
def test_after_the_death_of_the_process_every_acknowledged_message_is_there(
    durability: str, options: dict[str, Any], series: Series
) -> None:
    for moment, killed, ledger in series.points(moments(CrashingStorage(), appends(durability, **options))):
        context = f"{durability}, killed after operation {moment}"
        assert ledger.complaints(read(killed)) == [], context
        after = goes_on(killed, ledger, context, **options)
        all_there(killed, after, context)


@pytest.mark.parametrize("options", [{}, {"slice_max_msgs": 3}, {"slice_max_bytes": 2000}], ids=str)
def test_after_a_power_cut_every_synced_message_is_there(options: dict[str, Any], series: Series) -> None:
    for moment, killed, ledger in series.points(moments(CrashingStorage(), appends("synced", **options))):
        for seed in seeds(moment):
            context = f"power cut after operation {moment}, seed {seed}"
            storage = killed.crash(seed)
            after = goes_on(storage, ledger, context, durability="synced", **options)
            all_there(storage, after, context)
            again = storage.crash(seed)
            assert after.complaints(read(again)) == [], f"{context}, and again after the next writer"


def test_who_recovers_after_a_power_cut_may_die_in_it_too(series: Series) -> None:
    for first, killed, ledger in series.points(moments(CrashingStorage(), appends("synced"))):
        storage = killed.crash(seeds(first).start)

        def recover(storage: WritableStorage, _: Ledger) -> None:
            nats_streaming.open_channel(storage, "foo", durability="synced").close()

        for second, again, _ in series.points(moments(storage, recover)):
            for seed in (seeds(second).start, seeds(second).stop):
                context = f"power cut after operation {first}, and again after {second}, seed {seed}"
                twice = again.crash(seed)
                after = goes_on(twice, ledger, context, durability="synced")
                all_there(twice, after, context)


def test_limits_drop_the_oldest_only_whenever_the_power_fails(series: Series) -> None:
    """Dropped messages may come back, those within the limits never go."""
    limits, everything = {"max_msgs": 4, "slice_max_msgs": 2}, [payload(number) for number in range(19)]
    for moment, killed, ledger in series.points(moments(CrashingStorage(), appends("synced", **limits))):
        for seed in seeds(moment):
            context = f"power cut after operation {moment}, seed {seed}"
            storage = killed.crash(seed)
            after = goes_on(storage, ledger, context, durability="synced", **limits)
            *found, last = read(storage)
            assert last == b"after the crash", context
            end = everything.index(found[-1]) + 1 if found else 0
            assert found == everything[end - len(found) : end], context
            assert end >= len(ledger.acknowledged), context
            assert len(found) >= min(end, 3), context
            assert after.complaints([*found, last], must_hold=False) == [], context
            assert faults(storage) == [], context


def test_what_was_appended_before_a_sync_survives_a_power_cut(series: Series) -> None:
    storage, ledger = CrashingStorage(), Ledger()
    with nats_streaming.open_channel(storage, "foo", durability="written", slice_max_msgs=6) as writer:
        for number in range(20):
            ledger.append(writer, payload(number))
            if number % 7 == 0:
                writer.sync()
                for seed in range(series.rounds(100)):
                    assert ledger.complaints(read(storage.crash(seed))) == [], f"{number} messages, seed {seed}"


def test_after_a_power_cut_under_written_a_writer_goes_on_or_refuses_and_leaves_the_data(series: Series) -> None:
    """It refuses if damage is followed by whole messages: these may have been acknowledged."""
    went_on = 0
    for moment, killed, ledger in series.points(moments(CrashingStorage(), appends("written"))):
        for seed in seeds(moment):
            context = f"power cut after operation {moment}, seed {seed}"
            storage = killed.crash(seed)
            before = read(storage)
            try:
                goes_on(storage, ledger, context)
            except CorruptData:
                assert read(storage) == before, context
            else:
                went_on += 1
                found = read(storage)
                assert (found[: len(before)], found[-1]) == (before, b"after the crash"), context
                assert ledger.complaints(found[:-1], must_hold=False) == [], context
    assert went_on > 0
