"""The shipped contract holds for the smallest store, and notices a store that breaks it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from everlog import stores
from everlog.core.batch import Batch
from everlog.core.store import Level, ScanRequest
from everlog.testing import contract
from everlog.testing.contract import Subject, check_store
from everlog.testing.toy.store import ToyStore, toy_line


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    lines = [toy_line(3 * n, None if n % 5 == 0 else n * 1001, f"t{n % 3}", b"x" * (n % 40)) for n in range(200)]
    lines[50] = b"damaged\n"
    (folder / "a.toy").write_bytes(b"".join(lines))
    (folder / "empty.toy").write_bytes(b"")
    (folder / "deleted-b.toy").write_bytes(toy_line(1, 2, None, b"old"))
    return folder


def test_the_toy_store_keeps_the_contract(toy: Path) -> None:
    check_store(Subject(toy, levels=(Level.RECORD, Level.FRAME)), kernels=False)


def test_a_store_that_forgets_the_end_of_a_range_is_noticed(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = ToyStore.walk

    def walk(self: ToyStore, stream: str, request: ScanRequest) -> Iterator[Batch]:
        return honest(
            self, stream, ScanRequest(columns=request.columns, start=request.start, on_fault=request.on_fault)
        )

    monkeypatch.setattr(ToyStore, "walk", walk)
    with ToyStore.open(stores.LocalStorage(toy), {}) as store:
        rows = contract.read_rows(store, "a")
        with pytest.raises(AssertionError, match="from record 0 to"):
            contract.check_ranges(store, "a", Level.RECORD, rows)


def test_a_reader_that_changes_the_folder_is_noticed(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = ToyStore.close

    def close(self: ToyStore) -> None:
        (toy / "stray").touch()
        honest(self)

    monkeypatch.setattr(ToyStore, "close", close)
    with pytest.raises(AssertionError, match="changed the store's folder"):
        check_store(Subject(toy), kernels=False)
