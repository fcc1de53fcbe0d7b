"""Checks a node's folder: its files against each other, and against the log and the snapshots in its archive.

It changes nothing. Problems that a restart heals, such as a killed node's open recording, are notes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from everlog.aeron.archive.format.segments import parse_segment_name
from everlog.aeron.cluster.folder.node import NodeFolder
from everlog.aeron.cluster.folder.recovery_plan import UNGIVEN_STATES, ungiven_repair
from everlog.aeron.cluster.folder.scanning import LOG
from everlog.aeron.cluster.folder.state import explain_killed, service_count, time_ms
from everlog.aeron.cluster.format.layouts import COMPONENTS
from everlog.aeron.cluster.format.mark_file import FAILED, MARK_NAME, ClusterMark, load_mark
from everlog.aeron.cluster.format.node_state_file import NODE_STATE_NAME
from everlog.aeron.cluster.format.recording_log import RECORDING_LOG_NAME, Entry
from everlog.aeron.cluster.verify.log import LogCheck, Scan
from everlog.aeron.cluster.verify.recording_log import check_entries
from everlog.aeron.cluster.verify.snapshots import SnapshotCheck
from everlog.aeron.mark_file import now_ms
from everlog.core.report import Fault, Progress, Report, Severity
from everlog.errors import CorruptData, EverlogError, UnsupportedVersion

CONSENSUS_MODULE_TYPE = 1
CONTAINER_TYPE = 2
BACKUP_TYPES = (3, 4)
COPIES = "a backup (recording.log.bak, DIR.repair-TIME), or a copy from another node"
UNREADABLE = "make it readable for this user; otherwise restore a backup, or a copy from another node"


@dataclass(slots=True)
class Verification:
    """One verification of a node's folder."""

    node: NodeFolder
    scan: Scan
    report: Report
    progress: Progress | None
    marks: dict[str, ClusterMark] = field(default_factory=dict)
    _unreadable: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Check all parts."""
        self._guarded(MARK_NAME, self._check_marks)
        self._guarded(RECORDING_LOG_NAME, self._check_recording_log)
        self._guarded(NODE_STATE_NAME, self._check_node_state)
        self._guarded("../archive", self._check_archive)

    def _guarded(self, file: str, check: Callable[[], None]) -> None:
        try:
            check()
        except EverlogError as error:
            where = error.where.removeprefix(self.node.path).lstrip("/") or file
            if where in self._unreadable:
                return  # reported already: several checks need the file
            self._unreadable.add(where)
            found, expected = error.found or str(error), error.expected or "a readable file"
            self.add("unreadable", where, error.offset, found, expected, "its content", UNREADABLE)

    # Mark files

    def _check_marks(self) -> None:
        node = self.node
        names = [MARK_NAME, *node.service_mark_names()]
        for name in names:
            mark = self._load_mark(name)
            if mark is not None:
                self.marks[name] = mark
                self._check_mark(mark)
        own = self.marks.get(MARK_NAME)
        for mark in self.marks.values():
            if own is not None and mark is not own:
                self._check_same_node(own, mark)
        count = len(names) - 1
        for service_id in range(count, service_count(node, count)):
            file, found = f"cluster-mark-service-{service_id}.dat", "no file"
            expected = "a mark file of each service with snapshots"
            loses = "whether the service runs; the file may be in another folder"
            self.add("service-mark-missing", file, None, found, expected, loses, note=True)

    def _load_mark(self, name: str) -> ClusterMark | None:
        loses = "the component's identity, heartbeat and distinct errors"
        try:
            mark = load_mark(self.node.storage, name)
        except CorruptData as error:
            repair = "delete it while the node does not run"
            self.add("cluster-mark", name, error.offset, error.found or "", error.expected or "", loses, repair)
            return None
        if mark is None:
            self.add("cluster-mark-missing", name, None, "no file", "a mark file", loses, note=True)
        return mark

    def _check_mark(self, mark: ClusterMark) -> None:
        header, name, at = mark.header, mark.name, mark.body.header_offset
        wanted = {CONTAINER_TYPE} if name != MARK_NAME else set(COMPONENTS) - {0, CONTAINER_TYPE}
        if header.version == FAILED:
            repair = "see its log for the cause, then start it again"
            self.add("component-failed", name, at, f"a failed start of {mark.label}", "version 0.3.0", repair=repair)
        elif header.version >> 16 != 0:
            loses = "nothing, but an Aeron cluster does not start"
            self.add("cluster-mark", name, at, f"version {mark.version}", "version 0.x", loses, "delete it")
        if header.component_type not in wanted:
            self.add("cluster-mark", name, at + 4, f"component {mark.component}", "the component of the file's name")
        if mark.body.problem is not None:
            expected = "all texts and the error log within the file"
            self.add("cluster-mark", name, at, mark.body.problem, expected, "texts or errors of the component")
        if not mark.is_closed and not mark.is_live(now_ms()) and header.version > 0:
            found = f"{mark.label}: last heartbeat at {time_ms(header.activity_timestamp)}, not closed"
            expected = "a component that runs or has closed its mark file"
            role, loses, repair = "", "nothing", "none needed: a start takes over the file"
            if header.component_type == CONSENSUS_MODULE_TYPE:
                role, loses, repair = explain_killed(self.node)
            self.add("component-killed", name, at + 8, found + role, expected, loses, repair, note=True)

    def _check_same_node(self, own: ClusterMark, mark: ClusterMark) -> None:
        for field_name in ("cluster_id", "member_id"):
            here, there = (m.header.as_dict()[field_name] for m in (own, mark))
            if here != there:
                self.add("cluster-mark-differs", mark.name, None, f"{field_name} {there}", f"{here} as in {own.name}")

    # Recording log and node state

    def _check_recording_log(self) -> None:
        node = self.node
        if not node.has_recording_log:
            loses = "the terms, and which snapshots are valid; recordings are identified by their first message"
            self.add("recording-log-missing", RECORDING_LOG_NAME, None, "no file", "a recording log", loses, COPIES)
            return
        for fault in node.recording_log.faults:
            self.report.add(fault)
        own = self.marks.get(MARK_NAME)
        is_backup = own is not None and own.header.component_type in BACKUP_TYPES
        for fault in check_entries(node.recording_log, is_backup=is_backup):
            self.report.add(fault)

    def _check_node_state(self) -> None:
        name = NODE_STATE_NAME
        repair = "delete it while the node is stopped; the node then forgets its vote"
        try:
            state = self.node.node_state()
        except (CorruptData, UnsupportedVersion) as error:
            loses = "the node's last candidacy or vote; it does not start"
            self.add("node-state", name, error.offset, error.found or "", error.expected or "", loses, repair)
            return
        if state is None:
            self.add("node-state-missing", name, None, "no file", "a node state", "its last vote", note=True)
            return
        last = self.node.recording_log.last_term
        known = -1 if last is None else last.leadership_term_id
        if state.candidate_term_id < -1 or state.log_position < -1 or state.log_position % 32 not in (0, 31):
            found = f"candidate term {state.candidate_term_id} at log position {state.log_position}"
            self.add(
                "node-state", name, state.offset, found, "-1, or a valid term and position", "its last vote", repair
            )
        elif state.candidate_term_id > known and last is not None:
            found = f"candidate term {state.candidate_term_id}, since {time_ms(state.timestamp)}"
            expected = f"at most {known}, the latest term here"
            repair = "none needed: the node follows when a leader contacts it; if none does, check its network"
            self.add("election-unfinished", name, state.offset, found, expected, repair=repair, note=True)

    # Archive

    def _check_archive(self) -> None:
        node = self.node
        if node.place is None:
            self.report.add(node.missing(LOG))
            return
        parsed = (parse_segment_name(entry.name) for entry in node.place.storage.entries() if entry.is_file)
        segments = Counter(item[0] for item in parsed if item is not None)
        log = LogCheck(node, self.scan, self.report)
        streams = node.stream_names(include_invalid=True)
        for number, stream in enumerate(streams):
            if self.progress is not None:
                self.progress(stream, number, len(streams))
            self.report.stream_count += 1
            self.report.segment_count += segments[node.recording_id(stream)]
            file = node.place.prefix.rstrip("/")
            self._guarded(file, log.run if stream == LOG else lambda stream=stream: self._check_snapshot(stream, log))  # type: ignore[misc]
            self._check_given(stream)
        SnapshotCheck(node, self.report, len(self.marks) - (MARK_NAME in self.marks)).run()

    def _check_given(self, stream: str) -> None:
        """Report a recording that exists but that the archive does not provide to the node."""
        node = self.node
        recording = node.recording_of(node.recording_id(stream))
        if recording is None or recording.state not in UNGIVEN_STATES:
            return
        if stream != LOG and not node.snapshots(include_invalid=True)[stream].is_valid:
            return
        fault = replace(
            node.missing(stream),
            found=f"recording {recording.recording_id} in state {recording.state}",
            expected="a recording that the archive provides to the node",
            loses=f"nothing by itself; {'the node does not start' if stream == LOG else 'the node can not load it'}",
            repair=ungiven_repair(recording),
        )
        self.report.add(fault)

    def _check_snapshot(self, stream: str, log: LogCheck) -> None:
        entry: Entry = self.node.snapshots(include_invalid=True)[stream]
        log.scan(stream)
        SnapshotCheck(self.node, self.report, 0).check_recording(stream, entry)

    def add(
        self,
        code: str,
        file: str,
        offset: int | None,
        found: str,
        expected: str,
        loses: str = "nothing",
        repair: str = "none needed",
        *,
        note: bool = False,
    ) -> None:
        """Report a fault, or a note."""
        severity = Severity.NOTE if note else Severity.FAULT
        self.report.add(Fault(code, file, offset, found, expected, loses, repair, severity))


def verify(node: NodeFolder, scan: Scan, progress: Progress | None = None) -> Report:
    """Check the node's folder and the recordings that it needs. ``scan`` is the store's."""
    report = Report(node.path, node.family)
    Verification(node, scan, report, progress).run()
    return report
