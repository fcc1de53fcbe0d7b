"""``everlog run``: servers, each in this process until it is told to end."""

from __future__ import annotations

import click

from everlog.cli.verb_group import VerbGroup

VERBS = {"driver": "A media driver, which Aeron's clients connect to."}
"""Verb, whose module and command have the same name, and the line that ``--help`` shows."""


@click.command(cls=VerbGroup, verbs=VERBS, package=__name__, subcommand_metavar="SERVER [OPTIONS]...")
def run() -> None:
    """Run a server until SIGTERM or Ctrl-C."""
