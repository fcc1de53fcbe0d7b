"""``everlog archive DIR max-entries``."""

from __future__ import annotations

import click


@click.command
@click.argument("count", metavar="[COUNT]", type=int, required=False)
@click.pass_obj
def max_entries(folder: str, count: int | None) -> None:
    """Say that there is no limit of entries any more, as ArchiveTool does. Nothing is changed."""
    click.echo("max-entries is deprecated please use capacity.")
