"""Compares the nodes of a cluster: terms, logs message by message, and snapshots, each node against the first.

A node that lags is a note, because it catches up. Different messages at one position, or different bounds of a term,
are faults: the nodes are no longer replicas of each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from everlog.aeron.cluster.folder.scanning import LOG
from everlog.aeron.cluster.folder.snapshot import service_label
from everlog.aeron.cluster.format.recording_log import RECORDING_LOG_NAME, Entry
from everlog.aeron.cluster.store import ClusterStore
from everlog.aeron.layouts import NULL_VALUE
from everlog.core.report import Fault, Report, Severity
from everlog.errors import EverlogError

CATCH_UP = "none needed: a node that starts or follows catches up from the leader"
RESTORE = "keep the node whose log the majority has; delete the other's folders and start it from a copy"
_COLUMNS = ("position", "end_position", "crc32")
MAX_ROWS = 16_384


class Row(NamedTuple):
    """What is compared of a message."""

    position: int
    end_position: int
    crc32: int


@dataclass(slots=True)
class Replica:
    """A node, its name in the report, and the bounds of its log."""

    store: ClusterStore
    label: str
    log_start: int = 0
    log_end: int = 0
    faults: list[Fault] = field(default_factory=list)

    def rows(self) -> Iterator[Row]:
        """Yield the log's messages. Collects faults in ``faults``."""
        context = self.store.folder.context(LOG)
        self.log_start = 0 if context is None else context.archive.segments.start_position
        for batch in self.store.scan(LOG, columns=_COLUMNS, on_fault=self.faults.append, max_rows=MAX_ROWS):
            for row in batch.rows():
                self.log_end = row[1]
                yield Row(*row)


def compare_nodes(stores: Sequence[ClusterStore]) -> Report:
    """Compare nodes and return one report. File names in it start with the node's folder; ``record_count`` is the
    number of messages that agree."""
    replicas = [Replica(store, _label(store)) for store in stores]
    report = Report(", ".join(store.path for store in stores), ClusterStore.family)
    report.stream_count = len(stores)
    _check_members(replicas, report)
    first = replicas[0]
    for other in replicas[1:]:
        _compare_terms(first, other, report)
        _compare_logs(first, other, report)
        _compare_snapshots(first, other, report)
    return report


def _label(store: ClusterStore) -> str:
    try:
        mark = store.folder.mark()
    except EverlogError:
        mark = None
    return f"member {mark.header.member_id}" if mark is not None else f"the node at {store.path}"


def _check_members(replicas: list[Replica], report: Report) -> None:
    """Check that the folders belong to different members of one cluster."""
    seen: dict[int, str] = {}
    clusters: set[int] = set()
    for replica in replicas:
        try:
            mark = replica.store.folder.mark()
        except EverlogError:
            continue
        if mark is None:
            continue
        header, name = mark.header, mark.name
        if header.member_id in seen:
            found = f"member {header.member_id}, as in {seen[header.member_id]}"
            _add(report, replica, "replica-cluster", name, found, "another member")
        seen[header.member_id] = replica.store.path
        if clusters and header.cluster_id not in clusters:
            expected = f"cluster {', '.join(map(str, sorted(clusters)))}"
            _add(report, replica, "replica-cluster", name, f"cluster {header.cluster_id}", expected)
        clusters.add(header.cluster_id)


def _compare_terms(first: Replica, other: Replica, report: Report) -> None:
    here = {entry.leadership_term_id: entry for entry in first.store.folder.recording_log.terms}
    there = {entry.leadership_term_id: entry for entry in other.store.folder.recording_log.terms}
    for term in sorted(here.keys() & there.keys()):
        a, b = here[term], there[term]
        for name, ours, theirs in (
            ("begins", a.term_base_log_position, b.term_base_log_position),
            ("ends", a.log_position, b.log_position),
        ):
            if ours != theirs and NULL_VALUE not in (ours, theirs):
                found = f"term {term} {name} at {theirs}"
                expected = f"{ours} as on {first.label}"
                _add(report, other, "replica-terms", RECORDING_LOG_NAME, found, expected, b.offset, repair=RESTORE)
    lacking = sorted(here.keys() - there.keys()), sorted(there.keys() - here.keys())
    for replica, terms, by in ((other, lacking[0], first), (first, lacking[1], other)):
        if terms:
            found = f"no term {', '.join(map(str, terms))} on {replica.label}"
            expected = f"the terms of {by.label}"
            _add(report, replica, "replica-behind", RECORDING_LOG_NAME, found, expected, repair=CATCH_UP, note=True)


