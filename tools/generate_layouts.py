"""Write what is derived from the declared layouts: tables in ``docs/formats``, offsets that compiled code includes.

``python tools/generate_layouts.py [FAMILY...]`` writes; ``--check`` only compares and exits 1 when a file is stale. For
each family with a ``layouts.py`` (or more, such as ``wire_layouts.py``) there are two files:
``docs/formats/FAMILY.md`` and ``src/everlog/FAMILY/_layouts.pxi``. The second is an anonymous ``cdef enum`` with
``NAME_SIZE`` and ``NAME_FIELD`` (offset) for each layout, such as ``JLOG_HEADER_LENGTH``. A family with protocols has
``docs/formats/FAMILY-messages.md``, too.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
sys.path.insert(0, str(SOURCE))

from everlog.aeron.messages import block_of  # noqa: E402
from everlog.fields import Block, Enumeration, Field  # noqa: E402
from everlog.layout import Layout  # noqa: E402

TITLES = {"aeron": "Aeron", "jlog": "JLog", "nats_streaming": "NATS Streaming"}
"""Family folder to the name of its page."""
INTRODUCTIONS = frozenset({"everlog.aeron.layouts"})
"""Modules whose docstring begins their family's page, where the family has several."""
_SBE = "SBE schema {SCHEMA_ID}; version {SCHEMA_VERSION} is written. Each message follows an SBE message header."
PROTOCOLS = {
    "aeron": (
        ("Archive", "everlog.aeron.archive.protocol.codec", _SBE),
        (
            "Media driver",
            "everlog.aeron.transport.protocol.commands",
            "Commands (types from 0x01) and events (from 0xf01). The header of the buffer's record has the type. The\n"
            "length before a text is signed, and at a multiple of 4 bytes from the message's start.",
        ),
        ("Cluster", "everlog.aeron.cluster.protocol.codec", _SBE),
    )
}
"""The protocols of a family: title, the module with its ``MESSAGES``, and an introduction with names of the module."""
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


def messages_page(family: str) -> str:
    """The Markdown page of a family's protocols."""
    parts = [
        f"# {TITLES.get(family, family)}: messages",
        f"<!-- {GENERATED.format(family)} -->",
        "Numbers are little-endian and make up a message's block. Groups follow it, then texts and bytes, each after\n"
        "its length (32 bits). `since` is the schema version that added a field.",
    ]
    for title, name, introduction in PROTOCOLS[family]:
        module = importlib.import_module(name)
        parts += [f"## {title}", introduction.format(**vars(module))]
        parts += [message_section(kind) for kind in module.MESSAGES]
    return "\n\n".join(parts) + "\n"


def message_section(kind: Any) -> str:
    """One message: heading, meaning, and the tables of its fields and of its groups' entries."""
    block = block_of(kind)
    number = f"template {kind.template_id}" if hasattr(kind, "template_id") else f"type {kind.type_id:#04x}"
    source = getattr(kind, "source", "")
    lines = [f"### {kind.__name__}: {number}", "", plain(inspect.cleandoc(kind.__doc__ or "")), ""]
    lines += [f"A block of {block.size} bytes.{following(block)}{f' Source: {source}.' if source else ''}"]
    lines += field_table(block)
    for group in block.groups:
        lines += ["", f"Each entry of `{group.name}`: {group.block.size} bytes.{following(group.block)}"]
        lines += field_table(group.block)
    return "\n".join(lines)


def following(block: Block) -> str:
    """The sentence that names what follows a block."""
    names = [
        f"`{part.name}`" + (f" (since {part.since})" if part.since else "") for part in (*block.groups, *block.var_data)
    ]
    return f" Followed by {', '.join(names)}." if names else ""


def field_table(block: Block) -> list[str]:
    """The lines of a table of a block's fields."""
    fields = [field for _, field in block.fields()]
    if not fields:
        return []
    rows = [
        f"| {f.offset} | {f.size} | {f.type_name} | `{f.name}` | {f.since or ''} | {cell(meaning(f))} |" for f in fields
    ]
    return ["", "| offset | size | type | name | since | meaning |", "| ---: | ---: | --- | --- | --- | --- |", *rows]


def meaning(field: Field) -> str:
    """A field's meaning, and the names of its values."""
    names = field.labels.names.items() if isinstance(field.labels, Enumeration) else ()
    return "; ".join(part for part in (field.doc, ", ".join(f"{value} {name}" for value, name in names)) if part)


def plain(text: str) -> str:
    """A docstring without roles: ``:class:`~a.b.C``` -> ```C```."""
    return re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", text)


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
        if family in PROTOCOLS:
            found[ROOT / "docs" / "formats" / f"{family}-messages.md"] = messages_page(family)
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
