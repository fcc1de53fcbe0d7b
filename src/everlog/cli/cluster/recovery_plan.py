"""``everlog cluster DIR recovery-plan``: prints what the node would load and replay when it starts."""

from __future__ import annotations

import click

from everlog.aeron.cluster.folder.recovery_plan import RecoveryPlan, plan_recovery
from everlog.aeron.cluster.folder.state import service_count
from everlog.cli.aeron_text import camel
from everlog.cli.cluster.node import Node, json_option, require_recording_log
from everlog.cli.faults import FaultPrinter
from everlog.cli.text import json_line
from everlog.errors import StoreUnavailable


@click.command
@click.argument("services", metavar="[SERVICE_COUNT]", type=click.IntRange(min=0, max=128), required=False)
@json_option
@click.pass_obj
def recovery_plan(node: Node, services: int | None, as_json: bool) -> int:
    """Print which snapshots the node would load when it starts, and which part of the log it would replay.
    SERVICE_COUNT defaults to the number of services with mark files and snapshots. Exit code 1 if the node could not
    start that way, or part of the recording log can't be read.
    """
    faults = FaultPrinter()
    with node.open() as store:
        log = require_recording_log(store, faults)
        if store.folder.archive is None:
            text, hint = f"no archive next to {store.path} or inside it", "--archive-dir FOLDER names it"
            raise StoreUnavailable(store.path, found="no archive", hint=hint, message=text)
        count = (
            services if services is not None else service_count(store.folder, len(store.folder.service_mark_names()))
        )
        plan = plan_recovery(log.entries, store.folder.archive.recordings(), count)
    faults.close()
    click.echo(json_line(plan.to_dict()) if as_json else plan_text(plan))
    return faults.exit_code


def plan_text(plan: RecoveryPlan) -> str:
    """The plan as the original prints it."""
    snapshots = ", ".join(f"Snapshot[{_pairs(snapshot._asdict())}]" for snapshot in plan.snapshots)
    fields = plan.to_dict()
    log = "null" if plan.log is None else f"Log[{_pairs(fields['log'])}]"
    numbers = {key: value for key, value in fields.items() if key not in ("snapshots", "log")}
    return f"RecoveryPlan[{_pairs(numbers)}, snapshots=[{snapshots}], log={log}]"


def _pairs(fields: dict[str, int]) -> str:
    return ", ".join(f"{camel(key)}={value}" for key, value in fields.items())
