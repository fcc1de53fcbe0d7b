"""``everlog archive DIR describe-all``: prints the mark file and all recordings."""

from __future__ import annotations

import click

from everlog.cli.archive.recordings import (
    descriptor_text,
    entry_json,
    json_option,
    mark_lines,
    open_archive,
    require_catalog,
    require_mark,
)
from everlog.cli.faults import FaultPrinter
from everlog.cli.text import json_line


@click.command
@json_option
@click.pass_obj
def describe_all(folder: str, as_json: bool) -> int:
    """Print the mark file and the descriptors of all recordings with their states. With --json, print an object for
    each recording. Exit code 1 if the catalog has faults.
    """
    faults = FaultPrinter()
    with open_archive(folder) as store:
        catalog = require_catalog(store, faults)
        if as_json:
            lines = [json_line(entry_json(entry)) for entry in catalog.entries]
        else:
            lines = [*mark_lines(store, require_mark(store)), f"Catalog capacity in bytes: {catalog.size}"]
            lines += [f"{descriptor_text(entry)}|{entry.state}" for entry in catalog.entries]
    if lines:
        click.echo("\n".join(lines))
    faults.close()
    return faults.exit_code
