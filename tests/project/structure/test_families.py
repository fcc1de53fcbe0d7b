"""A family is one record: nothing outside of its folder says anything of it by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import tests
from everlog.core.family.record import Family, load
from everlog.stores import FAMILIES
from everlog.testing.toy.family import TOY

SRC = tests.ROOT / "src" / "everlog"
LAZY = ("store", "follower", "collector", "checking", "overview", "appending", "purging", "migrating")
ALLOWED = ("stores.py", "servers/", "testing/")


def folder_of(family: Family) -> str:
    """The folder of a family's store, below ``everlog``."""
    return family.store.removeprefix("everlog.").rpartition(".")[0].rpartition(".")[0].replace(".", "/")


def texts(tree: ast.AST) -> Iterator[ast.Constant]:
    """The strings of a module, without docstrings."""
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node


def literals(source: str, names: dict[str, str], path: str = "") -> list[str]:
    """Family names that are a literal of ``source``, alone, in quotes or before a colon, unless ``path`` is in their
    family's folder."""
    found = []
    for node in texts(ast.parse(source)):
        for name, folder in names.items():
            forms = (f"'{name}'", f'"{name}"', f"{name}:")
            if (node.value == name or any(form in node.value for form in forms)) and not path.startswith(f"{folder}/"):
                found.append(f"{path}:{node.lineno}: {name}")
    return found


def test_the_check_finds_literals() -> None:
    names = {"jlog": "jlog", "aeron-archive": "aeron/archive"}
    source = '"""jlog"""\na = ["jlog", "jlogctl", "everlog.jlog.store"]\nb = "family = \'aeron-archive\'"\n'
    assert sorted(literals(source, names, "spark/x.py")) == ["spark/x.py:2: jlog", "spark/x.py:3: aeron-archive"]
    assert literals(source, names, "jlog/x.py") == ["jlog/x.py:3: aeron-archive"]


def test_no_family_is_named_outside_of_its_folder() -> None:
    names = {family.name: folder_of(family) for family in FAMILIES.values() if family is not TOY}
    assert names["aeron-archive"] == "aeron/archive"
    found = []
    for path in sorted(SRC.rglob("*.py")):
        inside = path.relative_to(SRC).as_posix()
        if not inside.startswith(ALLOWED):
            found += literals(path.read_text(encoding="utf-8"), names, inside)
    assert found == []


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_what_a_record_names_is_there_and_in_the_familys_folder(family: Family) -> None:
    pytest.importorskip("prometheus_client")
    assert set(LAZY) == {f.name for f in fields(Family) if "None" in str(f.type) and "str" in str(f.type)} - {
        "not_followed",
        "compare_command",
    } | {"store"}
    for attribute in LAZY:
        name = getattr(family, attribute)
        if name is not None:
            assert callable(load(name)), name
            assert name.startswith(f"everlog.{folder_of(family).replace('/', '.')}."), name
    assert load(family.store).family == family.name


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_a_records_options_are_fields_of_its_options_class(family: Family) -> None:
    known = {f.name for f in fields(load(family.store).options_class)}
    assert {option.field for option in family.options} <= known


def test_every_family_has_its_record_in_a_file_of_its_folder() -> None:
    for family in FAMILIES.values():
        assert Path(SRC / folder_of(family) / "family.py").is_file()
