"""Verifies the pre-commit buffer: its size, its used part, and what it held before.

The last flushed messages remain after the first field until the buffer is filled again. They show whether a flush
reached the journal: when a message is larger than the buffer, the C library flushes and then writes that message over
the flushed ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from everlog.core.batch import Batch
from everlog.core.columns import MAX_BATCH_BYTES, MAX_BATCH_ROWS
from everlog.core.files.storage import ReadableFile
from everlog.core.report import Fault, Report
from everlog.errors import EverlogError
from everlog.jlog.format.faults import fault, note
from everlog.jlog.format.framing import LEGACY, Header
from everlog.jlog.format.layouts import JlogPreCommit
from everlog.jlog.format.names import PRE_COMMIT
from everlog.jlog.format.pre_commit import START, PreCommit
from everlog.jlog.reading.journal import SOURCES, Journal
from everlog.jlog.reading.recovery import SegmentData
from everlog.jlog.reading.segments import SegmentReader
from everlog.kernel.columns import RowSink


@dataclass(slots=True)
class Witness:
    """The first message in the buffer, used or left over, which is searched for in the journal. ``earliest_us`` becomes
    the time of the journal's first message."""

    header: Header
    frame: bytes
    seen_at: str | None = None
    earliest_us: int | None = None

    def observe(self, batch: Batch, file: ReadableFile) -> None:
        """Compare with a batch's messages (columns ``timestamp_ns``, ``length``, ``offset``)."""
        times = batch.column("timestamp_ns").values
        if self.earliest_us is None:
            self.earliest_us = times[0] // 1000
        if self.seen_at is not None:
            return
        wanted = self.header.timestamp_us * 1000
        for row, time in enumerate(times.tolist()):
            if time == wanted and batch.column("length").values[row] == self.header.length:
                offset = batch.column("offset").values[row]
                if file.read_at(offset, len(self.frame)) == self.frame:
                    self.seen_at = f"{file.name} at offset {offset}"
                    return


def find_witness(journal: Journal) -> Witness | None:
    """The first message in the buffer, if it is whole."""
    state = journal.pre_commit()
    if state is None or state.byte_count <= START:
        return None
    try:
        with journal.storage.open(PRE_COMMIT) as file:
            data = SegmentData(file, START, file.size())
            framing = journal.framing_of(file, START, data.end)
            if framing == LEGACY and journal.preferred not in (None, LEGACY):
                return None  # a flush zeroed the magic of the first message: the rest matches nothing
            header = data.header(START, framing)
            if header is None or header.end > data.end:
                return None
            return Witness(header, file.read_at(START, header.end - START))
    except EverlogError:
        return None


def check_pre_commit(journal: Journal, witness: Witness | None, report: Report) -> None:
    """Verify the buffer, after ``witness`` has seen the whole journal."""
    state = journal.pre_commit()
    if state is None:
        return
    if state.byte_count < START:
        if state.byte_count:
            report.add(fault("pre-commit-size", PRE_COMMIT, None, f"{state.byte_count} bytes", f"at least {START}"))
        else:
            report.add(note("pre-commit-size", PRE_COMMIT, None, "0 bytes", f"{START}; the next writer initialises it"))
        return
    if state.used > state.capacity:
        report.add(
            fault(
                "pre-commit-overrun",
                PRE_COMMIT,
                JlogPreCommit.used.offset,  # type: ignore[attr-defined]
                f"{state.used} bytes in use",
                f"at most {state.capacity}",
                loses="nothing here; the C library's next flush writes memory after the buffer into the journal",
                repair="set it to the end of the last whole message",
            )
        )
    if state.readable:
        _check_waiting(journal, state, witness, report)
    elif witness is not None and witness.seen_at is None and _covers(journal, witness):
        report.add(
            fault(
                "pre-commit-lost",
                PRE_COMMIT,
                START,
                f"a flushed message of {len(witness.frame)} bytes that is not in the journal",
                "the message in a segment",
                loses="this message and those flushed with it",
                repair="none automatic: copy the messages from here before they are overwritten",
            )
        )


def _check_waiting(journal: Journal, state: PreCommit, witness: Witness | None, report: Report) -> None:
    def damaged(found: Fault) -> None:
        report.add(
            fault(
                "pre-commit-damaged",
                PRE_COMMIT,
                found.offset,
                f"{found.code}: {found.found}",
                found.expected,
                loses="this message; the next flush writes the damage into the journal",
                repair="set the bytes in use to the end of the last whole message",
            )
        )

    with journal.storage.open(PRE_COMMIT) as file:
        framing = journal.framing_of(file, START, state.end)
        sink = RowSink([("marker", "q", SOURCES["marker"])], MAX_BATCH_ROWS, MAX_BATCH_BYTES)
        reader = SegmentReader(file, 0, START, min(state.end, file.size()), framing, sink, damaged)
        count = 0
        for _ in reader.fill():
            count += sink.take()[0]
        count += sink.take()[0]
    if count:
        report.add(
            note(
                "pre-commit-unflushed",
                PRE_COMMIT,
                START,
                f"{count} messages in {state.readable} bytes",
                "none while no writer is open",
                loses="nothing, but readers see them only after a flush",
                repair="the next writer that opens and closes flushes them",
            )
        )
    if count and witness is not None and witness.seen_at is not None:
        report.add(
            fault(
                "pre-commit-duplicate",
                PRE_COMMIT,
                START,
                f"a message that is also in {witness.seen_at}",
                "only messages not in the journal",
                loses="nothing, but readers get these messages twice after the next flush",
                repair="set the bytes in use to 0",
            )
        )


def _covers(journal: Journal, witness: Witness) -> bool:
    """Whether the existing segments reach back to the witness, so that they must contain it."""
    logs = [segment.log for segment in journal.segments]
    if not logs or logs != list(range(logs[0], logs[0] + len(logs))):
        return False
    if logs[0] == 0:
        return True
    return witness.earliest_us is not None and witness.earliest_us <= witness.header.timestamp_us
