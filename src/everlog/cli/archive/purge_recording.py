"""``everlog archive DIR purge-recording``."""

from __future__ import annotations

from typing import Any

import click

from everlog.aeron.archive.maintenance.operations import Upkeep
from everlog.cli.archive.keeping import counted, keeping_options, perform, recording_argument


@click.command
@recording_argument
@keeping_options
@click.pass_obj
def purge_recording(folder: str, recording: int, dry_run: bool, as_json: bool) -> int:
    """Delete a stopped recording and all its files. Its entry in the catalog stays, as DELETED, until compact takes it
    out.
    """

    def act(keeper: Upkeep) -> tuple[str, dict[str, Any]]:
        count = keeper.purge_recording(recording)
        return f"deleted, with {counted(count)}", {"files": count}

    return perform(folder, "purge-recording", recording, act, dry_run=dry_run, as_json=as_json)
