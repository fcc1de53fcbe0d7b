"""Plans a journal's repair: a step for each repairable fault that :mod:`everlog.jlog.verify.journal` finds.

**What a repair never does.** It never loses, changes or reorders a readable message. It never moves a subscriber
forward past an existing message; if a subscriber's position is unknown, it gets messages again. What everlog does not
understand (a segment without any known message, messages of another framing inside a segment) is reported and left
alone.

**Running processes.** Damage after the last message is cut in place, under the segment's lock, and a wrong index is
emptied under its own lock and deleted: writers and readers may be running. Every other step needs exclusive access to
the file. A segment with damage in its middle is rewritten into a draft that replaces it by a rename, because a crash
would lose bytes moved in place; but a process that has the old file open would continue in it. So such a step refuses
while any process has the file open ("stop the journal's writers and readers first"), and runs under the metastore's
lock, under which writers open segments, so that none can open it in between. Readers open segments without a lock: do
not start readers during a repair. If the system can't show which processes have a file open (not Linux, or a file of
another user), ensuring this is up to the caller.

**Order, and what a crash leaves.**

1. Leftovers and indexes without a segment are removed: nothing reads them.
2. The metastore, if it is missing or wrong, is written with one write of 16 bytes, or created atomically. (A file of
   version 1.x comes last: until all segments are rewritten it describes their format.)
3. Checkpoints move before the data that they refer to: new numbers are never higher, so that a subscriber that
   continues after a crash here gets messages again, and skips none. The other order would skip what is written after a
   cut.
4. Segments are cut, rewritten, or deleted if a finished one has no message left. Each is unchanged or done.
5. Indexes, then the pre-commit buffer: one write of 4 bytes, or an atomic replacement.

Each step checks again, under the lock, that the file has not changed since planning. After a crash at any point a new
plan finishes the work and deletes left-over drafts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Any

from everlog.core.files.storage import Storage
from everlog.core.files.writable import WritableStorage, writable
from everlog.core.plan.plan import RepairPlan
from everlog.core.plan.step import RepairStep
from everlog.core.report import Progress, Severity
from everlog.errors import EverlogError, UsageError
from everlog.jlog.format.checkpoints import read_checkpoints
from everlog.jlog.format.framing import LEGACY, PLAIN, Framing
from everlog.jlog.format.index import read_index
from everlog.jlog.format.names import METASTORE, PRE_COMMIT, index_name, parse_index_name, segment_name
from everlog.jlog.reading.journal import Journal
from everlog.jlog.reading.segments import Segment
from everlog.jlog.repair.checkpoints import CheckpointMoves, move_checkpoints
from everlog.jlog.repair.metastore import Target, choose_target, write_metastore
from everlog.jlog.repair.pre_commit import settle_buffer
from everlog.jlog.repair.segments import Renumbering, SegmentState, holds_other_messages, scan, stays_readable
from everlog.jlog.repair.steps import (
    DRAFT_PREFIX,
    CreateSegment,
    CutTail,
    DeleteFile,
    DeleteIndex,
    DeleteSegment,
    RewriteSegment,
)
from everlog.jlog.verify.journal import verify_journal

PARTS = frozenset({"metastore", "checkpoints", "segments", "indexes", "pre_commit", "files"})
"""The parts that a repair can be limited to. ``segments`` also moves the checkpoints in cut segments."""

_DATA = frozenset(
    {"torn-record", "merged-records", "torn-header", "damaged-bytes", "zero-bytes", "undecodable-payload"}
)
_INDEX = frozenset({"index-misaligned", "index-past-end", "index-wrong", "index-closed-early"})
_MAGIC = frozenset({"magic-differs", "framing-changes"})


def plan_repair(storage: Storage, *, parts: Collection[str] = PARTS, progress: Progress | None = None) -> RepairPlan:
    """Verify the journal and plan its repair; changes nothing. ``parts`` limits the repair (see ``PARTS``).

    Raises :class:`UnsupportedVersion` for a journal of a big-endian machine, :class:`MissingDependency` for an LZ4
    journal without lz4, :class:`UsageError`.
    """
    unknown = set(parts) - PARTS
    if unknown:
        raise UsageError("parts", found=", ".join(sorted(unknown)), expected="any of " + ", ".join(sorted(PARTS)))
    return _Planner(writable(storage), frozenset(parts), progress).plan()


class _Planner:
    """Builds one plan. ``mended`` has the faults, by code and file, that its steps repair."""

    def __init__(self, storage: WritableStorage, parts: frozenset[str], progress: Progress | None) -> None:
        self.storage = storage
        self.parts = parts
        self.journal = Journal.read(storage)
        self.report = verify_journal(self.journal, progress)
        self.codes: dict[str, set[str]] = defaultdict(set)
        for fault in self.report.faults:
            self.codes[fault.file].add(fault.code)
        self.target: Target = choose_target(self.journal, self.report.faults)
        self.checkpoints = read_checkpoints(storage, storage.names())
        self.markers: dict[int, set[int]] = defaultdict(set)
        for checkpoint in self.checkpoints:
            if checkpoint.log is not None and checkpoint.marker:
                self.markers[checkpoint.log].add(checkpoint.marker)
        self.mended: set[tuple[str, str]] = set()
        self.states: dict[int, SegmentState] = {}
        self.renumberings: dict[int, Renumbering] = {}
        self.deleted: set[int] = set()
        self.cut: set[int] = set()

    def plan(self) -> RepairPlan:
        """Compute the steps that repair what was found."""
        segments = list(self._segments()) if "segments" in self.parts else []
        metastore = list(self._metastore()) if "metastore" in self.parts else []
        is_legacy = "metastore-legacy" in self.codes[METASTORE]
        checkpoints = list(self._checkpoints())
        steps: list[RepairStep] = [
            *(self._files() if "files" in self.parts else ()),
            *([] if is_legacy else metastore),
            *checkpoints,
            *segments,
            *(self._indexes() if "indexes" in self.parts else ()),
            *(self._pre_commit() if "pre_commit" in self.parts else ()),
            *(metastore if is_legacy else []),
        ]
        unrepaired = tuple(
            fault
            for fault in self.report.faults
            if fault.severity is Severity.FAULT and (fault.code, fault.file) not in self.mended
        )
        return RepairPlan(self.storage.root, "jlog", tuple(steps), unrepaired)

    def _mend(self, file: str, codes: Collection[str] | None = None) -> None:
        self.mended.update((code, file) for code in (self.codes[file] if codes is None else codes))

    def _metastore(self) -> Iterator[RepairStep]:
        if "unreadable-file" in self.codes[METASTORE]:
            return
        has_fault = any(f.file == METASTORE and f.severity is Severity.FAULT for f in self.report.faults)
        if not has_fault and self.target.framing == self.journal.preferred:
            return
        step = write_metastore(self.storage, self.journal, self.target)
        if step is not None:
            yield step
        last = self.journal.last_log
        if last is not None and self.target.written > last:
            yield CreateSegment(
                file=segment_name(self.target.written),
                before="no such segment, though the metastore says that it is written",
                after="an empty segment",
                storage=self.storage,
            )
        self._mend(METASTORE)
        for log, framing in self.target.framings.items():
            if framing == self.target.framing:
                self._mend(segment_name(log), {"magic-differs"})

    def _segments(self) -> Iterator[RepairStep]:
        for segment in self.journal.segments:
            name = segment_name(segment.log)
            if segment.byte_count == 0:
                if segment.log != self.target.written:
                    yield self._delete(SegmentState(segment.log, 0, 0, (), False), PLAIN)
                    self._mend(name)
                continue
            is_old = self.target.framings.get(segment.log) == LEGACY
            if is_old or self.codes[name] & (_DATA | _MAGIC):
                step = self._segment(segment)
                if step is not None:
                    yield step

    def _segment(self, segment: Segment) -> RepairStep | None:
        log, name = segment.log, segment_name(segment.log)
        with self.storage.open(name) as file:
            size = file.size()
            framing = self.journal.framing_of(file, 0, size)
            index = read_index(self.storage, log, size, framing.header_bytes)
            renumbering = Renumbering(self.markers[log], index)
            state = scan(file, log, framing, index, renumbering)
            to_plain = state.has_legacy and self.target.framing == PLAIN
            if state.holds_unknown_only or not (state.stretches or to_plain):
                return None
            if holds_other_messages(file, state, framing) or not stays_readable(file, state, framing):
                return None
        self.states[log] = state
        self._mend(name, self.codes[name] & (_DATA | (_MAGIC if to_plain else frozenset())))
        if state.stretches:
            self.cut.add(log)
            self._mend(index_name(log))
        if not state.message_count and log != self.target.written:
            return self._delete(state, framing)
        if state.stretches:
            self.renumberings[log] = renumbering
        what = [f"{state.message_count} messages in {state.size} bytes"]
        what += [f"damaged: {', '.join(map(str, state.stretches))}"] if state.stretches else []
        what += ["headers of version 1.x"] if to_plain else []
        lost = sum(stretch.end - stretch.start for stretch in state.stretches)
        common: dict[str, Any] = {
            "file": name,
            "before": "; ".join(what),
            "after": "; ".join(
                [
                    f"{state.message_count} messages in {state.kept_bytes} bytes",
                    *(["no index"] if state.stretches else []),
                    *(["headers of version 2"] if to_plain else []),
                ]
            ),
            "loses": f"{lost} bytes of incomplete messages" if lost else "nothing",
            "storage": self.storage,
            "log": log,
            "framing": framing,
            "state": state,
        }
        if to_plain or not state.is_tail_only:
            return RewriteSegment(**common, to_plain=to_plain)
        return CutTail(**common)

    def _delete(self, state: SegmentState, framing: Framing) -> RepairStep:
        self.deleted.add(state.log)
        self.cut.add(state.log)
        self._mend(index_name(state.log))
        return DeleteSegment(
            file=segment_name(state.log),
            before=f"{state.size} bytes, no message, in a finished segment",
            after="no file, no index",
            loses=f"{state.size} bytes of incomplete messages" if state.size else "nothing",
            storage=self.storage,
            log=state.log,
            framing=framing,
            state=state,
        )

    def _checkpoints(self) -> Iterator[RepairStep]:
        logs = sorted({s.log for s in self.journal.segments} - self.deleted | {self.target.written})
        # A segment that is created because the metastore names it is empty: its checkpoints rewind.
        checkpoint_rewind = {
            c.file
            for c in self.checkpoints
            if "checkpoint-past-end" in self.codes[c.file] or (c.log == logs[-1] != self.journal.last_log and c.marker)
        }
        is_all = "checkpoints" in self.parts
        places = CheckpointMoves(
            logs,
            frozenset(self.deleted),
            self.renumberings,
            frozenset(checkpoint_rewind),
            self._count_of,
        )
        concerned = [c for c in self.checkpoints if is_all or c.log in self.cut]
        for step in move_checkpoints(self.storage, concerned, places):
            self._mend(step.file)
            yield step
        for checkpoint in concerned:
            if checkpoint.log in self.cut or checkpoint.log == logs[-1]:
                self._mend(checkpoint.file)

    def _count_of(self, log: int) -> int:
        """The number of messages that a segment will have."""
        if log not in self.states:
            name = segment_name(log)
            if not self.storage.exists(name):
                return 0
            with self.storage.open(name) as file:
                self.states[log] = scan(file, log, self.journal.framing_of(file, 0, file.size()))
        return self.states[log].message_count

    def _indexes(self) -> Iterator[RepairStep]:
        for segment in self.journal.segments:
            name = index_name(segment.log)
            if segment.log in self.cut or not self.storage.exists(name):
                continue
            codes = self.codes[name] & _INDEX
            # A segment that is written again, because the metastore's number was wrong, must not have a closed index.
            is_reopened = segment.log == self.target.written < (self.journal.metastore.storage_log or 0)
            if not codes and not (is_reopened and read_index(self.storage, segment.log, segment.byte_count).closed):
                continue
            self._mend(name, codes)
            size = self.storage.size(name)
            yield DeleteIndex(
                file=name,
                before=f"{size} bytes: {', '.join(sorted(codes)) or 'closed'}",
                after="no file; readers rebuild it",
                storage=self.storage,
                log=segment.log,
                size=size,
            )

    def _pre_commit(self) -> Iterator[RepairStep]:
        found = {
            fault.code
            for fault in self.report.faults
            if fault.file == PRE_COMMIT and fault.severity is Severity.FAULT and fault.code != "unreadable-file"
        }
        if not found:
            return
        step = settle_buffer(self.storage, self.journal, found)
        if step is not None:
            self._mend(PRE_COMMIT, found)
            yield step

    def _files(self) -> Iterator[RepairStep]:
        """Delete drafts of an interrupted repair, indexes without a segment, and checkpoints without a subscriber."""
        logs = {segment.log for segment in self.journal.segments}
        for name in sorted(self.storage.names()):
            of_index = parse_index_name(name)
            if name.startswith(DRAFT_PREFIX):
                before = "a draft of an interrupted repair"
            elif of_index is not None and of_index not in logs:
                before = "an index without a segment"
            elif "checkpoint-name" in self.codes[name]:
                before = "a checkpoint whose name is not a subscriber's"
            else:
                continue
            try:
                size = self.storage.size(name)
            except EverlogError:
                continue
            self._mend(name)
            yield DeleteFile(file=name, before=before, after="no file", storage=self.storage, size=size)
