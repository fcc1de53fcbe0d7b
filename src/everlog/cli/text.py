"""Text for people: escaped for terminals, aligned in tables, in colour only if that is wanted."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

from everlog.core.rfc3339 import rfc3339


def printable(text: str) -> str:
    """Escape everything that could control a terminal: control and format characters, line breaks."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def say(text: str) -> None:
    """Print text that is already safe for a terminal, and a line break, to stderr. If stderr can't be written (the
    reader has gone, the disk is full) the line is dropped: it must not stop output on stdout, or a change, midway."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def print_error(message: str) -> None:
    """Print one line to stderr, escaped, after ``everlog:``."""
    say(f"everlog: {printable(message)}")


def warn(message: str) -> None:
    """Print one warning line to stderr."""
    print_error(f"warning: {message}")


def is_terminal(stream: TextIO) -> bool:
    """Whether the stream is a terminal."""
    return stream.isatty()


def wants_colour(stream: TextIO) -> bool:
    """Whether the stream is a terminal and ``NO_COLOR`` (https://no-color.org) is not set."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(text: str, code: str) -> str:
    """The text in an SGR style, if stdout wants colour."""
    return f"\x1b[{code}m{text}\x1b[0m" if wants_colour(sys.stdout) else text


def json_line(value: Any) -> str:
    """One line of JSON in ASCII: safe for every terminal, and for names that are not UTF-8."""
    return json.dumps(value, ensure_ascii=True)


def time_text(timestamp_ns: int | None) -> str:
    """``2024-05-06T07:08:09.123456789Z``; ``-`` for ``None``, the bare number for a time outside the calendar."""
    if timestamp_ns is None:
        return "-"
    return rfc3339(timestamp_ns) or f"{timestamp_ns}ns"


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[int]) -> None:
    """Print a table: drawn by rich on a terminal, else as aligned plain text. The columns ``right`` are
    right-aligned."""
    safe = [[printable(cell) for cell in row] for row in rows]
    if is_terminal(sys.stdout):
        _print_rich_table(headers, safe, right)
        return
    table = [list(headers), *safe]
    widths = [max(len(row[i]) for row in table) for i in range(len(headers))]
    for row in table:
        cells = [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        print("  ".join(cells).rstrip())


def _print_rich_table(headers: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[int]) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE, pad_edge=False)
    for i, header in enumerate(headers):
        table.add_column(header, justify="right" if i in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def outline(value: Any) -> Iterator[str]:
    """Nested plain values as indented ``key: value`` lines; a list's items start with a dash."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            label = f"{printable(str(key))}:"
            if _is_nested(item):
                yield label
                yield from ("  " + line for line in outline(item))
            else:
                yield f"{label} {scalar(item)}"
    elif isinstance(value, list | tuple) and value:
        for item in value:
            for number, line in enumerate(outline(item)):
                yield ("  " if number else "- ") + line
    else:
        yield scalar(value)


def _is_nested(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple) and bool(value)


def scalar(value: Any) -> str:
    """A single value for people: ``-`` for ``None``, ``yes`` or ``no`` for a boolean."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping | list | tuple):
        return "none"
    return printable(str(value))
