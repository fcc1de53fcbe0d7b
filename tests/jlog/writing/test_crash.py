"""A power cut, and the death of the process, after every single operation: what was acknowledged is there."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from everlog.core.files.storage import Storage
from everlog.core.files.writable import WritableStorage
from everlog.jlog import Writer, alter
from everlog.jlog.store import JlogStore
from everlog.jlog.writing.creation import fill_folder
from everlog.testing.series import Series
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.faulty_writes import FaultyWrites, WriteFaults
from everlog.testing.storage.ledger import Ledger
from everlog.testing.storage.moments import moments

SEGMENT_BYTES = 2048
POWER_CUTS = 12
"""At each moment, each with a seed of its own."""
Scenario = Callable[[WritableStorage, Ledger], None]


def read(storage: Storage) -> list[bytes]:
    """All messages, past what is torn."""
    with JlogStore.open(storage, {}) as store:
        return [record.payload for record in store.read("journal", on_fault=lambda fault: None)]


def faults(storage: Storage) -> list[str]:
    with JlogStore.open(storage, {}) as store:
        return [str(fault) for fault in store.verify().faults if fault.severity.value == "fault"]


def payload(number: int, size: int = 100) -> bytes:
    """Sizes around those of sectors and pages."""
    return b"message %d." % number + bytes([97 + number % 26]) * (size * (1, 4, 2, 9)[number % 4])


def appends(durability: str, *, many: bool = True) -> Scenario:
    def scenario(storage: WritableStorage, ledger: Ledger) -> None:
        with Writer(storage, durability=durability) as writer:
            for number in range(12):
                ledger.append(writer, payload(number))
            if many:
                ledger.append_many(writer, [payload(number) for number in range(12, 20)])
            ledger.append(writer, payload(20))

    return scenario


def buffered(storage: WritableStorage, ledger: Ledger) -> None:
    with Writer(storage, durability="buffered", buffer_bytes=2000) as writer:
        for number in range(10):
            ledger.append(writer, payload(number))
        writer.flush()
        ledger.append_many(writer, [payload(number) for number in range(10, 14)])
        ledger.append(writer, payload(14, 700))  # larger than the buffer
        ledger.append(writer, payload(15))


def journal(make: Any, **values: int) -> CrashingStorage:
    return CrashingStorage({"metastore": make.metastore(limit=SEGMENT_BYTES, **values), "pre_commit": bytes(4)})


def seeds(moment: str) -> range:
    number = int(moment.split(":")[0])
    return range(number * POWER_CUTS, (number + 1) * POWER_CUTS)


def goes_on(storage: CrashingStorage, ledger: Ledger, context: str, *, durability: str = "written") -> Ledger:
    """A next writer appends, and is acknowledged."""
    ledger = ledger.copy()
    with Writer(storage, durability=durability) as writer:
        assert ledger.append(writer, b"after the crash"), context
    return ledger


@pytest.mark.parametrize("durability", ["written", "synced"])
def test_after_the_death_of_the_process_every_acknowledged_message_is_there(
    durability: str, make: Any, series: Series
) -> None:
    for moment, killed, ledger in series.points(moments(journal(make), appends(durability))):
        context = f"{durability}, killed after operation {moment}"
        assert ledger.complaints(read(killed)) == [], context
        assert [text for text in faults(killed) if "torn-" not in text] == [], context
        after = goes_on(killed, ledger, context)
        assert after.complaints(read(killed)) == [], context
        assert faults(killed) == [], context


@pytest.mark.parametrize("next_writer", ["written", "synced", "buffered"])
def test_what_was_buffered_when_the_process_died_is_written_once_by_the_next_writer(
    next_writer: str, make: Any, series: Series
) -> None:
    for moment, killed, ledger in series.points(moments(journal(make), buffered)):
        context = f"killed after operation {moment}"
        assert ledger.complaints(read(killed), must_hold=False) == [], context
        after = goes_on(killed, ledger, context, durability=next_writer)
        assert after.complaints(read(killed)) == [], context
        assert faults(killed) == [], context


def test_who_writes_out_a_dead_writers_buffer_may_die_in_it_too(make: Any, series: Series) -> None:
    for first, killed, ledger in series.points(moments(journal(make), buffered)):
        if "write" not in first:
            continue
        for second, again, _ in series.points(moments(killed, lambda storage, _: Writer(storage).close())):
            context = f"killed after operation {first}, and again after {second}"
            after = goes_on(again, ledger, context)
            assert after.complaints(read(again)) == [], context


@pytest.mark.parametrize("many", [False, True], ids=["one by one", "many at once"])
def test_after_a_power_cut_every_synced_message_is_there(many: bool, make: Any, series: Series) -> None:
    for moment, killed, ledger in series.points(moments(journal(make), appends("synced", many=many))):
        for seed in seeds(moment):
            context = f"power cut after operation {moment}, seed {seed}"
            storage = killed.crash(seed)
            assert lost(ledger, storage) == [], context
            after = goes_on(storage, ledger, context, durability="synced")
            assert lost(after, storage) == [], context
            assert lost(after, storage.crash(seed)) == [], f"{context}, and again after the next writer"
            if not many:  # of many at once the later ones may be there without the first: that is damage
                assert faults(storage) == [], context


def lost(ledger: Ledger, storage: CrashingStorage) -> list[str]:
    """Complaints, but for a message that was not acknowledged and whose pages are not all there: nothing in the format
    tells that."""
    return [text for text in ledger.complaints(read(storage)) if not text.startswith("invented: b'message")]


def test_a_synced_message_is_safe_in_a_segment_that_another_writer_made_without_a_sync(
    make: Any, series: Series
) -> None:
    def scenario(storage: WritableStorage, ledger: Ledger) -> None:
        with Writer(storage, durability="written") as other, Writer(storage, durability="synced") as writer:
            for number in range(12):
                other.append(b"not noted" + payload(number, 300))
                ledger.append(writer, payload(number))

    for moment, killed, ledger in series.points(moments(journal(make), scenario)):
        for seed in seeds(moment):
            storage = killed.crash(seed)
            found = [message for message in read(storage) if not message.startswith(b"not noted")]
            complaints = [text for text in ledger.complaints(found) if text.startswith("lost")]
            assert complaints == [], f"power cut after operation {moment}, seed {seed}"


@pytest.mark.parametrize("durability", ["written", "buffered"])
def test_what_was_appended_before_a_sync_survives_a_power_cut(durability: str, make: Any, series: Series) -> None:
    storage, ledger = journal(make), Ledger()
    with Writer(storage, durability=durability) as writer:
        for number in range(20):
            ledger.append(writer, payload(number))
            if number % 7 == 0:
                writer.sync()
                for seed in range(series.rounds(100)):
                    assert lost(ledger, storage.crash(seed)) == [], f"{number} messages, seed {seed}"


def test_a_power_cut_under_written_leaves_a_journal_that_can_be_written_and_read(make: Any, series: Series) -> None:
    for moment, killed, ledger in series.points(moments(journal(make), appends("written"))):
        for seed in seeds(moment):
            context = f"power cut after operation {moment}, seed {seed}"
            storage = killed.crash(seed)
            after = Ledger()
            goes_on(storage, ledger, context)
            with Writer(storage) as writer:
                after.append(writer, b"the last one")
            assert read(storage)[-2:] == [b"after the crash", b"the last one"], context


def test_a_power_cut_under_buffered_leaves_a_journal_that_can_be_written_and_read(make: Any, series: Series) -> None:
    """Messages may be lost, or be there twice."""
    for moment, killed, ledger in series.points(moments(journal(make), buffered)):
        for seed in seeds(moment):
            context = f"power cut after operation {moment}, seed {seed}"
            storage = killed.crash(seed)
            goes_on(storage, ledger, context)
            found = read(storage)
            assert found[-1] == b"after the crash", context
            assert all(message.startswith(b"message") for message in found[:-1]), context


def test_a_power_cut_after_a_sync_that_failed_costs_only_what_was_refused(make: Any, series: Series) -> None:
    for fail_at in series.points(range(12)):
        inner, ledger = journal(make), Ledger()
        storage = FaultyWrites(inner, WriteFaults(fail_at=fail_at, operations=frozenset({"sync"})))
        writer = Writer(storage, durability="synced")
        for number in range(9):
            ledger.append(writer, payload(number))
        assert len(ledger.errors) == len(storage.failed)
        for seed in range(10):
            found = read(inner.crash(seed))
            complaints = [text for text in ledger.complaints(found) if text.startswith("lost")]
            assert complaints == [], f"sync {fail_at} failed ({storage.failed}), power cut with seed {seed}"


def test_making_a_journal_leaves_it_or_what_can_be_made_one(make: Any, series: Series) -> None:
    def scenario(storage: WritableStorage, _: Ledger) -> None:
        fill_folder(storage, make.metastore(), buffer_bytes=500, mode=0o640)

    for moment, killed, ledger in series.points(moments(CrashingStorage(), scenario)):
        for storage in (killed, *(killed.crash(seed) for seed in seeds(moment))):
            if moment.endswith("end"):
                assert storage.read_all("metastore") == make.metastore()
            scenario(storage, ledger)
            assert storage.read_all("metastore") == make.metastore(), moment
            goes_on(storage, ledger, moment)
            assert faults(storage) == [], moment


def test_settings_are_the_old_or_the_new_ones_after_a_crash(make: Any, series: Series) -> None:
    def scenario(storage: WritableStorage, _: Ledger) -> None:
        alter(storage, segment_bytes=5000, safety="safe", buffer_bytes=100)

    for moment, killed, _ in series.points(moments(journal(make), scenario)):
        for storage in (killed, *(killed.crash(seed) for seed in seeds(moment))):
            _log, limit, safety, _magic = struct.unpack("<IIII", storage.read_all("metastore"))
            assert limit in (SEGMENT_BYTES, 5000), moment
            assert safety in (1, 2), moment
            assert storage.size("pre_commit") in (4, 104), moment
            assert not storage.read_all("pre_commit").strip(b"\0"), moment
