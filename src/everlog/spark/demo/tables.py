"""The demo's tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from everlog.spark.demo.aeron import Comparison, DriverCounters

Row = dict[str, Any]
MAX_CODES = 3
BAR_WIDTH = 24
_NUMBERS = frozenset(
    (
        "streams",
        "records",
        "bytes",
        "median message",
        "stores",
        "session",
        "term",
        "messages",
        "held by",
        "same",
        "value",
    )
)


def family_tables(reports: list[Row], summary: list[Row], stores: Path) -> Iterator[Table]:
    """A table for each family with a line for each store: what was read of it, and its faults."""
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
    """A summary line."""
    damaged = sum(not report["ok"] for report in reports)
    records = sum(row["records"] for row in summary)
    streams = len(summary)
    text = f"{len(reports)} stores, {damaged} of them damaged; read {records:,} records in {streams:,} streams"
    return Text(text, style="bold")


def answer(rows: list[Row], stores: Path) -> Table:
    """The result of the question in SQL."""
    table = _table(None, "family", "store", "stream", "records", "bytes", "median message", "stores")
    for row in rows:
        numbers = (f"{row['records']:,}", f"{row['bytes']:,}", f"{row['middle']:,} B", f"{row['stores']:,}")
        table.add_row(row["family"], short_name(row["store"], stores), row["stream"], *numbers)
    return table


def sessions(rows: list[Row]) -> Table:
    """Messages of each cluster session in each second."""
    table = _table(
        "client messages of the clusters, by second, session and term; held by how many members",
        *("cluster", "second", "session", "term", "messages", "bytes", "held by", "sent"),
    )
    most = max((row["messages"] for row in rows), default=1)
    for before, row in zip([None, *rows], rows, strict=False):
        if before is not None and before["cluster"] != row["cluster"]:
            table.add_section()
        numbers = (f"{row[name]:,}" for name in ("session", "term", "messages", "bytes"))
        held = str(row["most"]) if row["fewest"] == row["most"] else f"{row['fewest']} to {row['most']}"
        bar = "█" * max(1, round(BAR_WIDTH * row["messages"] / most))
        table.add_row(row["cluster"], row["second"], *numbers, held, Text(bar, style="cyan"))
    return table


def comparisons(found: list[Comparison]) -> Table:
    """Whether the members of each cluster have the same log."""
    table = _table("members compared", "cluster", "members", "same", "bytes", "faults", "what differs")
    for one in found:
        report = one.report
        codes = _faults({"error": None, "faults": [fault.to_dict() for fault in report.faults]})
        differs = "\n".join(fault.found for fault in report.faults)
        counts = f"{report.record_count:,}", f"{report.byte_count:,}"
        table.add_row(one.cluster, ", ".join(one.nodes), *counts, codes, differs)
    return table


def system_counters(drivers: list[DriverCounters], stores: Path) -> Table:
    """The system counters of all drivers side by side, without those that are 0 everywhere."""
    names = [short_name(driver.store, stores) for driver in drivers]
    table = _table("counters of the media drivers", "system counter")
    for name in names:
        table.add_column(name, justify="right", overflow="fold")
    labels = {number: label for driver in drivers for number, label in driver.labels.items()}
    for number in sorted(labels):
        values = [driver.system.get(number) for driver in drivers]
        if any(values):
            table.add_row(labels[number], *("" if value is None else f"{value:,}" for value in values))
    return table


def other_counters(drivers: list[DriverCounters], stores: Path) -> Table:
    """Each driver's largest counters of streams, clients and services."""
    table = _table("the largest of their other counters, one of each type", "store", "counter", "value")
    for driver in drivers:
        for label, value in driver.others:
            table.add_row(short_name(driver.store, stores), label, f"{value:,}")
        table.add_section()
    return table


def short_name(store: str, stores: Path) -> str:
    """A store's path without the folders of its group and family."""
    path = Path(store)
    for base in (stores, stores.resolve()):
        if path.is_relative_to(base):
            return Path(*path.relative_to(base).parts[2:]).as_posix()
    return store


def _table(title: str | None, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in _NUMBERS else "left", overflow="fold")
    return table


def _ends(streams: list[Row]) -> tuple[str, str]:
    """Times of the first and last record, or their addresses if the family has no times."""
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
