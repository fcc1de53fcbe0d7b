"""What a store refuses: use after it was closed, and arguments of a wrong type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everlog.core.files.storage import LocalStorage
from everlog.core.splits import Split
from everlog.core.store import Store
from everlog.errors import Closed, UsageError, WrongType
from everlog.testing.toy.store import ToyStore, toy_line

USES: dict[str, Callable[[Store], Any]] = {
    "read": lambda store: store.read("sea"),
    "scan": lambda store: store.scan("sea"),
    "scan_split": lambda store: store.scan_split(Split("sea", None, None, 0)),
    "streams": lambda store: store.streams(),
    "stream_names": lambda store: store.stream_names(),
    "splits": lambda store: store.splits("sea"),
    "info": lambda store: store.info(),
    "verify": lambda store: store.verify(),
    "verify_parts": lambda store: store.verify_parts(),
    "warnings": lambda store: store.warnings(),
    "plan_repair": lambda store: store.plan_repair(),
    "is_gone": lambda store: store.is_gone("sea", 0),
    "with": lambda store: store.__enter__(),
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    lines = [toy_line(number, None, None, b"water") for number in range(3, 6)]
    (tmp_path / "sea.toy").write_bytes(b"".join(lines))
    return ToyStore.open(LocalStorage(tmp_path), {})


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_closed_store_refuses_every_use(store: Store, use: Callable[[Store], Any]) -> None:
    store.close()
    store.close()
    with pytest.raises(Closed, match=r"^store is closed$"):
        use(store)


@pytest.mark.parametrize("begun", [False, True])
def test_a_scan_ends_when_its_store_is_closed(store: Store, begun: bool) -> None:
    batches = store.scan("sea", max_rows=1)
    if begun:
        assert next(batches).row_count == 1
    store.close()
    with pytest.raises(Closed, match="store is closed"):
        next(batches)


def test_arguments_of_a_wrong_type_are_refused_at_once(store: Store) -> None:
    for use in (store.read, store.scan):
        with pytest.raises(WrongType, match="stream must be text, not 3"):
            use(3)  # type: ignore[operator]
        with pytest.raises(WrongType, match=r"address must be text or a whole number, not 1\.5"):
            use("sea", start=1.5)  # type: ignore[operator]
    with pytest.raises(WrongType, match="columns must be a list of names, not 'payload'"):
        list(store.scan("sea", columns="payload"))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="max_rows must be at least 1, not 0"):
        list(store.scan("sea", max_rows=0))
    with pytest.raises(UsageError, match="level must be 'record' or 'frame', not 'page'"):
        store.read("sea", level="page")  # type: ignore[arg-type]


def test_records_that_a_store_no_longer_has_are_gone(store: Store) -> None:
    assert [store.is_gone("sea", address) for address in (2, 3, 5)] == [True, False, False]
    assert store.is_gone("lake", 3)
