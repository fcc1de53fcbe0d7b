"""Verifies an index against the messages of its segment."""

from __future__ import annotations

from everlog.core.batch import Batch
from everlog.core.report import Report
from everlog.jlog.format.faults import fault, note
from everlog.jlog.format.index import ENTRY, SegmentIndex
from everlog.jlog.format.names import index_name

_DELETE = "delete the index; readers recreate it"
_STUCK = "nothing here; the C library's readers of this segment fail, or get wrong offsets"


class IndexCheck:
    """Compares batch by batch (columns ``marker`` and ``offset``), then as a whole."""

    def __init__(self, index: SegmentIndex, report: Report) -> None:
        self.index = index
        self.report = report
        self.last = 0
        """Number of the last whole message."""
        self._wrong = False

    def compare(self, batch: Batch) -> None:
        """Compare a batch's messages with their entries; reports only the first difference."""
        markers, offsets = batch.column("marker").values, batch.column("offset").values
        first, last = markers[0], markers[batch.row_count - 1]
        self.last = last
        entries = self.index.entries
        if self._wrong or (
            last - first + 1 == batch.row_count and entries[first - 1 : last].tobytes() == offsets.tobytes()
        ):
            return
        for marker, offset in zip(markers.tolist(), offsets.tolist(), strict=True):
            if marker <= len(entries) and entries[marker - 1] != offset:
                self._wrong = True
                self.report.add(
                    fault(
                        "index-wrong",
                        index_name(self.index.log),
                        (marker - 1) * ENTRY,
                        f"offset {entries[marker - 1]} for message {marker}",
                        f"{offset}",
                        loses=_STUCK,
                        repair=_DELETE,
                        address=f"{self.index.log:08x}:{marker:08x}",
                    )
                )
                return

    def finish(self, *, is_written: bool, end: int) -> None:
        """Verify the index as a whole. ``is_written``: it belongs to the current segment; ``end``: the number after its
        last message, including lost ones."""
        index, name = self.index, index_name(self.index.log)
        if index.byte_count < 0:
            if end > 1:
                self.report.add(note("index-missing", name, None, "no file", "an index; readers create it"))
            return
        if index.byte_count % ENTRY:
            self.report.add(
                fault(
                    "index-misaligned",
                    name,
                    index.byte_count // ENTRY * ENTRY,
                    f"{index.byte_count} bytes",
                    f"a multiple of {ENTRY}",
                    loses=_STUCK,
                    repair=_DELETE,
                )
            )
        count = max(len(index.entries), index.byte_count // ENTRY - index.closed)
        if count > self.last:
            self._report_past_end(name, count)
        elif count < self.last and not index.closed:
            self.report.add(
                note("index-partial", name, index.byte_count, f"{count} entries", f"{self.last}; readers add the rest")
            )
        if index.closed and (is_written or count < self.last):
            self.report.add(
                fault(
                    "index-closed-early",
                    name,
                    index.byte_count - ENTRY,
                    f"a closing entry after {count} others",
                    "none: the segment is still written" if is_written else f"{self.last} entries before it",
                    loses="nothing here; the C library's readers move to the next segment too early",
                    repair=_DELETE,
                )
            )
        elif not index.closed and not is_written and count == self.last and count:
            self.report.add(note("index-not-closed", name, index.byte_count, "no closing entry", "0; readers add it"))

    def _report_past_end(self, name: str, count: int) -> None:
        entries = self.index.entries
        there = f", the first extra one with offset {entries[self.last]}" if self.last < len(entries) else ""
        self.report.add(
            fault(
                "index-past-end",
                name,
                self.last * ENTRY,
                f"{count} entries{there}",
                f"{self.last}, the number of whole messages in {self.index.data_bytes} bytes",
                loses=_STUCK,
                repair=_DELETE,
            )
        )
