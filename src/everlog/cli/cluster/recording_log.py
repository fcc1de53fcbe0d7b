"""``everlog cluster DIR recording-log``: prints leadership terms and snapshots."""

from __future__ import annotations

import click

from everlog.aeron.cluster.format.recording_log import TERM, TYPE_NAMES, Entry
from everlog.cli.cluster.java_map import java_map_order
from everlog.cli.cluster.node import NOT_DONE, Node, json_option, require_recording_log
from everlog.cli.faults import FaultPrinter
from everlog.cli.text import json_line, printable


@click.command
@json_option
@click.pass_obj
def recording_log(node: Node, as_json: bool) -> int:
    """Print leadership terms and snapshots in the order in which the node uses them. Exit code 1 for faults."""
    faults = FaultPrinter()
    with node.open() as store:
        log = require_recording_log(store, faults)
    faults.close()
    if as_json:
        found = {
            "entries": [entry.to_dict() for entry in log.entries],
            "is_sorted": log.is_sorted,
            "faults": [fault.to_dict() for fault in log.faults],
        }
        click.echo(json_line(found))
    else:
        # The original also prints its cache of each term's index in the list.
        index = {e.leadership_term_id: i for i, e in enumerate(log.entries) if e.type == TERM and e.is_valid}
        cache = ", ".join(f"{term}={index[term]}" for term in java_map_order(list(index)))
        entries = ", ".join(map(entry_text, log.entries))
        click.echo(f"RecordingLog{{entries=[{entries}], cacheIndex={{{cache}}}}}")
    return NOT_DONE if faults.exit_code else 0


def entry_text(entry: Entry) -> str:
    """An entry as the original prints it."""
    endpoint = "" if entry.archive_endpoint is None else f", archiveEndpoint={printable(entry.archive_endpoint)}"
    return (
        f"Entry{{recordingId={entry.recording_id}, leadershipTermId={entry.leadership_term_id}, "
        f"termBaseLogPosition={entry.term_base_log_position}, logPosition={entry.log_position}, "
        f"timestamp={entry.timestamp}, serviceId={entry.service_id}, type={TYPE_NAMES[entry.type]}, "
        f"isValid={'true' if entry.is_valid else 'false'}, entryIndex={entry.entry_index}{endpoint}}}"
    )
