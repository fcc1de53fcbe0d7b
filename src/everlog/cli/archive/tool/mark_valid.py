"""``everlog archive DIR mark-valid``: marks an invalid recording as valid."""

from __future__ import annotations

import click

from everlog.cli.archive.change_options import change_options
from everlog.cli.archive.tool.mark_invalid import mark


@click.command
@click.argument("recording", metavar="RECORDING", type=click.IntRange(min=0))
@change_options
@click.pass_obj
def mark_valid(folder: str, recording: int, dry_run: bool, backup: str | None, no_backup: bool, as_json: bool) -> int:
    """Mark an invalid recording as valid: archives serve it again. A deleted recording stays deleted."""
    return mark(folder, recording, "VALID", dry_run=dry_run, backup=backup, no_backup=no_backup, as_json=as_json)
