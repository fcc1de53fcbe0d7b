"""``everlog spark export``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from everlog.cli.spark.invocation import Running, scan_options, size_of, source_options, spark_options
from everlog.cli.text import json_line, print_table, printable, warn
from everlog.core.counting import counted
from everlog.errors import UsageError
from everlog.pipelines.choices import EXPORT_FORMATS, ExportFormat

if TYPE_CHECKING:
    from everlog.spark.jobs.export import ExportSummary
    from everlog.spark.jobs.purge import StreamPurge

HEADERS = ("family", "store", "stream", "records", "bytes", "files", "faults", "all records")
NUMBERS = frozenset(range(3, len(HEADERS)))


@click.command
@click.argument("paths", metavar="PATH... FOLDER", nargs=-1, required=True)
@click.option(
    "--format",
    "kind",
    type=click.Choice(EXPORT_FORMATS),
    default="parquet",
    help="File format.",
)
@click.option("--commit-bytes", metavar="SIZE", default="2g", show_default=True, help="Bytes to read between commits.")
@click.option("--purge-exported", is_flag=True, help="Afterwards free the exported segments of JLog and Aeron stores.")
@click.option("--yes", is_flag=True, help="Really free them; without this, only print what would be freed.")
@click.option(
    "--subscriber", default="everlog-export", show_default=True, help="JLog: name of the export's own subscriber."
)
@source_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: what was exported of each stream.")
@spark_options
def export(
    paths: tuple[str, ...],
    kind: ExportFormat,
    commit_bytes: str,
    purge_exported: bool,
    yes: bool,
    subscriber: str,
    option: tuple[str, ...],
    as_json: bool,
    running: Running,
) -> int:
    """Export the records of all stores at or below the paths to FOLDER, by store, stream and hour. A repeated run adds
    the new records: each record is there once, even if earlier runs were killed."""
    from everlog.pipelines.scan.options import parse_options
    from everlog.spark.jobs.export import Export, purge
    from everlog.spark.jobs.export import export as run
    from everlog.spark.jobs.purge import check_choice

    if len(paths) < 2:
        message = "give at least one store, then the folder to export to"
        raise UsageError("FOLDER", found="one path", expected="a store and a folder", message=message)
    if yes and not purge_exported:
        raise UsageError("--yes", expected="--purge-exported", message="--yes needs --purge-exported")
    size = size_of("--commit-bytes", commit_bytes)
    wish = Export(options=scan_options(paths[:-1], option), folder=paths[-1], kind=kind, commit_bytes=size)
    if purge_exported:
        check_choice(parse_options(wish.options))
    with running.session("export") as (spark, progress):
        summary = run(spark, wish, progress)
        freed = purge(spark, wish, do_it=yes, subscriber=subscriber) if purge_exported else None
    for fault in summary.faults:
        warn(str(fault))
    for loss in summary.losses:
        warn(loss)
    if as_json:
        purged = {} if freed is None else {"purged": yes, "purge": [one.to_dict() for one in freed]}
        click.echo(json_line(summary.to_dict() | purged))
    else:
        _print(summary)
        if freed is not None:
            _print_purge(freed, yes)
    return 1 if any(one.damaged for one in freed or ()) else summary.exit_code


def _print_purge(freed: list[StreamPurge], is_done: bool) -> None:
    rows = []
    for one in freed:
        what = one.refused or ("nothing" if not one.files else f"{one.files[0]} to {one.files[-1]}")
        count = one.freed if is_done and one.freed is not None else 0 if one.refused else len(one.files)
        rows.append(
            [one.family, one.store, one.stream, one.until, str(count), str(0 if one.refused else one.byte_count), what]
        )
    headers = ("family", "store", "stream", "exported to", "files", "bytes", "freed" if is_done else "would be freed")
    print_table(headers, rows, frozenset({4, 5}))
    if not is_done:
        click.echo("dry run: nothing was freed; add --yes to free it")


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
    faults = f", {counted(summary.fault_count, 'fault')} skipped" if summary.fault_count else ""
    total = sum(one.total_rows for one in summary.streams.values())
    click.echo(
        f"exported {counted(summary.rows, 'record')} to {printable(summary.folder)}, "
        f"which now has {total} of these streams{faults}"
    )
