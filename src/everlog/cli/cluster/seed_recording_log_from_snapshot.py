"""``everlog cluster DIR seed-recording-log-from-snapshot``: makes a recording log that starts from a snapshot."""

from __future__ import annotations

from typing import Any

import click

from everlog.aeron.cluster.store import ClusterStore
from everlog.aeron.cluster.tool.recording_log_plans import plan_seed
from everlog.cli.cluster.change_options import ChangeOptions, change, change_options, given_recordings
from everlog.cli.cluster.node import Node
from everlog.core.plan.plan import RepairPlan


@click.command
@click.argument("services", metavar="[SERVICE_COUNT]", type=click.IntRange(min=0, max=128), required=False)
@change_options
@click.pass_obj
def seed_recording_log_from_snapshot(node: Node, /, services: int | None, **given: Any) -> None:
    """Make a new recording log with only the latest valid snapshot, at position 0: the node starts from it with a new
    log. The node must not be running. SERVICE_COUNT is the number of services that the snapshot must cover; by default
    the number with mark files and valid snapshots.
    """
    nothing = "the recording log already has only the latest snapshot"

    def plan(store: ClusterStore) -> RepairPlan:
        return plan_seed(store.storage, service_count=services, given=given_recordings(store))

    change(node, ChangeOptions(**given), plan, nothing=nothing)
