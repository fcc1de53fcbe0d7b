"""Compiled modules are those of the sources that are there, in the tree, in a wheel, and after a file has moved; and
``make`` installs what is needed, not more."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from setuptools import Distribution, Extension
from setuptools.errors import CompileError

import tests

ROOT = tests.ROOT
SOURCES = sorted((ROOT / "src").rglob("_*.pyx"))
SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
"""Of modules for this interpreter."""


@pytest.fixture(scope="module")
def setup() -> ModuleType:
    """``setup.py``, which does nothing when it is imported."""
    spec = importlib.util.spec_from_file_location("everlog_setup", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_compiled_module_has_its_source(setup: ModuleType) -> None:
    left = setup.stale(ROOT / "src")
    assert left == [], "sources that are gone left these behind: make clean, then make setup"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.relative_to(ROOT / "src").as_posix())
def test_every_source_is_compiled_for_this_interpreter_and_not_older(setup: ModuleType, source: Path) -> None:
    module = source.with_name(source.stem + SUFFIX)
    assert setup.is_current(module, [str(source)]), "make setup builds it"


@pytest.mark.parametrize("suffix", ["pyx", "pxd"])
def test_layouts_are_included_by_their_path_from_the_root(suffix: str) -> None:
    included = re.compile(r'^include "(.*)"', re.MULTILINE)
    found = {name for path in (ROOT / "src").rglob(f"*.{suffix}") for name in included.findall(path.read_text())}
    assert found
    assert [name for name in found if not (name.startswith("everlog/") and (ROOT / "src" / name).exists())] == []


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for top in ("src/everlog", "tests") for path in (ROOT / top).rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_modules_and_c_code_without_a_source_are_found(setup: ModuleType, tmp_path: Path) -> None:
    for name in ("_here.pyx", "_here.c", "_here.cpython-39.so", "_moved.c", "_moved.abi3.so", "other.so", "_x.py"):
        (tmp_path / name).touch()
    assert [path.name for path in setup.stale(tmp_path)] == ["_moved.abi3.so", "_moved.c"]


def test_a_module_that_is_older_than_its_source_is_not_taken_for_built(setup: ModuleType, tmp_path: Path) -> None:
    source, module = tmp_path / "_a.c", tmp_path / "_a.so"
    source.touch()
    assert not setup.is_current(module, [str(source)])
    module.touch()
    assert setup.is_current(module, [str(source)])
    os.utime(module, (0, 0))
    assert not setup.is_current(module, [str(source)])


def build(setup: ModuleType, tree: Path, monkeypatch: pytest.MonkeyPatch, *compiling: str) -> set[str]:
    """Build modules ``a._one`` and ``a._two`` where only ``compiling`` compile; the modules in the tree then."""
    (tree / "src" / "a").mkdir(parents=True, exist_ok=True)
    for name in ("_one.pyx", "_one.c", "_two.pyx", "_two.c", "__init__.py"):
        (tree / "src" / "a" / name).touch()
    monkeypatch.chdir(tree)

    def compile_some(command: Any) -> None:
        for name in compiling:
            path = Path(command.get_ext_fullpath(name))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    monkeypatch.setattr(setup.build_ext, "build_extensions", compile_some)
    modules = [Extension(f"a.{name}", [f"src/a/{name}.c"], optional=True) for name in ("_one", "_two")]
    command = setup.AllOrNone(Distribution({"name": "a", "ext_modules": modules, "package_dir": {"": "src"}}))
    command.inplace = True
    command.ensure_finalized()
    command.run()
    return {path.name.partition(".")[0] for path in (tree / "src").rglob("*.so")}


def test_a_build_in_the_tree_removes_what_has_no_source(
    setup: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "src" / "b").mkdir(parents=True)
    (tmp_path / "src" / "b" / f"_gone{SUFFIX}").touch()
    assert build(setup, tmp_path, monkeypatch, "a._one", "a._two") == {"_one", "_two"}


def test_a_source_that_does_not_compile_is_an_error_that_names_it(
    setup: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CompileError, match=r"not built: a\._two"):
        build(setup, tmp_path, monkeypatch, "a._one")


def test_without_a_compiler_no_module_of_before_is_left(
    setup: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert build(setup, tmp_path, monkeypatch, "a._one", "a._two") == {"_one", "_two"}
    for path in tmp_path.rglob("*.so"):
        os.utime(path, (0, 0))
    assert build(setup, tmp_path, monkeypatch) == set()


def test_a_wheel_has_the_modules_that_are_there_and_none_of_before(tmp_path: Path) -> None:
    """Of a build in a folder that is used again."""
    package = tmp_path / "lib" / "everlog" / "jlog" / "reading"
    package.mkdir(parents=True)
    gone = [package / name for name in ("gone.py", "_gone.pyx", f"_gone{SUFFIX}")]
    kept = package / f"_walk{SUFFIX}"
    for path in (*gone, kept):
        path.touch()
    command = [sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", str(tmp_path)]
    command += ["build_py", "--build-lib", str(tmp_path / "lib")]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"EVERLOG_NO_EXTENSIONS": "1"}, check=True)
    assert [path for path in gone if path.exists()] == []
    assert kept.exists()
    modules = {path.relative_to(tmp_path / "lib") for path in (tmp_path / "lib").rglob("*.py")}
    assert modules == {path.relative_to(ROOT / "src") for path in (ROOT / "src").rglob("*.py")}


INTERPRETER = """#!/bin/sh
# In the place of Python: notes what it is asked for, and makes what make looks at.
case "$*" in
*"-m venv"*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
*"pip install"*) echo "$*" | grep -o "\\[[a-z]*\\]" >> log ;;
*build_ext*) echo build >> log; for source in $(find src -name "_*.pyx"); do touch "${source%.pyx}.so"; done ;;
*-m*) echo "$*" >> log ;;
esac
exit 0
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with one source, in which the interpreter does nothing."""
    if shutil.which("make") is None:
        pytest.skip("no make")
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("pyproject.toml", "setup.py", "src/a/_one.pyx", "log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "python").write_text(INTERPRETER)
    (tmp_path / "python").chmod(0o755)
    return tmp_path


def make(tree: Path, target: str) -> list[str]:
    """What the interpreter was asked for."""
    (tree / "log").write_text("")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    environment |= {"JAVA_HOME": "/somewhere"}
    subprocess.run(["make", "--silent", "PYTHON=./python", target], cwd=tree, env=environment, check=True)
    return (tree / "log").read_text().split("\n")[:-1]


def test_make_demo_installs_what_the_demo_needs_and_make_setup_the_rest(tree: Path) -> None:
    demo = "-m everlog.spark.demo.tour"
    assert make(tree, "demo") == ["[demo]", "build", demo]
    assert make(tree, "demo") == [demo]
    assert make(tree, "setup") == ["[dev]"]
    assert make(tree, "demo") == [demo]
    assert make(tree, "setup") == []


def test_make_builds_again_when_a_source_has_moved_or_is_gone_or_a_module_is(tree: Path) -> None:
    assert "build" in make(tree, "setup")
    (tree / "src" / "b").mkdir()
    (tree / "src/a/_one.pyx").rename(tree / "src/b/_one.pyx")  # which keeps its time
    assert make(tree, "setup") == ["build"]
    assert make(tree, "setup") == []
    (tree / "src/b/_one.so").unlink()
    assert make(tree, "setup") == ["build"]
    (tree / "src/b/_one.pyx").unlink()
    assert make(tree, "setup") == ["build"]
    assert make(tree, "setup") == []


def test_make_tries_again_where_nothing_could_be_built(tree: Path) -> None:
    (tree / "python").write_text(INTERPRETER.replace("touch", ": "))
    assert "build" in make(tree, "setup")
    assert make(tree, "setup") == ["build"]
