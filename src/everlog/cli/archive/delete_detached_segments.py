"""``everlog archive DIR delete-detached-segments``: deletes segment files before a recording's start."""

from __future__ import annotations

from typing import Any

import click

from everlog.cli.archive.maintenance import SegmentMaintenance, maintenance_options, perform, recording_argument
from everlog.cli.archive.running import connection_options
from everlog.core.counting import counted


@click.command
@recording_argument
@maintenance_options
@connection_options
@click.pass_obj
def delete_detached_segments(folder: str, /, recording: int, dry_run: bool, as_json: bool, **connection: Any) -> int:
    """Delete the segment files before a recording's start: detached ones, and those that a killed purge left."""

    def act(maintenance: SegmentMaintenance) -> tuple[str, dict[str, Any]]:
        count = maintenance.delete_detached_segments(recording)
        return f"{counted(count, 'file')} deleted", {"files": count}

    return perform(folder, "delete-detached-segments", recording, act, dry_run=dry_run, as_json=as_json, **connection)
