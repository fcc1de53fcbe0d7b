"""``everlog archive DIR delete-detached-segments``."""

from __future__ import annotations

from typing import Any

import click

from everlog.aeron.archive.maintenance.operations import Upkeep
from everlog.cli.archive.keeping import counted, keeping_options, perform, recording_argument


@click.command
@recording_argument
@keeping_options
@click.pass_obj
def delete_detached_segments(folder: str, recording: int, dry_run: bool, as_json: bool) -> int:
    """Delete the files that lie before a recording's start: those that were detached, or that a purge left which was
    killed.
    """

    def act(keeper: Upkeep) -> tuple[str, dict[str, Any]]:
        count = keeper.delete_detached_segments(recording)
        return f"{counted(count)} deleted", {"files": count}

    return perform(folder, "delete-detached-segments", recording, act, dry_run=dry_run, as_json=as_json)
