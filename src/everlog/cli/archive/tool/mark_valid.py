"""``everlog archive DIR mark-valid``."""

from __future__ import annotations

import click

from everlog.cli.archive.change_options import change_options
from everlog.cli.archive.tool.mark_invalid import mark


@click.command
@click.argument("recording", metavar="RECORDING", type=click.IntRange(min=0))
@change_options
@click.pass_obj
def mark_valid(folder: str, recording: int, dry_run: bool, backup: str | None, no_backup: bool, as_json: bool) -> int:
    """Mark a recording that was marked as invalid as valid: an archive serves it again. One that was deleted stays
    so.
    """
    return mark(folder, recording, "VALID", dry_run=dry_run, backup=backup, no_backup=no_backup, as_json=as_json)
