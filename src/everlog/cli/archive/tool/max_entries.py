"""``everlog archive DIR max-entries``: deprecated, as in ArchiveTool."""

from __future__ import annotations

import click


@click.command
@click.argument("count", metavar="[COUNT]", type=int, required=False)
@click.pass_obj
def max_entries(folder: str, count: int | None) -> None:
    """Deprecated: print ArchiveTool's message that refers to capacity. Changes nothing."""
    click.echo("max-entries is deprecated please use capacity.")
