"""The changes of ArchiveTool's verbs, each with a folder that it changes, for tests that run all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tests
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.archive.tool.capacity import plan_capacity
from everlog.aeron.archive.tool.checksum import plan_checksum
from everlog.aeron.archive.tool.compaction import plan_compact
from everlog.aeron.archive.tool.migration import plan_migrate
from everlog.aeron.archive.tool.orphans import plan_delete_orphans
from everlog.aeron.archive.tool.states import plan_state
from everlog.aeron.archive.tool.verification import plan_fix
from everlog.core.plan.plan import RepairPlan
from everlog.core.report import Fault, Severity
from everlog.testing.storage.memory import MemoryStorage

GOLDEN = tests.GOLDEN / "aeron"
BASIC = "archive-basic/archive"
STATE_OF_12 = 3300
"""Offset of the state of recording 12 in the catalog of ``BASIC``."""

_read: dict[str, dict[str, bytes]] = {}


def files_of(name: str) -> dict[str, bytes]:
    """A golden folder's files."""
    if name not in _read:
        _read[name] = MemoryStorage.of_tar(GOLDEN / f"{name}.tar.gz").files
    return dict(_read[name])


def only(files: dict[str, bytes], *streams: int) -> dict[str, bytes]:
    """Without the segment files of other recordings."""
    return {n: d for n, d in files.items() if not n.endswith(".rec") or int(n.split("-")[0]) in streams}


def with_invalid(files: dict[str, bytes]) -> dict[str, bytes]:
    """Recording 12 marked as invalid."""
    catalog = bytearray(files["archive.catalog"])
    assert catalog[STATE_OF_12] == 1
    catalog[STATE_OF_12] = 0
    return files | {"archive.catalog": bytes(catalog)}


def faults_of(storage: Any) -> list[Fault]:
    return [f for f in ArchiveStore.open(storage, {}).verify().faults if f.severity is Severity.FAULT]


def fix(storage: Any, truncate: bool = True) -> RepairPlan:
    store = ArchiveStore.open(storage, {})
    found: dict[int, list[Fault]] = {entry.recording_id: [] for entry in store.folder.catalog.entries}
    for fault in faults_of(storage):
        if fault.stream is not None and fault.code != "recording-invalid":
            found[int(fault.stream)].append(fault)
    return plan_fix(storage, found, truncates=lambda _: truncate, clock=lambda: 1_795_241_431_746).plan


@dataclass(frozen=True)
class Verb:
    """A change: of which files, and its plan. ``is_readable``: what a crash in it leaves reads as before or after."""

    name: str
    files: Callable[[], dict[str, bytes]]
    plan: Callable[[Any], RepairPlan]
    is_readable: bool = True

    def __str__(self) -> str:
        return self.name


VERBS = [
    Verb("mark-invalid", lambda: only(files_of(BASIC), 12), lambda s: plan_state(s, 12, "INVALID")),
    Verb("mark-valid", lambda: with_invalid(only(files_of(BASIC), 12)), lambda s: plan_state(s, 12, "VALID")),
    Verb("compact", lambda: with_invalid(only(files_of(BASIC), 12, 3, 5)), lambda s: plan_compact(s)[0]),
    Verb("delete-orphaned-segments", lambda: only(files_of(BASIC), 7, 3), plan_delete_orphans),
    Verb("capacity", lambda: only(files_of(BASIC), 3), lambda s: plan_capacity(s, 1_500_000)),
    Verb("checksum", lambda: only(files_of(BASIC), 11, 3), lambda s: plan_checksum(s, "crc32", every=True)[0]),
    Verb("migrate 0.x", lambda: files_of("archive-old-releases/1.9.3-stopped"), lambda s: plan_migrate(s)[0], False),
    Verb("migrate 1.x", lambda: files_of("archive-old-releases/1.22.1-stopped"), lambda s: plan_migrate(s)[0], False),
    Verb("migrate 2.x", lambda: files_of("archive-old-releases/1.24.0-killed"), lambda s: plan_migrate(s)[0], False),
    Verb("verify --fix", lambda: files_of("archive-crash/torn-page-crc"), fix),
]