def _compare_logs(first: Replica, other: Replica, report: Report) -> None:
    """Compare the logs message by message over the positions that both have. A log may begin later because it was
    purged."""
    differing = None
    ours, theirs = first.rows(), other.rows()
    a, b = next(ours, None), next(theirs, None)
    while a is not None and b is not None:
        if a.position < min(b.position, other.log_start):
            a = next(ours, None)
            continue
        if b.position < min(a.position, first.log_start):
            b = next(theirs, None)
            continue
        if a != b:
            differing = differing or (a, b)
            break
        report.record_count += 1
        report.byte_count += a.end_position - a.position
        a, b = next(ours, None), next(theirs, None)
    if differing is not None:
        _report_difference(first, other, *differing, report)
        return
    for replica, end, by, rest in ((other, b, first, ours), (first, a, other, theirs)):
        has_more = (a if replica is other else b) is not None
        if end is None and has_more:
            for _ in rest:
                pass
            found = f"{replica.label}'s log ends at position {replica.log_end}"
            expected = f"{by.log_end} as on {by.label}, {by.log_end - replica.log_end} bytes more"
            _add(report, replica, "replica-behind", LOG, found, expected, repair=CATCH_UP, note=True)


def _report_difference(first: Replica, other: Replica, a: Row, b: Row, report: Report) -> None:
    if a.position == b.position:
        found = f"a message from position {b.position} to {b.end_position} with checksum {b.crc32:08x}"
        expected = f"one to {a.end_position} with checksum {a.crc32:08x} as on {first.label}"
    else:
        found = f"a message at position {b.position}"
        expected = f"one at {a.position} as on {first.label}"
    loses = f"agreement: the logs of {first.label} and {other.label} differ from {min(a.position, b.position)} on"
    damaged = [replica for replica in (first, other) if any(f.severity is Severity.FAULT for f in replica.faults)]
    hint = "".join(f"; {replica.label}'s log is damaged: see verify" for replica in damaged)
    _add(report, other, "replica-log", LOG, found, expected, loses=loses + hint, repair=RESTORE)


def _compare_snapshots(first: Replica, other: Replica, report: Report) -> None:
    """Compare snapshots of the same position and service, ignoring the order of their messages: it may be that of a
    hash map."""
    here, there = _snapshots(first.store), _snapshots(other.store)
    for key in sorted(here.keys() & there.keys()):
        if _content(first.store, here[key][0]) != _content(other.store, there[key][0]):
            _, position, service_id = key
            found = f"a different snapshot of {service_label(service_id)} at {position}"
            entry = there[key][1]
            expected = f"the snapshot of {first.label}"
            file, loses = RECORDING_LOG_NAME, "nothing by itself: services may store data specific to their node"
            _add(report, other, "replica-snapshot", file, found, expected, entry.offset, loses=loses, note=True)


def _snapshots(store: ClusterStore) -> dict[tuple[int, int, int], tuple[str, Entry]]:
    return {
        (entry.leadership_term_id, entry.log_position, entry.service_id): (stream, entry)
        for stream, entry in store.folder.snapshots().items()
    }


def _content(store: ClusterStore, stream: str) -> Counter[tuple[int, int]]:
    """How often the snapshot has each message."""
    found: Counter[tuple[int, int]] = Counter()
    for batch in store.scan(stream, columns=("length", "crc32"), on_fault=lambda fault: None):
        found.update(zip(batch.to_list("length"), batch.to_list("crc32"), strict=True))
    return found


def _add(
    report: Report,
    replica: Replica,
    code: str,
    file: str,
    found: str,
    expected: str,
    offset: int | None = None,
    *,
    loses: str = "nothing",
    repair: str = "none needed",
    note: bool = False,
) -> None:
    severity = Severity.NOTE if note else Severity.FAULT
    place = f"{replica.store.path}/{file}"
    report.add(Fault(code, place, offset, found, expected, loses, repair, severity))
