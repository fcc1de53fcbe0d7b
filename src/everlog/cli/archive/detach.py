"""``everlog archive DIR detach``: moves a recording's start to a later segment."""

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


@click.command
@recording_argument
@position_argument
@maintenance_options
@connection_options
@click.pass_obj
def detach(folder: str, /, recording: int, position: int, dry_run: bool, as_json: bool, **connection: Any) -> int:
    """Move a recording's start to POSITION, where a segment must begin. The files before it stay in DIR: move them
    away, attach them again, or delete them.
    """

    def act(maintenance: SegmentMaintenance) -> tuple[str, dict[str, Any]]:
        maintenance.detach_segments(recording, position)
        return f"starts at {position}", {"start_position": position}

    return perform(folder, "detach", recording, act, dry_run=dry_run, as_json=as_json, **connection)
