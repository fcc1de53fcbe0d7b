"""Every golden store, damaged ones too, passes the contract of all stores."""

from __future__ import annotations

from typing import Any

import tests
from everlog.core.store import Level
from everlog.testing.contract import Subject, check_kernels, check_store
from everlog.testing.series import Series


def subject_of(golden: Any) -> Subject:
    levels = (Level.RECORD, Level.FRAME) if golden.name.startswith("aeron") else (Level.RECORD,)
    return Subject(golden.path, options=golden.options, levels=levels)


def test_the_store_keeps_the_contract(golden: Any, series: Series) -> None:
    check_store(subject_of(golden), kernels=False, series=series)


def test_both_kernels_give_the_same_of_every_small_golden_store(golden_stores: Any) -> None:
    subjects = [subject_of(golden) for golden in golden_stores if golden.is_small]
    assert len(subjects) > 50
    check_kernels(subjects)


def test_there_are_golden_stores_of_every_family() -> None:
    folders = {path.name for path in (tests.GOLDEN).iterdir()}
    assert {"aeron", "jlog", "nats_streaming"} <= folders
