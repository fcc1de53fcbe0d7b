"""``everlog cluster DIR pid``: prints the consensus module's process id."""

from __future__ import annotations

import click

from everlog.cli.cluster.node import Node, json_option, require_mark
from everlog.cli.text import json_line


@click.command
@json_option
@click.pass_obj
def pid(node: Node, as_json: bool) -> None:
    """Print the consensus module's process id from its mark file; the process may have ended."""
    with node.open() as store:
        number = require_mark(store).header.pid
    click.echo(json_line({"pid": number}) if as_json else str(number))
