"""``everlog archive DIR attach``."""

from __future__ import annotations

from typing import Any

import click

from everlog.aeron.archive.maintenance.operations import Maintenance
from everlog.cli.archive.maintenance import counted, maintenance_options, perform, recording_argument


@click.command
@recording_argument
@maintenance_options
@click.pass_obj
def attach(folder: str, recording: int, dry_run: bool, as_json: bool) -> int:
    """Let a recording start where the files in DIR begin that lie right before its start. They are read first, frame by
    frame; a foreign or damaged one is refused, and nothing changed.
    """

    def act(maintenance: Maintenance) -> tuple[str, dict[str, Any]]:
        count = maintenance.attach_segments(recording)
        return f"{counted(count)} attached", {"files": count}

    return perform(folder, "attach", recording, act, dry_run=dry_run, as_json=as_json)
