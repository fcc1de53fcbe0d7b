"""``everlog spark export``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from everlog.cli.spark.running import Running, scan_options, size_of, source_options, spark_options
from everlog.cli.text import json_line, print_table, printable, warn
from everlog.errors import UsageError

if TYPE_CHECKING:
    from everlog.spark.pipelines.export import ExportSummary

HEADERS = ("family", "store", "stream", "records", "bytes", "files", "faults", "all records")
FORMATS = ("parquet", "arrow", "jsonl", "delta")
NUMBERS = frozenset(range(3, len(HEADERS)))


@click.command
@click.argument("paths", metavar="PATH... FOLDER", nargs=-1, required=True)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["parquet", "arrow", "jsonl", "delta"]),
    default="parquet",
    help="Of the files.",
)
@click.option(
    "--commit-bytes", metavar="SIZE", default="2g", show_default=True, help="How much to read between commits."
)
@source_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object: what was exported of each stream.")
@spark_options
def export(
    paths: tuple[str, ...], kind: str, commit_bytes: str, option: tuple[str, ...], as_json: bool, running: Running
) -> int:
    """Export the records of all stores at or below the paths to FOLDER, by store, stream and hour. Run again, it adds
    what is new: each record is there once, whenever a run was killed."""
    from everlog.spark.pipelines.export import Export
    from everlog.spark.pipelines.export import export as run

    if len(paths) < 2:
        raise UsageError("FOLDER", found="one path", expected="stores, and behind them the folder to export to")
    size = size_of("--commit-bytes", commit_bytes)
    wish = Export(options=scan_options(paths[:-1], option), folder=paths[-1], kind=kind, commit_bytes=size)
    with running.session("export") as (spark, progress):
        summary = run(spark, wish, progress)
    for fault in summary.faults:
        warn(str(fault))
    for loss in summary.losses:
        warn(loss)
    if as_json:
        click.echo(json_line(summary.to_dict()))
    else:
        _print(summary)
    return summary.exit_code


def _print(summary: ExportSummary) -> None:
    rows = [
        [
            one.family,
            key.store,
            key.stream,
            *map(str, (one.rows, one.byte_count, one.files, one.faults, one.total_rows)),
        ]
        for key, one in summary.streams.items()
    ]
    print_table(HEADERS, rows, NUMBERS)
    faults = f", {summary.fault_count} faults passed over" if summary.fault_count else ""
    total = sum(one.total_rows for one in summary.streams.values())
    click.echo(
        f"exported {summary.rows} records to {printable(summary.folder)}, which has {total} of these streams{faults}"
    )
