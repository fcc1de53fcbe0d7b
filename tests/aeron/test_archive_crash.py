"""A power cut, and the death of the process, after every single operation of an archive: what was acknowledged is there
when it is opened again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from recorded import CHANNEL, STREAM, Ledgers, faults, opened, payload, quiet, recordings

from everlog.core.writable import WritableStorage
from everlog.testing.crashing_storage import CrashingStorage

POWER_CUTS = 3
"""At each moment, each with a seed of its own; every other one on a file system that keeps names in order."""
ONE_FRAME = 8 << 10
"""An MTU with which each message is one frame."""
Scenario = Callable[[WritableStorage, Ledgers], None]
Check = Callable[[str, CrashingStorage, Ledgers], None]


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet(monkeypatch)


def numbers(first: int, count: int) -> list[bytes]:
    return [payload(number, 350) for number in range(first, first + count)]


def session(storage: WritableStorage, ledgers: Ledgers, *, mtu_length: int = 1408, **options: Any) -> None:
    """An archive is made; a recording goes over segments' ends, is stopped, extended, and closed with a second one."""
    with opened(storage, **options) as archive:
        recorder = archive.start_recording(CHANNEL, STREAM, mtu_length=mtu_length)
        ledger = ledgers.of(recorder.recording_id)
        for message in numbers(1, 25):
            ledger.append(recorder, message)
        ledger.append_many(recorder, numbers(26, 8))
        recorder.sync()
        ledger.append(recorder, payload(34))
        recorder.stop()
        recorder = archive.extend_recording(recorder.recording_id, session_id=5)
        ledger.append(recorder, payload(35))
        second = archive.start_recording(CHANNEL, STREAM, mtu_length=mtu_length)
        ledgers.of(second.recording_id).append(second, payload(36))
        ledger.append_many(recorder, numbers(37, 3))


def at_each_moment(storage: CrashingStorage, scenario: Scenario, check: Check) -> int:
    """Run a scenario; ``check`` the folder as it is when the process dies after each of its operations, with what was
    acknowledged until then. How many moments there were."""
    ledgers, problems, count = Ledgers(), list[str](), 0

    def note(what: str) -> None:
        nonlocal count
        moment, count = f"{count}: {what}", count + 1
        if not problems:
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
def test_after_the_death_of_the_process_every_acknowledged_message_is_there(options: dict[str, Any]) -> None:
    def check(moment: str, killed: CrashingStorage, ledgers: Ledgers) -> None:
        after = goes_on(killed, ledgers, **options)
        assert after.complaints(recordings(killed)) == []
        assert faults(killed) == []

    mtu_length = ONE_FRAME if "checksum" in options else 1408
    scenario = partial(session, mtu_length=mtu_length, **options)
    assert at_each_moment(CrashingStorage(edge_bytes=4096), scenario, check) > 80


@pytest.mark.parametrize("checksum", ["none", "crc32c"])
def test_after_a_power_cut_every_synced_message_is_there(checksum: str) -> None:
    options = {"durability": "synced", "checksum": checksum}

    def check(moment: str, killed: CrashingStorage, ledgers: Ledgers) -> None:
        for seed in seeds(moment):
            storage = killed.crash(seed, ordered_names=seed % 2 == 0)
            after = goes_on(storage, ledgers, **options)
            assert lost(after, storage, checksum) == [], f"seed {seed}"
            assert lost(after, storage.crash(seed), checksum) == [], f"seed {seed}, and again after the next one"
            assert faults(storage) == [], f"seed {seed}"

    scenario = partial(session, mtu_length=ONE_FRAME if checksum != "none" else 1408, **options)
    assert at_each_moment(CrashingStorage(), scenario, check) > 100


def lost(ledgers: Ledgers, storage: CrashingStorage, checksum: str) -> list[str]:
    """Complaints; without a checksum nothing tells that pages of a message that was not acknowledged are missing."""
    found = ledgers.complaints(recordings(storage))
    return [text for text in found if checksum != "none" or "invented: b'message" not in text]
