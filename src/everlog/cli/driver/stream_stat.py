"""``everlog driver DIR stream-stat``: prints positions and limits of each stream."""

from __future__ import annotations

import click

from everlog.aeron.transport.folder.stats import damaged_keys, stream_states
from everlog.aeron.transport.format.counters import Counter
from everlog.cli.driver.sampling import FAULTS_FOUND, cnc_path, open_cnc, repeat, report_problem, stat_options
from everlog.cli.text import json_line, printable, warn


@click.command
@stat_options
@click.pass_obj
def stream_stat(folder: str, watch: float | None, as_json: bool) -> int:
    """Print a line for each stream: session, stream, channel, and its counters as NAME:REGISTRATION_ID:VALUE."""

    def once() -> int:
        counters, code = load_counters(folder)
        states = stream_states(counters)
        if as_json:
            click.echo(json_line({"streams": [state.to_dict() for state in states]}))
            return code
        click.echo(f"Command `n Control file {printable(cnc_path(folder))}")
        for state in states:
            session_id, stream_id, _ = state.stream
            positions = "".join(f" {p.name}:{p.registration_id}:{p.value}" for p in state.positions)
            click.echo(printable(f"sessionId={session_id} streamId={stream_id} channel={state.channel} :{positions}"))
        return code

    return repeat(watch, once)


def load_counters(folder: str) -> tuple[list[Counter], int]:
    """The counters and the exit code. Warns of a truncated file, and of counters with damaged keys."""
    with open_cnc(folder) as cnc:
        counters = cnc.counters()
        code = report_problem(cnc)
    for counter in damaged_keys(counters):
        warn(f"counter {counter.counter_id} has a damaged key and is left out")
        code = FAULTS_FOUND
    return counters, code
