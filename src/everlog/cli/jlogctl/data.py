"""``jlogctl data``: lists the segments and how many subscribers still need them; checks and repairs them."""

from __future__ import annotations

from contextlib import nullcontext

import click

from everlog.cli.broken_pipe import ignoring_broken_pipe
from everlog.cli.jlogctl.arguments import Printer, RepairOptions, attempt, journal_options, repair_options
from everlog.cli.jlogctl.ownership import check_ownership
from everlog.cli.jlogctl.repair import DATA, repair_parts
from everlog.cli.jlogctl.segments import Wanted, show_segments
from everlog.errors import UsageError


@click.command(context_settings={"allow_interspersed_args": False})
@journal_options()
@click.option("-i", "--index", is_flag=True, help="Print the state of the indexes, too.")
@click.option("-d", "--analyze", is_flag=True, help="Check the segments; with -v list every message.")
@click.option("-r", "--repair", is_flag=True, help="Check the segments, and repair damaged ones.")
@repair_options
def data(
    path: str,
    verbose: int,
    as_json: bool,
    index: bool,
    analyze: bool,
    repair: bool,
    dry_run: bool,
    no_backup: bool,
) -> int:
    """List the segments: their bytes, and how many subscribers are not done with them."""
    if (dry_run or no_backup) and not repair:
        flag = "--dry-run" if dry_run else "--no-backup"
        raise UsageError(flag, message=f"{flag} needs -r")
    chosen = RepairOptions(dry_run=dry_run, backup=not no_backup, verbose=verbose > 0) if repair else None
    wanted = Wanted(index, analyze or repair, verbose > 0)
    with ignoring_broken_pipe() if repair else nullcontext():
        code = attempt(lambda: show_or_repair(path, wanted, Printer(path, as_json), chosen))
    check_ownership(path)
    return code


def show_or_repair(path: str, wanted: Wanted, out: Printer, repair: RepairOptions | None) -> int:
    """List the segments, and repair them if ``repair`` is given. Returns exit code 1 if faults remain."""
    code = show_segments(path, wanted, out)
    return code if repair is None else repair_parts(path, DATA, out, repair)
