"""``everlog cluster DIR invalidate-latest-snapshot``."""

from __future__ import annotations

from typing import Any

import click

from everlog.aeron.cluster.store import ClusterStore
from everlog.aeron.cluster.tool.recording_log_plans import plan_invalidate
from everlog.cli.cluster.change_options import Choice, change, change_options, given_recordings
from everlog.cli.cluster.node import NOT_DONE, Node
from everlog.core.plan.plan import RepairPlan
from everlog.errors import EverlogError


@click.command
@change_options
@click.pass_obj
def invalidate_latest_snapshot(node: Node, /, **given: Any) -> int:
    """Mark the latest snapshot as invalid, so that a start uses the one before, or the log alone. The node must not
    run. Exit code 1 when there is no valid snapshot.
    """
    choice = Choice(**given)
    is_done = change(node, choice, _plan, nothing="there is no valid snapshot")
    if not choice.as_json and not choice.dry_run:
        click.echo(f" invalidate latest snapshot: {'true' if is_done else 'false'}")
    return 0 if is_done else NOT_DONE


def _plan(store: ClusterStore) -> RepairPlan:
    return plan_invalidate(store.storage, log_start=_log_start(store), given=given_recordings(store))


def _log_start(store: ClusterStore) -> int:
    """Where the log's recording begins; 0 where the archive can't tell."""
    try:
        recording_id = store.folder.log_recording_id
        recording = None if recording_id is None else store.folder.recording_of(recording_id)
    except EverlogError:
        return 0
    return 0 if recording is None else recording.start_position
