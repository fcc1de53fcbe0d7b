"""``everlog cluster DIR invalidate-latest-snapshot``: marks the latest snapshot as invalid."""

from __future__ import annotations

from typing import Any

import click

from everlog.aeron.cluster.store import ClusterStore
from everlog.aeron.cluster.tool.recording_log_plans import plan_invalidate
from everlog.cli.cluster.change_options import ChangeOptions, change, change_options, given_recordings
from everlog.cli.cluster.node import NOT_DONE, Node
from everlog.core.plan.plan import RepairPlan
from everlog.errors import EverlogError


@click.command
@change_options
@click.pass_obj
def invalidate_latest_snapshot(node: Node, /, **given: Any) -> int:
    """Mark the latest snapshot as invalid: the next start uses the one before it, or only the log. The node must not be
    running. Exit code 1 if the node has no valid snapshot.
    """
    options = ChangeOptions(**given)
    is_done = change(node, options, _plan, nothing="no valid snapshot")
    if not options.as_json and not options.dry_run:
        click.echo(f" invalidate latest snapshot: {'true' if is_done else 'false'}")
    return 0 if is_done else NOT_DONE


def _plan(store: ClusterStore) -> RepairPlan:
    return plan_invalidate(store.storage, log_start=_log_start(store), given=given_recordings(store))


def _log_start(store: ClusterStore) -> int:
    """The start position of the log's recording; 0 if the archive can't be read."""
    try:
        recording_id = store.folder.log_recording_id
        recording = None if recording_id is None else store.folder.recording_of(recording_id)
    except EverlogError:
        return 0
    return 0 if recording is None else recording.start_position
