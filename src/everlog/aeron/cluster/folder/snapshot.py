"""Lists snapshots and reads their markers.

A snapshot consists of a recording for the consensus module and one for each service, all of the same log position. Each
has a begin marker, the cluster's own state, an end marker, and then the service's state. Source: SnapshotTaker,
ServiceSnapshotLoader, ConsensusModuleSnapshotAdapter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from everlog.aeron.archive.folder.scan import ScanContext
from everlog.aeron.cluster.folder.scanning import raw_messages
from everlog.aeron.cluster.format.messages import CONSENSUS_MODULE, UNIT_NS, MessageFields, decode_fields
from everlog.aeron.cluster.format.recording_log import STANDBY_SNAPSHOT, TERM, Entry
from everlog.aeron.frames.position import FOREVER
from everlog.core.files.storage import Storage
from everlog.errors import EverlogError

MAX_CLUSTER_MESSAGES = 1 << 24
"""Most messages that are read to find the end of the cluster's part."""


def service_label(service_id: int) -> str:
    """Return a component's label: ``consensus-module``, or ``service-0`` and so on."""
    return "consensus-module" if service_id == CONSENSUS_MODULE else f"service-{service_id}"


def snapshot_stream(recording_id: int) -> str:
    """Return a snapshot's stream name. It has the recording ID, which is unique in an archive; positions may repeat."""
    return f"snapshot-{recording_id}"


def snapshot_entries(entries: list[Entry], *, include_invalid: bool) -> dict[str, Entry]:
    """Map stream names to the entries of the snapshots in the node's own archive."""
    found: dict[str, Entry] = {}
    for entry in entries:
        if entry.type in (TERM, STANDBY_SNAPSHOT) or not (entry.is_valid or include_invalid):
            continue
        name = snapshot_stream(entry.recording_id)
        if name not in found or entry.is_valid:
            found[name] = entry
    return found


def complete_sets(entries: list[Entry], service_count: int) -> list[tuple[Entry, ...]]:
    """Return the valid snapshots that have all parts, latest first. Each has the consensus module's entry, then those
    of services 0, 1, ..."""
    parts: dict[tuple[int, int], dict[int, Entry]] = {}
    for entry in entries:
        if entry.type not in (TERM, STANDBY_SNAPSHOT) and entry.is_valid:
            parts.setdefault((entry.leadership_term_id, entry.log_position), {})[entry.service_id] = entry
    wanted = range(CONSENSUS_MODULE, service_count)
    return [
        tuple(part[service_id] for service_id in wanted)
        for _, part in sorted(parts.items(), reverse=True)
        if all(service_id in part for service_id in wanted)
    ]


@dataclass(slots=True)
class SnapshotContent:
    """The cluster's part of one recording. ``begin`` and ``end`` are its markers; the service's own state begins at
    ``state_position``, after the end marker."""

    begin: MessageFields | None = None
    end: MessageFields | None = None
    state_position: int = FOREVER
    message_count: int = 0
    problem: str = ""

    @property
    def unit_ns(self) -> int | None:
        """The cluster's time unit in nanoseconds, from the begin marker; ``None`` without one."""
        return None if self.begin is None else UNIT_NS.get(self.begin.fields.get("time_unit") or "MILLIS")


def read_content(storage: Storage, context: ScanContext) -> SnapshotContent:
    """Read up to the end marker. Damage leaves ``end`` empty and sets ``problem``; it never raises."""
    content = SnapshotContent()
    try:
        for message in _messages(storage, context, content):
            if message is None:
                continue
            mark = message.fields.get("mark") if message.kind == "snapshot-marker" else None
            if content.begin is None:
                if mark != "BEGIN":
                    content.problem = f"a {message.kind} in place of the begin marker"
                    return content
                content.begin = message
            elif mark == "END":
                content.end = message
                return content
    except EverlogError as error:
        content.problem = str(error)
    content.problem = content.problem or "no end marker"
    return content


def _messages(storage: Storage, context: ScanContext, content: SnapshotContent) -> Iterator[MessageFields | None]:
    for raw in raw_messages(storage, context, on_fault=lambda fault: None):
        content.message_count += 1
        if content.message_count > MAX_CLUSTER_MESSAGES:
            return
        message = decode_fields(raw.data)
        if message is None and content.begin is None:
            content.problem = "a message of another schema in place of the begin marker"
            return
        if message is not None and message.fields.get("mark") == "END":
            content.state_position = raw.end_position
        yield message
