"""``everlog archive DIR truncate``: cuts off the end of a recording."""

from __future__ import annotations

from typing import Any

import click

from everlog.cli.archive.maintenance import (
    SegmentMaintenance,
    maintenance_options,
    perform,
    position_argument,
    recording_argument,
)
from everlog.cli.archive.running import connection_options
from everlog.core.counting import counted


@click.command
@recording_argument
@position_argument
@maintenance_options
@connection_options
@click.pass_obj
def truncate(folder: str, /, recording: int, position: int, dry_run: bool, as_json: bool, **connection: Any) -> int:
    """Cut off a stopped recording after POSITION, where a frame must end. Its start position cuts off everything."""

    def act(maintenance: SegmentMaintenance) -> tuple[str, dict[str, Any]]:
        count = maintenance.truncate_recording(recording, position)
        return f"truncated to {position}, {counted(count, 'file')} deleted", {"stop_position": position, "files": count}

    return perform(folder, "truncate", recording, act, dry_run=dry_run, as_json=as_json, **connection)
