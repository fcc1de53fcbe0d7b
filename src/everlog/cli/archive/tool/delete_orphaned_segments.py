"""``everlog archive DIR delete-orphaned-segments``: removes segment files that belong to no recording."""

from __future__ import annotations

import click

from everlog.aeron.archive.tool.orphans import plan_delete_orphans
from everlog.cli.archive.change_options import Change, ChangeOptions, change_options, yes_option
from everlog.cli.archive.recordings import local_archive


@click.command
@click.argument("recording", metavar="[RECORDING]", type=click.IntRange(min=0), required=False)
@yes_option
@change_options
@click.pass_obj
def delete_orphaned_segments(
    folder: str,
    recording: int | None,
    yes: bool,
    dry_run: bool,
    backup: str | None,
    no_backup: bool,
    as_json: bool,
) -> int:
    """Remove segment files that begin before their recording's start position or after its stop position, and the
    files of deleted recordings: for RECORDING, or for all recordings. Asks first; if stdin is not a terminal, a line of
    it is the answer (y or yes).
    """
    options = ChangeOptions(dry_run=dry_run, no_backup=no_backup, backup=backup, as_json=as_json, yes=yes)
    change = Change("delete-orphaned-segments", folder, options, plan_delete_orphans(local_archive(folder), recording))
    suffix = "" if recording is None else f" of recording {recording}"
    code = change.perform(f"This deletes all orphaned segment files{suffix}.")
    change.print_json()
    return code
