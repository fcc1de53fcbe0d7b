"""``everlog check``: checks a store as monitoring systems expect it. Source: Monitoring Plugins Development Guidelines.

Its exit codes are those of Nagios and Icinga, unlike those of every other command, and every error is a status line on
stdout: a monitoring system shows nothing else.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any, NoReturn

import click

from everlog.cli.monitoring.limits import limit_options, limits_of
from everlog.cli.text import json_line, printable
from everlog.core.family.record import Family, load
from everlog.core.files.storage import is_missing
from everlog.core.monitoring.checking import CheckFunction, CheckResult
from everlog.core.monitoring.levels import Status
from everlog.errors import EverlogError, NotAStore, StoreUnavailable, UsageError
from everlog.stores import FAMILIES, family_named, family_of, storage_of

MAX_DETAILS = 50
"""Lines after the first one; monitoring systems keep a few KiB."""


class CheckCommand(click.Command):
    """A command that reports wrong usage and errors as UNKNOWN, with exit code 3."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments."""
        try:
            return super().parse_args(ctx, args)
        except click.exceptions.NoArgsIsHelpError:
            raise
        except click.UsageError as error:
            _fail(ctx, f"{error.format_message().rstrip('.')} (see {ctx.command_path} --help)")

    def invoke(self, ctx: click.Context) -> Any:
        """Run the check. Every error becomes UNKNOWN, a bug of everlog's too."""
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except EverlogError as error:
            _fail(ctx, str(error))
        except OSError as error:
            _fail(ctx, f"{error.filename or 'system'}: {(error.strerror or str(error)).lower()}")
        except MemoryError:
            _fail(ctx, "out of memory")
        except click.ClickException as error:
            _fail(ctx, error.format_message())
        except Exception as error:
            if os.environ.get("EVERLOG_TRACEBACK"):
                raise
            _fail(ctx, f"internal error, please report: {type(error).__name__}: {error}")


def _fail(ctx: click.Context, text: str) -> NoReturn:
    click.echo(f"{Status.UNKNOWN.name}: {plain(text)}")
    ctx.exit(Status.UNKNOWN)


@click.command(cls=CheckCommand)
@click.argument("path")
@click.option("--family", type=click.Choice(list(FAMILIES)), help="What is to be at PATH, even if it is missing now.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@limit_options
def check(path: str, family: str | None, as_json: bool, **given: Any) -> int:
    """Check the driver, archive or journal at PATH for Nagios, Icinga and others. Exit codes: 0 OK, 1 WARNING, 2
    CRITICAL, 3 UNKNOWN or wrong usage. WARNING,CRITICAL are two levels; a value beyond one changes the status; an empty
    one is none. Nothing is changed."""
    record = family_named(family) if family is not None else family_named(family_of(storage_of(path)))
    result = run_check(path, record, given, is_expected=family is not None)
    if as_json:
        click.echo(json_line({"path": path, "family": record.name, **result.to_dict()}))
    else:
        print_result(path, record, result)
    return int(result.status)


def run_check(path: str, record: Family, given: Mapping[str, Any], *, is_expected: bool) -> CheckResult:
    """Check the store at a path. If it ``is_expected`` and its folder is missing, that is a finding. Raises
    :class:`UsageError` for a family without check, and as the check does."""
    if record.checking is None:
        known = " or ".join(family.title for family in FAMILIES.values() if family.checking)
        message = f"no check for {path}: {record.title}s have none; known: {known}"
        raise UsageError(path, found=record.name, expected=known, message=message)
    limits = limits_of(record, given)
    function: CheckFunction = load(record.checking)
    try:
        return function(storage_of(path), limits, time.time_ns())
    except (NotAStore, StoreUnavailable) as error:
        if not (is_expected and is_missing_folder(error)):
            raise
        result = CheckResult()
        result.find(limits.get("stopped", Status.CRITICAL), str(error))
        return result


def is_missing_folder(error: EverlogError) -> bool:
    """Whether the store does not exist, or its folder has nothing of its family."""
    return isinstance(error, NotAStore) or (isinstance(error, StoreUnavailable) and is_missing(error))


def print_result(path: str, record: Family, result: CheckResult) -> None:
    """Print the status line with the performance data, then the details."""
    line = plain(f"{result.status.name}: {record.title} {path}: {result.summary}")
    values = " ".join(str(value) for value in result.measured)
    click.echo(f"{line} | {values}" if values else line)
    for detail in result.details[:MAX_DETAILS]:
        click.echo(plain(detail))
    if len(result.details) > MAX_DETAILS:
        click.echo(f"and {len(result.details) - MAX_DETAILS} more")


def plain(text: str) -> str:
    """Text for the line of a monitoring system: escaped, and without ``|``, after which performance data begin."""
    return printable(text).replace("|", "\\x7c")
