"""Names of modules and of what is in them, where they are only text: in docstrings, lazy imports, documents, settings
of tools. A module that moves takes them along, or these tests fail."""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import importlib.util
import re
from pathlib import Path

import pytest

import tests

ROOT = tests.ROOT
NAME = re.compile(r"\beverlog(?:\.[A-Za-z_][A-Za-z_0-9]*)+")
DOCUMENTS = ("*.md", "docs/**/*.md", "Makefile", "pyproject.toml", "setup.py", ".ci/run")
OTHERS = frozenset(
    {"json", "tar", "channel", "clients", "cluster", "delivered", "durable", "generation", "kind", "last"}
)
OTHERS |= {"last_sent", "state", "subject"}
"""What follows ``everlog.`` where it is the name of a file, or a key of metadata."""


@functools.cache
def texts(path: Path) -> list[str]:
    """The strings of a Python file; all of another file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return [text]
    nodes = ast.walk(ast.parse(text))
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def files() -> list[Path]:
    sources = [path for folder in ("src", "tests", "tools", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    documents = [path for pattern in DOCUMENTS for path in ROOT.glob(pattern)]
    return sorted(path for path in (*sources, *documents) if path != Path(__file__))


@functools.cache
def is_there(name: str) -> bool:
    """Whether it is a module, or what can be reached from one by its name."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        module = ".".join(parts[:end])
        if _is_module(module):
            found = importlib.import_module(module)
            for part in parts[end:]:
                if not hasattr(found, part):
                    declared = (*getattr(found, "__slots__", ()), *getattr(found, "__annotations__", {}))
                    return part in declared or hasattr(builtins, part)  # as a test may put into a module
                found = getattr(found, part)
            return True
    return False


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ModuleNotFoundError, AttributeError):
        return False


def test_the_check_finds_what_is_wrong() -> None:
    assert is_there("everlog.stores")
    assert is_there("everlog.stores.FAMILIES")
    assert not is_there("everlog.no_module")
    assert not is_there("everlog.stores.no_name")


def test_dotted_names_in_texts_are_there() -> None:
    pytest.importorskip("pyspark")
    wrong = {}
    for path in files():
        for text in texts(path):
            for name in NAME.findall(text):
                if name.split(".")[1] not in OTHERS and not is_there(name):
                    wrong[name] = path.relative_to(ROOT).as_posix()
    assert wrong == {}


def test_docstrings_give_full_names() -> None:
    """A name that begins with a dot means another thing once its module has moved."""
    role = re.compile(r":(?:mod|class|func|data|meth|attr):`\.")
    assert [str(path) for path in files() if path.suffix == ".py" and role.search("\n".join(texts(path)))] == []
