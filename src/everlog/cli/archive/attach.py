"""``everlog archive DIR attach``: re-attaches earlier segment files to a recording."""

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
def attach(folder: str, /, recording: int, dry_run: bool, as_json: bool, **connection: Any) -> int:
    """Re-attach the segment files in DIR that end where a recording starts: it then starts where they begin. They are
    checked first, frame by frame; a foreign or damaged file is refused, and nothing is changed.
    """

    def act(maintenance: SegmentMaintenance) -> tuple[str, dict[str, Any]]:
        count = maintenance.attach_segments(recording)
        return f"{counted(count, 'file')} attached", {"files": count}

    return perform(folder, "attach", recording, act, dry_run=dry_run, as_json=as_json, **connection)
