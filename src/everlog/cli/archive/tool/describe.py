"""``everlog archive DIR describe``: prints the mark file and recordings."""

from __future__ import annotations

import click

from everlog.cli.archive.recordings import (
    descriptor_text,
    entry_json,
    entry_of,
    json_option,
    mark_lines,
    open_archive,
    require_catalog,
    require_mark,
)
from everlog.cli.faults import FaultPrinter
from everlog.cli.text import json_line


@click.command
@click.argument("recording", metavar="[RECORDING]", type=click.IntRange(min=0), required=False)
@json_option
@click.pass_obj
def describe(folder: str, recording: int | None, as_json: bool) -> int:
    """Print the mark file and the descriptors of the valid recordings, or the descriptor of one recording, valid or
    not. With --json, print an object for each recording. Exit code 1 if the catalog has faults.
    """
    faults = FaultPrinter()
    with open_archive(folder) as store:
        catalog = require_catalog(store, faults)
        entries = [entry for entry in catalog.entries if entry.state == "VALID"]
        lines = []
        if recording is not None:
            entries = [entry_of(catalog, recording)]
        elif not as_json:
            lines = [*mark_lines(store, require_mark(store)), f"Catalog capacity in bytes: {catalog.size}"]
        lines += [json_line(entry_json(entry)) if as_json else descriptor_text(entry) for entry in entries]
    if lines:
        click.echo("\n".join(lines))
    faults.close()
    return faults.exit_code
