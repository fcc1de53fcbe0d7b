"""The parts that all maintenance verbs share: opening the archive, for writing or for a dry run, and printing the
result as text or JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

from everlog.aeron.archive.maintenance.dry_run import DryRun
from everlog.aeron.archive.maintenance.operations import Maintenance
from everlog.cli.archive.recordings import open_archive
from everlog.cli.text import json_line, print_error, printable

if TYPE_CHECKING:
    from everlog.aeron.archive.archive import Archive

F = TypeVar("F", bound=Callable[..., Any])


def maintenance_options(command: F) -> F:
    """Decorator that adds ``--dry-run`` and ``--json``."""
    command = click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each recording.")(command)
    text = "Print what would be done, and change nothing."
    return click.option("--dry-run", is_flag=True, help=text)(command)


recording_argument = click.argument("recording", metavar="RECORDING", type=click.IntRange(min=0))
position_argument = click.argument("position", metavar="POSITION", type=click.IntRange(min=0))


@contextmanager
def open_maintenance(folder: str, dry_run: bool) -> Iterator[Maintenance]:
    """Open the archive as its owner; changes are on disk when a verb ends. Prints what opening it recovered. With
    ``dry_run``, an object that only records what it would do."""
    with open_archive(folder) as store:
        if dry_run:
            yield DryRun(store.folder)
            return
    with _open(folder) as archive:
        for line in archive.recovered:
            print_error(f"recovered: {line}")
        yield archive.maintenance


def _open(folder: str) -> Archive:
    from everlog.aeron import archive

    return archive.open_archive(folder, checksum=None, catalog_file_sync_level=1)


@dataclass(slots=True)
class Outcome:
    """What a verb did to a recording: a line for people and ``values`` for programs. After a dry run, ``steps`` are the
    steps it would have taken."""

    verb: str
    text: str
    values: dict[str, Any]
    steps: list[str] = field(default_factory=list)

    def print(self, *, as_json: bool, dry_run: bool) -> None:
        """Print it to stdout."""
        if as_json:
            steps = {"dry_run": True, "steps": self.steps} if dry_run else {"dry_run": False}
            click.echo(json_line({"verb": self.verb, **self.values, **steps}))
            return
        for line in self.steps:
            click.echo(printable(line))
        click.echo(f"dry run: {self.text}; nothing was changed" if dry_run else self.text)


def perform(
    folder: str,
    verb: str,
    recording_id: int,
    act: Callable[[Maintenance], tuple[str, dict[str, Any]]],
    *,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Run ``act`` on the archive and print its outcome for one recording; returns the exit code."""
    with open_maintenance(folder, dry_run) as maintenance:
        text, values = act(maintenance)
        steps = maintenance.lines if isinstance(maintenance, DryRun) else []
    outcome = Outcome(verb, f"recording {recording_id}: {text}", {"recording_id": recording_id, **values}, steps)
    outcome.print(as_json=as_json, dry_run=dry_run)
    return 0
