"""``everlog cluster DIR seed-recording-log-from-snapshot``."""

from __future__ import annotations

from typing import Any

import click

from everlog.aeron.cluster.store import ClusterStore
from everlog.aeron.cluster.tool.recording_log_plans import plan_seed
from everlog.cli.cluster.change_options import Choice, change, change_options, given_recordings
from everlog.cli.cluster.node import Node
from everlog.core.plan.plan import RepairPlan


@click.command
@click.argument("services", metavar="[SERVICE_COUNT]", type=click.IntRange(min=0, max=128), required=False)
@change_options
@click.pass_obj
def seed_recording_log_from_snapshot(node: Node, /, services: int | None, **given: Any) -> None:
    """Make a new recording log that has the latest valid snapshot only, at position 0: the node starts from it with a
    new log. The node must not run. SERVICE_COUNT: of how many services the snapshot must have parts; by default as many
    as there are mark files and valid snapshots of.
    """
    nothing = "the recording log has nothing but the latest snapshot already"

    def plan(store: ClusterStore) -> RepairPlan:
        return plan_seed(store.storage, service_count=services, given=given_recordings(store))

    change(node, Choice(**given), plan, nothing=nothing)
