"""``jlogctl repair``: repairs the metastore and the checkpoints, with ``-f`` the segments too.

:mod:`everlog.jlog.repair.planning` plans the repair: it loses no readable message, and moves no subscriber past one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import click

from everlog.cli.broken_pipe import ignoring_broken_pipe
from everlog.cli.jlogctl.arguments import (
    NOT_DONE,
    Printer,
    RepairOptions,
    attempt,
    journal_options,
    open_journal,
    repair_options,
)
from everlog.cli.jlogctl.ownership import check_ownership
from everlog.cli.jlogctl.segments import Wanted, show_segments
from everlog.cli.text import print_error, printable, say, warn
from everlog.core.plan.backup import FolderBackup
from everlog.core.plan.plan import RepairPlan
from everlog.core.plan.step import RepairStep
from everlog.core.report import Severity
from everlog.errors import StoreUnavailable
from everlog.jlog.format.layouts import JlogCheckpoint, JlogLegacyMetastore
from everlog.jlog.repair.planning import PARTS, plan_repair
from everlog.jlog.repair.steps import CutTail, DeleteSegment, MoveCheckpoint, RewriteSegment, WriteMetastore
from everlog.jlog.verify.journal import verify_journal


class NotRepaired(StoreUnavailable):
    """Another process has a file open that is to be repaired, or the system refuses the change."""

    exit_code = NOT_DONE


METADATA = frozenset({"metastore", "checkpoints"})
DATA = frozenset({"segments", "indexes"})
RECONSTRUCTED = "Log file reconstructed, deleting the corresponding idx file."


@click.command(context_settings={"allow_interspersed_args": False})
@journal_options()
@click.option("-f", "--full", is_flag=True, help="Check and repair the segments and everything else too.")
@repair_options
def repair(path: str, verbose: int, as_json: bool, full: bool, dry_run: bool, no_backup: bool) -> int:
    """Repair the metastore and the checkpoints; with -f the segments, too. Keeps every intact message."""
    chosen = RepairOptions(dry_run=dry_run, backup=not no_backup, verbose=verbose > 0)
    out = Printer(path, as_json)
    with ignoring_broken_pipe():
        code = attempt(lambda: repair_all(path, out, chosen) if full else repair_metadata(path, out, chosen))
    check_ownership(path)
    return code


def repair_metadata(path: str, out: Printer, chosen: RepairOptions) -> int:
    """Repair the metastore and the checkpoints. A metastore of version 1.x describes the segments' format, so it stays
    until they are rewritten."""
    is_legacy = open_journal(path).metastore.byte_count == JlogLegacyMetastore.size
    code = repair_parts(path, METADATA - {"metastore"} if is_legacy else METADATA, out, chosen)
    if code and not chosen.dry_run:
        print_error(f"note: {path}: jlogctl repair -f also repairs segments and indexes")
    return code


def repair_all(path: str, out: Printer, chosen: RepairOptions) -> int:
    """Repair the metastore and the checkpoints, list and check the segments, then repair the rest in one plan.

    A journal of version 1.x is repaired in one plan: its metastore describes the segments' format until they are
    rewritten.
    """
    journal = open_journal(path)
    done = Done()
    if not chosen.dry_run and journal.metastore.byte_count != JlogLegacyMetastore.size:
        apply(path, plan_repair(journal.storage, parts=METADATA), chosen, done)
    show_segments(path, Wanted(analyze=True, verbose=chosen.verbose), out)
    return repair_parts(path, PARTS, out, chosen, done)


def repair_parts(
    path: str, parts: Collection[str], out: Printer, chosen: RepairOptions, done: Done | None = None
) -> int:
    """Repair some parts; ``done`` has the steps already finished. Returns exit code 1 if faults remain, or if
    ``--dry-run`` left any unrepaired."""
    done = done or Done()
    plan = plan_repair(open_journal(path).storage, parts=parts)
    unrepaired = plan.unrepaired
    if chosen.dry_run:
        for step in plan.steps if not out.as_json else ():
            out(f"would repair {printable(step.file)}: {step.before} -> {step.after}; loses {step.loses}", {})
    elif plan.steps:
        apply(path, plan, chosen, done)
        found = verify_journal(open_journal(path)).faults
        unrepaired = tuple(fault for fault in found if fault.severity is Severity.FAULT)
    if out.as_json:
        plain = {"dry_run": chosen.dry_run, "steps": plan.to_dict()["steps"], "done": done.lines, "backup": done.backup}
        out("", plain | {"remains": [fault.to_dict() for fault in unrepaired]})
    for fault in unrepaired:
        warn(str(fault))
    return NOT_DONE if unrepaired or (chosen.dry_run and plan.steps) else 0


@dataclass(slots=True)
class Done:
    """The finished steps, a line for each, and the backup's folder."""

    lines: list[str] = field(default_factory=list)
    backup: str | None = None


def apply(path: str, plan: RepairPlan, chosen: RepairOptions, done: Done) -> None:
    """Carry out the plan and print each step to stderr. Raises :class:`NotRepaired` if a step can't be done now."""
    backup = FolderBackup.beside(path) if chosen.backup else None
    try:
        lines = plan.apply(backup=backup)
    except StoreUnavailable as error:
        raise NotRepaired(
            error.where, found=error.found, expected=error.expected, hint=error.hint, message=error.message
        ) from error
    finally:
        if backup is not None and backup.is_made:
            done.backup = backup.path
            print_error(f"note: {path}: removed and overwritten bytes are kept in {backup.path}")
    done.lines += lines
    for step, text in zip(plan.steps, lines, strict=True):
        if chosen.verbose or isinstance(step, CutTail | RewriteSegment | DeleteSegment):
            _print_as_original(step)
        print_error(f"note: {path}: {text}")


def _print_as_original(step: RepairStep) -> None:
    lines = []
    if isinstance(step, WriteMetastore):
        lines.append("metastore integrity check failed")
    elif isinstance(step, MoveCheckpoint) and step.old_size != JlogCheckpoint.size:
        lines.append(f"checkpoint {step.file} file size incorrect: {step.old_size} != {JlogCheckpoint.size}")
    elif isinstance(step, MoveCheckpoint):
        old = JlogCheckpoint.unpack_from(step.old)
        log, marker = step.new
        lines.append(f"fixing checkpoint {step.file} data {old.log:08x}:{old.marker:08x} != {log:08x}:{marker:08x}")
    elif isinstance(step, CutTail | RewriteSegment | DeleteSegment):
        lines.append(RECONSTRUCTED)
    for line in lines:
        say(line)
