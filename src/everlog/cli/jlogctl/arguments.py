"""What the verbs share: their common options, what they print, how they end."""

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
"""Asked for rightly, and not done: exit code 1, whatever the error's own is."""

F = TypeVar("F", bound=Callable[..., Any])


def journal_options(*, is_required: bool = False) -> Callable[[F], F]:
    """Decorator: ``-j``, ``-v`` and ``--json``."""
    settings: dict[str, Any] = {"required": True} if is_required else {"default": ".", "show_default": "this folder"}

    def decorate(command: F) -> F:
        command = click.option("--json", "as_json", is_flag=True, help="JSON, one object a line.")(command)
        command = click.option("-v", "--verbose", count=True, help="Tell more.")(command)
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
    """Decorator: how to repair."""
    command = click.option(
        "--no-backup", is_flag=True, help="Do not keep what is cut out or written over in a folder beside the journal."
    )(command)
    return click.option("--dry-run", is_flag=True, help="Show what would be repaired, and change nothing.")(command)


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
            self.fail(f"found {error.found}, expected {error.expected}", param, ctx)


@dataclass(slots=True)
class Printer:
    """Lines on stdout, or an object for each with ``--json``; ``quiet`` prints neither."""

    path: str
    as_json: bool = False
    quiet: bool = False

    def __call__(self, text: str, record: dict[str, Any]) -> None:
        """Print one or the other. Text must be safe for a terminal already."""
        if not self.quiet:
            click.echo(json_line({"path": self.path} | record) if self.as_json else text)


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """How to repair: only show it, keep what is taken out beside the journal, tell more."""

    dry_run: bool = False
    backup: bool = True
    verbose: bool = False


def open_journal(path: str) -> Journal:
    """Look at a journal, for reading. Raises :class:`NotAStore`, :class:`StoreUnavailable`,
    :class:`UnsupportedVersion`."""
    storage = storage_of(path)
    if not JlogStore.detect(storage):
        raise NotAStore(
            path, found="neither a metastore nor segments", expected="a JLog journal", hint="jlogctl create makes one"
        )
    return Journal.read(storage)


def shown(subscriber: str) -> str:
    """A subscriber's name as text: bytes that are no UTF-8, and what could steer a terminal, escaped."""
    return escaped(printable(subscriber))


def attempt(action: Callable[[], int]) -> int:
    """Run; an error is one line on stderr. The exit code: 1 for what could not be done, 2 for wrong usage or no
    journal."""
    try:
        return action()
    except EverlogError as error:
        print_error(str(error))
        return NOT_DONE if isinstance(error, FAILURES) else error.exit_code
