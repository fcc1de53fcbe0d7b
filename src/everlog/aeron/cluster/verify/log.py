"""Checks the log: every message against its position and recording.log, and whether the log is long enough."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from everlog.aeron.cluster.folder.node import NodeFolder
from everlog.aeron.cluster.folder.scanning import LOG, MessageContext
from everlog.aeron.cluster.format.mark_file import ClusterMark
from everlog.aeron.cluster.format.messages import CONSENSUS_MODULE
from everlog.aeron.cluster.format.recording_log import RECORDING_LOG_NAME, Entry
from everlog.aeron.layouts import NULL_VALUE
from everlog.aeron.mark_file import now_ms
from everlog.core.batch import Batch
from everlog.core.report import Fault, Report, Severity
from everlog.errors import EverlogError

_COLUMNS = ("position", "end_position", "kind", "leadership_term_id", "timestamp_ns", "fields")
_PLACED = {"new-leadership-term", "cluster-action"}
"""Kinds with a field that has the message's end position."""
_KNOWN = {"session-message", "timer", "session-open", "session-close", "membership-change", *_PLACED}
MAX_FAULTS_PER_CODE = 100
"""Most faults of one code that are listed."""
COPY = "a copy of the log from another node"


Scan = Callable[..., Iterator[Batch]]
"""A store's :meth:`everlog.core.store.Store.scan`."""


