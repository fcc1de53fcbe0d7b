"""Every golden store, damaged ones too, passes the contract of all stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from everlog.core.store import Level
from everlog.testing.contract import Subject, check_store


def test_the_store_keeps_the_contract(golden: Any) -> None:
    levels = (Level.RECORD, Level.FRAME) if golden.name.startswith("aeron") else (Level.RECORD,)
    check_store(Subject(golden.path, options=golden.options, levels=levels), kernels=golden.is_small)


def test_there_are_golden_stores_of_every_family() -> None:
    folders = {path.name for path in (Path(__file__).parents[1] / "golden").iterdir()}
    assert {"aeron", "jlog", "nats_streaming"} <= folders
