"""``everlog archive DIR list``: lists the recordings of a running archive."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from everlog.cli.archive.recordings import json_option
from everlog.cli.archive.running import connect, connection_options
from everlog.cli.text import json_line, printable

if TYPE_CHECKING:
    from everlog.aeron.archive.client import AeronArchive, RecordingDescriptor


@click.command("list")
@connection_options
@click.option("--channel", "fragment", default="", metavar="TEXT", help="Only recordings with TEXT in their channel.")
@click.option("--stream", "stream_id", type=int, metavar="N", help="Only recordings of this stream.")
@click.option("--subscriptions", is_flag=True, help="List what is being recorded instead.")
@json_option
@click.pass_obj
def list(
    target: str, /, fragment: str, stream_id: int | None, subscriptions: bool, as_json: bool, **connection: Any
) -> int:
    """List recordings: id, state, positions, stream, session, channel, source."""
    with connect(target, **connection) as archive:
        if subscriptions:
            for found in archive.list_recording_subscriptions(fragment, stream_id):
                row = f"{found.subscription_id} stream {found.stream_id} {printable(found.stripped_channel)}"
                click.echo(json_line(asdict(found)) if as_json else row)
            return 0
        for recording in archive.list_recordings():
            if fragment in recording.original_channel and stream_id in (None, recording.stream_id):
                click.echo(json_line(_values(archive, recording)) if as_json else _text(archive, recording))
    return 0


def _end(archive: AeronArchive, recording: RecordingDescriptor) -> int:
    if recording.stop_position is not None:
        return recording.stop_position
    return archive.max_recorded_position(recording.recording_id)


def _values(archive: AeronArchive, recording: RecordingDescriptor) -> dict[str, Any]:
    is_active = recording.stop_position is None
    return {**asdict(recording), "active": is_active, "recorded_position": _end(archive, recording)}


def _text(archive: AeronArchive, recording: RecordingDescriptor) -> str:
    state = "recording" if recording.stop_position is None else "stopped"
    return (
        f"{recording.recording_id} {state} {recording.start_position}..{_end(archive, recording)} "
        f"stream {recording.stream_id} session {recording.session_id} {printable(recording.original_channel)} "
        f"from {printable(recording.source_identity)}"
    )
