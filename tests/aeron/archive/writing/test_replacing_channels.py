"""Other channels for a recording in the catalog: entries move, and crashes and faults at each write."""

from __future__ import annotations

from dataclasses import replace

import pytest

from everlog.aeron.archive.format.catalog import CATALOG_NAME
from everlog.aeron.archive.format.catalog_bytes import Descriptor
from everlog.aeron.archive.format.catalog_file import load_catalog
from everlog.aeron.archive.writing.catalog_writer import CatalogOptions, CatalogWriter
from everlog.aeron.family_options import Checksum
from everlog.core.files.storage import Storage
from everlog.core.files.writable import WritableStorage
from everlog.errors import LimitExceeded, UnknownStream, UsageError, WriteFailed
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.faulty_writes import FaultyWrites, WriteFaults

OLD = ["aeron:ipc?alias=0", "aeron:ipc?alias=1", "aeron:ipc?alias=2"]
LONG = "aeron:udp?endpoint=" + "h" * 200 + ":4000"
STOPS = [64, 128, 192]
SEEDS = range(6)


def descriptor(number: int) -> Descriptor:
    return Descriptor(
        recording_id=number,
        start_timestamp=1,
        start_position=0,
        stop_position=STOPS[number],
        stop_timestamp=2,
        initial_term_id=0,
        segment_file_length=1 << 16,
        term_buffer_length=1 << 16,
        mtu_length=1408,
        session_id=number,
        stream_id=1,
        stripped_channel="aeron:ipc",
        original_channel=OLD[number],
        source_identity="aeron:ipc",
    )


def make(storage: WritableStorage, checksum: Checksum = "none", capacity: int = 4096) -> CatalogWriter:
    writer = CatalogWriter.create(storage, CatalogOptions(capacity=capacity, checksum=checksum))
    for number in range(3):
        writer.add(descriptor(number))
    writer.sync()
    storage.sync_folder()
    return writer


def entries(storage: Storage) -> list[tuple[int, str, str, int, str]]:
    """Id, channels, stop position and state of each entry; the catalog has no faults, so checksums are right."""
    catalog, fault = load_catalog(storage)
    assert catalog is not None, fault
    assert catalog.faults == []
    return [
        (e.recording_id, e.texts["stripped_channel"], e.texts["original_channel"], e.stop_position, e.state)
        for e in catalog.entries
    ]


BEFORE = [(number, "aeron:ipc", OLD[number], STOPS[number], "VALID") for number in range(3)]
AFTER = [BEFORE[0], (1, "stripped", LONG, STOPS[1], "VALID"), BEFORE[2]]


@pytest.mark.parametrize("checksum", ["none", "crc32c"])
@pytest.mark.parametrize("channel", [LONG, "x", OLD[1]])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_recording_has_the_new_channels_and_the_others_only_move(
    number: int, channel: str, checksum: Checksum
) -> None:
    storage = CrashingStorage()
    with make(storage, checksum) as writer:
        writer.replace_channels(number, "stripped", channel)
        expected = list(BEFORE)
        expected[number] = (number, "stripped", channel, STOPS[number], "VALID")
        assert entries(storage) == expected
        # Each entry is found at its new place: changes go where they belong.
        for other in range(3):
            writer.set_stop(other, 1024 + 32 * other)
        writer.set_state(2, "INVALID")
        assert writer.add(replace(descriptor(0), stop_position=7 * 32)) == 3
        changed = [(e[0], e[1], e[2], 1024 + 32 * e[0], "INVALID" if e[0] == 2 else "VALID") for e in expected]
        assert entries(storage) == [*changed, (3, "aeron:ipc", OLD[0], 224, "VALID")]
        assert [writer.recording(other).stop_position for other in range(4)] == [1024, 1056, 1088, 224]
    with CatalogWriter.open(storage, CatalogOptions(capacity=4096)) as again:
        assert again.next_recording_id == 4


def test_a_full_catalog_grows() -> None:
    storage = CrashingStorage()
    used = CatalogWriter.create(CrashingStorage(), CatalogOptions(capacity=64)).capacity
    with make(storage, capacity=used) as writer:
        before = writer.capacity
        for _ in range(8):
            writer.replace_channels(1, "stripped", LONG)
            writer.add(descriptor(0))
        assert entries(storage)[:3] == AFTER
        assert storage.size(CATALOG_NAME) == writer.capacity > before


def test_a_catalog_that_would_be_too_long_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = CrashingStorage()
    with make(storage) as writer:
        data = storage.read_all(CATALOG_NAME)
        monkeypatch.setattr("everlog.aeron.archive.format.catalog_file.MAX_USED_BYTES", 1024)
        with pytest.raises(LimitExceeded):
            writer.replace_channels(1, "stripped", LONG * 4)
    assert storage.read_all(CATALOG_NAME) == data


def test_a_text_that_is_not_ascii_and_an_unknown_recording_are_refused() -> None:
    storage = CrashingStorage()
    with make(storage) as writer:
        with pytest.raises(UsageError):
            writer.replace_channels(1, "stripped", "aeron:ipc?alias=ü")
        with pytest.raises(UnknownStream):
            writer.replace_channels(3, "stripped", LONG)
    assert entries(storage) == BEFORE


@pytest.mark.parametrize("sync_level", [0, 1])
def test_a_crash_leaves_the_old_catalog_or_the_new_one(sync_level: int) -> None:
    storage = CrashingStorage()
    make(storage).close()
    left: list[tuple[str, CrashingStorage]] = []
    with CatalogWriter.open(storage, CatalogOptions(capacity=4096, sync_level=sync_level)) as writer:
        storage.after_each = lambda what: left.append((what, storage.kill()))
        writer.replace_channels(1, "stripped", LONG)
        storage.after_each = None
    assert [what for what, _ in left] == [
        "create draft",
        "write draft",
        "sync draft",
        "link",
        "remove draft",
        "sync folder",
    ]
    for step, (what, folder) in enumerate(left):
        assert entries(folder) == (BEFORE if step < 3 else AFTER), f"killed after {what}"
        found = [entries(folder.crash(seed, ordered_names=seed % 2 == 0)) for seed in SEEDS]
        allowed = [BEFORE] if step < 3 else [AFTER] if what == "sync folder" else [BEFORE, AFTER]
        assert all(one in allowed for one in found), f"power cut after {what}"


OPERATIONS = ("publish", "open", "sync_folder")


@pytest.mark.parametrize("number", range(3))
def test_after_a_fault_no_later_write_is_lost_unseen(number: int) -> None:
    inner = CrashingStorage()
    make(inner).close()
    storage = FaultyWrites(inner)
    writer = CatalogWriter.open(storage, CatalogOptions(capacity=4096, sync_level=1))
    storage.operation_count = 0
    storage.faults = WriteFaults(fail_at=number)
    with pytest.raises(WriteFailed):
        writer.replace_channels(1, "stripped", LONG)
    assert [failed.split()[0] for failed in storage.failed] == [OPERATIONS[number]]
    assert entries(inner) == (BEFORE if number == 0 else AFTER)
    storage.faults = WriteFaults()
    if number == 1:
        with pytest.raises(WriteFailed):
            writer.set_stop(2, 4096)
        with pytest.raises(WriteFailed):
            writer.close()
        return
    writer.set_stop(2, 4096)
    assert entries(inner)[2][3] == 4096
    writer.close()
