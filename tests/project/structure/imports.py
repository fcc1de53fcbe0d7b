"""Who imports whom in ``src``: at the top, inside functions, under ``TYPE_CHECKING``, and by name as
``load``, ``import_module`` and ``lazy_names`` do."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests import ROOT

SRC = ROOT / "src"
Graph = Mapping[str, set[str]]
_DOTTED = re.compile(r"everlog(\.\w+)+")
_FROM = re.compile(r"^\s*from (everlog[\w.]*) c?import (\([^)]*\)|[^\n#]*)", re.MULTILINE)


def module_of(path: Path) -> str:
    """The dotted name of a file."""
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def modules() -> dict[str, Path]:
    """All of everlog's, by dotted name; of a compiled one its source."""
    return {module_of(path): path for kind in ("py", "pyx") for path in sorted((SRC / "everlog").rglob(f"*.{kind}"))}


def graph(passed_over: Iterable[str] = ()) -> dict[str, set[str]]:
    """Module to the modules that it names. ``passed_over``: those whose names in strings don't count."""
    known = modules()
    left_out = set(passed_over)
    found: dict[str, set[str]] = {}
    for name, path in known.items():
        text = path.read_text()
        seen = set(_of_cython(text) if path.suffix == ".pyx" else _of_python(text, name not in left_out))
        found[name] = {module for wanted in seen if (module := _nearest(wanted, known)) not in (None, name)}  # type: ignore[misc]
    return found


def _nearest(wanted: str, known: Mapping[str, Path]) -> str | None:
    """The module that a dotted name is, or is in."""
    if wanted in known:
        return wanted
    parent = wanted.rpartition(".")[0]
    return parent if parent in known else None


def _of_cython(text: str) -> Iterator[str]:
    for package, names in _FROM.findall(text):
        for one in re.sub(r"#.*", "", names).strip("()\n ").split(","):
            if one.strip():
                yield f"{package}.{one.split()[0]}"


def _of_python(text: str, with_strings: bool) -> Iterator[str]:
    tree = ast.parse(text)
    documents: set[ast.AST] = set()
    """Texts, and names of loggers: no module is meant."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            documents.add(node.value)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "logging.getLogger":
            documents |= set(node.args)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("everlog"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("everlog."))
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in documents
        if with_strings and is_text and _DOTTED.fullmatch(node.value):  # type: ignore[attr-defined]
            yield node.value  # type: ignore[attr-defined]


def circles(edges: Graph) -> list[list[str]]:
    """The groups of nodes of which each reaches each other, after Tarjan."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(root: str) -> None:
        work = [(root, iter(sorted(edges[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    work.append((other, iter(sorted(edges[other]))))
                    break
                if other in stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    found.append(sorted(stack[at:]))
                    del stack[at:]

    for node in edges:
        if node not in index:
            visit(node)
    return [group for group in found if len(group) > 1]


def of_siblings(edges: Graph) -> dict[str, dict[str, set[str]]]:
    """For each folder the graph of what is in it, modules and folders: an edge where anything below imports anything
    below."""
    found: dict[str, dict[str, set[str]]] = {}
    packages = {name for name, path in modules().items() if path.name == "__init__.py"}
    for package in packages:
        depth = package.count(".") + 1
        inside = {name for name in edges if name.startswith(f"{package}.")}

        def child(name: str, depth: int = depth) -> str:
            return ".".join(name.split(".")[: depth + 1])

        siblings: dict[str, set[str]] = {child(name): set() for name in inside}
        for name in inside:
            siblings[child(name)] |= {child(other) for other in edges[name] & inside if child(other) != child(name)}
        found[package] = siblings
    return found
