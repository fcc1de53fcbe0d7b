"""What the verbs that write share: ``--dry-run``, where the old file is kept, what is said of it, ``--json``."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from everlog.aeron.cluster.folder.recovery_plan import UNGIVEN_STATES
from everlog.aeron.cluster.format.recording_log import RECORDING_LOG_NAME
from everlog.aeron.cluster.store import ClusterStore
from everlog.cli.cluster.node import Node, json_option
from everlog.cli.repair import check_backup, print_plan
from everlog.cli.text import json_line, print_error, warn
from everlog.core.files.writable import writable
from everlog.core.plan.backup import FolderBackup
from everlog.core.plan.plan import RepairPlan
from everlog.errors import EverlogError, UsageError

F = TypeVar("F", bound=Callable[..., Any])
UNDO_VERB = "restore-recording-log"
_FLAGS = (
    ("--dry-run", {"is_flag": True, "help": "Print what would be changed, and change nothing."}),
    ("--backup", {"metavar": "FOLDER", "help": "Keep the old file here, a new or empty folder (default: beside DIR)."}),
    ("--no-backup", {"is_flag": True, "help": "Do not keep the old file."}),
)


def change_options(command: F) -> F:
    """Decorator: ``--dry-run``, ``--backup``, ``--no-backup``, ``--json``, which fill :class:`Choice`."""
    command = json_option(command)
    for flag, settings in reversed(_FLAGS):
        command = click.option(flag, **settings)(command)
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the user chose."""

    dry_run: bool
    backup: str | None
    no_backup: bool
    as_json: bool

    def __post_init__(self) -> None:
        if self.backup is not None and self.no_backup:
            raise click.UsageError("--backup and --no-backup exclude each other")
        if self.backup is not None and os.path.exists(self.backup) and _holds_something(self.backup):
            raise UsageError("--backup", found=f"{self.backup}, which is not empty", expected="a new or empty folder")

    def folder(self, store: ClusterStore) -> FolderBackup | None:
        """Where the old file goes: a folder of this change only, so that it says what to undo."""
        if self.no_backup:
            return None
        if self.backup is not None:
            return FolderBackup(self.backup)
        first = FolderBackup.beside(store.path).path
        path, number = first, 1
        while os.path.exists(path):
            number += 1
            path = f"{first}-{number}"
        return FolderBackup(path)


def given_recordings(store: ClusterStore) -> frozenset[int] | None:
    """The recordings that the node's archive gives to it; ``None`` where its catalog is not here, or is damaged."""
    try:
        archive = store.folder.archive
        if archive is None or archive.catalog is None or archive.catalog.is_damaged:
            return None
        recordings = archive.recordings().values()
        return frozenset(item.recording_id for item in recordings if item.state not in UNGIVEN_STATES)
    except EverlogError:
        return None


def _holds_something(path: str) -> bool:
    return not os.path.isdir(path) or bool(os.listdir(path))


def change(node: Node, choice: Choice, make_plan: Callable[[ClusterStore], RepairPlan], *, nothing: str) -> bool:
    """Plan and apply, or show what would be done; whether there was anything to do, else ``nothing`` is said. Results
    go to stderr: what the originals print on stdout is the verbs' own."""
    done: list[str] = []
    kept: FolderBackup | None = None
    with node.open() as store:
        check_backup(choice.backup, store.path)
        plan = make_plan(store)
        if choice.dry_run:
            _show(plan, choice)
        elif not plan.is_empty:
            if writable(store.storage).is_open_elsewhere(RECORDING_LOG_NAME) is None:
                print_error(
                    f"note: the system does not tell whether a process has {RECORDING_LOG_NAME} open; none should"
                )
            kept = choice.folder(store)
            done = _apply(plan, kept)
        undo = None if kept is None else _undo(store, kept)
    if choice.as_json:
        place = None if kept is None else kept.path
        result = {"changed": bool(done), "plan": plan.to_dict(), "done": done, "backup": place, "undo": undo}
        click.echo(json_line(result))
    for line in done:
        print_error(line)
    for line in plan.loses if done else ():
        print_error(f"what is lost: {line}")
    if kept is not None:
        print_error(f"kept the old file in {kept.path}; to undo: {undo}")
    if plan.is_empty:
        print_error(nothing)
    if choice.dry_run:
        for step in plan.steps:
            step.check()  # as the last thing, so that the plan is seen where it would be refused now
    return not plan.is_empty


def _show(plan: RepairPlan, choice: Choice) -> None:
    if choice.as_json or plan.is_empty:
        return
    print_plan(plan)
    click.echo("dry run: nothing was changed")


def _apply(plan: RepairPlan, kept: FolderBackup | None) -> list[str]:
    try:
        return plan.apply(backup=kept)
    except BaseException:  # Ctrl-C, too: who pressed it wants to know what stands
        if kept is not None and kept.is_made:
            warn(f"the change did not come to its end; what was there before is in {kept.path}")
        raise


def _undo(store: ClusterStore, kept: FolderBackup) -> str:
    folder, backup = os.path.abspath(store.path), os.path.abspath(kept.path)
    return shlex.join(["everlog", "cluster", folder, UNDO_VERB, backup])
