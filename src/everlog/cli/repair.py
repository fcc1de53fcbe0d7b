"""``everlog repair``: the plan, a question, the repair, and what is left."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from everlog.cli.broken_pipe import ignoring_broken_pipe
from everlog.cli.confirmation import confirmed
from everlog.cli.opening import open_given, store_options
from everlog.cli.progress import ProgressLine
from everlog.cli.text import json_line, print_error, printable, styled, warn
from everlog.cli.verify import BOLD, print_fault, print_summary
from everlog.core.plan.backup import FolderBackup
from everlog.core.plan.plan import RepairPlan
from everlog.core.report import Report
from everlog.errors import UsageError

EXIT_FAULTS, EXIT_USAGE = 1, 2


@click.command
@store_options
@click.option("--dry-run", is_flag=True, help="Print the plan and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--backup", metavar="FOLDER", help="Keep what is taken out here (default: PATH.repair-TIME).")
@click.option("--no-backup", is_flag=True, help="Do not keep what is taken out.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object: the plan, what was done, the report after it.")
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
    """Repair the store at PATH: print what is to be changed, ask, do it, verify again.

    No intact record is lost (but those behind a hole at the end of an archive that was killed), and no subscriber is
    moved past one. Exit code 0 when there was nothing to do or nothing is wrong any more, 1 when faults remain.
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
    """Raises :class:`UsageError` for a backup inside of the store: what is kept there has names that a store's files
    have, and is taken for some of its own."""
    if folder and Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(store)):
        raise UsageError("--backup", found=f"{folder}, which is inside of {store}", expected="a folder outside of it")


def _ask() -> int | None:
    """``None`` to go on, else the exit code."""
    answer = confirmed("Repair?")
    if answer is None:
        print_error("nothing was changed: pass --yes to repair without being asked")
        return EXIT_USAGE
    if answer:
        return None
    print_error("nothing was changed")
    return EXIT_FAULTS


def _apply(plan: RepairPlan, kept: FolderBackup | None, progress: ProgressLine) -> list[str]:
    try:
        return plan.apply(progress, backup=kept)
    except BaseException:  # Ctrl-C, too: who pressed it wants to know what stands
        if kept is not None and kept.is_made:
            warn(f"the repair did not come to its end; what it took out is in {kept.path}; repair again")
        raise


def print_plan(plan: RepairPlan) -> None:
    """Each step in a few lines, then what nothing can be done about."""
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
        click.echo(f"kept what was taken out in {printable(place)}")
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
