"""``everlog archive DIR count-entries``."""

from __future__ import annotations

import click

from everlog.cli.archive.recordings import json_option, open_archive, require_catalog
from everlog.cli.faults import FaultPrinter
from everlog.cli.text import json_line


@click.command
@json_option
@click.pass_obj
def count_entries(folder: str, as_json: bool) -> int:
    """Print how many valid recordings the catalog has. Exit code 1 for faults of the catalog."""
    faults = FaultPrinter()
    with open_archive(folder) as store:
        count = sum(entry.state == "VALID" for entry in require_catalog(store, faults).entries)
    click.echo(json_line({"count": count}) if as_json else str(count))
    faults.close()
    return faults.exit_code
