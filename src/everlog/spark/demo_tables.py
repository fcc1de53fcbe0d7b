"""The demo's tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

Row = dict[str, Any]
MAX_CODES = 3


def family_tables(reports: list[Row], summary: list[Row], stores: Path) -> Iterator[Table]:
    """A table for each family, a line for each store: what was read of it, and what is wrong with it."""
    for family in sorted({report["family"] for report in reports}):
        members = sorted((r for r in reports if r["family"] == family), key=lambda r: r["store"])
        table = _table(
            f"{family}: {len(members)} stores", "store", "streams", "records", "bytes", "first", "last", "faults"
        )
        totals: Counter[str] = Counter()
        for report in members:
            streams = [row for row in summary if row["store"] == report["store"]]
            records = sum(row["records"] for row in streams)
            size = sum(row["bytes"] for row in streams)
            totals.update(streams=report["streams"], records=records, bytes=size, faults=_fault_count(report))
            first, last = _ends(streams)
            cells = (f"{report['streams']:,}", f"{records:,}", f"{size:,}", first, last, _faults(report))
            table.add_row(short_name(report["store"], stores), *cells)
        table.add_section()
        sums = (f"{totals[name]:,}" for name in ("streams", "records", "bytes"))
        table.add_row("[bold]all[/bold]", *sums, "", "", f"{totals['faults']:,}")
        yield table


def totals(reports: list[Row], summary: list[Row]) -> Text:
    """A line over everything."""
    damaged = sum(not report["ok"] for report in reports)
    records = sum(row["records"] for row in summary)
    streams = len(summary)
    text = f"{len(reports)} stores, {damaged} of them damaged: {records:,} records in {streams:,} streams were read"
    return Text(text, style="bold")


def answer(rows: list[Row], stores: Path) -> Table:
    """What the question in SQL gave."""
    table = _table(None, "family", "store", "stream", "records", "bytes", "middle message", "stores")
    for row in rows:
        numbers = (f"{row['records']:,}", f"{row['bytes']:,}", f"{row['middle']:,} B", f"{row['stores']:,}")
        table.add_row(row["family"], short_name(row["store"], stores), row["stream"], *numbers)
    return table


def short_name(store: str, stores: Path) -> str:
    """A store's path below the folders that say how it was opened and of which family it is."""
    path = Path(store)
    for base in (stores, stores.resolve()):
        if path.is_relative_to(base):
            return Path(*path.relative_to(base).parts[2:]).as_posix()
    return store


def _table(title: str | None, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for name in columns:
        numeric = name in ("streams", "records", "bytes", "middle message", "stores")
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    return table


def _ends(streams: list[Row]) -> tuple[str, str]:
    """Times of the first and last record; their addresses where the family keeps no time and there is one stream."""
    times = [(row["first_time"], row["last_time"]) for row in streams if row["first_time"]]
    if times:
        return min(a for a, _ in times), max(b for _, b in times)
    if not streams:
        return "", ""
    numbers = [(int(row["first_address"]), int(row["last_address"])) for row in streams]
    return f"{min(a for a, _ in numbers):,}", f"{max(b for _, b in numbers):,}"


def _fault_count(report: Row) -> int:
    count = sum(1 for fault in report["faults"] if fault["severity"] == "fault")
    return count + (0 if report["error"] is None else 1)


def _faults(report: Row) -> Text:
    if report["error"] is not None:
        return Text(report["error"], style="red")
    faults = Counter(fault["code"] for fault in report["faults"] if fault["severity"] == "fault")
    notes = Counter(fault["code"] for fault in report["faults"] if fault["severity"] == "note")
    text = Text(_codes(faults), style="red")
    if notes:
        text.append(("; " if faults else "") + "note: " + _codes(notes), style="yellow")
    return text or Text("none", style="green")


def _codes(codes: Counter[str]) -> str:
    shown = [code if count == 1 else f"{count} × {code}" for code, count in codes.most_common(MAX_CODES)]
    return ", ".join(shown) + (f", {len(codes) - MAX_CODES} more" if len(codes) > MAX_CODES else "")
