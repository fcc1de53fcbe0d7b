"""``everlog archive DIR detach``."""

from __future__ import annotations

from typing import Any

import click

from everlog.aeron.archive.maintenance.operations import Maintenance
from everlog.cli.archive.maintenance import maintenance_options, perform, position_argument, recording_argument


@click.command
@recording_argument
@position_argument
@maintenance_options
@click.pass_obj
def detach(folder: str, recording: int, position: int, dry_run: bool, as_json: bool) -> int:
    """Let a recording start at POSITION, where a segment begins. The files before it stay in DIR: they may be moved
    away, attached again, or deleted.
    """

    def act(maintenance: Maintenance) -> tuple[str, dict[str, Any]]:
        maintenance.detach_segments(recording, position)
        return f"starts at {position}", {"start_position": position}

    return perform(folder, "detach", recording, act, dry_run=dry_run, as_json=as_json)
