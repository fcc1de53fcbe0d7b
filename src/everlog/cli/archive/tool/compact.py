"""``everlog archive DIR compact``: removes invalid recordings and their files."""

from __future__ import annotations

import click

from everlog.aeron.archive.tool.compaction import plan_compact
from everlog.cli.archive.change_options import Change, ChangeOptions, change_options, yes_option
from everlog.cli.archive.recordings import local_archive

QUESTION = "This removes all recordings that are not VALID from the catalog, and deletes their segment files."


@click.command
@yes_option
@change_options
@click.pass_obj
def compact(folder: str, yes: bool, dry_run: bool, backup: str | None, no_backup: bool, as_json: bool) -> int:
    """Remove INVALID and DELETED recordings from the catalog, and delete their segment files. Asks first; if stdin is
    not a terminal, a line of it is the answer (y or yes).
    """
    options = ChangeOptions(dry_run=dry_run, no_backup=no_backup, backup=backup, as_json=as_json, yes=yes)
    plan, result = plan_compact(local_archive(folder))
    change = Change("compact", folder, options, plan)
    code = change.perform(QUESTION)
    if change.is_done and not as_json:
        click.echo(
            f"Compaction result: deleted {len(result.dropped)} records and reclaimed {result.reclaimed_bytes} bytes"
        )
    change.print_json(deleted_records=len(result.dropped), reclaimed_bytes=result.reclaimed_bytes)
    return code
