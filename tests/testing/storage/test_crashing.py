"""The folder in memory that crashes: between crashes it is as the one on disk, at a crash it loses what it says."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from everlog.core.files.writable import LocalWritableStorage, WritableStorage, locked
from everlog.errors import EverlogError, NotAStore, StoreUnavailable, WriteFailed
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.faulty_writes import FaultyWrites, WriteFaults

SEEDS = range(200)


@pytest.fixture(params=["disk", "memory", "faultless"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> WritableStorage:
    if request.param == "disk":
        return LocalWritableStorage(tmp_path)
    memory = CrashingStorage()
    return memory if request.param == "memory" else FaultyWrites(memory)


def test_files_are_made_written_cut_and_deleted(storage: WritableStorage) -> None:
    with pytest.raises(WriteFailed):
        storage.open_writable("a")
    with storage.open_writable("a", create=True, mode=0o600) as file:
        file.write_at(3, b"xyz")
        file.write_at(4, memoryview(b"-"))
        file.truncate(5)
        file.truncate(8)
        file.sync()
        assert (file.size(), file.mode()) == (8, 0o600)
        assert file.read_at(0, 100) == b"\0\0\0x-\0\0\0"
    with pytest.raises(WriteFailed):
        storage.open_writable("a", create=True, exclusive=True)
    assert (storage.exists("a"), storage.size("a"), storage.names()) == (True, 8, ["a"])
    assert storage.read_all("a")[3:5] == b"x-"
    assert storage.remove("a")
    assert not storage.remove("a")
    with pytest.raises(StoreUnavailable):
        storage.open("a")


def test_a_file_is_published_whole_and_replaced_only_if_asked(storage: WritableStorage) -> None:
    assert storage.publish("a", b"one", replace=False, mode=0o600, sync=True)
    assert not storage.publish("a", b"two", replace=False)
    assert storage.read_all("a") == b"one"
    with storage.open("a") as before:
        assert storage.publish("a", b"three", replace=True)
        assert before.read_at(0, 9) == b"one"
    assert storage.read_all("a") == b"three"
    assert storage.names() == ["a"]


def test_a_complete_draft_takes_a_name(storage: WritableStorage) -> None:
    storage.publish("draft", b"new", replace=False)
    storage.publish("a", b"old", replace=False)
    storage.rename("draft", "a")
    assert (storage.names(), storage.read_all("a")) == (["a"], b"new")
    with pytest.raises(WriteFailed):
        storage.rename("draft", "a")


def test_a_deleted_file_stays_with_who_has_it_open(storage: WritableStorage) -> None:
    with storage.open_writable("a", create=True) as file:
        file.write_at(0, b"x")
        storage.remove("a")
        file.write_at(1, b"y")
        assert file.read_at(0, 9) == b"xy"
        with storage.open_writable("a", create=True) as other:
            assert other.size() == 0


def test_locks_exclude_other_open_files_of_the_same_name(storage: WritableStorage) -> None:
    one, two = storage.open_writable("a", create=True), storage.open_writable("a")
    assert one.lock()
    assert not two.lock(wait=False)
    one.unlock()
    assert two.lock(wait=False)
    two.close()
    assert one.lock(wait=False)
    one.close()


def test_who_waits_for_a_lock_gets_it(storage: WritableStorage) -> None:
    seen: list[str] = []
    with storage.open_writable("a", create=True) as one, storage.open_writable("a") as two:
        one.lock()

        def wait() -> None:
            with locked(two):
                seen.append("two")

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.05)
        seen.append("one")
        one.unlock()
        thread.join(10)
    assert seen == ["one", "two"]


def test_a_mark_is_independent_of_the_lock_and_goes_with_the_open_file(storage: WritableStorage) -> None:
    one, two = storage.open_writable("a", create=True), storage.open_writable("a")
    assert one.lock()
    assert two.hold()
    assert not one.hold()
    two.close()
    assert one.hold()
    one.close()


def test_it_tells_whether_a_file_is_open(storage: WritableStorage) -> None:
    with storage.open_writable("a", create=True):
        assert storage.is_open_elsewhere("a") in (True, None)
    assert storage.is_open_elsewhere("a") in (False, None)
    assert storage.is_open_elsewhere("nothing") is None


@pytest.mark.parametrize("name", ["../a", "/a", "a\0b", "x/../../a"])
def test_no_name_leaves_the_folder(storage: WritableStorage, name: str) -> None:
    for call in (storage.open, storage.open_writable, storage.remove, storage.size):
        with pytest.raises(NotAStore):
            call(name)


# Crashes


def written(data: bytes, *, synced: bool) -> CrashingStorage:
    storage = CrashingStorage({"a": b"old"})
    with storage.open_writable("a") as file:
        file.write_at(0, data)
        if synced:
            file.sync()
    return storage


def test_a_killed_process_loses_nothing_that_it_wrote_but_its_locks() -> None:
    storage = CrashingStorage()
    file = storage.open_writable("a", create=True)
    file.write_at(0, b"x")
    file.lock()
    file.hold()
    after = storage.kill()
    assert after.read_all("a") == b"x"
    assert after.is_open_elsewhere("a") is False
    with after.open_writable("a") as other:
        assert other.lock(wait=False)
        assert other.hold()
        other.write_at(0, b"y")
    assert storage.read_all("a") == b"x"
    assert {after.crash(seed).exists("a") for seed in SEEDS} == {True, False}  # its name still is not on disk


def test_a_power_cut_keeps_what_was_synced() -> None:
    storage = written(b"n" * 9000, synced=True)
    assert {storage.crash(seed).read_all("a") for seed in SEEDS} == {b"n" * 9000}


def test_a_power_cut_loses_keeps_tears_and_reorders_what_was_not_synced() -> None:
    storage = written(b"n" * 9000, synced=False)
    found = {storage.crash(seed).read_all("a") for seed in SEEDS}
    assert {b"old", b"n" * 9000, b"n" * 512, b"n" * 4096} < found
    assert any(data.startswith(b"old\0") and data.endswith(b"n") for data in found)  # the second page, not the first
    for data in found:
        assert {len(set(data[at : at + 512])) for at in range(512, len(data), 512)} <= {1}  # pages are whole


def test_the_bytes_of_a_page_come_from_one_moment() -> None:
    storage = CrashingStorage({"a": bytes(16)})
    with storage.open_writable("a") as file:
        for moment in range(1, 5):
            file.write_at(0, bytes([moment]) * 16)
    found = {storage.crash(seed).read_all("a") for seed in SEEDS}
    assert found == {bytes([moment]) * 16 for moment in range(5)}


def test_names_are_kept_by_syncing_the_folder_only() -> None:
    storage = CrashingStorage({"old": b"1"})
    with storage.open_writable("new", create=True) as file:
        file.write_at(0, b"2")
        file.sync()
    storage.remove("old")
    storage.publish("replaced", b"3", replace=True)
    states = {tuple(n for n in storage.crash(seed).names() if n[0] != ".") for seed in SEEDS}
    assert len(states) == 8  # each of the three by itself
    moments = {tuple(n for n in storage.crash(s, ordered_names=True).names() if n[0] != ".") for s in SEEDS}
    assert moments == {("old",), ("new", "old"), ("new",), ("new", "replaced")}
    storage.sync_folder()
    assert {tuple(storage.crash(seed).names()) for seed in SEEDS} == {("new", "replaced")}


def test_a_folder_inside_keeps_its_own_names() -> None:
    storage = CrashingStorage({})
    storage.publish("a/one", b"1", replace=True)
    storage.publish("b/two", b"2", replace=True)
    storage.sync_folder("a")
    after = [storage.crash(seed) for seed in SEEDS]
    assert all(crashed.exists("a/one") for crashed in after)
    assert {crashed.exists("b/two") for crashed in after} == {True, False}
    storage.publish("b/three", b"3", replace=True, sync=True)
    assert all(storage.crash(seed).exists("b/three") for seed in SEEDS)


def test_folders_are_listed_with_what_is_inside() -> None:
    storage = CrashingStorage({"file": b"1", "a/one": b"2"})
    storage.make_folder("empty")
    for now in (storage, storage.kill(), storage.crash(1)):
        assert [(entry.name, entry.is_dir) for entry in now.entries()] == [
            ("a", True),
            ("empty", True),
            ("file", False),
        ]
        assert [(entry.name, entry.size) for entry in now.entries("a")] == [("one", 1)]
        assert (now.names("empty"), now.exists("empty"), now.exists("a")) == ([], True, True)
    with pytest.raises(StoreUnavailable):
        storage.names("absent")


def test_where_names_are_ordered_a_rename_is_done_or_not() -> None:
    storage = CrashingStorage({"a": b"1", "b": b"2"})
    storage.rename("a", "b")
    found = [storage.crash(seed, ordered_names=True) for seed in SEEDS]
    assert {tuple((n, s.read_all(n)) for n in s.names()) for s in found} == {
        (("a", b"1"), ("b", b"2")),
        (("b", b"1"),),
    }
    assert {tuple(storage.crash(seed).names()) for seed in SEEDS} == {("a", "b"), ("b",)}


def test_a_published_file_is_there_whole_or_not_at_all() -> None:
    storage = CrashingStorage({"a": b"old"})
    storage.publish("a", b"new" * 1000, replace=True)
    assert {storage.crash(seed).read_all("a") for seed in SEEDS} == {b"old", b"new" * 1000}


def test_the_same_seed_crashes_in_the_same_way() -> None:
    storage = written(b"n" * 9000, synced=False)
    for seed in SEEDS:
        assert storage.crash(seed).read_all("a") == storage.crash(seed).read_all("a")


def test_what_a_failed_sync_lost_no_later_one_brings_back() -> None:
    memory = CrashingStorage({"a": b"old"})
    storage = FaultyWrites(memory, WriteFaults(fail_at=1, operations=frozenset({"write", "sync"}), error=errno.EIO))
    with storage.open_writable("a") as file:
        file.write_at(0, b"lost")
        with pytest.raises(WriteFailed, match=os.strerror(errno.EIO).lower()):
            file.sync()
        file.write_at(4, b"kept")
        file.sync()
    assert memory.read_all("a") == b"lostkept"
    assert {memory.crash(seed).read_all("a") for seed in SEEDS} == {b"old\0kept"}


def test_who_watches_sees_each_moment_and_half_of_each_write() -> None:
    moments: list[tuple[str, bytes]] = []
    storage = CrashingStorage(after_each=lambda what: moments.append((what, storage.kill().read_all("a"))))
    with storage.open_writable("a", create=True) as file:
        file.write_at(0, b"abcd")
        file.sync()
        file.write_at(2, b"x")
        file.truncate(1)
    assert moments == [
        ("create", b""),
        ("half a write", b"ab"),
        ("write", b"abcd"),
        ("sync", b"abcd"),
        ("write", b"abxd"),
        ("truncate", b"a"),
    ]


# Faults


def test_each_operation_fails_at_its_number_and_the_others_do_not() -> None:
    def use(storage: FaultyWrites) -> None:
        with storage.open_writable("a", create=True) as file, locked(file):
            file.write_at(0, b"abcd")
            file.truncate(2)
            file.sync()
        storage.publish("b", b"", replace=False, sync=True)
        storage.rename("b", "c")
        storage.remove("c")

    names = [
        "open a",
        "lock a",
        "write a",
        "truncate a",
        "sync a",
        "publish b",
        "sync_folder memory",
        "rename c",
        "remove c",
    ]
    for number, name in enumerate(names):
        storage = FaultyWrites(CrashingStorage(), WriteFaults(fail_at=number))
        with pytest.raises(WriteFailed, match=os.strerror(errno.ENOSPC).lower()):
            use(storage)
        assert storage.failed == [name]
    whole = FaultyWrites(CrashingStorage())
    use(whole)
    assert (whole.operation_count, whole.failed) == (len(names), [])


def test_a_write_that_fails_leaves_the_part_that_was_asked_for() -> None:
    for part, found in ((None, b"ab"), (0, b""), (3, b"abc")):
        storage = FaultyWrites(CrashingStorage(), WriteFaults(fail_at=1, part_bytes=part))
        with storage.open_writable("a", create=True) as file:
            with pytest.raises(WriteFailed):
                file.write_at(0, b"abcd")
            assert file.read_at(0, 9) == found


def test_a_disk_stays_full_for_as_many_operations_as_were_asked_for() -> None:
    storage = FaultyWrites(CrashingStorage(), WriteFaults(fail_at=2, count=3, operations=frozenset({"write"})))
    results = []
    with storage.open_writable("a", create=True) as file:
        for _ in range(7):
            try:
                file.write_at(0, b"x")
                results.append(True)
            except EverlogError:
                results.append(False)
    assert results == [True, True, False, False, False, True, True]


def test_what_a_power_cut_certainly_keeps_is_synced_under_a_synced_name() -> None:
    storage = CrashingStorage()
    file = storage.open_writable("a", create=True)
    file.write_at(0, b"x" * 100)
    file.sync()
    assert storage.kept_length("a") == 0  # its name is not on disk
    storage.sync_folder()
    assert storage.kept_length("a") == 100
    file.write_at(60, b"y" * 100)
    assert storage.kept_length("a") == 60
    file.truncate(30)
    assert storage.kept_length("a") == 30
    file.sync()
    assert (storage.kept_length("a"), storage.kept_length("b")) == (30, 0)


def test_a_test_is_told_of_a_file_before_it_goes() -> None:
    storage = CrashingStorage({"a": b"1"})
    seen: list[tuple[str, bool]] = []
    storage.before_remove = lambda name: seen.append((name, storage.exists(name)))
    assert storage.remove("a")
    assert seen == [("a", True)]
