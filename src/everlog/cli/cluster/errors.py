"""``everlog cluster DIR errors``: prints the distinct errors of a node's components and its media driver."""

from __future__ import annotations

import click

from everlog.cli.aeron_text import error_log_lines, load_driver_errors
from everlog.cli.cluster.node import (
    NOT_DONE,
    Node,
    exists_text,
    heading,
    json_option,
    require_mark,
    service_marks,
)
from everlog.cli.text import json_line, printable


@click.command
@click.option("--aeron-dir", metavar="FOLDER", help="The driver's folder, if not the one that the mark file names.")
@json_option
@click.pass_obj
def errors(node: Node, aeron_dir: str | None, as_json: bool) -> int:
    """Print the distinct errors of the consensus module, its media driver and the services. Exit code 1 if the driver's
    can't be read.
    """
    with node.open() as store:
        own = require_mark(store)
        services = service_marks(store, own)
    folder = aeron_dir or own.body.texts.get("aeron_directory", "")
    of_driver = load_driver_errors(folder)
    code = NOT_DONE if of_driver is None else 0
    if as_json:
        found = {
            "consensus_module": [error.to_dict() for error in own.errors],
            "driver": None if of_driver is None else [error.to_dict() for error in of_driver],
            "services": [[error.to_dict() for error in mark.errors] for mark in services],
        }
        click.echo(json_line(found))
        return code
    lines = [heading(own), "Cluster component error log:", *error_log_lines(own.errors), ""]
    lines.append(f"Aeron driver error log (directory: {printable(folder)}):")
    lines += error_log_lines(of_driver) if of_driver is not None else ()
    lines += [exists_text(mark) for mark in services]
    for mark in services:
        lines += [heading(mark), "Cluster component error log:", *error_log_lines(mark.errors)]
    click.echo("\n".join(lines))
    return code
