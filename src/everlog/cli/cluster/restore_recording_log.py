"""``everlog cluster DIR restore-recording-log``."""

from __future__ import annotations

from typing import Any

import click

from everlog.aeron.cluster.tool.recording_log_plans import plan_restore
from everlog.cli.cluster.change_options import Choice, change, change_options
from everlog.cli.cluster.node import Node
from everlog.core.files.storage import LocalStorage


@click.command
@click.argument("kept", metavar="BACKUP")
@change_options
@click.pass_obj
def restore_recording_log(node: Node, /, kept: str, **given: Any) -> None:
    """Undo what another verb changed: bring the recording log back that it kept in the folder BACKUP. ArchiveError when
    the node, or another change, wrote to it since. The node must not run. The original has no such verb."""
    choice, folder = Choice(**given), LocalStorage(kept)
    nothing = "the recording log is that of the backup already"
    change(node, choice, lambda store: plan_restore(store.storage, folder), nothing=nothing)
