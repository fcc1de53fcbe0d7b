"""``everlog spark stats``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from everlog.cli.spark.invocation import Running, chosen_options, source_options, spark_options
from everlog.cli.text import json_line, print_table, printable, time_text
from everlog.core.counting import counted
from everlog.core.options import MAX_INT64
from everlog.errors import UsageError

if TYPE_CHECKING:
    from everlog.spark.statistics.stats import Stats

HEADERS = (
    *("store", "stream", "records", "bytes", "records/s", "size median", "size p99", "size max"),
    *("interval p99", "gaps", "faults", "bursts", "first", "last"),
)
NUMBERS = frozenset(range(2, 12))
_UNITS = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}
_SHOWN = 20


def bucket_width(text: str) -> int:
    """Nanoseconds of ``10s``, ``1m``, ... Raises :class:`UsageError`."""
    match = re.fullmatch(r"(\d{1,9})\s*(ms|s|m|h|d)", text.strip().lower())
    width = int(match[1]) * _UNITS[match[2]] if match else 0
    if not 0 < width <= MAX_INT64:
        raise UsageError("--bucket", found=repr(text), expected="a duration such as 500ms, 10s, 1m, 1h or 1d")
    return width


@click.command
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@source_options
@click.option("--bucket", default="1m", show_default=True, help="Time range of each row.")
@click.option(
    "--timestamp-from", metavar="WHERE", help="Aeron: where messages have their time, such as reserved_value:ns."
)
@click.option("--sbe-schema", metavar="FILE", help="SBE schema, for --timestamp-from sbe:FIELD.")
@click.option(
    "--report",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write a page with charts to this file (extra plot).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line; `row` is its kind.")
@spark_options
def stats(
    paths: tuple[str, ...],
    option: tuple[str, ...],
    bucket: str,
    timestamp_from: str | None,
    sbe_schema: str | None,
    report: str | None,
    as_json: bool,
    running: Running,
) -> int:
    """Records, bytes, rates, sizes, times between records, gaps and bursts of each stream and minute; the clients that
    sent most and the readers that lag. Exit code 1 if faults were found while reading."""
    from everlog.charts.vega import check_library
    from everlog.spark.jobs.progress import TaskProgress
    from everlog.spark.statistics.stats import stats as make_stats

    options = chosen_options(option)
    options |= {"timestampFrom": timestamp_from} if timestamp_from else {}
    options |= {"sbeSchema": sbe_schema} if sbe_schema else {}
    width = bucket_width(bucket)
    if report is not None:
        check_library()
    with running.session("stats") as (spark, progress), TaskProgress(spark, "stats", progress):
        found = make_stats(spark, *paths, bucket_ns=width, options=options)
        if as_json:
            _print_json(found)
        else:
            _print(found)
        if report is not None:
            found.report().save(Path(report))
    return 0 if found.ok else 1


def _print_json(found: Stats) -> None:
    for name in ("stores", "streams", "gaps", "faults", "clients", "readers", "segments"):
        for row in getattr(found, name):
            click.echo(json_line({"row": name.removesuffix("s")} | row))
    for bucket in found.buckets.orderBy("store", "stream", "axis", "bucket").toLocalIterator():
        click.echo(json_line({"row": "bucket"} | bucket.asDict()))


def _print(found: Stats) -> None:
    print_table(HEADERS, [_cells(row) for row in found.streams], NUMBERS)
    for store in found.stores:
        if store["error"]:
            click.echo(f"unreadable  {printable(store['store'])}: {printable(store['error'])}")
    _section("gaps", [_gap(row) for row in found.gaps])
    _section(
        "faults", [f"{_place(row)} {row['file']}: {row['code']}; a reader loses {row['loses']}" for row in found.faults]
    )
    rows = found.bursts().orderBy("records", ascending=False).limit(_SHOWN).collect()
    _section(
        "bursts", [f"{_place(row)} {time_text(row['bucket'])}: {counted(row['records'], 'record')}" for row in rows]
    )
    _section(
        "clients that sent most",
        [
            f"{_place(row)} session {row['client']}: "
            f"{counted(row['records'], 'message')}, {counted(row['bytes'], 'byte')}"
            for row in found.clients
        ],
    )
    behind = sorted((row for row in found.readers if row["lag_records"]), key=lambda row: -row["lag_records"])
    _section(
        "readers that are behind",
        [f"{_place(row)} {row['kind']} {row['reader']}: {counted(row['lag_records'], 'record')}" for row in behind],
    )
    records, sizes = (sum(row[name] for row in found.streams) for name in ("records", "bytes"))
    streams = len({(row["store"], row["stream"]) for row in found.streams})
    click.echo(
        f"{counted(len(found.stores), 'store')}, {counted(streams, 'stream')} with records: "
        f"{counted(records, 'record')}, {counted(sizes, 'byte')}; "
        f"{counted(len(found.gaps), 'gap')}, {counted(len(found.faults), 'fault')}"
    )


def _section(title: str, lines: list[str]) -> None:
    if lines:
        click.echo(f"\n{title}")
        for line in lines[:_SHOWN]:
            click.echo(f"  {printable(line)}")
        if len(lines) > _SHOWN:
            click.echo(f"  and {len(lines) - _SHOWN} more (--json)")
    if title == "readers that are behind":
        click.echo()


def _place(row: Any) -> str:
    return f"{row['store']} {row['stream']}"


def _gap(row: dict[str, Any]) -> str:
    return f"{_place(row)}: {row['missing']} missing between {row['after']} and {row['before']}"


def _cells(row: dict[str, Any]) -> list[str]:
    rate = "-" if row["records_per_s"] is None else f"{row['records_per_s']:,.1f}"
    gone = row["interval_p99_ns"]
    return [
        row["store"],
        row["stream"],
        *(f"{round(row[name])}" for name in ("records", "bytes")),
        rate,
        *(f"{row[name]:.0f}" for name in ("size_median", "size_p99", "size_max")),
        "-" if gone is None else f"{gone / 1e9:.6f} s",
        *(str(row[name]) for name in ("gaps", "faults", "bursts")),
        time_text(row["first_ns"]),
        time_text(row["last_ns"]),
    ]