@dataclass(slots=True)
class LogCheck:
    """The check of one node's log."""

    node: NodeFolder
    read: Scan
    report: Report
    _term: int | None = None
    _time: int | None = None
    _counts: dict[str, int] = field(default_factory=dict)
    _started: set[int] = field(default_factory=set)
    _entries: dict[int, Entry] = field(default_factory=dict)
    _context: MessageContext | None = None

    def run(self) -> None:
        """Check the whole log."""
        self._context = context = self.node.context(LOG)
        self._entries = {entry.leadership_term_id: entry for entry in reversed(self.node.recording_log.terms)}
        end = self.scan(LOG)
        if context is None:
            return
        self._check_length(context, max(end, context.archive.segments.start_position))
        self._check_terms_seen(context, end)
        self._check_open(context, end)

    def scan(self, stream: str) -> int:
        """Read every message of a stream and return the position after the last one."""
        end = 0
        for batch in self.read(stream, columns=_COLUMNS, on_fault=self.report.add):
            self.report.record_count += batch.row_count
            if batch.row_count:
                positions, ends = batch.column("position").values, batch.column("end_position").values
                end = ends[batch.row_count - 1]
                self.report.byte_count += end - positions[0]
                if stream == LOG:
                    self._check_batch(batch)
        return end

    def _check_batch(self, batch: Batch) -> None:
        self._check_times(batch)
        kinds, terms = batch.to_list("kind"), batch.to_list("leadership_term_id")
        # Most batches have one term and ordinary kinds only, and need no further check.
        if set(terms) == {self._term} and set(kinds) <= _KNOWN - _PLACED:
            return
        positions, ends, texts = (batch.to_list(name) for name in ("position", "end_position", "fields"))
        for position, end, kind, term, text in zip(positions, ends, kinds, terms, texts, strict=True):
            fields: dict[str, Any] = json.loads(text) if kind in _PLACED else {}
            if kind in _PLACED:
                self._check_placed(kind, position, end, fields)
            elif kind not in _KNOWN and kind != "undecodable":
                found = f"a message of kind {kind}"
                self._add("message-unknown", position, found, "a log message", "nothing: it is returned", note=True)
            if kind == "new-leadership-term":
                self._check_new_term(position, term, fields)
            elif term is not None and self._term is not None and term != self._term:
                self._add("term-log", position, f"a message of term {term}", f"term {self._term}", "nothing by itself")

    def _check_times(self, batch: Batch) -> None:
        times = [stamp for stamp in batch.to_list("timestamp_ns") if stamp is not None]
        if not times:
            return
        before = times[0] if self._time is None else self._time
        if any(b < a for a, b in pairwise([before, *times])):
            position = batch.column("position").values[0]
            found = "a timestamp before that of the previous message"
            self._add("log-time", position, found, "timestamps that do not decrease", "nothing", note=True)
        self._time = times[-1]

    def _check_placed(self, kind: str, position: int, end: int, fields: dict[str, Any]) -> None:
        named = fields["log_position"]
        if named is not None and named != end:
            found, expected = f"log position {named} in a {kind}", f"{end}, the message's end"
            self._add("log-position", position, found, expected, "nothing by itself")

    def _check_new_term(self, position: int, term: int | None, fields: dict[str, Any]) -> None:
        """Check that recording.log has the term that this message starts, with this base position."""
        self._term = term
        if term is None or not self._entries:
            return
        self._started.add(term)
        entry, base = self._entries.get(term), fields["term_base_log_position"]
        if entry is None:
            found, expected = f"the start of term {term}", "a term that recording.log has"
            is_newer = term > max(self._entries)  # the node was killed before it wrote it; the leader sends it again
            repair = "none needed: the node learns the term when it starts" if is_newer else COPY
            loses = "nothing from the log; recording.log lacks the term"
            self._add("term-log", position, found, expected, loses, repair=repair, note=is_newer)
        elif not entry.term_base_log_position == base == position:
            found = f"the start of term {term}, with base {base}"
            expected = f"base {entry.term_base_log_position} as in recording.log"
            self._add("term-log", position, found, expected, "nothing by itself", repair=COPY)

    # The end

    def _check_length(self, context: MessageContext, end: int) -> None:
        """Check that the log covers what recording.log needs: it must reach the latest snapshot and the last term, and
        must not begin after the latest snapshot."""
        start = context.archive.segments.start_position
        needed = _needed(self.node)
        for entry, position, what in needed:
            if position > end:
                found, expected = f"a log that ends at {end}", f"{position}, {what}"
                loses = "the messages in between, unless other nodes have them"
                self._entry("log-short", entry, found, expected, loses, "none: let it catch up from the leader")
        snapshot = self.node.recording_log.latest_snapshot()
        if start == 0:
            return
        taken = -1 if snapshot is None else self.node.recording_log.entries[snapshot].log_position
        found = f"a log that begins at position {start}"
        if taken < start:
            expected = f"a snapshot at position {start} or later"
            self._add("log-purged", start, found, expected, "the purged messages; the node can't start", repair=COPY)
        else:
            loses = "nothing: a snapshot replaces the purged messages"
            self._add("log-purged", start, found, "position 0", loses, repair="none needed", note=True)

    def _check_terms_seen(self, context: MessageContext, end: int) -> None:
        """Report terms of recording.log whose first message the log lacks. A term of a failed election is empty and has
        none."""
        start = context.archive.segments.start_position
        for entry in self.node.recording_log.terms:
            base, stop = entry.term_base_log_position, entry.log_position
            is_empty = stop == base or (stop == NULL_VALUE and base >= end)
            if start <= base < end and not is_empty and entry.leadership_term_id not in self._started:
                found = f"no start of term {entry.leadership_term_id} in the log"
                self._entry("term-log", entry, found, f"one at position {base}", "nothing by itself", COPY)

    def _check_open(self, context: MessageContext, end: int) -> None:
        if context.archive.stop_position is not None or context.archive.is_live or self._runs():
            return
        name, offset = context.archive.segments.place(end)
        found, expected = f"no stop position; the last frame ends at {end}", "a stop position, as no node runs"
        repair = "none needed: the archive sets it when it starts"
        file = context.prefix + name
        fault = Fault("log-open", file, offset, found, expected, "nothing", repair, Severity.NOTE, LOG)
        self.report.add(fault)

    def _runs(self) -> bool:
        try:
            mark: ClusterMark | None = self.node.mark()
        except EverlogError:
            return False
        return mark is not None and mark.is_live(now_ms())

    def _add(
        self,
        code: str,
        position: int,
        found: str,
        expected: str,
        loses: str,
        *,
        repair: str = "none needed",
        note: bool = False,
    ) -> None:
        self._counts[code] = self._counts.get(code, 0) + 1
        context = self._context
        if self._counts[code] > MAX_FAULTS_PER_CODE or context is None:
            return
        name, offset = context.archive.segments.place(position)
        severity = Severity.NOTE if note else Severity.FAULT
        file = context.prefix + name
        self.report.add(Fault(code, file, offset, found, expected, loses, repair, severity, LOG, str(position)))

    def _entry(self, code: str, entry: Entry, found: str, expected: str, loses: str, repair: str) -> None:
        fault = Fault(code, RECORDING_LOG_NAME, entry.offset, found, expected, loses, repair, stream=LOG)
        self.report.add(fault)


def _needed(node: NodeFolder) -> Iterator[tuple[Entry, int, str]]:
    """Yield the positions that the log must reach: entry, position and its meaning."""
    log = node.recording_log
    snapshot = log.latest_snapshot()
    if snapshot is not None:
        entry = log.entries[snapshot]
        assert entry.service_id == CONSENSUS_MODULE
        yield entry, entry.log_position, "where the latest snapshot was taken"
    terms = log.terms
    if terms:
        last = terms[-1]
        if last.log_position != NULL_VALUE:
            yield last, last.log_position, f"where term {last.leadership_term_id} ended"
        elif last.term_base_log_position:
            yield last, last.term_base_log_position, f"where term {last.leadership_term_id} began"
