"""``everlog run``: runs a server in this process, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import click

from everlog.cli.verb_group import VerbGroup

VERBS = {
    "archive": "Run an Aeron archive, which records and replays streams of a media driver.",
    "driver": "Run a media driver, which Aeron clients connect to.",
}
"""Maps a verb, which is also the name of its module and command, to its line in ``--help``."""


@click.command(cls=VerbGroup, verbs=VERBS, package=__name__, subcommand_metavar="SERVER [OPTIONS]...")
def run() -> None:
    """Run a server until SIGTERM or Ctrl-C."""
