"""``jlogctl [OPTIONS] PATH...``: the old style without a verb, for any number of journals."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import click

from everlog.cli.broken_pipe import ignoring_broken_pipe
from everlog.cli.jlogctl import clean as cleaning
from everlog.cli.jlogctl import repair as repairing
from everlog.cli.jlogctl import subscriber as subscribers
from everlog.cli.jlogctl.arguments import AddressType, Printer, RepairOptions, attempt, open_journal, repair_options
from everlog.cli.jlogctl.data import show_or_repair
from everlog.cli.jlogctl.ownership import check_ownership
from everlog.cli.jlogctl.segments import Wanted
from everlog.cli.text import printable
from everlog.errors import UsageError
from everlog.jlog.format.addresses import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The actions to take on each journal."""

    add: str | None
    erase: str | None
    update: str | None
    checkpoint: Address | None
    perspective: str | None
    repair: bool
    list_segments: bool
    index: bool
    clean: bool
    list_subscribers: bool
    analyze: bool
    repair_data: bool
    dry_run: bool
    no_backup: bool
    verbose: int
    as_json: bool

    @property
    def repair_options(self) -> RepairOptions:
        """The options for repairing."""
        return RepairOptions(dry_run=self.dry_run, backup=not self.no_backup, verbose=self.verbose > 0)

    @property
    def changes(self) -> bool:
        """Whether any action is one that writes; a dry run of it counts, too."""
        names = (self.add, self.update, self.erase)
        return self.repair or self.repair_data or self.clean or any(name is not None for name in names)

    @property
    def shows_segments(self) -> bool:
        """Whether to list segments."""
        return self.list_segments or self.index or self.analyze or self.repair_data


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("-a", "add", metavar="SUB", help="Add a subscriber, at the beginning or at -C.")
@click.option("-e", "erase", metavar="SUB", help="Erase a subscriber.")
@click.option("-u", "update", metavar="SUB", help="Move a subscriber to -C.")
@click.option("-C", "checkpoint", type=AddressType(), metavar="8x:8x", help="With -a or -u: the last finished message.")
@click.option("-p", "perspective", metavar="SUB", help="Show which messages a subscriber gets next.")
@click.option("-R", "repair", is_flag=True, help="Repair the metastore and the checkpoints.")
@click.option("-l", "list_segments", is_flag=True, help="List the segments.")
@click.option("-i", "index", is_flag=True, help="Print the state of the indexes, too.")
@click.option("-c", "clean", is_flag=True, help="Delete segments that every subscriber is done with; prints nothing.")
@click.option("-s", "list_subscribers", is_flag=True, help="List the subscribers.")
@click.option("-d", "analyze", is_flag=True, help="Check the segments.")
@click.option("-r", "repair_data", is_flag=True, help="Check the segments, and repair damaged ones.")
@click.option("-v", "verbose", count=True, help="With -d: list every message.")
@repair_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
def old_style(paths: tuple[str, ...], **given: object) -> int:
    """Run the given actions on each journal, in this order: -R, -a, -u, -e, -p, -s, the segments, -c."""
    request = Request(**given)  # type: ignore[arg-type]
    if request.checkpoint is not None and request.add is None and request.update is None:
        raise UsageError("-C", message="-C needs -a or -u")
    if (request.dry_run or request.no_backup) and not (request.repair or request.repair_data):
        flag = "--dry-run" if request.dry_run else "--no-backup"
        raise UsageError(flag, message=f"{flag} needs -r or -R")
    with ignoring_broken_pipe() if request.changes else nullcontext():
        return max([_process(path, request) for path in paths])


def _process(path: str, request: Request) -> int:
    out = Printer(path, request.as_json, quiet=request.clean)
    if not request.as_json:
        out(printable(path), {})
    codes = [0]

    def is_done(action: Callable[[], int]) -> bool:
        codes.append(attempt(action))
        return codes[-1] == 0

    if request.repair:
        is_done(lambda: repairing.repair_metadata(path, out, request.repair_options))
    if is_done(lambda: _check_readable(path)):
        _run_actions(path, request, out, is_done)
        check_ownership(path)
    return max(codes)


def _check_readable(path: str) -> int:
    open_journal(path)
    return 0


def _run_actions(path: str, request: Request, out: Printer, is_done: Callable[[Callable[[], int]], bool]) -> None:
    """Run the actions as the original does: after adding or moving a subscriber, nothing else."""
    add, update, erase, viewer = request.add, request.update, request.erase, request.perspective
    if add is not None and is_done(lambda: subscribers.add_one(path, add, request.checkpoint, out)):
        return
    if update is not None:
        is_done(lambda: subscribers.update_one(path, update, request.checkpoint, out))
        return
    if erase is not None:
        is_done(lambda: subscribers.erase_one(path, erase, out))
    if viewer is not None and not is_done(lambda: subscribers.show_perspective(path, viewer, out)):
        return
    if request.list_subscribers:
        is_done(lambda: subscribers.show_all(path, out))
    if request.shows_segments:
        wanted = Wanted(request.index, request.analyze or request.repair_data, request.verbose > 0)
        is_done(lambda: show_or_repair(path, wanted, out, request.repair_options if request.repair_data else None))
    if request.clean:
        removed = Printer(path, request.as_json, quiet=not request.as_json)
        is_done(lambda: cleaning.clean_one(path, removed, verbose=request.verbose > 0))
