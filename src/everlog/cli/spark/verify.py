"""``everlog spark verify``."""

from __future__ import annotations

from typing import Any

import click

from everlog.cli.spark.invocation import Running, scan_options, source_options, spark_options
from everlog.cli.text import json_line, print_table, printable
from everlog.cli.verify import print_fault
from everlog.core.counting import counted
from everlog.core.report import Fault, Severity

HEADERS = ("state", "store", "family", "streams", "segments", "records", "bytes", "faults", "notes")
NUMBERS = frozenset(range(3, len(HEADERS)))


@click.command
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@source_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: all stores with all faults.")
@spark_options
def verify(paths: tuple[str, ...], option: tuple[str, ...], as_json: bool, running: Running) -> int:
    """Check all stores at or below the paths in parallel, large ones in parts, and print one report. Exit code 1 if a
    store has a fault or can't be opened."""
    from everlog.pipelines.scan.options import parse_options
    from everlog.spark.jobs.progress import TaskProgress
    from everlog.spark.jobs.verify import stores_to_verify, verify_stores

    todo = stores_to_verify(parse_options(scan_options(paths, option)))
    with running.session("verify") as (spark, progress), TaskProgress(spark, "verify", progress):
        rows = verify_stores(spark, todo)
    is_ok = all(row["ok"] for row in rows)
    if as_json:
        click.echo(json_line({"ok": is_ok, "stores": rows}))
    else:
        _print(rows)
    return 0 if is_ok else 1


def _print(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        for values in row["faults"]:
            fault = Fault(
                **values | {"severity": Severity(values["severity"]), "file": f"{row['store']}/{values['file']}"}
            )
            print_fault(fault)
        if row["error"]:
            click.echo(f"fault  {printable(row['error'])}")
    print_table(HEADERS, [_cells(row) for row in rows], NUMBERS)
    faults = [fault["severity"] == "fault" for row in rows for fault in row["faults"]]
    damaged = sum(not row["ok"] for row in rows)
    counts = f"{counted(sum(faults), 'fault')}, {counted(len(faults) - sum(faults), 'note')}"
    click.echo(f"{counted(len(rows), 'store')}: {len(rows) - damaged} ok, {damaged} damaged; {counts}")


def _cells(row: dict[str, Any]) -> list[str]:
    faults = sum(fault["severity"] == "fault" for fault in row["faults"])
    state = "unreadable" if row["error"] else "ok" if row["ok"] else "damaged"
    counts = [row[name] for name in ("streams", "segments", "records", "bytes")]
    return [state, row["store"], row["family"], *map(str, [*counts, faults, len(row["faults"]) - faults])]
