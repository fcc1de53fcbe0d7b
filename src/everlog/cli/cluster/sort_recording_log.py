"""``everlog cluster DIR sort-recording-log``: sorts the recording log's entries."""

from __future__ import annotations

from typing import Any

import click

from everlog.aeron.cluster.tool.recording_log_plans import plan_sort
from everlog.cli.cluster.change_options import ChangeOptions, change, change_options
from everlog.cli.cluster.node import NOT_DONE, Node


@click.command
@change_options
@click.pass_obj
def sort_recording_log(node: Node, /, **given: Any) -> int:
    """Sort the entries of the recording log in the order in which a node uses them. The node must not be running. Exit
    code 1 if they are already sorted.
    """
    nothing = "the recording log is already sorted"
    is_done = change(node, ChangeOptions(**given), lambda store: plan_sort(store.storage), nothing=nothing)
    return 0 if is_done else NOT_DONE
