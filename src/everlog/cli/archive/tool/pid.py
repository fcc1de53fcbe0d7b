"""``everlog archive DIR pid``: prints the archive's process id."""

from __future__ import annotations

import click

from everlog.cli.archive.recordings import json_option, open_archive, require_mark
from everlog.cli.text import json_line


@click.command
@json_option
@click.pass_obj
def pid(folder: str, as_json: bool) -> None:
    """Print the archive's process id from its mark file; the process may have ended."""
    with open_archive(folder) as store:
        number = require_mark(store).header.pid
    click.echo(json_line({"pid": number}) if as_json else str(number))
