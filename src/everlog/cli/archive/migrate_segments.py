"""``everlog archive DIR migrate-segments``: moves a recording's segments to an adjoining recording."""

from __future__ import annotations

from typing import Any

import click

from everlog.cli.archive.maintenance import SegmentMaintenance, maintenance_options, perform
from everlog.cli.archive.running import connection_options
from everlog.core.counting import counted


@click.command
@click.argument("source", metavar="SRC", type=click.IntRange(min=0))
@click.argument("target", metavar="DST", type=click.IntRange(min=0))
@maintenance_options
@connection_options
@click.pass_obj
def migrate_segments(folder: str, /, source: int, target: int, dry_run: bool, as_json: bool, **connection: Any) -> int:
    """Move all segments of the stopped recording SRC to recording DST of the same stream, which must start where SRC
    stops, or stop where SRC starts. SRC is empty afterwards.
    """

    def act(maintenance: SegmentMaintenance) -> tuple[str, dict[str, Any]]:
        count = maintenance.migrate_segments(source, target)
        return f"{counted(count, 'file')} moved to recording {target}", {"target_id": target, "files": count}

    return perform(folder, "migrate-segments", source, act, dry_run=dry_run, as_json=as_json, **connection)
