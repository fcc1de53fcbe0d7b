"""The table of requests: each script on an archive of its own, whose properties it names, and what Aeron's archive
answered. ``tests/interop/archive/test_request_table.py`` records it."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from everlog.aeron.transport.client import Aeron
from tests import GOLDEN
from tests.aeron.archive.protocol.requests.differences import DIFFERENCES
from tests.aeron.archive.protocol.requests.failures import failure_rows, prepare_recording
from tests.aeron.archive.protocol.requests.maintenance import maintenance_rows, migration_rows
from tests.aeron.archive.protocol.requests.queries import listing_rows, query_rows
from tests.aeron.archive.protocol.requests.recordings import extension_rows, recording_rows
from tests.aeron.archive.protocol.requests.refusals import full_rows, limit_rows, secured_rows
from tests.aeron.archive.protocol.requests.replays import replay_rows
from tests.aeron.archive.protocol.requests.run import Event, Place, Row, Run
from tests.aeron.archive.protocol.requests.sessions import session_rows

TABLE = GOLDEN / "aeron" / "archive-requests-1.51.0.json.gz"
CONTROL_STREAM, LOCAL_CONTROL_STREAM = 9000, 9001
LOCAL_CONTROL = "aeron:ipc?term-length=64k"
ARCHIVE_ID = 4711
CRC32 = "io.aeron.archive.checksum.Crc32"
DRIVER_PROPERTIES = {
    "aeron.threading.mode": "SHARED",
    "aeron.term.buffer.length": "64k",
    "aeron.ipc.term.buffer.length": "64k",
    "aeron.spies.simulate.connection": "true",
    "aeron.publication.linger.timeout": "100ms",
}
ARCHIVE_PROPERTIES = {
    "aeron.archive.threading.mode": "SHARED",
    "aeron.archive.id": str(ARCHIVE_ID),
    "aeron.archive.segment.file.length": "128k",
    "aeron.archive.file.io.max.length": "64k",
    "aeron.archive.low.storage.space.threshold": "0",
    "aeron.archive.connect.timeout": "2s",
    "aeron.archive.replay.linger.timeout": "100ms",
    "aeron.archive.control.response.channel": "aeron:udp?endpoint=localhost:0",
    "aeron.archive.replication.channel": "aeron:udp?endpoint=localhost:0",
    "aeron.archive.local.control.channel": LOCAL_CONTROL,
    "aeron.archive.control.stream.id": str(CONTROL_STREAM),
    "aeron.archive.local.control.stream.id": str(LOCAL_CONTROL_STREAM),
    "aeron.archive.recording.events.enabled": "true",
    "aeron.archive.recording.events.channel": "aeron:ipc",
    "aeron.archive.max.concurrent.recordings": "100",
}


@dataclass(frozen=True)
class Script:
    """Rows, and the properties in which their archive differs from the others. ``is_secured``: the authenticator and
    the rules are those of ``ArchiveServerPeer.java``. ``prepare`` makes what is in the archive's folder before it is
    started."""

    rows: Callable[[Run], None]
    properties: Mapping[str, str] = field(default_factory=dict)
    is_secured: bool = False
    prepare: Callable[[Path], None] = lambda folder: None

    def archive_properties(self, control_channel: str) -> dict[str, str]:
        """All of an archive's properties but its folder and its driver's."""
        return ARCHIVE_PROPERTIES | {"aeron.archive.control.channel": control_channel} | dict(self.properties)


SCRIPTS: dict[str, Script] = {
    "sessions": Script(session_rows),
    "recordings": Script(recording_rows),
    "extensions": Script(extension_rows),
    "queries": Script(query_rows),
    "listings": Script(listing_rows),
    "replays": Script(replay_rows),
    "maintenance": Script(maintenance_rows),
    "migrations": Script(migration_rows),
    "limits": Script(
        limit_rows,
        {"aeron.archive.max.concurrent.recordings": "2", "aeron.archive.max.concurrent.replays": "2"},
    ),
    "full": Script(full_rows, {"aeron.archive.low.storage.space.threshold": str(1 << 60)}, prepare=prepare_recording),
    "failures": Script(failure_rows, {"aeron.archive.record.checksum": CRC32, "aeron.archive.replay.checksum": CRC32}),
    "secured": Script(secured_rows, is_secured=True),
}


def free_control_channel() -> str:
    """A UDP channel of the loopback interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        return f"aeron:udp?endpoint=localhost:{taken.getsockname()[1]}"


def run_table(script: str, driver_folder: Path, control_channel: str, archive_folder: Path) -> list[Row]:
    """Go through a script's rows on an archive that runs with its properties, and has recorded nothing yet. The archive
    needs a driver with :data:`DRIVER_PROPERTIES` in ``driver_folder``."""
    place = Place(
        driver_folder, (control_channel, CONTROL_STREAM), (LOCAL_CONTROL, LOCAL_CONTROL_STREAM), archive_folder
    )
    with Aeron.connect(driver_folder) as aeron:
        run = Run(place, aeron)
        try:
            SCRIPTS[script].rows(run)
        finally:
            run.close()
    return run.rows


def write_table(found: Mapping[str, list[Row]]) -> None:
    """Keep what Aeron's archive answered in these scripts."""
    kept = read_table() if TABLE.exists() else {}
    for script, rows in found.items():
        kept[script] = []
        for row in rows:
            entry: dict[str, Any] = {"name": row.name, "request": row.request, "events": row.events}
            difference = DIFFERENCES.get((script, row.name))
            if difference is not None:
                entry["differs"] = {"reason": difference.reason, "events": difference.events}
            kept[script].append(entry)
    kept = {script: kept[script] for script in SCRIPTS if script in kept}
    TABLE.write_bytes(gzip.compress(json.dumps(kept, indent=1).encode(), 9, mtime=0))


def read_table() -> dict[str, list[dict[str, Any]]]:
    """By script."""
    found: dict[str, list[dict[str, Any]]] = json.loads(gzip.decompress(TABLE.read_bytes()))
    return found


def differences(script: str, rows: list[Row], *, ours: bool) -> list[str]:
    """From the recorded table, a line for each row. ``ours``: what ``differs`` says counts."""
    golden = read_table()[script]
    found = {row.name: json.loads(json.dumps(row.events)) for row in rows}
    lines = [f"{name}: not in the table" for name in found if name not in {each["name"] for each in golden}]
    for row in golden:
        events, expected = found.get(row["name"]), row["events"]
        if ours and "differs" in row:
            # The run waited for as many events as Aeron's archive sends.
            expected, events = row["differs"]["events"], _without_waiting(events)
        if events != expected:
            lines.append(f"{row['name']}: found {events}, expected {expected}")
    return lines


def _without_waiting(events: list[Event] | None) -> list[Event] | None:
    return None if events is None else [event for event in events if event[0] != "NOTHING MORE"]


__all__ = ["DRIVER_PROPERTIES", "SCRIPTS", "TABLE", "differences", "run_table", "write_table"]
