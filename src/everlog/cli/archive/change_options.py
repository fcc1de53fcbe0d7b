"""The parts that all writing verbs share: ``--dry-run``, the question, the backup, progress and the result."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click

from everlog.aeron.archive.tool.folder import alone
from everlog.cli.archive.recordings import local_archive
from everlog.cli.confirmation import confirmed
from everlog.cli.progress import ProgressLine
from everlog.cli.repair import check_backup, print_plan
from everlog.cli.text import json_line, print_error, warn
from everlog.core.counting import counted
from everlog.core.plan.backup import FolderBackup
from everlog.core.plan.plan import RepairPlan
from everlog.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])
EXIT_REFUSED = 2
EXIT_NOT_DONE = 1


@dataclass(frozen=True, kw_only=True)
class ChangeOptions:
    """How to make a change. ``yes`` is ``None`` for verbs that do not ask."""

    dry_run: bool
    no_backup: bool
    backup: str | None
    as_json: bool
    yes: bool | None = None

    def __post_init__(self) -> None:
        if self.backup is not None and self.no_backup:
            raise click.UsageError("--backup and --no-backup exclude each other")
        if self.backup is not None and os.path.lexists(self.backup) and _is_not_empty(self.backup):
            raise UsageError("--backup", found=self.backup, expected="a new or empty folder")

    def folder(self, archive: str) -> FolderBackup | None:
        """The backup folder, ``None`` with ``--no-backup``. Each change has its own, so that it can be undone alone."""
        if self.no_backup:
            return None
        if self.backup is not None:
            return FolderBackup(self.backup)
        first = FolderBackup.beside(archive).path
        path, number = first, 1
        while os.path.lexists(path):
            number += 1
            path = f"{first}-{number}"
        return FolderBackup(path)


def _is_not_empty(path: str) -> bool:
    return not os.path.isdir(path) or bool(os.listdir(path))


def change_options(command: F) -> F:
    """Decorator that adds ``--dry-run``, ``--backup``, ``--no-backup`` and ``--json``."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object: plan, finished steps, backup."),
        click.option("--no-backup", is_flag=True, help="Do not keep what is removed or overwritten."),
        click.option(
            "--backup",
            metavar="FOLDER",
            help="Keep it in FOLDER, which must be new or empty (default: DIR.repair-TIME).",
        ),
        click.option("--dry-run", is_flag=True, help="Print what would change, and change nothing."),
    ):
        command = option(command)
    return command


yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


@dataclass(slots=True)
class Change:
    """A verb's change of a folder. ``done`` has a line for each finished step; ``kept`` is the backup's folder,
    ``None`` if nothing had to be kept; ``is_done`` is set once the plan was carried out, or was empty."""

    verb: str
    folder: str
    options: ChangeOptions
    plan: RepairPlan
    done: list[str] = field(default_factory=list)
    kept: str | None = None
    is_done: bool = False

    def perform(self, question: str = "") -> int:
        """Ask if the verb asks, and carry out the plan; with ``--dry-run`` only print it. Returns the exit code. Raises
        what the plan raises, and :class:`UsageError` for a backup inside the folder."""
        check_backup(self.options.backup, self.folder)
        if self.options.dry_run:
            if not self.options.as_json:
                print_plan(self.plan)
                click.echo("dry run: nothing was changed")
            return 0
        if not self.plan.is_empty:
            refusal = self._ask(question)
            if refusal is not None:
                return refusal
            self._apply()
        self.is_done = True
        return 0

    def print_json(self, **more: Any) -> None:
        """With ``--json``, print the change as one object, with the verb's own entries ``more``."""
        if self.options.as_json:
            undo = None if self.kept is None else _undo(self.folder, self.kept)
            found = {"changed": bool(self.done), "plan": self.plan.to_dict(), "done": self.done, "backup": self.kept}
            click.echo(json_line(found | {"undo": undo} | more))

    def _ask(self, question: str) -> int | None:
        """Ask whether to go on. ``None`` means yes, else the exit code."""
        if self.options.yes is not False:
            return None
        answer = confirmed(f"{question} Continue?")
        if answer is None:
            print_error(f"{question} Nothing was changed; pass --yes to go on, --dry-run to see the plan")
            return EXIT_REFUSED
        if answer:
            return None
        print_error("nothing was changed")
        return EXIT_NOT_DONE

    def _apply(self) -> None:
        kept = self.options.folder(self.folder)
        begun = 0
        with ProgressLine() as line:

            def progress(what: str, number: int, total: int) -> None:
                nonlocal begun
                begun = number
                line(what, number, total)

            try:
                with alone(local_archive(self.folder)):
                    self.done = self.plan.apply(progress, backup=kept)
            except BaseException:  # Ctrl-C too: the user has to know that the change is unfinished
                if kept is not None and kept.is_made:
                    steps = counted(len(self.plan.steps), "step")
                    text = f"interrupted after {begun} of {steps}, perhaps within the next one"
                    warn(f"{text}; run {self.verb} again to finish; to undo: {_undo(self.folder, kept.path)}")
                raise
        if kept is not None and kept.is_made:
            self.kept = kept.path
            print_error(f"backup: {kept.path}; to undo: {_undo(self.folder, kept.path)}")


def _undo(folder: str, place: str) -> str:
    return shlex.join(["everlog", "archive", os.path.abspath(folder), "undo", os.path.abspath(place)])
