"""The report page: charts, and tables with the same numbers for readers who can't see the charts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Protocol

from everlog import __version__
from everlog.charts import cells as choosing
from everlog.charts import figures
from everlog.charts.cells import Cells, Key, Row, key_of
from everlog.charts.figures import Figure, clock, duration, plain_number, size
from everlog.time_units import NS_PER_S

MAX_LINES = 100
"""Most rows of a table."""
LONG_TEXT = 50
"""Longest cell text in characters that stays on one line."""

_STYLE = """
.everlog { --ev-ink: #1f2328; --ev-faint: #8a9199; --ev-ground: #ffffff; --ev-bad: #b34700;
  color: var(--ev-ink); background: var(--ev-ground); font: 15px/1.45 system-ui, sans-serif; padding: 16px; }
@media (prefers-color-scheme: dark) { .everlog {
  --ev-ink: #e6e8ea; --ev-faint: #8b949e; --ev-ground: #16191d; --ev-bad: #ff9d5c; } }
.everlog h1 { font-size: 24px; margin: 0 0 4px; } .everlog h2 { font-size: 18px; margin: 28px 0 4px; }
.everlog p { margin: 4px 0; max-width: 70em; } .everlog figure { margin: 0; overflow-x: auto; }
.everlog figcaption, .everlog .small { font-size: 13px; }
.everlog svg { display: block; max-width: none; }
.everlog .numbers { display: flex; flex-wrap: wrap; gap: 8px 32px; margin: 12px 0; padding: 0; list-style: none; }
.everlog .numbers b { display: block; font-size: 22px; } .everlog .bad { color: var(--ev-bad); }
.everlog .wide { overflow-x: auto; }
.everlog table { border-collapse: collapse; font-size: 13px; margin: 6px 0; background: none; color: inherit; }
.everlog th, .everlog td { padding: 2px 10px 2px 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid color-mix(in srgb, var(--ev-faint) 40%, transparent);
  color: inherit; background: none; white-space: nowrap; }
.everlog td.t { white-space: normal; min-width: 18em; overflow-wrap: anywhere; }
.everlog .n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
"""


@dataclass(frozen=True, slots=True)
class Report:
    """An HTML page. A notebook displays it directly."""

    title: str
    body: str

    def html(self) -> str:
        """The whole page; it loads no other resource."""
        policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
        return (
            f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            f"<title>{escape(self.title)}</title>\n"
            "<style>body { margin: 0; } @media (prefers-color-scheme: dark) { body { background: #16191d; } }</style>\n"
            f"</head>\n<body>\n{self.body}\n</body>\n</html>\n"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page. A crash leaves the previous file at ``path``, and possibly a ``.part`` file next to it."""
        target = Path(path)
        part = target.with_name(target.name + ".part")
        part.unlink(missing_ok=True)  # an existing FIFO there would block the open
        with part.open("x", encoding="utf-8") as file:
            file.write(self.html())
        part.replace(target)

    def _repr_html_(self) -> str:
        return self.body


class Statistics(Protocol):
    """The statistics that a page shows, as rows: see :class:`everlog.spark.statistics.stats.Stats`."""

    @property
    def burst_rule(self) -> str: ...
    @property
    def streams(self) -> list[Row]: ...
    @property
    def clients(self) -> list[Row]: ...
    @property
    def readers(self) -> list[Row]: ...
    @property
    def gaps(self) -> list[Row]: ...
    @property
    def faults(self) -> list[Row]: ...
    @property
    def segments(self) -> list[Row]: ...
    @property
    def stores(self) -> list[Row]: ...


def make_report(stats: Statistics, cells: Cells, title: str) -> Report:
    """Make a page about ``stats``, with charts of ``cells``. Raises :class:`MissingDependency` without the extra
    ``plot``."""
    labels = choosing.labels([*stats.streams, *stats.segments])
    parts = [f"<h1>{escape(title)}</h1>", _numbers(stats)]
    parts += [_figure(one) for one in _figures(stats, cells, labels)]
    parts += _tables(stats, labels)
    parts.append(f'<p class="small">Made by everlog {escape(__version__)}.</p>')
    return Report(title, f'<div class="everlog"><style>{_STYLE}</style>\n' + "\n".join(parts) + "\n</div>")


def _figures(stats: Statistics, cells: Cells, labels: dict[Key, str]) -> Iterable[Figure]:
    for era in cells.eras:
        yield figures.timeline(era, labels, stats.gaps, stats.faults)
        yield figures.rates(era)
    if cells.timeless:
        yield figures.by_position(cells.timeless, cells.positions, labels, stats.faults, cells.left_out)
    drawn = [
        figures.sizes(stats.streams, labels) if stats.streams else None,
        figures.intervals(stats.streams, labels),
        figures.segments(stats.segments, labels),
        figures.faults(stats.faults),
    ]
    yield from (one for one in drawn if one is not None)


def _figure(one: Figure) -> str:
    return f"<h2>{escape(one.title)}</h2>\n<figure>{one.svg}<figcaption>{escape(one.caption)}</figcaption></figure>"


def _numbers(stats: Statistics) -> str:
    streams = {key_of(row) for row in stats.streams}
    unreadable = sum(bool(row["error"]) for row in stats.stores)
    damage = sum(fault["severity"] == "fault" for fault in stats.faults)
    missing = sum(gap["missing"] for gap in stats.gaps)
    numbers: list[tuple[str, str, bool]] = [
        (f"{len(stats.stores):,}", "stores", False),
        (f"{len(streams):,}", "streams with records", False),
        (f"{sum(row['records'] for row in stats.streams):,}", "records", False),
        (size(sum(row["bytes"] for row in stats.streams)), "payload", False),
        (f"{damage:,}", "faults found", damage > 0),
        (f"{missing:,}", f"records missing ({len(stats.gaps):,} gaps)", missing > 0),
    ]
    if unreadable:
        numbers.append((f"{unreadable:,}", "stores that could not be read", True))
    items = "".join(
        f"<li><b{' class=bad' if bad else ''}>{escape(value)}</b>{escape(name)}</li>" for value, name, bad in numbers
    )
    return f'<ul class="numbers">{items}</ul>'


_STREAM_HEADS = (
    *("stream", "records", "payload", "records/s", "size median", "p99", "max", "between: median", "p99"),
    *("missing", "faults", "bursts", "first", "last"),
)


def _stream_row(name: str, row: Row) -> tuple[Any, ...]:
    between = ("–" if row[n] is None else duration(row[n]) for n in ("interval_median_ns", "interval_p99_ns"))
    sizes = (row[n] for n in ("size_median", "size_p99", "size_max"))
    found = (row[n] for n in ("missing", "faults", "bursts"))
    ends = _time(row["first_ns"]), _time(row["last_ns"])
    return name, row["records"], size(row["bytes"]), row["records_per_s"], *sizes, *between, *found, *ends


def _tables(stats: Statistics, labels: dict[Key, str]) -> list[str]:
    def name(row: Row) -> str:
        return labels.get(key_of(row), f"{row['store']} / {row['stream']}")

    streams = [_stream_row(name(row), row) for row in sorted(stats.streams, key=lambda row: -row["bytes"])]
    parts = [_table("Streams", _STREAM_HEADS, streams, f"Burst: {stats.burst_rule}.")]
    faults = [(name(f), f["severity"], f["code"], f["file"], f["offset"], f["found"], f["loses"]) for f in stats.faults]
    parts.append(_table("Faults", ("stream", "severity", "fault", "file", "offset", "found", "a reader loses"), faults))
    errors = [(row["store"], row["error"]) for row in stats.stores if row["error"]]
    parts.append(_table("Stores that could not be read", ("store", "why"), errors))
    gaps = [(name(g), g["missing"], g["after"], g["before"], _time(g["before_ns"])) for g in stats.gaps]
    parts.append(_table("Gaps", ("stream", "missing", "after", "before", "at"), gaps))
    clients = [(name(c), c["client"], c["records"], size(c["bytes"])) for c in stats.clients]
    parts.append(_table("Clients that sent most", ("stream", "cluster session", "messages", "payload"), clients))
    readers = [
        (name(r), r["kind"], r["reader"], r["at"], r["lag_records"], r["pending"])
        for r in sorted(stats.readers, key=lambda r: -(r["lag_records"] or 0))
    ]
    parts.append(_table("Readers", ("stream", "kind", "reader", "at", "records behind", "not acknowledged"), readers))
    return [part for part in parts if part]


def _time(ns: int | None) -> str:
    return "–" if ns is None else f"{clock(ns - ns % NS_PER_S)}.{ns % NS_PER_S // 10**6:03d}"


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "") -> str:
    if not rows:
        return ""
    numeric = [all(isinstance(row[i], int | float | None) for row in rows) for i in range(len(heads))]
    head = "".join(
        f'<th scope="col"{" class=n" if n else ""}>{escape(text)}</th>' for text, n in zip(heads, numeric, strict=True)
    )
    lines = ["".join(map(_cell, row, numeric)) for row in rows[:MAX_LINES]]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    more = f" {len(rows) - MAX_LINES:,} more are not shown." if len(rows) > MAX_LINES else ""
    below = f'<p class="small">{escape(note + more)}</p>' if note + more else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<h2>{escape(title)}</h2>\n<div class="wide">{table}</div>{below}'


def _cell(value: Any, is_number: bool) -> str:
    if is_number:
        return f"<td class=n>{plain_number(value)}</td>"
    text = "–" if value is None else str(value)
    return f"<td{' class=t' if len(text) > LONG_TEXT else ''}>{escape(text)}</td>"
