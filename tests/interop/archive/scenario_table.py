"""Scenarios of the Java client (``scenarios/*.java``) on any archive, and the table of what they saw on Aeron's own and
on ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools import aeron_java

from tests import GOLDEN
from tests.aeron.archive.protocol.requests.table import (
    CONTROL_STREAM,
    LOCAL_CONTROL,
    LOCAL_CONTROL_STREAM,
    Script,
)
from tests.interop.archive.java_archive import FLAGS
from tests.interop.line_process import LineProcess

TABLE = GOLDEN / "aeron" / "archive-scenarios-1.51.0.json"
PROGRAM = Path(__file__).with_name("scenarios")
JAVA, OURS = "java", "everlog"
Outcome = list[str]
Outcomes = dict[tuple[str, str], Outcome]

LEFT_OUT = {
    "ReplayMergeTest, ReplicateRecordingTest, PersistentSubscriptionTest": "of features that are not there",
    "BasicArchiveTest": "a catalog of 1,000 made-up entries, written within the archive's process: 40 recordings are "
    "made instead; spies that do not simulate a connection: each stream has a reader beside the recording, too",
    "ArchiveSystemTest": "the control protocol without AeronArchive: that is the table of requests; SHARED_NETWORK "
    "is a matter of the driver",
    "ArchiveAuthenticationTest": "what the authenticator's own methods are given: Java code within the archive",
}
"""What of a class is not in the table, and why."""


@dataclass(frozen=True)
class Group:
    """Scenarios that share an archive: what it has beside the properties of all."""

    properties: Mapping[str, str] = field(default_factory=dict)
    is_secured: bool = False

    def script(self, events_channel: str) -> Script:
        """For an archive that is started as those of the table of requests."""
        chosen = {
            "aeron.archive.record.checksum": "io.aeron.archive.checksum.Crc32c",
            "aeron.archive.replay.checksum": "io.aeron.archive.checksum.Crc32c",
            "aeron.archive.recording.events.channel": events_channel,
            "aeron.archive.connect.timeout": "5s",
        }
        return Script(lambda run: None, chosen | dict(self.properties), self.is_secured)


GROUPS = {
    "open": Group(),
    "dedicated": Group({"aeron.archive.threading.mode": "DEDICATED"}),
    "secured": Group(is_secured=True),
}
DIFFERENCES = {
    ("ArchiveTruncateRecordingTest", "while it is replayed"): "since 1.52 a truncation ends the recording's replays; "
    "Aeron 1.51 refuses it",
    (
        "ManageRecordingHistoryTest",
        "segments are attached, the start more than one read into the first",
    ): "Aeron 1.51 does not find the first frame, and does not answer; mended since",
    ("MigrateSegmentsTest", "after another one whose empty last file is there"): "an empty file behind the target's "
    "end holds nothing, and is replaced",
}
"""By class and scenario: why an archive of ours does something else."""


class Scenarios(LineProcess):
    """The program on an archive that runs."""

    def __init__(self, jar: Path, driver_folder: Path, folder: Path, control_channel: str, events_channel: str) -> None:
        place = {
            "driver": driver_folder,
            "folder": folder,
            "control": control_channel,
            "control-stream": CONTROL_STREAM,
            "local": LOCAL_CONTROL,
            "local-stream": LOCAL_CONTROL_STREAM,
            "events": events_channel,
        }
        words = [f"{name}={value}" for name, value in place.items()]
        super().__init__(aeron_java.command(jar, "ScenarioPeer", *words, source=PROGRAM, flags=FLAGS))

    def run(self, group: str) -> Outcomes:
        """Go through a group; the facts of each scenario."""
        found: Outcomes = {}
        for line in self.ask("run", group)[1]:
            kind, _, rest = line.partition(" ")
            if kind == "scenario":
                upstream, _, name = rest.partition("\t")
                found[upstream, name] = facts = []
            else:
                facts.append(rest)
        return found


def read_table() -> dict[tuple[str, str], dict[str, Outcome]]:
    """By class and scenario, what was seen on each archive."""
    rows = json.loads(TABLE.read_text(encoding="utf-8"))["scenarios"]
    return {(row["class"], row["scenario"]): {JAVA: row[JAVA], OURS: row.get(OURS, row[JAVA])} for row in rows}


def write_table(found: Mapping[str, Outcomes]) -> None:
    """Keep what was seen on both archives; ours is written where it differs."""
    rows = []
    for (upstream, name), outcome in found[JAVA].items():
        row: dict[str, object] = {"class": upstream, "scenario": name, JAVA: outcome}
        ours = found[OURS].get((upstream, name))
        if ours is not None and ours != outcome:
            row |= {OURS: ours, "why": DIFFERENCES.get((upstream, name), "")}
        rows.append(row)
    table = {"left out": LEFT_OUT, "scenarios": rows}
    TABLE.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
