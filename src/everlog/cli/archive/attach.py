"""``everlog archive DIR attach``."""

from __future__ import annotations

from typing import Any

import click

from everlog.aeron.archive.maintenance.operations import Upkeep
from everlog.cli.archive.keeping import counted, keeping_options, perform, recording_argument


@click.command
@recording_argument
@keeping_options
@click.pass_obj
def attach(folder: str, recording: int, dry_run: bool, as_json: bool) -> int:
    """Let a recording start where the files in DIR begin that lie right before its start. They are read first, frame by
    frame; a foreign or damaged one is refused, and nothing changed.
    """

    def act(keeper: Upkeep) -> tuple[str, dict[str, Any]]:
        count = keeper.attach_segments(recording)
        return f"{counted(count)} attached", {"files": count}

    return perform(folder, "attach", recording, act, dry_run=dry_run, as_json=as_json)
