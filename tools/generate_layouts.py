"""Write what is derived from the declared layouts: tables in ``docs/formats``, offsets that compiled code includes.

``python tools/generate_layouts.py [FAMILY...]`` writes; ``--check`` only compares and exits 1 when a file is stale. For
each family with a ``layouts.py`` (or more, such as ``command_layouts.py``) there are two files:
``docs/formats/FAMILY.md`` and ``src/everlog/FAMILY/_layouts.pxi``. The second is an anonymous ``cdef enum`` with
``NAME_SIZE`` and ``NAME_FIELD`` (offset) for each layout, such as ``JLOG_HEADER_LENGTH``.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
sys.path.insert(0, str(SOURCE))

from everlog.layout import Layout  # noqa: E402

TITLES = {"aeron": "Aeron", "jlog": "JLog", "nats_streaming": "NATS Streaming"}
"""Family folder to the name of its page."""
INTRODUCTIONS = frozenset({"everlog.aeron.layouts"})
"""Modules whose docstring begins their family's page, where the family has several."""
GENERATED = "Generated from everlog.{}'s layouts by tools/generate_layouts.py. Do not edit."


def layouts_of(family: str) -> tuple[str, list[type[Layout]]]:
    """The docstring of the family's first ``layouts`` module, and the layouts of all of them in the order of their
    paths."""
    found: list[type[Layout]] = []
    names = []
    for path in sorted((SOURCE / "everlog" / family).rglob("*layouts.py")):
        names.append(".".join(path.relative_to(SOURCE).with_suffix("").parts))
        importlib.import_module(names[-1])
        found += [layout for layout in Layout.registry if layout.__module__ == names[-1]]
    first = next((name for name in names if name in INTRODUCTIONS), names[0] if names else None)
    return (inspect.getdoc(sys.modules[first]) or "" if first else ""), found


def constant_name(layout: type[Layout], suffix: str) -> str:
    """``JlogHeader``, ``length`` -> ``JLOG_HEADER_LENGTH``."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", layout.__name__)
    return f"{words}_{suffix}".upper()


def constants(family: str, layouts: list[type[Layout]]) -> str:
    """The text of ``_layouts.pxi``. Raises :class:`ValueError` when two constants would have one name."""
    lines = [
        f"# Generated from everlog.{family}'s layouts by tools/generate_layouts.py. Do not edit.",
        "",
        "cdef enum:",
    ]
    seen: set[str] = set()
    for layout in layouts:
        pairs = [("size", layout.size)] + [(f.name, f.offset) for f in layout.fields if not f.is_gap]
        for suffix, value in pairs:
            name = constant_name(layout, suffix)
            if name in seen:
                raise ValueError(f"{layout.__module__}: {name} is defined twice")
            seen.add(name)
            lines.append(f"    {name} = {value}")
    return "\n".join(lines) + "\n"


def page(family: str, text: str, layouts: list[type[Layout]]) -> str:
    """The Markdown page of a family."""
    parts = [
        f"# {TITLES.get(family, family)}: layouts on disk",
        f"<!-- {GENERATED.format(family)} -->",
        text,
        *(section(layout) for layout in layouts),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def section(layout: type[Layout]) -> str:
    """One layout: heading, meaning, source and the table of its fields."""
    order = "big-endian" if layout.struct.format.startswith(">") else "little-endian"
    var_data = f" Followed by {', '.join(f'`{part.name}`' for part in layout.var_data)}." if layout.var_data else ""
    rows = [
        f"| {f.offset} | {f.size} | {f.type_name} | {'(gap)' if f.is_gap else f'`{f.name}`'} | {cell(f.doc)} |"
        for f in layout.fields
    ]
    return "\n".join(
        [
            f"## {layout.title}",
            "",
            inspect.cleandoc(layout.__doc__ or ""),
            "",
            f"`{layout.__name__}`: {layout.size} bytes, {order}.{var_data} Source: {layout.source}.",
            "",
            "| offset | size | type | name | meaning |",
            "| ---: | ---: | --- | --- | --- |",
            *rows,
        ]
    )


def cell(text: str) -> str:
    """Text that fits a table cell."""
    return " ".join(text.replace("|", "\\|").split())


def outputs(families: Iterable[str]) -> dict[Path, str]:
    """Each generated file with the text that it should have."""
    found: dict[Path, str] = {}
    for family in families:
        text, layouts = layouts_of(family)
        if layouts:
            found[ROOT / "docs" / "formats" / f"{family}.md"] = page(family, text, layouts)
            found[SOURCE / "everlog" / family / "_layouts.pxi"] = constants(family, layouts)
    return found


def main() -> int:
    """Write or check; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when a file is stale")
    parser.add_argument("family", nargs="*", help=f"one or more of {', '.join(TITLES)}; all by default")
    arguments = parser.parse_args()
    check: bool = arguments.check
    stale = 0
    for path, text in outputs(arguments.family or TITLES).items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        print(f"{'stale' if check else 'wrote'} {path.relative_to(ROOT)}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
