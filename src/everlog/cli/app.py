"""The ``everlog`` command group, and what surrounds every command: exit codes, one-line errors, closed pipes."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Sequence

import click

from everlog import __version__
from everlog.cli.text import print_error, say
from everlog.errors import EverlogError

COMMANDS = {
    "aeron": ("everlog.cli.aeron_stream", "Publish stdin to an Aeron stream, or print a stream's messages."),
    "archive": ("everlog.cli.archive", "Inspect or change an Aeron archive, as Aeron's ArchiveTool does."),
    "check": ("everlog.cli.monitoring.check", "Check a store for Nagios and Icinga, with their exit codes."),
    "cluster": ("everlog.cli.cluster", "Inspect an Aeron Cluster node, as Aeron's ClusterTool does."),
    "driver": ("everlog.cli.driver", "Inspect an Aeron media driver: counters, errors, loss, streams, log buffers."),
    "export": ("everlog.cli.export", "Write records to a Parquet, Arrow or JSON lines file."),
    "info": ("everlog.cli.listing", "Show the store's state: descriptors, subscriptions, clients, ..."),
    "jlogctl": ("everlog.cli.jlogctl", "Inspect, set up, clean and repair a JLog journal, as JLog's jlogctl does."),
    "jlogtail": ("everlog.cli.jlogtail", "Print a JLog journal's messages as they are written."),
    "ls": ("everlog.cli.listing", "List the streams of a store."),
    "metrics": ("everlog.cli.monitoring.metrics", "Serve a store's state to Prometheus."),
    "read": ("everlog.cli.read", "Print records."),
    "repair": ("everlog.cli.repair", "Repair a store: show the plan, ask, carry it out, verify."),
    "run": ("everlog.cli.run", "Run a server: an Aeron media driver."),
    "spark": ("everlog.cli.spark", "Run pipelines over many stores on Spark: verify, export, compare, ..."),
    "verify": ("everlog.cli.verify", "Check everything in a store and report every fault."),
}
"""Maps a command's name to its module, which is imported when the command runs, and to its line in ``--help``."""

INTERRUPTED = 130
EXIT_USAGE = 2


class OutputClosed(Exception):
    """The reader of stdout closed its end of the pipe, as ``head`` does."""


class Commands(click.Group):
    """A command group that imports a command's module only when the command runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All command names, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; ``None`` for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(COMMANDS[cmd_name][0]), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands in ``--help``, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(COMMANDS.items())])

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. A closed pipe becomes :class:`OutputClosed`, before click turns it into exit code 1."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise OutputClosed from error
        return result


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="everlog")
def cli() -> None:
    """Open, list, read, verify, repair and export durable message streams: Aeron archives and clusters, JLog journals,
    NATS Streaming stores. Run an Aeron media driver, publish and subscribe.

    Opening and reading never change a byte. Exit codes: 0 fine, 1 faults found, 2 wrong usage or no store; check has
    those of Nagios.
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (``sys.argv`` by default) and return its exit code."""
    _replace_closed_streams()
    warnings.showwarning = lambda message, *rest, **more: print_error(f"warning: {message}")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # characters that the terminal can't show are escaped
    try:
        result = cli.main(args=arguments, prog_name="everlog", standalone_mode=False)
        code = result if isinstance(result, int) else 0
    except OutputClosed:
        code = 0
        _discard_stdout()
    except click.exceptions.NoArgsIsHelpError as error:
        say(error.format_message())
        code = EXIT_USAGE
    except click.UsageError as error:
        place = error.ctx.command_path if error.ctx else "everlog"
        print_error(f"{error.format_message().rstrip('.')} (see {place} --help)")
        code = EXIT_USAGE
    except click.ClickException as error:
        print_error(error.format_message())
        code = EXIT_USAGE
    except (click.Abort, KeyboardInterrupt):
        code = INTERRUPTED
        _discard_stdout()
    except EverlogError as error:
        print_error(str(error))
        code = error.exit_code
    except OSError as error:
        print_error(f"{error.filename or 'system'}: {(error.strerror or str(error)).lower()}")
        code = EXIT_USAGE
        _discard_stdout()
    except MemoryError:
        print_error("out of memory")
        code = EXIT_USAGE
    except Exception as error:
        if os.environ.get("EVERLOG_TRACEBACK"):
            raise
        print_error(f"internal error, please report: {type(error).__name__}: {error} (EVERLOG_TRACEBACK=1 shows where)")
        code = EXIT_USAGE
    return code


def _replace_closed_streams() -> None:
    # For a closed stream (2>&-) Python has None, and the next opened file, perhaps one of a store, would get its
    # descriptor. stdout is opened read-only, so that writing to a closed stdout still fails.
    for name, flags, mode in (("stdin", os.O_RDONLY, "r"), ("stdout", os.O_RDONLY, "w"), ("stderr", os.O_WRONLY, "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode))


def _discard_stdout() -> None:
    # Buffered output must not fail again when the interpreter exits.
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):
        return
