"""``everlog archive DIR undo``: restores what a verb removed or overwrote."""

from __future__ import annotations

import click

from everlog.aeron.archive.tool.undo import plan_undo
from everlog.cli.archive.change_options import Change, ChangeOptions
from everlog.cli.archive.recordings import local_archive
from everlog.cli.text import print_error
from everlog.stores import storage_of


@click.command
@click.argument("backup", metavar="BACKUP")
@click.option("--dry-run", is_flag=True, help="Print what would change, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: the plan and the finished steps.")
@click.pass_obj
def undo(folder: str, backup: str, dry_run: bool, as_json: bool) -> int:
    """Restore what a verb removed or overwrote from its backup in the folder BACKUP. Refuses if the archive has been
    written to since.
    """
    options = ChangeOptions(dry_run=dry_run, no_backup=True, backup=None, as_json=as_json)
    change = Change("undo", folder, options, plan_undo(local_archive(folder), storage_of(backup)))
    code = change.perform()
    for line in change.done:
        print_error(line)
    change.print_json()
    return code
