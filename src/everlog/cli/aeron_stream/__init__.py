"""``everlog aeron``: publishes to a stream of a running media driver, or prints a stream's messages."""

from __future__ import annotations

import click

from everlog.cli.verb_group import VerbGroup

VERBS = {
    "pub": "Publish each line, or block, of stdin.",
    "sub": "Print a stream's messages until interrupted.",
}
"""Maps a verb, which is also the name of its module and command, to its line in ``--help``."""


@click.command(cls=VerbGroup, verbs=VERBS, package=__name__)
def aeron() -> None:
    """Publish stdin to an Aeron stream, or print a stream's messages. Needs a running media driver: everlog run driver,
    or Aeron's own."""
