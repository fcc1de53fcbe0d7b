"""Checks that snapshots have all parts, are whole, and match recording.log."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from everlog.aeron.cluster.folder.node import NodeFolder
from everlog.aeron.cluster.folder.snapshot import service_label
from everlog.aeron.cluster.folder.state import service_count
from everlog.aeron.cluster.format.messages import CONSENSUS_MODULE, CONSENSUS_MODULE_TYPE, SERVICE_TYPE
from everlog.aeron.cluster.format.recording_log import RECORDING_LOG_NAME, Entry
from everlog.core.report import Fault, Report, Severity

INVALIDATE = "everlog cluster DIR invalidate-latest-snapshot, if it is the latest: the previous one is then used"


@dataclass(slots=True)
class SnapshotCheck:
    """The check of one node's snapshots. ``marks`` is the number of service mark files."""

    node: NodeFolder
    report: Report
    marks: int

    def run(self) -> None:
        """Check that each valid snapshot has all parts at the same position. A snapshot without the consensus module's
        part is never used."""
        sets: dict[tuple[int, int], dict[int, Entry]] = defaultdict(dict)
        for entry in self.node.snapshots().values():
            sets[entry.leadership_term_id, entry.log_position][entry.service_id] = entry
        wanted = range(CONSENSUS_MODULE, service_count(self.node, self.marks))
        for (term, position), parts in sorted(sets.items()):
            missing = [service_label(service_id) for service_id in wanted if service_id not in parts]
            if not missing:
                continue
            entry = next(iter(parts.values()))
            is_used = CONSENSUS_MODULE in parts
            found = f"no snapshot of {', '.join(missing)} at position {position} of term {term}"
            expected = f"snapshots of the consensus module and {len(wanted) - 1} services"
            loses = "the snapshot: a node can't load it" if is_used else "nothing: it is not used"
            self._add("snapshot-incomplete", entry, found, expected, loses, note=not is_used)

    def check_recording(self, stream: str, entry: Entry) -> None:
        """Check one recording: it must be stopped, have both markers, and match the entry's service, term and
        position."""
        recording = self.node.recording_of(entry.recording_id)
        if recording is None:
            return  # reported by the scan
        name = f"recording {entry.recording_id}, {service_label(entry.service_id)} at {entry.log_position}"
        if recording.stop_position is None:
            found, expected = f"{name}: no stop position", "a stopped recording"
            self._add("snapshot-torn", entry, found, expected, "the snapshot, if it is used", stream=stream)
        content = self.node.snapshot_content(stream)
        if content.begin is None or content.end is None:
            found, expected = f"{name}: {content.problem}", "a begin and an end marker"
            self._add("snapshot-torn", entry, found, expected, "the snapshot: a node can't load it", stream=stream)
            return
        kind = CONSENSUS_MODULE_TYPE if entry.service_id == CONSENSUS_MODULE else SERVICE_TYPE
        # A recording log that was seeded from a snapshot has position 0, whatever the markers have.
        position = entry.log_position or content.begin.fields["log_position"]
        expected_fields = {
            "type_id": kind,
            "log_position": position,
            "leadership_term_id": entry.leadership_term_id,
        }
        for mark, message in (("begin", content.begin), ("end", content.end)):
            for field, expected_value in expected_fields.items():
                value = message.fields[field]
                if value != expected_value:
                    found = f"{name}: {field} {value} in its {mark} marker"
                    self._add(
                        "snapshot-contradicts", entry, found, str(expected_value), "nothing by itself", stream=stream
                    )

    def _add(
        self,
        code: str,
        entry: Entry,
        found: str,
        expected: str,
        loses: str,
        *,
        note: bool = False,
        stream: str | None = None,
    ) -> None:
        severity = Severity.NOTE if note else Severity.FAULT
        repair = "none needed" if note else INVALIDATE
        fault = Fault(code, RECORDING_LOG_NAME, entry.offset, found, expected, loses, repair, severity, stream)
        self.report.add(fault)
