"""No module and no folder is part of a circle of imports, of whatever kind."""

from __future__ import annotations

import pytest

from tests.project.structure.imports import circles, graph, modules, of_siblings

LAZY_NAMES = frozenset(name for name in modules() if name.endswith(".family"))
"""Modules whose strings name what they load without knowing it: records of families."""


def test_no_modules_import_each_other() -> None:
    found = [[modules()[name].as_posix() for name in circle] for circle in circles(graph(LAZY_NAMES))]
    assert found == []


def test_no_folders_import_each_other() -> None:
    edges = graph(LAZY_NAMES)
    found = {}
    for package, siblings in of_siblings(edges).items():
        for circle in circles(siblings):
            inside = tuple(f"{name}." for name in circle)
            found[package] = sorted(
                f"{modules()[name]} imports {other}"
                for name in edges
                for other in edges[name]
                if any(f"{name}.".startswith(a) and f"{other}.".startswith(b) for a in inside for b in inside if a != b)
            )
    assert found == {}


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"a"}, "c": {"a"}}, [["a", "b"]]),
        ({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}}, [["a", "b", "c"], ["d", "e"]]),
    ],
)
def test_circles_are_found(edges: dict[str, set[str]], expected: list[list[str]]) -> None:
    assert sorted(circles(edges)) == expected


def test_imports_of_all_kinds_are_seen() -> None:
    edges = graph()
    assert "everlog.core.columns" in edges["everlog.core.batch"], "at the top"
    assert "everlog.aeron.archive.repair.plan" in edges["everlog.aeron.archive.store"], "inside a function"
    assert "everlog.core.plan.plan" in edges["everlog.core.store"], "under TYPE_CHECKING"
    assert "everlog.aeron.frames._walk" in edges["everlog.aeron.frames.walk"], "by load"
    assert "everlog.jlog.writing.writer" in edges["everlog.jlog"], "by lazy names"
    assert "everlog.kernel._columns" in edges["everlog.jlog.reading._walk"], "by cimport"
    assert "everlog.jlog.store" in edges["everlog.jlog.family"]
    assert "everlog.jlog.store" not in graph(LAZY_NAMES)["everlog.jlog.family"]
