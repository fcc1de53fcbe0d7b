"""Checks the entries of ``recording.log``: consecutive terms, their order, and unused snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from everlog.aeron.cluster.format.recording_log import (
    RECORDING_LOG_NAME,
    SNAPSHOT,
    STANDBY_SNAPSHOT,
    TERM,
    Entry,
    RecordingLog,
)
from everlog.aeron.layouts import NULL_VALUE
from everlog.core.report import Fault, Severity

REPAIR = "compare it with the other nodes; everlog cluster DIR seed-recording-log-from-snapshot makes a new one"


def check_entries(log: RecordingLog, *, is_backup: bool = False) -> Iterator[Fault]:
    """Yield the faults of the entries. A backup only fetches the terms that it needs, so gaps are notes there."""
    for fault in _terms(log):
        is_normal = is_backup and fault.code in ("term-gap", "term-position")
        yield replace(fault, severity=Severity.NOTE, repair="none needed") if is_normal else fault
    if not log.is_sorted:
        first = next(b for a, b in pairwise(log.entries) if b.entry_index < a.entry_index)
        found, expected = f"entry {first.entry_index} out of order", "entries sorted by term and position"
        repair = "none needed: a node sorts them; everlog cluster DIR sort-recording-log sorts them on disk"
        yield _fault("recording-log-order", first, found, expected, "nothing", repair, note=True)
    for entry in log.entries:
        if not entry.is_valid and entry.type in (SNAPSHOT, STANDBY_SNAPSHOT):
            found = f"a snapshot of recording {entry.recording_id} at {entry.log_position} that is marked as invalid"
            yield _fault("snapshot-invalid", entry, found, "valid ones", "nothing: an earlier one is used", note=True)
        elif entry.type == STANDBY_SNAPSHOT:
            found = f"a snapshot at {entry.log_position} in the archive at {entry.archive_endpoint}"
            expected = "snapshots in the node's own archive"
            yield _fault("snapshot-standby", entry, found, expected, "nothing: it was not checked", note=True)


def _terms(log: RecordingLog) -> Iterator[Fault]:
    for before, entry in pairwise(entry for entry in log.entries if entry.type == TERM):
        if entry.recording_id != before.recording_id:  # invalid terms must have the same recording too
            found = f"recording {entry.recording_id} in term {entry.leadership_term_id}"
            loses = "nothing, if the latest term is right: its recording is read"
            yield _fault("term-recording", entry, found, f"{before.recording_id} as in the previous term", loses)
    for before, entry in pairwise(log.terms):
        term, previous = entry.leadership_term_id, before.leadership_term_id
        if term == previous:
            yield _fault("term-duplicate", entry, f"term {term} a second time", f"term {previous + 1}", "nothing")
            continue
        if term > previous + 1:
            found = f"term {term} after term {previous}"
            yield _fault("term-gap", entry, found, f"term {previous + 1}", "when the missing terms began")
        end = before.log_position
        if end == NULL_VALUE:
            found = f"no end of term {previous}, although term {term} follows"
            yield _fault("term-position", before, found, f"{entry.term_base_log_position}, where the next term begins")
        elif end != entry.term_base_log_position:
            found = f"term {term} from {entry.term_base_log_position} on"
            expected = f"{end}, where the previous term ends"
            yield _fault("term-position", entry, found, expected, "nothing, if the log is whole")


def _fault(
    code: str,
    entry: Entry,
    found: str,
    expected: str,
    loses: str = "nothing",
    repair: str = REPAIR,
    *,
    note: bool = False,
) -> Fault:
    severity = Severity.NOTE if note else Severity.FAULT
    repair = "none needed" if note and repair is REPAIR else repair
    return Fault(code, RECORDING_LOG_NAME, entry.offset, found, expected, loses, repair, severity)
