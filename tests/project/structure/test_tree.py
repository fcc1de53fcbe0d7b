"""The folders of sources and tests: how full they are, what their files are called, and that tests mirror sources."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT

SOURCES, TESTS = ROOT / "src" / "everlog", ROOT / "tests"
MAX_MODULES = 20
FULLER = {
    "src/everlog/kernel": "each loop is three files: compiled, twin in Python, and what chooses between them",
}
"""Folders with more modules, and why; three at most."""
OF_ALL = {"golden", "interop", "project"}
"""Folders of tests that are about the whole."""
SINGLE = {"src/everlog/cli/run": "one server a module, as the command's group loads them"}
"""Folders that appeared before their third module, and why."""
WORK_OF_A_FOLDER = ("repair", "migrate", "export", "stats", "verify", "archive")
VERBS = {"src/everlog/cli/archive/migrate_segments.py"}
"""Modules that are called like the verb that they are."""


def modules(folder: Path) -> list[Path]:
    return sorted([*folder.glob("*.py"), *folder.glob("*.pyx")])


def folders(top: Path) -> Iterator[Path]:
    yield from sorted({path.parent for path in top.rglob("*.py") if "golden" not in path.parts})


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("top", [SOURCES, TESTS], ids=name)
def test_a_folder_has_a_page_of_modules(top: Path) -> None:
    full = {name(folder): len(modules(folder)) for folder in folders(top) if len(modules(folder)) > MAX_MODULES}
    assert {folder: count for folder, count in full.items() if folder not in FULLER} == {}


def test_what_is_excepted_is_needed() -> None:
    assert len(FULLER) <= 3
    assert [folder for folder in FULLER if len(modules(ROOT / folder)) <= MAX_MODULES] == []
    assert [folder for folder in SINGLE if len(modules(ROOT / folder)) > 3] == []
    assert [verb for verb in VERBS if not (ROOT / verb).exists()] == []


def test_a_folder_appears_with_its_third_module() -> None:
    small = {}
    for folder in folders(SOURCES):
        below = [path for path in modules(folder) if path.name != "__init__.py"]
        below += [path for path in folder.iterdir() if (path / "__init__.py").exists()]
        if len(below) < 3:
            small[name(folder)] = [path.name for path in below]
    assert {folder: below for folder, below in small.items() if folder not in SINGLE} == {}


def test_no_name_begins_with_what_is_a_folder() -> None:
    """``repair_steps.py`` is ``repair/steps.py``; ``jlog/jlog_names.py`` is ``jlog/names.py``."""
    found = []
    for folder in folders(SOURCES):
        for path in modules(folder):
            first = path.stem.lstrip("_").split("_")[0]
            is_longer = path.stem.lstrip("_") != first and not path.stem.endswith("_twin")
            if is_longer and (first in WORK_OF_A_FOLDER or first == folder.name) and name(path) not in VERBS:
                found.append(name(path))
    assert found == []


def test_tests_mirror_sources_folder_for_folder() -> None:
    sources = {folder.relative_to(SOURCES).as_posix() for folder in folders(SOURCES)}
    tests = {folder.relative_to(TESTS).as_posix() for folder in folders(TESTS)}
    tests = {folder for folder in tests if folder.split("/")[0] not in OF_ALL}
    assert sorted(sources - tests) == [], "folders of sources without one of tests"
    # Many tests of one module may have a folder.
    assert sorted(t for t in tests - sources if not (SOURCES / f"{t}.py").exists()) == [], "of tests without sources"


def test_expected_skips_are_of_files_that_are_there() -> None:
    listed = tomllib.loads((TESTS / "expected_skips.toml").read_text())["skip"]
    files = [name(path) for path in TESTS.rglob("test_*.py")]
    assert [one["tests"] for one in listed if not any(re.fullmatch(one["tests"], file) for file in files)] == []
