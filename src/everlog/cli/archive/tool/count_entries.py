"""``everlog archive DIR count-entries``: prints the number of valid recordings."""

from __future__ import annotations

import click

from everlog.cli.archive.recordings import json_option, open_archive, require_catalog
from everlog.cli.faults import FaultPrinter
from everlog.cli.text import json_line


@click.command
@json_option
@click.pass_obj
def count_entries(folder: str, as_json: bool) -> int:
    """Print the number of valid recordings in the catalog. Exit code 1 if the catalog has faults."""
    faults = FaultPrinter()
    with open_archive(folder) as store:
        count = sum(entry.state == "VALID" for entry in require_catalog(store, faults).entries)
    click.echo(json_line({"count": count}) if as_json else str(count))
    faults.close()
    return faults.exit_code
