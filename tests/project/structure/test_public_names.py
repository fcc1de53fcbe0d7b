"""Public names show: to ``dir``, completion and ``help``, and to type checkers, which find a misspelt one."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import tests

PACKAGES = [
    "everlog",
    "everlog.aeron",
    "everlog.aeron.archive",
    "everlog.aeron.transport.client",
    "everlog.jlog",
    "everlog.sbe",
]
LAZY = [name for name in PACKAGES if name not in ("everlog", "everlog.aeron.transport.client")]


@pytest.mark.parametrize("name", PACKAGES)
def test_dir_has_every_public_name(name: str) -> None:
    if "spark" in name:
        pytest.importorskip("pyspark")
    package = importlib.import_module(name)
    assert set(package.__all__) <= set(dir(package))
    assert all(getattr(package, public) is not None for public in package.__all__)
    with pytest.raises(AttributeError, match="Writr"):
        package.Writr  # noqa: B018 - the attribute is looked up


@pytest.mark.parametrize("name", ["everlog", *LAZY])
def test_dir_has_nothing_else(name: str) -> None:
    program = f"import {name} as p; print(*(n for n in dir(p) if not n.startswith('_') and n not in p.__all__))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


@pytest.mark.parametrize("name", LAZY)
def test_type_checkers_see_the_same_names(name: str) -> None:
    package = importlib.import_module(name)
    tree = ast.parse(Path(package.__file__ or "").read_text(encoding="utf-8"))
    (checked,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        item.asname: node.module for node in checked.body if isinstance(node, ast.ImportFrom) for item in node.names
    }
    assert sorted(str(name) for name in seen) == sorted(package.__all__)
    assert {public: getattr(package, public).__name__ for public in seen} == {public: public for public in seen}


@pytest.mark.long
def test_a_misspelt_name_is_found_by_mypy(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("from everlog import jlog, open_store\njlog.Writr('x')\njlog.Writer('x')\nopen_store('x')\n")
    command = [sys.executable, "-m", "mypy", "--config-file", str(tests.ROOT / "pyproject.toml"), str(program)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tests.ROOT, check=False)
    found = [line for line in done.stdout.splitlines() if "program.py" in line]
    assert len(found) == 1, done.stdout
    assert 'Module has no attribute "Writr"' in found[0]


@pytest.mark.long
def test_a_misspelt_option_is_found_by_mypy(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    lines = [
        "from everlog import open_store, spark",
        "from everlog.aeron import archive",
        "archive.create('x', checksum='crc32c', durability='synced').start_recording('aeron:ipc', 1, session_id=5)",
        "archive.create('x', checksum='crc33')",
        "archive.open_archive('x', durabilty='synced')",
        "archive.open_archive('x').start_recording('aeron:ipc', 1, sesion_id=5)",
        "open_store('x', checksum='auto')",
        "open_store('x', checksum='atuo')",
        "def compare(session: object) -> None:",
        "    spark.compare(session, 'a', 'b', by='adress')",
        "    spark.export(session, 'a', folder='b', format='parqet')",
    ]
    program.write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "mypy", "--config-file", str(tests.ROOT / "pyproject.toml"), str(program)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tests.ROOT, check=False)
    found = [line.split(":")[1] for line in done.stdout.splitlines() if ": error: " in line]
    assert found == ["4", "5", "6", "8", "10", "11"], done.stdout
