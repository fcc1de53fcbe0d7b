"""Every golden store, by name: ``jlog/e_trunc_last``, ``nats_streaming/broken/subs_missing``,
``aeron/archive-basic/archive``."""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import tests

GOLDEN = tests.GOLDEN
PATTERNS = {
    "aeron": ("archive-*/*.tar.gz", "cluster-3node/node*.tar.gz", "cluster-killed/*.tar.gz", "transport/*.tar.gz"),
    "jlog": ("*/before.tar.gz", "*/log.tar.gz"),
    "nats_streaming": ("*.tar.gz", "broken/*.tar.gz"),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "nats_streaming/encrypted_AES": {"encryption_key": "mykey"},
    "nats_streaming/encrypted_CHACHA": {"encryption_key": "mykey"},
    "nats_streaming/crc_poly_castagnoli": {"crc_poly": 0x82F63B78},
    "nats_streaming/archive": {"include_bak": True},
}
"""How a store must be opened so that all of it can be read. Limits of age depend on the day, so none is set."""


@dataclass(frozen=True)
class GoldenStore:
    """A store that the real system wrote, unpacked."""

    name: str
    path: Path
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def is_small(self) -> bool:
        return sum(file.stat().st_size for file in self.path.rglob("*") if file.is_file()) < 200_000


def archives() -> dict[str, Path]:
    """Name to tar file."""
    found = {}
    for family, patterns in PATTERNS.items():
        for pattern in patterns:
            for path in sorted((GOLDEN / family).glob(pattern)):
                name = path.relative_to(GOLDEN).as_posix().removesuffix(".tar.gz")
                found[name.removesuffix("/before").removesuffix("/log")] = path
    return found


def store_folder(folder: Path) -> Path:
    """The store in an unpacked tar file: below its top folders."""
    while True:
        inside = list(folder.iterdir())
        if (folder / "raft").exists() and (folder / "store").exists():
            return folder / "store"
        if (folder / "cluster").exists() and (folder / "archive").exists():
            return folder / "cluster"
        if len(inside) != 1 or not inside[0].is_dir():
            return folder
        folder = inside[0]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "golden" in metafunc.fixturenames:
        metafunc.parametrize("golden", list(golden_parameters()), indirect=True)


def golden_parameters() -> Iterator[Any]:
    """All names. Of a folder of Aeron's, whose stores are large, the quick run has the first and the last."""
    names = sorted(archives())
    for before, name, behind in zip(["", *names], names, [*names[1:], ""], strict=False):
        folder = posixpath.dirname(name)
        is_inside = posixpath.dirname(before) == folder == posixpath.dirname(behind)
        is_long = is_inside and name.startswith("aeron/")
        yield pytest.param(name, marks=pytest.mark.long if is_long else ())


@pytest.fixture(scope="session")
def unpack(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], GoldenStore]:
    """Unpacks a golden store once. Tests only read it, so they share it."""
    unpacked: dict[str, GoldenStore] = {}

    def store(name: str) -> GoldenStore:
        if name not in unpacked:
            folder = tmp_path_factory.mktemp("golden")
            with tarfile.open(archives()[name]) as tar:
                tar.extractall(folder, filter="data")
            unpacked[name] = GoldenStore(name, store_folder(folder), OPTIONS.get(name, {}))
        return unpacked[name]

    return store


@pytest.fixture
def golden(request: pytest.FixtureRequest, unpack: Callable[[str], GoldenStore]) -> GoldenStore:
    """One golden store."""
    return unpack(request.param)


@pytest.fixture
def golden_stores(unpack: Callable[[str], GoldenStore]) -> list[GoldenStore]:
    """All of them."""
    return [unpack(name) for name in sorted(archives())]
