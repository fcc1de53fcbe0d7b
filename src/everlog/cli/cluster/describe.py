"""``everlog cluster DIR describe``: prints the mark files."""

from __future__ import annotations

import click

from everlog.cli.cluster.node import Node, exists_text, heading, json_option, mark_text, require_mark, service_marks
from everlog.cli.text import json_line


@click.command
@json_option
@click.pass_obj
def describe(node: Node, as_json: bool) -> None:
    """Print the mark files of the consensus module and the services."""
    with node.open() as store:
        own = require_mark(store)
        services = service_marks(store, own)
    if as_json:
        marks = {"mark_file": own.to_dict(), "services": [mark.to_dict() for mark in services]}
        click.echo(json_line(marks))
        return
    click.echo(heading(own))
    click.echo(mark_text(own))
    for mark in services:
        click.echo(exists_text(mark))
    for mark in services:
        click.echo(heading(mark))
        click.echo(mark_text(mark))
