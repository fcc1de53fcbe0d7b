"""``everlog cluster DIR describe-latest-cm-snapshot``: prints the consensus module's latest snapshot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import click

from everlog.aeron.cluster.folder.scanning import RawMessage, raw_messages
from everlog.aeron.cluster.folder.snapshot import snapshot_stream
from everlog.aeron.cluster.format.messages import CONSENSUS_MODULE_TYPE, MessageFields, decode_fields, fields_json
from everlog.aeron.cluster.format.recording_log import Entry
from everlog.aeron.cluster.protocol.codec import SCHEMA_ID
from everlog.aeron.cluster.store import ClusterStore
from everlog.aeron.frames.constants import HEADER_LENGTH
from everlog.aeron.layouts import SbeMessageHeader
from everlog.cli.cluster.node import NOT_DONE, Node, json_option, require_mark, require_recording_log
from everlog.cli.faults import FaultPrinter
from everlog.cli.text import json_line, print_error, printable
from everlog.errors import CorruptData

NULL_LONG, NULL_CAPACITY = -(1 << 63), 0
UNITS = {"MILLIS": "MILLISECONDS", "MICROS": "MICROSECONDS", "NANOS": "NANOSECONDS"}
HEX_WIDTH = 16
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@click.command
@json_option
@click.pass_obj
def describe_latest_cm_snapshot(node: Node, as_json: bool) -> int:
    """Print the consensus module's latest valid snapshot: sessions, timers, pending messages. With --json, print an
    object for each message. Exit code 1 if the node has no valid snapshot, or it is incomplete.
    """
    faults = FaultPrinter()
    with node.open() as store:
        log = require_recording_log(store, faults)
        index = log.latest_snapshot()
        if index is None:
            click.echo("Snapshot not found")
            faults.close()
            return NOT_DONE
        entry = log.entries[index]
        end = None
        for raw, message in _messages(store, entry, faults):
            if as_json:
                kind, fields = message.kind, fields_json(message)
                click.echo(f'{{"position": {raw.position}, "kind": {json_line(kind)}, "fields": {fields}}}')
            else:
                click.echo("\n".join(_lines(store, entry, raw, message)))
            if message.fields.get("mark") == "END":
                end = raw.end_position
        member_id = require_mark(store).header.member_id
    faults.close()
    if end is None:
        print_error(f"recording {entry.recording_id}: the snapshot is incomplete: it has no end marker")
        return NOT_DONE
    if not as_json:
        tail = f"memberId={member_id} recordingId={entry.recording_id} length={end}"
        click.echo(f"Consensus Module Snapshot End: {tail}")
    return faults.exit_code


def _messages(store: ClusterStore, entry: Entry, faults: FaultPrinter) -> Iterator[tuple[RawMessage, MessageFields]]:
    """A snapshot's messages up to the end marker. Messages of unknown templates are skipped with a note, as a node
    skips them. Raises :class:`CorruptData` for a snapshot that a node would refuse to load."""
    stream = snapshot_stream(entry.recording_id)
    context = store.folder.context(stream)
    if context is None or store.folder.place is None:
        faults(store.folder.missing(stream))
        return
    is_begun = False
    for raw in raw_messages(store.folder.place.storage, context.archive, on_fault=faults):
        message = decode_fields(raw.data, stream)
        if message is None:
            header = SbeMessageHeader.unpack_from(raw.data)
            if header.schema_id != SCHEMA_ID:
                found, expected = f"a message of schema {header.schema_id}", f"the cluster's schema, {SCHEMA_ID}"
                raise CorruptData(stream, offset=raw.position, found=found, expected=expected)
            print_error(f"note: {stream} at {raw.position}: skipped a message of unknown template {header.template_id}")
            continue
        if message.kind == "snapshot-marker":
            _check_marker(message, stream, raw.position, is_begun)
            is_begun = is_begun or message.fields["mark"] == "BEGIN"
        yield raw, message
        if message.fields.get("mark") == "END":
            return


def _check_marker(message: MessageFields, stream: str, position: int, is_begun: bool) -> None:
    fields, expected = message.fields, ""
    mark, unit = fields["mark"], fields["time_unit"]
    if fields["type_id"] != CONSENSUS_MODULE_TYPE:
        expected = f"type {CONSENSUS_MODULE_TYPE}, the consensus module's"
    elif mark == "BEGIN" and is_begun:
        expected = "a marker END after it"
    elif mark == "END" and not is_begun:
        expected = "a marker BEGIN first"
    elif mark == "BEGIN" and (unit or "MILLIS") not in UNITS:
        expected = f"a time unit of {', '.join(UNITS)}"
    if expected:
        found = f"a marker {mark} of type {fields['type_id']} with time unit {unit}"
        raise CorruptData(stream, offset=position, found=found, expected=expected)


def _lines(store: ClusterStore, entry: Entry, raw: RawMessage, message: MessageFields) -> Iterator[str]:
    """A message as the original prints it."""
    fields = message.fields
    if message.kind == "snapshot-marker":
        if fields["mark"] == "BEGIN":
            unit = UNITS[fields["time_unit"] or "MILLIS"]
            yield f"Snapshot: appVersion={fields['app_version'] or 0} timeUnit={unit}"
        elif fields["mark"] == "END":
            recording = store.folder.recording_of(entry.recording_id)
            term = raw.position if recording is None else raw.position % recording.term_buffer_length
            yield f"End Snapshot, offset={term + HEADER_LENGTH}, length={len(raw.data)}"
            yield from hex_lines(raw.data)
    elif message.kind == "session-message":
        yield f"Pending Message: length={len(raw.data)} clusterSessionId={fields['cluster_session_id']}"
    elif message.kind == "cluster-session":
        names = ("clusterSessionId", "correlationId", "openedLogPosition", "timeOfLastActivity")
        values = fields["cluster_session_id"], *(fields[name] for name in _SESSION)
        pairs = " ".join(f"{name}={value}" for name, value in zip(names, values, strict=True))
        reason, channel = fields["close_reason"] or "NULL_VAL", printable(fields["response_channel"])
        rest = f"closeReason={reason} responseStreamId={fields['response_stream_id']} responseChannel={channel}"
        yield f"Cluster Session: {pairs} {rest}"
    elif message.kind == "scheduled-timer":
        yield f"Timer: correlationId={fields['correlation_id']} deadline={fields['deadline']}"
    elif message.kind == "consensus-module":
        yield f"Consensus Module State: nextSessionId={fields['next_session_id']} {_tracked(fields)}"
        yield from hex_lines(raw.data)
    elif message.kind == "pending-message-tracker":
        yield f"Pending Message Tracker: {_tracked(fields)} serviceId={fields['service_id']}"


_SESSION = ("correlation_id", "opened_log_position", "time_of_last_activity")


def _tracked(fields: dict[str, Any]) -> str:
    following = _or(fields["next_service_session_id"], NULL_LONG)
    logged = _or(fields["log_service_session_id"], NULL_LONG)
    capacity = _or(fields["pending_message_capacity"], NULL_CAPACITY)
    return f"nextServiceSessionId={following} logServiceSessionId={logged} pendingMessageCapacity={capacity}"


def _or(value: int | None, null: int) -> int:
    return null if value is None else value


def hex_lines(data: bytes) -> Iterator[str]:
    """A hex dump in the original's format, and the empty line after it. Control characters become spaces."""
    for at in range(0, len(data), HEX_WIDTH):
        row = data[at : at + HEX_WIDTH]
        text = _UNSAFE.sub(" ", row.decode("utf-8", "replace"))
        yield f"{at:06d}:  {''.join(f'{byte:02x} ' for byte in row):<{3 * HEX_WIDTH}}  |  {text}"
    yield ""
