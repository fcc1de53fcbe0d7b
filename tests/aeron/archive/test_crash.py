"""A power cut, and the death of the process, after every single operation of an archive: what was acknowledged is there
when it is opened again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from everlog.aeron.archive.writing.recorder import Recorder
from everlog.core.files.writable import WritableStorage
from everlog.errors import WriteFailed
from everlog.testing.series import Series
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.faulty_writes import FaultyWrites, WriteFaults
from everlog.testing.storage.ledger import Ledger
from tests.aeron.archive.recorded import CHANNEL, STREAM, Ledgers, faults, opened, payload, quiet, recordings

POWER_CUTS = 2
"""At each moment, each with a seed of its own; every other one on a file system that keeps names in order."""
Scenario = Callable[[WritableStorage, Ledgers], None]
Check = Callable[[str, CrashingStorage, Ledgers], None]


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet(monkeypatch)


def numbers(first: int, count: int) -> list[bytes]:
    return [payload(number, 350) for number in range(first, first + count)]


def session(storage: WritableStorage, ledgers: Ledgers, *, many: bool = True, **options: Any) -> None:
    """An archive is made; a recording goes over segments' ends, is stopped, extended, and closed with a second one."""
    with opened(storage, **options) as archive:
        recorder = archive.start_recording(CHANNEL, STREAM)
        ledger = ledgers.of(recorder.recording_id)
        for message in numbers(1, 25):
            ledger.append(recorder, message)
        append_all(ledger, recorder, numbers(26, 8), many)
        recorder.sync()
        ledger.append(recorder, b"message 34, then zeros over the ends of pages" + bytes(7000))
        recorder.stop()
        recorder = archive.extend_recording(recorder.recording_id, session_id=5)
        ledger.append(recorder, payload(35))
        second = archive.start_recording(CHANNEL, STREAM)
        ledgers.of(second.recording_id).append(second, payload(36))
        append_all(ledger, recorder, numbers(37, 3), many)


def append_all(ledger: Ledger, recorder: Recorder, messages: list[bytes], many: bool) -> None:
    if many:
        ledger.append_many(recorder, messages)
    else:
        for message in messages:
            ledger.append(recorder, message)


def at_each_moment(storage: CrashingStorage, scenario: Scenario, check: Check, stride: int) -> int:
    """Run a scenario; ``check`` the folder as it is when the process dies after every ``stride``-th of its operations,
    with what was acknowledged until then. How many operations there were."""
    ledgers, problems, count = Ledgers(), list[str](), 0

    def note(what: str) -> None:
        nonlocal count
        moment, count = f"{count}: {what}", count + 1
        if not problems and (what == "end" or count % stride == 1 % stride):
            try:
                check(moment, storage.kill(), ledgers.copy())
            except Exception as error:  # not through the archive, which would go on in another way
                problems.append(f"{moment}: {error!r}")

    storage.after_each = note
    scenario(storage, ledgers)
    storage.after_each = None
    note("end")
    assert problems == []
    assert ledgers.all_errors == []
    return count


def seeds(moment: str) -> range:
    number = int(moment.split(":")[0])
    return range(number * POWER_CUTS, (number + 1) * POWER_CUTS)


def goes_on(storage: CrashingStorage, ledgers: Ledgers, **options: Any) -> Ledgers:
    """Who opens the archive next finds every recording stopped, extends those that it knows, and begins a new one."""
    ledgers = ledgers.copy()
    with opened(storage, **options) as archive:
        assert [r.recording_id for r in archive.recordings() if r.is_active] == []
        known = {recording.recording_id for recording in archive.recordings()}
        for recording_id, ledger in ledgers.ledgers.items():
            with archive.extend_recording(recording_id) as recorder:
                assert ledger.append(recorder, b"after the crash")
        new = archive.start_recording(CHANNEL, STREAM)
        assert new.recording_id > max(known, default=-1)
        assert ledgers.of(new.recording_id).append(new, b"after the crash")
    return ledgers


@pytest.mark.parametrize("options", [{}, {"checksum": "crc32"}, {"durability": "synced"}], ids=str)
def test_after_the_death_of_the_process_every_acknowledged_message_is_there(
    options: dict[str, Any], series: Series
) -> None:
    def check(moment: str, killed: CrashingStorage, ledgers: Ledgers) -> None:
        after = goes_on(killed, ledgers, **options)
        assert after.complaints(recordings(killed)) == []
        assert faults(killed) == []

    scenario = partial(session, **options)
    assert at_each_moment(CrashingStorage(edge_bytes=4096), scenario, check, series.stride) > 80


