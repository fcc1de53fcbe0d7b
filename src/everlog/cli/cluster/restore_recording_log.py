"""``everlog cluster DIR restore-recording-log``: undoes a change of the recording log."""

from __future__ import annotations

from typing import Any

import click

from everlog.aeron.cluster.tool.recording_log_plans import plan_restore
from everlog.cli.cluster.change_options import ChangeOptions, change, change_options
from everlog.cli.cluster.node import Node
from everlog.core.files.storage import LocalStorage


@click.command
@click.argument("kept", metavar="BACKUP")
@change_options
@click.pass_obj
def restore_recording_log(node: Node, /, kept: str, **given: Any) -> None:
    """Undo another verb's change: restore the recording log that it kept in the folder BACKUP. Refuses if the node or
    another change has written to the recording log since. The node must not be running. The original has no such
    verb."""
    options, folder = ChangeOptions(**given), LocalStorage(kept)
    nothing = "the recording log is already the same as the backup"
    change(node, options, lambda store: plan_restore(store.storage, folder), nothing=nothing)
