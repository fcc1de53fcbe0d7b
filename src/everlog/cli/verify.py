"""``everlog verify``: checks a store and reports every fault."""

from __future__ import annotations

from typing import Any

import click

from everlog.cli.opening import open_given, store_arguments
from everlog.cli.progress import ProgressLine
from everlog.cli.text import json_line, printable, styled
from everlog.core.counting import counted
from everlog.core.report import Fault, Report, Severity

RED, YELLOW, GREEN, BOLD = "31;1", "33", "32", "1"


@click.command
@store_arguments
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with all faults.")
def verify(path: str, family: str | None, as_json: bool, **options: Any) -> int:
    """Check everything in the store at PATH and report every fault: where it is, what was found and expected, what a
    reader loses, how to repair it. Exit code 1 if there are faults; notes (which heal by themselves) do not count.
    """
    with ProgressLine() as progress, open_given(path, family, options) as store:
        report = store.verify(progress)
    if as_json:
        click.echo(json_line(report.to_dict()))
    else:
        for fault in report.faults:
            print_fault(fault)
        print_summary(report)
    return report.exit_code


def print_fault(fault: Fault) -> None:
    """Print a fault: where it is, then a line for each of found, expected, loses and repair."""
    is_fault = fault.severity is Severity.FAULT
    place = fault.file if fault.offset is None else f"{fault.file} at offset {fault.offset}"
    where = [f"stream {fault.stream}"] if fault.stream is not None else []
    where += [f"address {fault.address}"] if fault.address is not None else []
    suffix = f" ({', '.join(where)})" if where else ""
    label = styled(f"{fault.severity.value:5}", RED if is_fault else YELLOW)
    click.echo(f"{label}  {styled(printable(fault.code), BOLD)}  {printable(place + suffix)}")
    for name in ("found", "expected", "loses", "repair"):
        click.echo(f"       {name + ':':9} {printable(getattr(fault, name))}")


def print_summary(report: Report) -> None:
    """Print the closing line with the counts."""
    faults = sum(fault.severity is Severity.FAULT for fault in report.faults)
    notes = len(report.faults) - faults
    counts = [
        counted(report.stream_count, "stream"),
        counted(report.segment_count, "segment"),
        counted(report.record_count, "record"),
        counted(report.byte_count, "byte"),
        counted(faults, "fault"),
        counted(notes, "note"),
    ]
    verdict = styled("ok", GREEN) if report.ok else styled("damaged", RED)
    click.echo(f"{verdict}: {printable(report.store)} ({report.family}): {', '.join(counts)}")
