"""``everlog archive DIR extend``: continues a stopped recording."""

from __future__ import annotations

from typing import Any

import click

from everlog.aeron.archive.protocol.requests import SourceLocation
from everlog.cli.archive.maintenance import recording_argument
from everlog.cli.archive.running import connect, connection_options


@click.command
@recording_argument
@click.argument("channel")
@click.argument("stream_id", metavar="STREAM", type=int)
@connection_options
@click.option("--remote", is_flag=True, help="The publisher is on another driver; by default it is on the archive's.")
@click.option("--auto-stop", is_flag=True, help="Stop after the first publication.")
@click.pass_obj
def extend(
    target: str, /, recording: int, channel: str, stream_id: int, remote: bool, auto_stop: bool, **connection: Any
) -> int:
    """Continue RECORDING with a publication of STREAM of CHANNEL that begins at its stop position."""
    location = SourceLocation.REMOTE if remote else SourceLocation.LOCAL
    with connect(target, **connection) as archive:
        subscription_id = archive.extend_recording(recording, channel, stream_id, location, auto_stop=auto_stop)
    click.echo(f"subscription {subscription_id} extends recording {recording}")
    return 0
