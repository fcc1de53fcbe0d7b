"""``everlog archive DIR stop``: stops recordings."""

from __future__ import annotations

from typing import Any

import click

from everlog.cli.archive.running import connect, connection_options

NOTHING_STOPPED = 1


@click.command
@connection_options
@click.option("--recording", type=click.IntRange(min=0), metavar="ID", help="Stop one recording.")
@click.option("--subscription", type=int, metavar="ID", help="Stop the recordings of a subscription, as start printed.")
@click.option("--channel", metavar="CHANNEL", help="With --stream: stop what was started with this channel.")
@click.option("--stream", "stream_id", type=int, metavar="N", help="The stream of --channel.")
@click.pass_obj
def stop(
    target: str,
    /,
    recording: int | None,
    subscription: int | None,
    channel: str | None,
    stream_id: int | None,
    **connection: Any,
) -> int:
    """Stop recordings by their id, their subscription, or their channel and stream. Exit code 1: nothing was active."""
    given = [recording is not None, subscription is not None, channel is not None]
    if sum(given) != 1 or (channel is None) != (stream_id is None):
        raise click.UsageError("give one of --recording, --subscription, or --channel with --stream")
    with connect(target, **connection) as archive:
        if recording is not None:
            is_stopped = archive.try_stop_recording_by_identity(recording)
        elif subscription is not None:
            is_stopped = archive.try_stop_recording_by_subscription(subscription)
        else:
            assert channel is not None
            assert stream_id is not None
            is_stopped = archive.try_stop_recording(channel, stream_id)
    click.echo("stopped" if is_stopped else "nothing was active")
    return 0 if is_stopped else NOTHING_STOPPED
