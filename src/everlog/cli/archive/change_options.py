"""What the verbs that write share: ``--dry-run``, the question, the backup, progress, and what is said about them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click

from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.archive.tool.folder import alone
from everlog.cli.confirmation import confirmed
from everlog.cli.progress import ProgressLine
from everlog.cli.repair import check_backup, print_plan
from everlog.cli.text import json_line, print_error, warn
from everlog.core.files.storage import Storage
from everlog.core.plan.backup import FolderBackup
from everlog.core.plan.plan import RepairPlan
from everlog.errors import NotAStore, UsageError
from everlog.stores import storage_of

F = TypeVar("F", bound=Callable[..., Any])
EXIT_REFUSED = 2
EXIT_NOT_DONE = 1


@dataclass(frozen=True, kw_only=True)
class ChangeOptions:
    """How a change is to be done. ``yes`` is ``None`` for verbs that do not ask."""

    dry_run: bool
    no_backup: bool
    backup: str | None
    as_json: bool
    yes: bool | None = None

    def __post_init__(self) -> None:
        if self.backup is not None and self.no_backup:
            raise click.UsageError("--backup and --no-backup exclude each other")
        if self.backup is not None and os.path.lexists(self.backup) and _holds_something(self.backup):
            raise UsageError("--backup", found=f"{self.backup}, which is not empty", expected="a new or empty folder")

    def folder(self, archive: str) -> FolderBackup | None:
        """Where to keep what goes: a folder of this change only, so that it says what to undo."""
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


def _holds_something(path: str) -> bool:
    return not os.path.isdir(path) or bool(os.listdir(path))


def change_options(command: F) -> F:
    """Decorator: what all verbs that write take."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="One JSON object: the plan, what was done, the backup."),
        click.option("--no-backup", is_flag=True, help="Do not keep what is removed or written over."),
        click.option(
            "--backup", metavar="FOLDER", help="Keep it here, in a new or empty folder (default: beside DIR)."
        ),
        click.option("--dry-run", is_flag=True, help="Print what would change, and change nothing."),
    ):
        command = option(command)
    return command


yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def local_archive(folder: str) -> Storage:
    """The folder. Raises :class:`NotAStore`."""
    storage = storage_of(folder)
    if not ArchiveStore.detect(storage):
        raise NotAStore(folder, found="no catalog and no segments", expected="an Aeron archive's folder")
    return storage


@dataclass(slots=True)
class Change:
    """A verb's change of a folder. ``done`` has a line for each step, ``kept`` is the backup's folder, where anything
    was kept; ``is_done`` says whether the plan was carried out, or was empty."""

    verb: str
    folder: str
    options: ChangeOptions
    plan: RepairPlan
    done: list[str] = field(default_factory=list)
    kept: str | None = None
    is_done: bool = False

    def perform(self, question: str = "") -> int:
        """Print the plan, or ask where the verb does, and do it; the exit code. Raises as the plan, and
        :class:`UsageError` for a backup inside of the folder."""
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
        """With ``--json``: all of it, with what the verb has to add."""
        if self.options.as_json:
            undo = None if self.kept is None else _undo(self.folder, self.kept)
            found = {"changed": bool(self.done), "plan": self.plan.to_dict(), "done": self.done, "backup": self.kept}
            click.echo(json_line(found | {"undo": undo} | more))

    def _ask(self, question: str) -> int | None:
        """``None`` to go on, else the exit code."""
        if self.options.yes is not False:
            return None
        answer = confirmed(f"{question} Continue?")
        if answer is None:
            print_error(f"{question} Nothing was changed: pass --yes to go on, --dry-run to look first")
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
            except BaseException:  # Ctrl-C, too: who pressed it wants to know what stands
                if kept is not None and kept.is_made:
                    text = f"{begun} of {len(self.plan.steps)} steps were done, the next one at most in part"
                    warn(f"{text}: run {self.verb} again to go on; to undo: {_undo(self.folder, kept.path)}")
                raise
        if kept is not None and kept.is_made:
            self.kept = kept.path
            print_error(f"kept what was there before in {kept.path}; to undo: {_undo(self.folder, kept.path)}")


def _undo(folder: str, place: str) -> str:
    return shlex.join(["everlog", "archive", os.path.abspath(folder), "undo", os.path.abspath(place)])
