"""``everlog jlogctl``: JLog's own command, with the same verbs, options and output, and correct exit codes.

``docs/jlogctl.md`` lists what is the same and what differs. Verbs that only show something change no byte.
"""

from __future__ import annotations

import importlib
import logging

import click

from everlog.cli.text import warn

VERBS = {
    "alter": "Change a journal's settings.",
    "clean": "Delete segments that every subscriber is done with.",
    "create": "Create an empty journal.",
    "data": "List segments; check and repair them.",
    "help": "Show this help and the help of every verb.",
    "meta": "Show the metastore.",
    "repair": "Repair the metastore and the checkpoints; with -f the segments too.",
    "subscriber": "List, add, move and erase subscribers.",
}
"""Maps a verb, which is also the name of its module and command, to its line in ``--help``."""
OLD_STYLE = "old-style"
"""The verb for a command line without one: ``jlogctl -s PATH``."""


class StderrLines(logging.Handler):
    """Prints the library's log records as warnings."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        warn(record.getMessage())


class Verbs(click.Group):
    """The verbs, each imported when it runs. A command line that begins with an option is in the old style."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the line in its style, which its first word decides, as in the original."""
        if args and args[0].startswith("-") and args[0] not in ctx.help_option_names:
            args = [OLD_STYLE, *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run a verb, with the library's log on stderr."""
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
        """Import a verb's command; ``None`` for an unknown name."""
        if cmd_name not in VERBS and cmd_name != OLD_STYLE:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f"{__name__}.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of verbs in ``--help``, without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl(sorted(VERBS.items()))


@click.command(cls=Verbs, subcommand_metavar="VERB [OPTIONS]...")
def jlogctl() -> None:
    """Inspect, set up, clean and repair a JLog journal, as JLog's own jlogctl does.

    The old style works too: jlogctl [OPTIONS] PATH... (jlogctl old-style --help lists its options). Exit codes: 0 fine,
    1 faults found or not done, 2 wrong usage or no journal.
    """
