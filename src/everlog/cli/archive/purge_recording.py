"""``everlog archive DIR purge-recording``: deletes a recording."""

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
def purge_recording(folder: str, /, recording: int, dry_run: bool, as_json: bool, **connection: Any) -> int:
    """Delete a stopped recording and all its files. Its catalog entry stays, as DELETED, until compact removes it."""

    def act(maintenance: SegmentMaintenance) -> tuple[str, dict[str, Any]]:
        count = maintenance.purge_recording(recording)
        return f"deleted, with {counted(count, 'file')}", {"files": count}

    return perform(folder, "purge-recording", recording, act, dry_run=dry_run, as_json=as_json, **connection)
