"""The parts that all verbs share: common options, printing, exit codes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from everlog.cli.param_type import ParamType
from everlog.cli.text import json_line, print_error
from everlog.cli.text import printable as escaped
from everlog.errors import (
    EverlogError,
    NotAStore,
    StoreExists,
    SubscriberExists,
    UnknownSubscriber,
    UsageError,
    WriteFailed,
)
from everlog.jlog.format.addresses import Address
from everlog.jlog.format.names import printable
from everlog.jlog.reading.journal import Journal
from everlog.jlog.store import JlogStore
from everlog.stores import storage_of

NAME_WIDTH = 32
NOT_DONE = 1
FAILURES = (StoreExists, SubscriberExists, UnknownSubscriber, WriteFailed)
"""Errors of a correct command that could not be done: exit code 1, whatever the error's own is."""

F = TypeVar("F", bound=Callable[..., Any])


def journal_options(*, is_required: bool = False) -> Callable[[F], F]:
    """Decorator that adds ``-j``, ``-v`` and ``--json``."""
    settings: dict[str, Any] = {"required": True} if is_required else {"default": ".", "show_default": "this folder"}

    def decorate(command: F) -> F:
        command = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")(command)
        command = click.option("-v", "--verbose", count=True, help="Print more details.")(command)
        return click.option(
            "-j",
            "--journal",
            "path",
            metavar="PATH",
            help="The journal's folder.",
            **settings,
        )(command)

    return decorate


def repair_options(command: F) -> F:
    """Decorator that adds ``--dry-run`` and ``--no-backup``."""
    command = click.option(
        "--no-backup", is_flag=True, help="Do not keep removed or overwritten bytes in PATH.repair-TIME."
    )(command)
    return click.option("--dry-run", is_flag=True, help="Print what would be repaired, and change nothing.")(command)


class AddressType(ParamType[Address]):
    """An address on the command line."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        """Parse ``8x:8x``."""
        if isinstance(value, Address):
            return value
        try:
            return Address.parse(value)
        except UsageError as error:
            self.fail(f"{value!r} is not {error.expected}" if error.expected else str(error), param, ctx)


@dataclass(slots=True)
class Printer:
    """Prints lines to stdout, or with ``--json`` an object for each; with ``quiet`` neither."""

    path: str
    as_json: bool = False
    quiet: bool = False

    def __call__(self, text: str, record: dict[str, Any]) -> None:
        """Print the text or the record. The text must already be safe for a terminal."""
        if not self.quiet:
            click.echo(json_line({"path": self.path} | record) if self.as_json else text)


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """How to repair: only print the plan, keep removed bytes next to the journal, print more."""

    dry_run: bool = False
    backup: bool = True
    verbose: bool = False


def open_journal(path: str) -> Journal:
    """Read a journal's state. Raises :class:`NotAStore`, :class:`StoreUnavailable`, :class:`UnsupportedVersion`."""
    storage = storage_of(path)
    if not JlogStore.detect(storage):
        found = "neither a metastore nor segments"
        text, hint = f"no JLog journal here: {path} has {found}", "jlogctl create makes one"
        raise NotAStore(path, found=found, hint=hint, message=text)
    return Journal.read(storage)


def shown(subscriber: str) -> str:
    """A subscriber's name for printing: bytes that are not UTF-8, and control characters, are escaped."""
    return escaped(printable(subscriber))


def attempt(action: Callable[[], int]) -> int:
    """Run an action and print its error as one line on stderr. Returns the exit code: 1 if it could not be done, 2 for
    wrong usage or no journal."""
    try:
        return action()
    except EverlogError as error:
        print_error(str(error))
        return NOT_DONE if isinstance(error, FAILURES) else error.exit_code