@pytest.mark.parametrize("many", [False, True], ids=["one by one", "many at once"])
@pytest.mark.parametrize("checksum", ["none", "crc32c"])
def test_after_a_power_cut_every_synced_message_is_there(checksum: str, many: bool, series: Series) -> None:
    options = {"durability": "synced", "checksum": checksum}

    def check(moment: str, killed: CrashingStorage, ledgers: Ledgers) -> None:
        for seed in seeds(moment):
            storage = killed.crash(seed, ordered_names=seed % 2 == 0)
            after = goes_on(storage, ledgers, **options)
            assert lost(after, storage, checksum) == [], f"seed {seed}"
            assert lost(after, storage.crash(seed), checksum) == [], f"seed {seed}, and again after the next one"
            # Of frames that are written at once the later ones may be there without the first: that is damage.
            damage = [text for text in faults(storage) if not many and "frame-checksum" not in text]
            assert damage == [], f"seed {seed}"

    scenario = partial(session, many=many, **options)
    assert at_each_moment(CrashingStorage(), scenario, check, series.stride) > 100


def lost(ledgers: Ledgers, storage: CrashingStorage, checksum: str) -> list[str]:
    """Complaints; without a checksum nothing tells that pages of a message that was not acknowledged are missing."""
    found = ledgers.complaints(recordings(storage))
    return [text for text in found if checksum != "none" or "invented: b'message" not in text]


@pytest.mark.parametrize("checksum", ["none", "crc32"])
def test_what_was_written_before_a_sync_survives_a_power_cut(checksum: str, series: Series) -> None:
    """At the level ``written``, with what of the catalog it takes to find it again."""
    storage, ledgers = CrashingStorage(), Ledgers()
    archive = opened(storage, checksum=checksum)
    for session_id in (1, 2, 3):
        if session_id == 1:
            recorder = archive.start_recording(CHANNEL, STREAM)
        else:
            recorder = archive.extend_recording(0, session_id=session_id)
        ledger = ledgers.of(0)
        for number in range(session_id * 100, session_id * 100 + 30):
            ledger.append(recorder, payload(number, 350))
            if number % 9 == 0:
                recorder.sync()
                for seed in range(series.rounds(20)):
                    after = storage.crash(seed, ordered_names=seed % 2 == 0)
                    opened(after, checksum=checksum).close()
                    assert lost(ledgers, after, "none") == [], f"{number}, seed {seed}"
        recorder.sync()
        recorder.stop()
        for seed in range(series.rounds(20)):
            after = storage.crash(seed)
            opened(after, checksum=checksum).close()
            assert lost(ledgers, after, "none") == [], f"stopped, seed {seed}"


def test_a_power_cut_under_written_leaves_an_archive_that_can_be_opened_and_recorded_to(series: Series) -> None:
    """Messages may be lost, or have pages of zeros; recordings, too, or the file in which one stops: it is not extended
    then, for verify and repair to tell."""

    def check(moment: str, killed: CrashingStorage, ledgers: Ledgers) -> None:
        for seed in seeds(moment):
            storage = killed.crash(seed, ordered_names=seed % 2 == 0)
            with opened(storage) as archive:
                extended = []
                for recording in archive.recordings():
                    try:
                        recorder = archive.extend_recording(recording.recording_id)
                    except WriteFailed as error:
                        if error.found != "no file":
                            raise
                    else:
                        recorder.append(b"after the crash")
                        extended.append(recording.recording_id)
                new = archive.start_recording(CHANNEL, STREAM)
                new.append(b"after the crash")
            messages = recordings(storage)
            last = [messages[recording_id][-1] for recording_id in (*extended, new.recording_id)]
            assert set(last) == {b"after the crash"}, f"seed {seed}"

    assert at_each_moment(CrashingStorage(), session, check, series.stride) > 80


@pytest.mark.parametrize("durability", ["written", "synced"])
def test_a_crash_in_recovery_is_recovered_as_well(durability: str, series: Series) -> None:
    checksum = "crc32"
    options = {"durability": durability, "checksum": checksum}

    def check(moment: str, killed: CrashingStorage, ledgers: Ledgers) -> None:
        for seed in seeds(moment)[:2]:
            folder = killed.crash(seed) if durability == "synced" else killed

            def check_again(again: str, storage: CrashingStorage, _: Ledgers, seed: int = seed) -> None:
                later = storage.crash(seed) if durability == "synced" else storage
                after = goes_on(later, ledgers, **options)
                assert lost(after, later, checksum) == [], f"seed {seed}, then after {again}"

            at_each_moment(folder, lambda storage, _: opened(storage, **options).close(), check_again, series.stride)

    scenario = partial(session, many=False, **options)
    at_each_moment(CrashingStorage(edge_bytes=4096), scenario, check, 5 * series.stride)


@pytest.mark.parametrize("checksum", ["none", "crc32c"])
def test_a_power_cut_after_a_sync_that_failed_costs_only_what_was_refused(checksum: str, series: Series) -> None:
    for fail_at in series.points(range(4, 40)):
        inner, ledgers = CrashingStorage(), Ledgers()
        storage = FaultyWrites(inner, WriteFaults(fail_at=fail_at, operations=frozenset({"sync", "sync_folder"})))
        with suppress(WriteFailed):
            session(storage, ledgers, durability="synced", checksum=checksum)
        for seed in range(series.rounds(6)):
            after = inner.crash(seed)
            opened(after, checksum=checksum).close()
            complaints = [text for text in ledgers.complaints(recordings(after)) if "lost" in text]
            assert complaints == [], f"sync {fail_at} failed ({storage.failed}), power cut with seed {seed}"
