"""``everlog repair``: prints the plan, asks, repairs, and verifies the result."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from everlog.cli.broken_pipe import ignoring_broken_pipe
from everlog.cli.confirmation import confirmed
from everlog.cli.opening import open_given, store_arguments
from everlog.cli.progress import ProgressLine
from everlog.cli.text import json_line, print_error, printable, styled, warn
from everlog.cli.verify import BOLD, print_fault, print_summary
from everlog.core.plan.backup import FolderBackup
from everlog.core.plan.plan import RepairPlan
from everlog.core.report import Report
from everlog.errors import UsageError

EXIT_FAULTS, EXIT_USAGE = 1, 2


@click.command
@store_arguments
@click.option("--dry-run", is_flag=True, help="Print the plan and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--backup", metavar="FOLDER", help="Keep removed bytes in FOLDER (default: PATH.repair-TIME).")
@click.option("--no-backup", is_flag=True, help="Do not keep removed bytes.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: plan, finished steps, final report.")
def repair(
    path: str,
    family: str | None,
    dry_run: bool,
    yes: bool,
    backup: str | None,
    no_backup: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Repair the store at PATH: print the plan, ask, carry it out, verify again.

    Keeps every intact record, except those after a hole at the end of an archive that was killed, and moves no
    subscriber past an intact record. Exit code 0 if there was nothing to do or no fault is left, 1 if faults remain.
    """
    if backup is not None and no_backup:
        raise click.UsageError("--backup and --no-backup exclude each other")
    check_backup(backup, path)
    with ignoring_broken_pipe(), ProgressLine() as progress, open_given(path, family, options) as store:
        plan = store.plan_repair(progress)
        if not as_json:
            print_plan(plan)
        if dry_run or plan.is_empty:
            if plan.steps and not as_json:
                click.echo("dry run: nothing was changed")
            _print_json(as_json, plan)
            return EXIT_FAULTS if plan.steps or plan.unrepaired else 0
        refusal = None if yes else _ask()
        if refusal is not None:
            _print_json(as_json, plan)
            return refusal
        kept = None if no_backup else FolderBackup(backup) if backup else FolderBackup.beside(store.path)
        done = _apply(plan, kept, progress)
        report = store.verify(progress)
        place = kept.path if kept is not None and kept.is_made else None
        if as_json:
            _print_json(as_json, plan, done, place, report)
        else:
            _print_result(done, place, report)
    return report.exit_code


def check_backup(folder: str | None, store: str) -> None:
    """Raises :class:`UsageError` for a backup inside the store: the kept files have names of store files, so they would
    become part of the store."""
    if folder and Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(store)):
        raise UsageError("--backup", found=f"{folder}, inside {store}", expected="a folder outside the store")


def _ask() -> int | None:
    """Ask whether to repair. ``None`` means yes, else the exit code."""
    answer = confirmed("Repair?")
    if answer is None:
        print_error("nothing was changed; pass --yes to repair without a question")
        return EXIT_USAGE
    if answer:
        return None
    print_error("nothing was changed")
    return EXIT_FAULTS


def _apply(plan: RepairPlan, kept: FolderBackup | None, progress: ProgressLine) -> list[str]:
    try:
        return plan.apply(progress, backup=kept)
    except BaseException:  # Ctrl-C too: the user has to know that the repair is unfinished
        if kept is not None and kept.is_made:
            warn(f"the repair was interrupted; repair again to finish it (removed bytes are kept in {kept.path})")
        raise


def print_plan(plan: RepairPlan) -> None:
    """Print each step with before, after and loses, then the faults that can't be repaired."""
    for number, step in enumerate(plan.steps, 1):
        click.echo(f"{styled(f'step {number}', BOLD)}  {printable(step.file)}")
        for name in ("before", "after", "loses"):
            click.echo(f"       {name + ':':9} {printable(getattr(step, name))}")
    if plan.is_empty:
        click.echo(f"nothing to repair: {printable(plan.store)} ({plan.family})")
    for fault in plan.unrepaired:
        click.echo("not repaired:")
        print_fault(fault)


def _print_result(done: list[str], place: str | None, report: Report) -> None:
    for line in done:
        click.echo(f"done: {printable(line)}")
    if place is not None:
        click.echo(f"removed bytes are kept in {printable(place)}")
    for fault in report.faults:
        print_fault(fault)
    print_summary(report)


def _print_json(
    as_json: bool,
    plan: RepairPlan,
    done: list[str] | None = None,
    place: str | None = None,
    report: Report | None = None,
) -> None:
    if as_json:
        result = {
            "plan": plan.to_dict(),
            "done": done or [],
            "backup": place,
            "report": None if report is None else report.to_dict(),
        }
        click.echo(json_line(result))
