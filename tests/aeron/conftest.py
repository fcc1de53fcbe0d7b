"""The golden archives, unpacked once."""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tests
from everlog.aeron.archive import recordings as archive_module
from everlog.aeron.archive.writing import recording_end as end_module
from everlog.aeron.frames import framing_twin

GOLDEN = tests.GOLDEN / "aeron"


@pytest.fixture(params=["compiled", "twin"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Archives record with the compiled framer and its short way, then with their twins."""
    if request.param == "twin":
        monkeypatch.setattr(archive_module, "Framer", framing_twin.Framer)
        monkeypatch.setattr(end_module, "Tail", framing_twin.Tail)
    return str(request.param)


@pytest.fixture(scope="session")
def golden_archive(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a golden archive such as ``archive-crash/crash-plain``: for reading only."""
    root = tmp_path_factory.mktemp("aeron")

    def unpack(name: str) -> Path:
        folder = root / name
        if not folder.exists():
            folder.mkdir(parents=True)
            with tarfile.open(GOLDEN / f"{name}.tar.gz") as tar:
                tar.extractall(folder, filter="data")
        (inner,) = folder.iterdir()
        return inner

    return unpack


@pytest.fixture
def archive_copy(golden_archive: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a golden archive that a test may damage."""

    def copy(name: str) -> Path:
        return Path(shutil.copytree(golden_archive(name), tmp_path / name.replace("/", "-")))

    return copy


@pytest.fixture(scope="session")
def golden_truth() -> Callable[[str], dict[str, Any]]:
    """What the real archive replayed, such as ``archive-basic/truth``."""
    loaded: dict[str, dict[str, Any]] = {}

    def load(name: str) -> dict[str, Any]:
        if name not in loaded:
            with gzip.open(GOLDEN / f"{name}.json.gz") as file:
                loaded[name] = json.load(file)
        return loaded[name]

    return load
