"""What each chart shows: turns rows of statistics into the marks of :mod:`everlog.charts.vega`, with texts that give
the numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from everlog.charts import vega as charts
from everlog.charts.cells import MAX_ROWS, Era, Key, Row, key_of, largest
from everlog.time_units import NS_PER_S

MAX_TICKS = 7


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart, its title, and a caption that explains it."""

    title: str
    caption: str
    svg: str


def timeline(era: Era, labels: dict[Key, str], gaps: list[Row], faults: list[Row]) -> Figure:
    """Records per second of each stream over time, with its gaps, bursts and damage."""
    at = {key_of(row): number for number, row in enumerate(era.streams)}
    cells = [cell for cell in era.cells if key_of(cell) in at]
    most = _most(cells)
    drawn, marks = [], []
    for cell in cells:
        key = key_of(cell)
        rate = cell["records"] * NS_PER_S / era.cell_ns
        says = (
            f"{labels[key]}, {clock(cell['cell'])}: {cell['records']:,} records, {rate:,.6g}/s, {size(cell['bytes'])}"
        )
        x = {"x": cell["cell"] // 10**6, "x2": (cell["cell"] + era.cell_ns) // 10**6}
        bar = {"row": at[key], "share": cell["records"] / most[key], "family": cell["family"], "says": says}
        drawn.append(bar | x)
        if cell["burst"]:
            middle = (cell["cell"] + era.cell_ns // 2) // 10**6
            marks.append({"x": middle, "at": at[key] + 0.2, "what": "burst", "says": f"burst: {says}"})
    for gap in gaps:
        if key_of(gap) in at and gap["before_ns"] is not None and era.start_ns <= gap["before_ns"] < era.end_ns:
            says = f"{labels[key_of(gap)]}: {gap['missing']:,} missing between {gap['after']} and {gap['before']}"
            marks.append({"x": gap["before_ns"] // 10**6, "at": at[key_of(gap)] + 0.5, "what": "gap", "says": says})
    damaged = Counter(key_of(fault) for fault in faults if fault["severity"] == "fault")
    notes = []
    for row in era.streams:
        key = key_of(row)
        note = f"{_rate(most.get(key, 0) * NS_PER_S / era.cell_ns)}/s"
        notes.append(f"{note}  ✗ {damaged[key]}" if damaged[key] else note)
    names = [labels[key_of(row)] for row in era.streams]
    spec = charts.rows_over(drawn, marks, names, notes, _time_axis(era), domain=_domain(era), temporal=True)
    caption = (
        f"Each bar is {duration(era.cell_ns)}; each row has its own scale, its highest bar is the rate at the right. "
        "◆ records missing, ▲ burst, ✗ faults found."
    )
    title = _era_title("Records over time", era)
    return Figure(title, caption + _others(era.left_out), charts.svg(spec, title))


def rates(era: Era) -> Figure:
    """Bytes per second of all drawn streams, by family."""
    sums: Counter[tuple[int, str]] = Counter()
    for cell in era.cells:
        sums[cell["cell"], cell["family"]] += cell["bytes"]
    order = {family: number for number, family in enumerate(charts.COLOURS)}
    below: Counter[int] = Counter()
    drawn = []
    for (start, family), count in sorted(
        sums.items(), key=lambda item: (item[0][0], order.get(item[0][1], len(order)))
    ):
        low, high = (held * NS_PER_S / era.cell_ns for held in (below[start], below[start] + count))
        below[start] += count
        x = {"x": start // 10**6, "x2": (start + era.cell_ns) // 10**6, "low": low, "high": high}
        drawn.append(x | {"family": family, "says": f"{family}, {clock(start)}: {size(high - low)}/s"})
    title = _era_title("Bytes a second", era)
    spec = charts.stacks(drawn, _time_axis(era), domain=_domain(era), title="bytes/s")
    return Figure(title, "Payload bytes of the streams above, stacked by family.", charts.svg(spec, title))


def _most(cells: list[Row]) -> dict[Key, int]:
    most: dict[Key, int] = {}
    for cell in cells:
        most[key_of(cell)] = max(most.get(key_of(cell), 0), cell["records"])
    return most


def _domain(era: Era) -> list[int]:
    return [era.start_ns // 10**6, era.end_ns // 10**6]


def by_position(
    streams: list[Row], cells: list[Row], labels: dict[Key, str], faults: list[Row], left_out: int
) -> Figure:
    """Records along positions, for streams without times."""
    at = {key_of(row): number for number, row in enumerate(streams)}
    most = _most(cells)
    drawn = []
    for cell in cells:
        says = f"{labels[key_of(cell)]}, from {cell['bucket']:,}: {cell['records']:,} records, {size(cell['bytes'])}"
        x = {"x": cell["bucket"], "x2": cell["bucket"] + cell["width"]}
        share = cell["records"] / most[key_of(cell)]
        drawn.append({"row": at[key_of(cell)], "share": share, "family": cell["family"], "says": says, **x})
    end = max(cell["x2"] for cell in drawn)
    marks = []
    for fault in faults:
        address = str(fault["address"] or "")
        if key_of(fault) in at and address.isdecimal() and fault["severity"] == "fault":
            says = f"{labels[key_of(fault)]}: {fault['code']} at {address}; a reader loses {fault['loses']}"
            marks.append({"x": int(address), "at": at[key_of(fault)] + 0.5, "what": "damage", "says": says})
    start = min(cell["x"] for cell in drawn)
    names = [labels[key_of(row)] for row in streams]
    notes = [f"{row['records']:,}" for row in streams]
    axis = {"title": "position (bytes)", "labelExpr": charts.SI, "tickCount": 6}
    spec = charts.rows_over(drawn, marks, names, notes, axis, domain=[start, end], temporal=False)
    title = "Records by position (streams without times)"
    caption = "Each row has its own scale; its number of records is at the right. ✚ damage whose position is known."
    return Figure(title, caption + _others(left_out), charts.svg(spec, title))


_RANGE = (("least", "min"), ("median", "median"), ("p99", "p99"), ("most", "max"))
_RANGE_CAPTION = "Line: minimum to maximum. | median, ● 99th percentile."


def sizes(streams: list[Row], labels: dict[Key, str]) -> Figure:
    """The least, median, 99th percentile and greatest payload size of each stream."""
    rows, left_out = largest(streams)
    drawn = []
    for number, row in enumerate(rows):
        values = {to: row[f"size_{name}"] for to, name in _RANGE}
        drawn.append(
            {"at": number + 0.5, "says": f"{labels[key_of(row)]}: {_says(values, '{:,.6g} B'.format)}"} | values
        )
    top = max(10, *(row["size_max"] for row in rows))
    powers = [10**n for n in range(len(str(top - 1)) + 1)]
    axis = {"title": "payload (bytes)", "values": [0, *powers], "labelExpr": charts.SI}
    names = [labels[key_of(row)] for row in rows]
    spec = charts.ranges(drawn, names, axis, domain=[0, powers[-1]], scale={"type": "symlog"})
    return Figure("Payload sizes", _RANGE_CAPTION + _others(left_out), charts.svg(spec, "Payload sizes"))


def intervals(streams: list[Row], labels: dict[Key, str]) -> Figure | None:
    """Times between records."""
    rows, left_out = largest(row for row in streams if row["interval_max_ns"] is not None)
    if not rows:
        return None
    drawn = []
    for number, row in enumerate(rows):
        values = {to: row[f"interval_{name}_ns"] for to, name in _RANGE}
        seconds = {to: max(value / NS_PER_S, 1e-6) for to, value in values.items()}
        drawn.append({"at": number + 0.5, "says": f"{labels[key_of(row)]}: {_says(values, duration)}"} | seconds)
    top = max(row["interval_max_ns"] / NS_PER_S for row in rows)
    powers = [10.0**n for n in range(-6, max(-4, math.ceil(math.log10(max(top, 1e-6))) + 1))]
    axis = {"title": "seconds (the least shown is 1 µs)", "values": powers, "labelExpr": charts.SI}
    names = [labels[key_of(row)] for row in rows]
    spec = charts.ranges(drawn, names, axis, domain=[powers[0], powers[-1]], scale={"type": "log"})
    title = "Times between records"
    return Figure(title, _RANGE_CAPTION + _others(left_out), charts.svg(spec, title))


def _says(values: dict[str, float], text: Callable[[float], str]) -> str:
    least, median, p99, most = (text(values[name]) for name, _ in _RANGE)
    return f"{least} to {most}, median {median}, 99 % up to {p99}"


def segments(found: list[Row], labels: dict[Key, str]) -> Figure | None:
    """Segment files on disk."""
    rows, left_out = largest(row for row in found if row["bytes"])
    if not rows:
        return None
    drawn = []
    for number, row in enumerate(rows):
        at = 0
        for index, count in enumerate(row["strip"]):
            where = {"x": at, "x2": at + count, "low": number + 0.8, "high": number + 0.2, "family": row["family"]}
            files = "" if row["files_in_a_part"] == 1 else f" ({row['files_in_a_part']} files each)"
            drawn.append(
                where
                | {"says": f"{labels[key_of(row)]}: part {index + 1} of {len(row['strip'])}{files}, {size(count)}"}
            )
            at += count
    notes = [f"{row['files']:,} · {size(row['bytes'])}" for row in rows]
    spec = charts.strips(drawn, [labels[key_of(row)] for row in rows], notes)
    title = "Segments on disk"
    return Figure(
        title,
        "Each part is a file; their number and total size are at the right." + _others(left_out),
        charts.svg(spec, title),
    )


def faults(found: list[Row]) -> Figure | None:
    """The number of faults of each kind."""
    met = Counter((fault["code"], fault["severity"]) for fault in found)
    if not met:
        return None
    rows = met.most_common(MAX_ROWS)
    names = [code for (code, _), _ in rows]
    drawn = [
        {"zero": 0, "count": count, "low": n + 0.8, "high": n + 0.2, "severity": severity, "says": f"{code}: {count}"}
        for n, ((code, severity), count) in enumerate(rows)
    ]
    title = "Faults found while reading"
    others = len(met) - len(rows)
    caption = "everlog spark verify finds all faults." + (f" {others} other kinds are left out." if others else "")
    return Figure(title, caption, charts.svg(charts.counts(drawn, names), title))


# Texts


def clock(ns: int) -> str:
    """Date and time of day to the second, with milliseconds if there are any."""
    text = f"{_moment(ns):%Y-%m-%d %H:%M:%S}"
    rest = ns % NS_PER_S
    return text if not rest else f"{text}.{rest // 10**6:03d}"


def day(ns: int) -> str:
    """The date."""
    return f"{_moment(ns):%Y-%m-%d}"


def _moment(ns: int) -> datetime:
    try:
        return datetime.fromtimestamp(ns // NS_PER_S, UTC)
    except (OverflowError, ValueError, OSError):
        return datetime.max.replace(tzinfo=UTC)


def size(count: float) -> str:
    """A number of bytes with a unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def duration(ns: float) -> str:
    """Nanoseconds with a suitable unit."""
    for unit, width in (
        ("d", 86400 * NS_PER_S),
        ("h", 3600 * NS_PER_S),
        ("min", 60 * NS_PER_S),
        ("s", NS_PER_S),
        ("ms", 10**6),
        ("µs", 10**3),
    ):
        if ns >= width:
            return f"{ns / width:,.4g} {unit}"
    return f"{ns:.0f} ns"


def _rate(count: float) -> str:
    for unit in ("", "k", "M"):
        if count < 1000:
            return f"{count:,.3g}{unit}"
        count /= 1000
    return f"{count:,.3g}G"


def _era_title(what: str, era: Era) -> str:
    first, last = _moment(era.start_ns), _moment(era.end_ns - 1)
    end = f"{last:%H:%M:%S}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M:%S}"
    return f"{what}: {first:%Y-%m-%d %H:%M:%S} to {end} UTC"


_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)


def _time_axis(era: Era) -> Row:
    span = (era.end_ns - era.start_ns) / NS_PER_S
    most = MAX_TICKS if span > 10 else MAX_TICKS // 2  # milliseconds are wide
    step = next((s for s in _STEPS if span / s <= most), 86400 * math.ceil(span / 86400 / MAX_TICKS))
    width = round(step * 1000)
    first = -(-era.start_ns // (width * 10**6)) * width
    values = list(range(first, era.end_ns // 10**6 + 1, width))
    return {"title": f"{day(era.start_ns)} UTC", "values": values, "format": _clock_format(era)}


def _clock_format(era: Era) -> str:
    span = era.end_ns - era.start_ns
    formats = ((4 * 86400, "%b %d"), (86400, "%b %d, %H:%M"), (600, "%H:%M"), (10, "%H:%M:%S"))
    return next((text for seconds, text in formats if span > seconds * NS_PER_S), "%H:%M:%S.%L")


def _others(count: int) -> str:
    return f" {count:,} other streams, with fewer bytes, are left out." if count else ""


def plain_number(value: Any) -> str:
    """A number as a table shows it."""
    return "–" if value is None else f"{value:,.6g}" if isinstance(value, float) else f"{value:,}"
