"""``everlog jlogctl``: JLog's own command, with the same verbs, options and lines, and honest exit codes.

What is the same and what differs is in ``docs/jlogctl.md``. Looking changes no byte: those verbs use the reading side.
"""

from __future__ import annotations

import importlib
import logging

import click

from everlog.cli.text import warn

VERBS = {
    "alter": "Change a journal's settings.",
    "clean": "Delete segments that every subscriber is done with.",
    "create": "Make an empty journal.",
    "data": "List segments; check and repair them.",
    "help": "This help, and that of every verb.",
    "meta": "Show the metastore.",
    "repair": "Repair the metastore and the checkpoints; with -f the segments too.",
    "subscriber": "List, add, move and erase subscribers.",
}
"""Verb, which is also the name of its module and its command, and the line that ``--help`` shows."""
OLD_STYLE = "old-style"
"""What stands for a command line without a verb: ``jlogctl -s PATH``."""


class StderrLines(logging.Handler):
    """Log records as warnings of the command."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one."""
        warn(record.getMessage())


class Verbs(click.Group):
    """The verbs, each imported when it runs; a line that begins with an option is of the old style."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Tell the two styles apart, as the original does."""
        if args and args[0].startswith("-") and args[0] not in ctx.help_option_names:
            args = [OLD_STYLE, *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run; what the library has to tell is a line on stderr, as everything else."""
        log = logging.getLogger("everlog")
        handler = StderrLines()
        log.addHandler(handler)
        try:
            return super().invoke(ctx)
        finally:
            log.removeHandler(handler)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs, sorted."""
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a verb, or ``None``."""
        if cmd_name not in VERBS and cmd_name != OLD_STYLE:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f"{__name__}.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of ``--help``."""
        with formatter.section("Verbs"):
            formatter.write_dl(sorted(VERBS.items()))


@click.command(cls=Verbs, subcommand_metavar="VERB [OPTIONS]...")
def jlogctl() -> None:
    """Look at, set up, clean and repair a JLog journal, as JLog's own jlogctl does.

    Without a verb, the old style: jlogctl [OPTIONS] PATH...; jlogctl old-style --help tells its options. Exit codes: 0
    fine, 1 faults found or not done, 2 wrong usage or no journal.
    """
