"""``everlog archive DIR errors``: prints the distinct errors of the archive and its media driver."""

from __future__ import annotations

import click

from everlog.cli.aeron_text import error_log_lines, load_driver_errors
from everlog.cli.archive.recordings import NOT_DONE, json_option, open_archive, require_mark
from everlog.cli.text import json_line, printable


@click.command
@click.option("--aeron-dir", metavar="FOLDER", help="The driver's folder, if not the one that the mark file names.")
@json_option
@click.pass_obj
def errors(folder: str, aeron_dir: str | None, as_json: bool) -> int:
    """Print the distinct errors of the archive and of its media driver. Exit code 1 if the driver's can't be read."""
    with open_archive(folder) as store:
        mark = require_mark(store)
    driver = aeron_dir or mark.texts.get("aeron_directory", "")
    of_driver = load_driver_errors(driver)
    if as_json:
        found = {
            "archive": [error.to_dict() for error in mark.errors],
            "driver": None if of_driver is None else [error.to_dict() for error in of_driver],
        }
        click.echo(json_line(found))
    else:
        lines = ["Archive error log:", *error_log_lines(mark.errors), ""]
        lines.append(f"Aeron driver error log (directory: {printable(driver)}):")
        lines += error_log_lines(of_driver) if of_driver is not None else ()
        click.echo("\n".join(lines))
    return NOT_DONE if of_driver is None else 0
