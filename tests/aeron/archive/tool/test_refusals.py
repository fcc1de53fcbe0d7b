"""What the verbs refuse: running archives, changed and damaged catalogs."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.format import catalog_file
from everlog.aeron.archive.format.catalog import read_catalog
from everlog.aeron.archive.recording.options import ArchiveOptions
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.archive.tool.compaction import plan_compact
from everlog.aeron.archive.tool.migration import plan_migrate
from everlog.aeron.archive.tool.undo import plan_undo
from everlog.aeron.archive.tool.verification import plan_fix
from everlog.core.files.storage import LocalStorage
from everlog.core.files.writable import LocalWritableStorage
from everlog.core.plan.backup import FolderBackup
from everlog.errors import (
    CorruptData,
    EverlogError,
    FileChanged,
    LimitExceeded,
    StoreUnavailable,
    UnsupportedVersion,
)
from everlog.testing.storage.crashing import CrashingStorage
from tests.aeron.archive.tool.archive_changes import (
    BASIC,
    VERBS,
    Verb,
    files_of,
)
from tests.aeron.archive.tool.tool_archives import MARK, OLD, contents

# All of them


@pytest.mark.parametrize("verb", VERBS, ids=str)
def test_what_a_verb_did_is_undone(verb: Verb, tmp_path: Path) -> None:
    before = verb.files()
    (tmp_path / "archive").mkdir()
    for name, data in before.items():
        (tmp_path / "archive" / name).write_bytes(data)
    storage, kept = LocalWritableStorage(str(tmp_path / "archive")), FolderBackup(tmp_path / "kept")
    plan = verb.plan(storage)
    assert contents(storage) == before
    plan.apply(backup=kept)
    assert contents(storage) != before
    backup = LocalStorage(str(tmp_path / "kept"))
    plan_undo(storage, backup).apply()
    assert contents(storage) == before
    assert not any(name.startswith(".everlog") for name in storage.names())


@pytest.mark.parametrize("verb", VERBS, ids=str)
def test_a_running_archive_is_left_alone(verb: Verb) -> None:
    storage = CrashingStorage(verb.files())
    plan = verb.plan(storage)
    now = struct.pack("<q", time.time_ns() // 1_000_000)
    mark = storage.read_all(MARK)
    at = 8 if mark[2:6] == struct.pack("<HH", 200, 100) else 0
    with storage.open_writable(MARK) as file:
        file.write_at(at + 8, now)
    before = contents(storage)
    with pytest.raises(StoreUnavailable, match="an archive is running in"):
        plan.apply()
    with pytest.raises(StoreUnavailable, match="an archive is running in"):
        verb.plan(storage)
    assert contents(storage) == before


@pytest.mark.parametrize("verb", VERBS, ids=str)
def test_a_catalog_that_a_process_has_open_is_left_alone(verb: Verb) -> None:
    storage = CrashingStorage(verb.files())
    with (
        storage.open("archive.catalog"),
        pytest.raises(StoreUnavailable, match="catalog is open in another process"),
    ):
        verb.plan(storage)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb.name not in ("capacity", "checksum")], ids=str)
def test_a_catalog_that_changed_since_the_plan_is_left_alone(verb: Verb) -> None:
    storage = CrashingStorage(verb.files())
    plan = verb.plan(storage)
    names = [step.file for step in plan.steps if step.file == "archive.catalog"] or ["7-0.rec"]
    with storage.open_writable(names[0]) as file:
        if names[0].endswith(".rec"):
            file.truncate(5)
        else:
            file.write_at(0, b"\xff" * file.size())
    before = contents(storage)
    with pytest.raises(EverlogError) as caught:
        plan.apply()
    assert isinstance(caught.value, FileChanged)
    assert contents(storage) == before


DAMAGE: dict[str, Callable[[bytearray], object]] = {
    "state": lambda data: data.__setitem__(slice(36, 40), b"\x07\0\0\0"),
    "length": lambda data: data.__setitem__(slice(32, 36), b"\xff\xff\0\0"),
    "stop before start": lambda data: data.__setitem__(slice(64 + 40, 64 + 48), b"\0\0\0\x10\0\0\0\0"),
    "empty": lambda data: data.clear(),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("verb", [verb for verb in VERBS if "migrate" not in verb.name], ids=str)
def test_a_damaged_catalog_is_refused_and_left_as_it_is(verb: Verb, damage: str) -> None:
    files = verb.files()
    catalog = bytearray(files["archive.catalog"])
    DAMAGE[damage](catalog)
    storage = CrashingStorage(files | {"archive.catalog": bytes(catalog)})
    before = contents(storage)
    plans: list[Callable[[Any], Any]] = [verb.plan]
    if verb.name == "verify --fix":
        plans = [lambda s: plan_fix(s, {}, truncates=lambda _: True)]
    for plan in plans:
        with pytest.raises(CorruptData, match=r"archive\.catalog"):
            plan(storage)
    assert contents(storage) == before


def test_a_length_that_would_hide_the_entries_behind_it_costs_its_own_entry_only() -> None:
    catalog = bytearray(files_of(BASIC)["archive.catalog"])
    DAMAGE["length"](catalog)
    found = read_catalog(bytes(catalog))
    assert [entry.recording_id for entry in found.entries] == list(range(1, 14))
    assert [(fault.code, fault.offset) for fault in found.faults] == [("catalog-entry", 32)]


def test_a_catalog_with_entries_behind_what_is_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    options = ArchiveOptions(segment_length=1 << 16, catalog_capacity=4096, liveness_timeout_s=0)
    storage = CrashingStorage()
    channel = "aeron:ipc?alias=" + "a" * 3_000
    with Archive.create(storage, options) as archive:
        for _ in range(20):
            archive.start_recording(channel, 1, term_length=1 << 16).stop()
    whole = contents(storage)
    monkeypatch.setattr(catalog_file, "MAX_USED_BYTES", 64 << 10)
    monkeypatch.setattr(catalog_file, "CATALOG_STEP_BYTES", 16 << 10)
    for act in (
        lambda: ArchiveStore.open(storage, {}),
        lambda: Archive.open(storage, options),
        lambda: plan_compact(storage),
    ):
        with pytest.raises(LimitExceeded, match=r"archive\.catalog"):
            act()
    damaged = bytearray(whole["archive.catalog"])
    damaged[32:36] = (1 << 30).to_bytes(4, "little")  # the first entry's length
    with storage.open_writable("archive.catalog") as file:
        file.write_at(0, damaged)
    with pytest.raises(LimitExceeded, match=r"archive\.catalog"):
        ArchiveStore.open(storage, {}).plan_repair()
    assert contents(storage)["archive.catalog"] == bytes(damaged)


def test_a_catalog_grows_no_further_than_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_file, "MAX_USED_BYTES", 64 << 10)
    monkeypatch.setattr(catalog_file, "CATALOG_STEP_BYTES", 16 << 10)
    options = ArchiveOptions(segment_length=1 << 16, catalog_capacity=4096, liveness_timeout_s=0)
    storage = CrashingStorage()
    channel = "aeron:ipc?alias=" + "a" * 3_000
    with Archive.create(storage, options) as archive:
        for _ in range(10):
            archive.start_recording(channel, 1, term_length=1 << 16).stop()
        with pytest.raises(LimitExceeded, match="compact"):
            archive.start_recording(channel, 1, term_length=1 << 16)
    assert storage.size("archive.catalog") <= 64 << 10
    assert len(ArchiveStore.open(storage, {}).streams()) == 10
    Archive.open(storage, options).close()


@pytest.mark.parametrize("name", ["1.9.3-stopped", "1.24.0-killed"])
def test_a_damaged_old_catalog_is_not_migrated(name: str) -> None:
    files = files_of(f"{OLD}{name}")
    catalog = bytearray(files["archive.catalog"])
    catalog[1024 + 32 + 16] = 9  # the id of recording 0
    storage = CrashingStorage(files | {"archive.catalog": bytes(catalog)})
    with pytest.raises(CorruptData, match="recording id 9"):
        plan_migrate(storage)
    assert contents(storage) == files | {"archive.catalog": bytes(catalog)}


@pytest.mark.parametrize("verb", [verb for verb in VERBS if "migrate" not in verb.name], ids=str)
def test_an_old_catalog_is_to_be_migrated_first(verb: Verb) -> None:
    storage = CrashingStorage(files_of(f"{OLD}1.24.0-stopped"))
    with pytest.raises(UnsupportedVersion, match=r"migrate"):
        verb.plan(storage)
