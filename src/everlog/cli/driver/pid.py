"""``everlog driver DIR pid``: prints the driver's process id."""

from __future__ import annotations

import click

from everlog.cli.driver.sampling import json_option, open_cnc
from everlog.cli.text import json_line


@click.command
@json_option
@click.pass_obj
def pid(folder: str, as_json: bool) -> None:
    """Print the driver's process id from cnc.dat; the process may have ended."""
    with open_cnc(folder) as cnc:
        number = cnc.header.pid
    click.echo(json_line({"pid": number}) if as_json else str(number))
