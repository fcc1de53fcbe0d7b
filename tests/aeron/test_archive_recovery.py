"""Recovery of archives that were killed: the ends that real archives find at a restart, better ones where they refuse
or err, and nothing half done wherever it is stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron.archive.catalog_file import load_catalog
from everlog.aeron.archive.recovery import plan_recovery
from everlog.aeron.archive.store import ArchiveStore
from everlog.testing.crashing_storage import CrashingStorage
from everlog.testing.memory_storage import MemoryStorage

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "aeron"


def unpacked(name: str) -> dict[str, bytes]:
    return MemoryStorage.of_tar(GOLDEN / f"{name}.tar.gz").files


def stops(storage: CrashingStorage) -> dict[int, int]:
    catalog, _ = load_catalog(storage)
    assert catalog is not None
    return {entry.recording_id: entry.stop_position for entry in catalog.entries}


def recover(storage: CrashingStorage, **options: Any) -> list[str]:
    return plan_recovery(ArchiveStore.open(storage, {}), **options).apply()


@pytest.mark.parametrize(
    ("name", "truth"),
    [
        ("crash-plain", "truth-plain-after-restart"),
        ("crash-crc", "truth-crc-after-restart"),
        ("torn-half-plain", "truth-torn-half-plain-after-restart"),
        ("torn-page-plain", "truth-torn-page-plain-after-verify-y-and-restart"),
        ("torn-page-crc", "truth-torn-page-crc-after-verify-y-and-restart"),
    ],
)
def test_recordings_stop_where_the_real_archive_lets_them(
    golden_truth: Callable[[str], dict[str, Any]], name: str, truth: str
) -> None:
    storage = CrashingStorage(unpacked(f"archive-crash/{name}"))
    recover(storage)
    expected = {r["recordingId"]: r["stopPosition"] for r in golden_truth(f"archive-crash/{truth}")["recordings"]}
    assert stops(storage) == expected
    assert ArchiveStore.open(storage, {}).verify().ok
