"""``everlog aeron``: publish to a stream of a running media driver, or print what is published there."""

from __future__ import annotations

import click

from everlog.cli.verb_group import VerbGroup

VERBS = {
    "pub": "Publish lines, or blocks, of stdin.",
    "sub": "Print what is published, until interrupted.",
}
"""Verb, whose module and command have the same name, and the line that ``--help`` shows."""


@click.command(cls=VerbGroup, verbs=VERBS, package=__name__)
def aeron() -> None:
    """Publish to an Aeron stream from stdin, or print what is published there. A media driver must run: everlog run
    driver, or Aeron's own."""
