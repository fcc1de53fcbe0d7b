"""Lists segments as ``jlogctl data`` does: how many subscribers still need each, and whether it is intact."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from everlog.cli.jlogctl.arguments import (
    NOT_DONE,
    Printer,
    open_journal,
)
from everlog.cli.jlogctl.inspection import inspect_segment
from everlog.cli.text import say, warn
from everlog.core.files.storage import Storage
from everlog.core.report import Fault, Severity
from everlog.errors import EverlogError
from everlog.jlog.format.index import ENTRY
from everlog.jlog.format.layouts import JlogCheckpoint
from everlog.jlog.format.names import CHECKPOINT_PREFIX, index_name, parse_index_name, parse_segment_name, segment_name
from everlog.jlog.reading.journal import Journal
from everlog.jlog.reading.segments import Segment
from everlog.jlog.verify.journal import verify_journal

FOUND_ERRORS = "One or more errors were found."


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to print of the segments: indexes, faults, every message."""

    index: bool = False
    analyze: bool = False
    verbose: bool = False


def show_segments(path: str, wanted: Wanted, out: Printer) -> int:
    """Print a line for each segment, and the other wanted details. Returns exit code 1 if there are faults."""
    journal = open_journal(path)
    readers = PendingReaders(read_holders(journal.storage))
    faults = _faults_by_log(journal) if wanted.analyze else {}
    is_sound = True
    for segment in journal.segments:
        is_sound &= _show_segment(journal, segment, wanted, readers, faults.pop(segment.log, []), out)
    for fault in [fault for found in faults.values() for fault in found]:
        warn(str(fault))
        is_sound = False
    return 0 if is_sound else NOT_DONE


def _show_segment(
    journal: Journal, segment: Segment, wanted: Wanted, pending: PendingReaders, faults: list[Fault], out: Printer
) -> bool:
    """Print one segment. Returns whether it is intact, as far as it was checked."""
    name = segment_name(segment.log)
    readers = pending.count(segment.log)
    text = f"\t{name} [{segment.byte_count:9} bytes] {readers} pending readers"
    record: dict[str, Any] = {"segment": name, "bytes": segment.byte_count, "pending_readers": readers}
    if wanted.index:
        words, index = index_details(journal.storage, segment.log)
        text += f"\n\t\t idx: {words}"
        record["index"] = index
    if wanted.analyze:
        record["faults"] = [fault.to_dict() for fault in faults]
    out(text, record)
    if not wanted.analyze:
        return True
    try:
        is_sound = inspect_segment(journal, segment, out, verbose=wanted.verbose)
    except EverlogError as error:
        warn(str(error))
        is_sound = False
    for fault in faults:
        warn(str(fault))
    if not is_sound or faults:
        say(FOUND_ERRORS)
    return is_sound and not faults


def _faults_by_log(journal: Journal) -> dict[int, list[Fault]]:
    """The faults that a full check finds in segments and indexes: more than following the headers does."""
    found: dict[int, list[Fault]] = defaultdict(list)
    for fault in verify_journal(journal).faults:
        log = parse_segment_name(fault.file)
        log = parse_index_name(fault.file) if log is None else log
        if log is not None and fault.severity is Severity.FAULT:
            found[log].append(fault)
    return dict(found)


def read_holders(storage: Storage) -> list[int | None]:
    """The segment of each checkpoint; ``None`` for an unreadable one. Every file with a checkpoint's prefix counts, as
    in the original, whose readers delete segments by them."""
    found: list[int | None] = []
    for entry in storage.entries():
        if not entry.name.startswith(CHECKPOINT_PREFIX) or not entry.is_file:
            continue
        try:
            with storage.open(entry.name) as file:
                raw = file.read_at(0, JlogCheckpoint.size)
        except EverlogError:
            raw = b""
        found.append(JlogCheckpoint.unpack_from(raw).log if len(raw) == JlogCheckpoint.size else None)
    return found


class PendingReaders:
    """Counts the subscribers that may still need a segment. A subscriber with an unreadable checkpoint needs all."""

    def __init__(self, holders: list[int | None]) -> None:
        self._logs = sorted(-1 if log is None else log for log in holders)

    def count(self, log: int) -> int:
        """The number of subscribers that may still need the segment."""
        return bisect_right(self._logs, log)


def index_details(storage: Storage, log: int) -> tuple[str, dict[str, Any]]:
    """An index's state, which its size and last entry give: the original's words, and an object for JSON."""
    name = index_name(log)
    if not storage.exists(name):
        return "none", {"state": "none", "messages": None}
    try:
        with storage.open(name) as file:
            count, rest = divmod(file.size(), ENTRY)
            last = file.read_at(ENTRY * (count - 1), ENTRY) if count > 1 else b"\1"
    except EverlogError:
        count, rest, last = 0, 1, b""
    if rest:
        return "error", {"state": "error", "messages": None}
    state = "open" if any(last) else "closed"
    count -= state == "closed"
    return f"{count} messages ({count:08x}), {state}", {"state": state, "messages": count}
