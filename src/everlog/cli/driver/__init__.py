"""``everlog driver``: inspects a media driver as Aeron's own tools do. All verbs but ``terminate`` only read."""

from __future__ import annotations

import importlib

import click

VERBS = {
    "backlog-stat": "Print the backlog of senders and subscribers (BacklogStat).",
    "error-stat": "Print the driver's distinct errors (ErrorStat).",
    "log-inspect": "Print log buffers frame by frame (LogInspector).",
    "loss-stat": "Print the loss on each image (LossStat).",
    "pid": "Print the driver's process id (DriverTool pid).",
    "stat": "Print every counter and its value (AeronStat).",
    "stream-stat": "Print positions and limits of each stream (StreamStat).",
    "terminate": "Ask the driver to terminate (DriverTool terminate).",
}
"""Maps a verb, which with ``_`` is also the name of its module and command, to its line in ``--help``."""


class Verbs(click.Group):
    """The verbs, each imported when it runs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the line; without a verb, options may also follow DIR."""
        if len(args) > 1 and not args[0].startswith("-") and all(arg.startswith("-") for arg in args[1:]):
            args = [*args[1:], args[0]]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs, sorted."""
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a verb's command; ``None`` for an unknown name."""
        if cmd_name not in VERBS:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f"{__name__}.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of verbs in ``--help``, without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl(sorted(VERBS.items()))


@click.command(cls=Verbs, invoke_without_command=True, subcommand_metavar="[VERB [OPTIONS]...]")
@click.argument("folder", metavar="DIR")
@click.option("--json", "as_json", is_flag=True, help="Without a verb: print one JSON object.")
@click.pass_context
def driver(ctx: click.Context, folder: str, as_json: bool) -> int:
    """Inspect the media driver in the folder DIR (aeron.dir), whether it is running or not. Without a verb, print its
    process id, its start and its last heartbeat (DriverTool). Only terminate writes, and no verb connects as a client.
    """
    ctx.obj = folder
    if ctx.invoked_subcommand is None:
        from everlog.cli.driver.summary import print_summary

        return print_summary(folder, as_json)
    if as_json:
        raise click.UsageError(f"give --json after {ctx.invoked_subcommand}", ctx)
    return 0
