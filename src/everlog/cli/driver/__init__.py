"""``everlog driver``: a look at a media driver, as Aeron's own tools give it. All but ``terminate`` only read."""

from __future__ import annotations

import importlib

import click

VERBS = {
    "backlog-stat": "Who is behind whom on each stream (BacklogStat).",
    "error-stat": "The driver's distinct errors (ErrorStat).",
    "log-inspect": "What a log buffer holds, frame by frame (LogInspector).",
    "loss-stat": "What was lost on each image (LossStat).",
    "pid": "The driver's process id (DriverTool pid).",
    "stat": "Every counter and its value (AeronStat).",
    "stream-stat": "Positions and limits of each stream (StreamStat).",
    "terminate": "Ask the driver to end (DriverTool terminate).",
}
"""Verb, whose module and command have the same name with ``_``, and the line that ``--help`` shows."""


class Verbs(click.Group):
    """The verbs, each imported when it runs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Options may stand behind DIR where no verb follows."""
        if len(args) > 1 and not args[0].startswith("-") and all(arg.startswith("-") for arg in args[1:]):
            args = [*args[1:], args[0]]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs, sorted."""
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a verb, or ``None``."""
        if cmd_name not in VERBS:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f"{__name__}.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of ``--help``."""
        with formatter.section("Verbs"):
            formatter.write_dl(sorted(VERBS.items()))


@click.command(cls=Verbs, invoke_without_command=True, subcommand_metavar="[VERB [OPTIONS]...]")
@click.argument("folder", metavar="DIR")
@click.option("--json", "as_json", is_flag=True, help="Without a verb: one JSON object.")
@click.pass_context
def driver(ctx: click.Context, folder: str, as_json: bool) -> int:
    """Look at the media driver whose folder is DIR (aeron.dir), whether it runs or not. Without a verb: its process,
    when it started and when it last said that it runs (DriverTool). Nothing but terminate changes anything, and no
    client is needed.
    """
    ctx.obj = folder
    if ctx.invoked_subcommand is None:
        from everlog.cli.driver.summary import print_summary

        return print_summary(folder, as_json)
    if as_json:
        raise click.UsageError(f"give --json behind {ctx.invoked_subcommand}", ctx)
    return 0
