"""``jlogctl help``: prints the help of all verbs on one page."""

from __future__ import annotations

import click

from everlog.cli.jlogctl import OLD_STYLE, VERBS


@click.command
@click.pass_context
def help(ctx: click.Context) -> None:
    """Show this help and the help of every verb."""
    parent = ctx.parent
    assert parent is not None
    assert isinstance(parent.command, click.Group)
    click.echo(parent.command.get_help(parent))
    for name in [*sorted(VERBS), OLD_STYLE]:
        command = parent.command.get_command(parent, name)
        if command is not None and name != "help":
            click.echo()
            with click.Context(command, parent, info_name=name) as own:
                click.echo(command.get_help(own))
