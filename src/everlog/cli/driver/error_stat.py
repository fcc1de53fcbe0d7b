"""``everlog driver DIR error-stat``: prints the driver's distinct errors."""

from __future__ import annotations

import click

from everlog.cli.driver.sampling import cnc_path, date_text, open_cnc, repeat, report_problem, stat_options
from everlog.cli.text import json_line, printable


@click.command
@stat_options
@click.pass_obj
def error_stat(folder: str, watch: float | None, as_json: bool) -> int:
    """Print the driver's distinct errors: how often each occurred, first and last time, and its stack trace."""

    def once() -> int:
        with open_cnc(folder) as cnc:
            errors = cnc.errors()
            code = report_problem(cnc)
        if as_json:
            click.echo(json_line({"errors": [error.to_dict() for error in errors]}))
            return code
        click.echo(f"Command `n Control file {printable(cnc_path(folder))}")
        for error in errors:
            first, last = date_text(error.first_observation_timestamp), date_text(error.last_observation_timestamp)
            click.echo(f"\n{error.observation_count} observations from {first} to {last} for:")
            click.echo("\n".join(_shown(line) for line in error.text.split("\n")))
        click.echo(f"\n{len(errors)} distinct errors observed.")
        return code

    return repeat(watch, once)


def _shown(line: str) -> str:
    """A line of a stack trace, escaped except for its tabs."""
    return "\t".join(printable(part) for part in line.split("\t"))
