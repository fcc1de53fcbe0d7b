"""The parts that all writing verbs share: ``--dry-run``, the backup of the old file, ``--json`` and the result."""

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
    ("--dry-run", {"is_flag": True, "help": "Print what would change, and change nothing."}),
    (
        "--backup",
        {
            "metavar": "FOLDER",
            "help": "Keep the old file in FOLDER, which must be new or empty (default: DIR.repair-TIME).",
        },
    ),
    ("--no-backup", {"is_flag": True, "help": "Do not keep the old file."}),
)


def change_options(command: F) -> F:
    """Decorator that adds ``--dry-run``, ``--backup``, ``--no-backup`` and ``--json``, which fill
    :class:`ChangeOptions`."""
    command = json_option(command)
    for flag, settings in reversed(_FLAGS):
        command = click.option(flag, **settings)(command)
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOptions:
    """How to make a change."""

    dry_run: bool
    backup: str | None
    no_backup: bool
    as_json: bool

    def __post_init__(self) -> None:
        if self.backup is not None and self.no_backup:
            raise click.UsageError("--backup and --no-backup exclude each other")
        if self.backup is not None and os.path.exists(self.backup) and _is_not_empty(self.backup):
            raise UsageError("--backup", found=self.backup, expected="a new or empty folder")

    def folder(self, store: ClusterStore) -> FolderBackup | None:
        """The backup folder, ``None`` with ``--no-backup``. Each change has its own, so that it can be undone alone."""
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
    """The recordings that the node's archive serves; ``None`` if its catalog is missing or damaged."""
    try:
        archive = store.folder.archive
        if archive is None or archive.catalog is None or archive.catalog.is_damaged:
            return None
        recordings = archive.recordings().values()
        return frozenset(item.recording_id for item in recordings if item.state not in UNGIVEN_STATES)
    except EverlogError:
        return None


def _is_not_empty(path: str) -> bool:
    return not os.path.isdir(path) or bool(os.listdir(path))


def change(
    node: Node, options: ChangeOptions, make_plan: Callable[[ClusterStore], RepairPlan], *, nothing: str
) -> bool:
    """Plan a change and apply it; with ``--dry-run`` only print the plan. Returns whether there was anything to do; if
    not, prints ``nothing``. Results go to stderr: on stdout the verbs print only what the original prints."""
    done: list[str] = []
    kept: FolderBackup | None = None
    with node.open() as store:
        check_backup(options.backup, store.path)
        plan = make_plan(store)
        if options.dry_run:
            _show(plan, options)
        elif not plan.is_empty:
            if writable(store.storage).is_open_elsewhere(RECORDING_LOG_NAME) is None:
                print_error(f"note: can't check whether another process has {RECORDING_LOG_NAME} open; none should")
            kept = options.folder(store)
            done = _apply(plan, kept)
        undo = None if kept is None else _undo(store, kept)
    if options.as_json:
        place = None if kept is None else kept.path
        result = {"changed": bool(done), "plan": plan.to_dict(), "done": done, "backup": place, "undo": undo}
        click.echo(json_line(result))
    for line in done:
        print_error(line)
    for line in plan.loses if done else ():
        print_error(f"loses: {line}")
    if kept is not None:
        print_error(f"the old file is kept in {kept.path}; to undo: {undo}")
    if plan.is_empty:
        print_error(nothing)
    if options.dry_run:
        for step in plan.steps:
            step.check()  # last, so that a plan that would be refused is still printed
    return not plan.is_empty


def _show(plan: RepairPlan, options: ChangeOptions) -> None:
    if options.as_json or plan.is_empty:
        return
    print_plan(plan)
    click.echo("dry run: nothing was changed")


def _apply(plan: RepairPlan, kept: FolderBackup | None) -> list[str]:
    try:
        return plan.apply(backup=kept)
    except BaseException:  # Ctrl-C too: the user has to know that the change is unfinished
        if kept is not None and kept.is_made:
            warn(f"the change was interrupted; the old file is kept in {kept.path}")
        raise


def _undo(store: ClusterStore, kept: FolderBackup) -> str:
    folder, backup = os.path.abspath(store.path), os.path.abspath(kept.path)
    return shlex.join(["everlog", "cluster", folder, UNDO_VERB, backup])
