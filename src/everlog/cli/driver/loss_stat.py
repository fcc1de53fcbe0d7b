"""``everlog driver DIR loss-stat``: prints the loss on each image."""

from __future__ import annotations

import click

from everlog.aeron.transport.format.loss_report import LOSS_REPORT_NAME, load_losses
from everlog.cli.driver.sampling import FAULTS_FOUND, date_text, repeat, stat_options, storage_at
from everlog.cli.text import json_line, printable, warn
from everlog.errors import StoreUnavailable

HEADER = "#OBSERVATION_COUNT,TOTAL_BYTES_LOST,FIRST_OBSERVATION,LAST_OBSERVATION,SESSION_ID,STREAM_ID,CHANNEL,SOURCE"


@click.command
@stat_options
@click.pass_obj
def loss_stat(folder: str, watch: float | None, as_json: bool) -> int:
    """Print the loss report: a line of CSV for each image with losses."""

    def once() -> int:
        found = load_losses(storage_at(folder))
        if found is None:
            text = f"no media driver here: {folder} has no {LOSS_REPORT_NAME}"
            raise StoreUnavailable(folder, found=f"no {LOSS_REPORT_NAME}", message=text)
        losses, problem = found
        if as_json:
            click.echo(json_line({"losses": [loss.to_dict() for loss in losses]}))
        else:
            click.echo(HEADER)
            for loss in losses:
                times = date_text(loss.first_observation), date_text(loss.last_observation)
                numbers = loss.observation_count, loss.total_bytes_lost, *times, loss.session_id, loss.stream_id
                click.echo(",".join(map(str, (*numbers, printable(loss.channel), printable(loss.source)))))
            click.echo(f"{len(losses)} loss entries")
        if problem is None:
            return 0
        warn(f"{LOSS_REPORT_NAME} at offset {problem.offset}: {problem.found}; expected {problem.expected}")
        return FAULTS_FOUND

    return repeat(watch, once)
