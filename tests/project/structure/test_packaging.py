"""What is built, what is shipped, and what happens without a compiler."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

import everlog
import tests

ROOT = tests.ROOT
COMPILED = sorted(
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in (ROOT / "src").rglob("_*.pyx")
)
BLOCKED = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name in {COMPILED!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
from everlog.cli import main
main()
"""


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("journal")
    with tarfile.open(ROOT / "tests/golden/jlog/basic/log.tar.gz") as tar:
        tar.extractall(folder, filter="data")
    return folder / "log"


@pytest.mark.parametrize("name", COMPILED)
def test_the_compiled_modules_are_built_where_tests_run(name: str) -> None:
    assert (importlib.import_module(name).__file__ or "").endswith(".so")


def test_without_compiled_modules_one_warning_comes_and_the_same_records(journal: Path) -> None:
    arguments = ["read", str(journal), "--json"]
    env = {key: value for key, value in os.environ.items() if key != "EVERLOG_PURE_PYTHON"}
    plain = subprocess.run([sys.executable, "-c", BLOCKED, *arguments], capture_output=True, env=env, check=True)
    built = subprocess.run([sys.executable, "-m", "everlog", *arguments], capture_output=True, env=env, check=True)
    assert plain.stdout == built.stdout
    assert built.stderr == b""
    (warning,) = plain.stderr.decode().splitlines()
    assert warning.startswith("everlog: warning: everlog runs without its compiled modules")


def test_the_twins_can_be_asked_for_without_a_warning(journal: Path) -> None:
    env = os.environ | {"EVERLOG_PURE_PYTHON": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "everlog", "ls", str(journal)], capture_output=True, env=env, check=True
    )
    assert done.stderr == b""


def test_versions_and_required_packages_agree_with_what_is_promised() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == everlog.__version__
    assert {item.split(">")[0] for item in project["dependencies"]} == {"click", "rich"}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    told = set(project["optional-dependencies"]) - {"all", "demo", "dev"}
    assert [extra for extra in told if f"| `{extra}` |" not in readme] == []


def test_every_error_is_public_and_documented() -> None:
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    errors = [name for name in everlog.__all__ if name[0].isupper()]
    assert [name for name in errors if f"`{name}`" not in text and f"everlog.{name}" not in text] == []
