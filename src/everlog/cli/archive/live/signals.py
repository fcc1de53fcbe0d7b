"""``everlog archive DIR signals``: prints what happens to the recordings of a running archive."""

from __future__ import annotations

import time
from typing import Any

import click

from everlog.cli.archive.recordings import json_option
from everlog.cli.archive.running import connect, connection_options
from everlog.cli.seconds import Seconds
from everlog.cli.text import json_line

POLL_SECONDS = 0.1


@click.command
@connection_options
@click.option("--for", "duration_s", type=Seconds(), metavar="SECONDS", help="End after this time.")
@json_option
@click.pass_obj
def signals(target: str, /, duration_s: float | None, as_json: bool, **connection: Any) -> int:
    """Print recordings as they start and stop, and how far each is, until interrupted. An archive sends its signals
    to the client that asked for the operation only, so this asks for the list again and again."""
    end = None if duration_s is None else time.monotonic() + duration_s
    with connect(target, **connection) as archive:
        known: dict[int, tuple[int | None, int]] = {}
        is_first = True
        while end is None or time.monotonic() < end:
            for recording in archive.list_recordings():
                state = recording.stop_position, recording.session_id
                before = known.get(recording.recording_id)
                known[recording.recording_id] = state
                if before == state or is_first:
                    continue
                signal = "START" if before is None else "EXTEND"
                if recording.stop_position is not None:
                    signal = "STOP"
                position = recording.stop_position
                if position is None:
                    position = recording.start_position if before is None else before[0]
                values = {"recording_id": recording.recording_id, "signal": signal, "position": position}
                click.echo(
                    json_line(values) if as_json else f"{signal} recording {recording.recording_id} at {position}"
                )
            is_first = False
            time.sleep(POLL_SECONDS)
    return 0
