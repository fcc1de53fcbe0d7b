"""Verifies a whole journal: one report with every fault. At least as strict as ``jlogctl data -d``, and read-only."""

from __future__ import annotations

from dataclasses import dataclass, field

from everlog.core.batch import Batch
from everlog.core.columns import MAX_BATCH_BYTES, MAX_BATCH_ROWS, ColumnData
from everlog.core.report import Fault, Progress, Report
from everlog.errors import EverlogError
from everlog.jlog.format.compression import Decode, decompress, lz4_decoder
from everlog.jlog.format.faults import STREAM, fault, note
from everlog.jlog.format.framing import Framing, Provider
from everlog.jlog.format.names import (
    CHECKPOINT_PREFIX,
    METASTORE,
    PRE_COMMIT,
    parse_checkpoint_name,
    parse_index_name,
    parse_segment_name,
    segment_name,
)
from everlog.jlog.reading.journal import (
    COLUMNS,
    SOURCES,
    Journal,
    empty_closed_segment,
    magic_differs,
    missing_segments,
    unknown_compression,
)
from everlog.jlog.reading.segments import Segment, SegmentReader
from everlog.jlog.verify.index import IndexCheck
from everlog.jlog.verify.pre_commit import Witness, check_pre_commit, find_witness
from everlog.jlog.verify.subscribers import check_subscribers
from everlog.kernel.columns import RowSink


@dataclass(slots=True)
class Verification:
    """The state of one verification. ``ends`` maps each segment read to the number after its last message;
    ``byte_count`` is the size of all segments."""

    journal: Journal
    report: Report
    progress: Progress | None = None
    witness: Witness | None = None
    ends: dict[int, int] = field(default_factory=dict)
    decode: Decode | None = None
    byte_count: int = field(init=False)

    def __post_init__(self) -> None:
        self.byte_count = sum(segment.byte_count for segment in self.journal.segments)

    @property
    def written_log(self) -> int:
        """The current segment as far as known: not a finished one."""
        return max(self.journal.metastore.storage_log or 0, self.journal.last_log or 0)


def verify_journal(journal: Journal, progress: Progress | None = None) -> Report:
    """Verify everything; never raises for damage."""
    report = Report(journal.storage.root, "jlog", stream_count=1)
    check = Verification(journal, report, progress, find_witness(journal))
    report.faults.extend(journal.metastore.faults)
    _check_storage_log(check)
    _check_names(check)
    previous: int | None = None
    for segment in journal.segments:
        if previous is not None and segment.log > previous + 1:
            report.add(missing_segments(previous, segment.log))
        previous = segment.log
        try:
            _check_segment(check, segment)
        except EverlogError as error:
            if journal.is_gone(segment.log):
                continue  # deleted since the folder was listed
            report.add(_unreadable(segment_name(segment.log), error, "all messages of the segment"))
    check_subscribers(journal, check.ends, report)
    check_pre_commit(journal, check.witness, report)
    return report


def _check_storage_log(check: Verification) -> None:
    stored, last = check.journal.metastore.storage_log, check.journal.last_log
    if stored is None or stored == last:
        return
    if last is None:
        if stored:
            check.report.add(
                note("storage-log-high", METASTORE, 0, f"segment {stored:08x}", "an existing segment", repair=_NONE)
            )
    elif stored == last - 1 and not check.journal.segments[-1].byte_count:
        check.report.add(
            note(
                "storage-log-low",
                METASTORE,
                0,
                f"segment {stored:08x}",
                f"{last:08x}, which exists and is empty: a writer is moving to it, or was killed doing so",
                repair="none needed: the next append moves on",
            )
        )
    elif stored < last:
        check.report.add(
            fault(
                "storage-log-low",
                METASTORE,
                0,
                f"segment {stored:08x}",
                f"{last:08x}, the last existing one",
                loses="nothing here; the C library's readers stop there, and its writers append to a finished segment",
                repair=f"set storage_log to {last}",
            )
        )
    else:
        check.report.add(
            fault(
                "storage-log-high",
                METASTORE,
                0,
                f"segment {stored:08x}",
                f"{last:08x}, the last existing one",
                loses="the messages of segments after the last one",
                repair=f"create an empty segment {stored:08x}",
            )
        )


_NONE = "none needed: the next writer creates it"


def _check_names(check: Verification) -> None:
    logs = {segment.log for segment in check.journal.segments}
    for entry in sorted(check.journal.storage.entries(), key=lambda e: e.name):
        name = entry.name
        known = name in (METASTORE, PRE_COMMIT) or name.startswith(CHECKPOINT_PREFIX)
        of_index, of_segment = parse_index_name(name), parse_segment_name(name)
        if known or of_index is not None or of_segment is not None:
            if not entry.is_file:
                check.report.add(_unreadable(name, "not a regular file", "its contents"))
            elif of_index is not None and of_index not in logs:
                check.report.add(
                    note("index-without-segment", name, None, "no such segment", "its segment", repair="delete it")
                )
            elif name.startswith(CHECKPOINT_PREFIX) and parse_checkpoint_name(name) is None:
                check.report.add(
                    fault(
                        "checkpoint-name",
                        name,
                        None,
                        repr(name),
                        "cp. and two hex digits for each byte of a name",
                        loses="nothing here; the C library lists a subscriber with a wrong name",
                        repair="delete it",
                    )
                )
        else:
            check.report.add(
                note("unknown-file", name, None, "a name that is not part of a journal", "only files of the journal")
            )


def _unreadable(name: str, error: object, loses: str) -> Fault:
    return fault("unreadable-file", name, None, str(error), "a readable file", loses=loses, repair="grant access to it")


def _check_segment(check: Verification, segment: Segment) -> None:
    journal, report = check.journal, check.report
    report.segment_count += 1
    if segment.byte_count == 0 and journal.is_closed(segment):
        report.add(empty_closed_segment(segment.log))
        check.ends[segment.log] = 1
        return
    with journal.storage.open(segment_name(segment.log)) as file:
        size = file.size()
        framing = journal.framing_of(file, 0, size)
        reader = SegmentReader(file, segment.log, 0, size, framing, _sink(framing), report.add, report.add)
        index = journal.index_of(Segment(segment.log, size), framing)
        reader.load_index = lambda: index
        if size and journal.preferred is not None and framing != journal.preferred:
            report.add(magic_differs(reader, journal.preferred))
        if size and framing.provider is Provider.UNKNOWN:
            report.add(unknown_compression(reader))
        indexed = IndexCheck(index, report)
        for _ in reader.fill():
            _take(check, reader, indexed)
        _take(check, reader, indexed)
        indexed.finish(is_written=segment.log >= check.written_log, end=reader.marker)
        _check_length(check, segment, size)
        report.byte_count += size
    check.ends[segment.log] = reader.marker


def _sink(framing: Framing) -> RowSink:
    is_lz4 = framing.provider is Provider.LZ4
    columns = [(c.name, c.type.code, SOURCES[c.name]) for c in COLUMNS if c.name != "payload" or is_lz4]
    return RowSink(columns, MAX_BATCH_ROWS, MAX_BATCH_BYTES)


def _take(check: Verification, reader: SegmentReader, indexed: IndexCheck) -> None:
    count, taken = reader.sink.take()
    if not count:
        return
    schema = tuple(c for c in COLUMNS if c.name in taken)
    batch = Batch(schema, count, {c.name: ColumnData(c.type, *taken[c.name]) for c in schema})
    indexed.compare(batch)
    if check.witness is not None:
        check.witness.observe(batch, reader.file)
    if reader.framing.provider is Provider.LZ4:
        check.decode = check.decode or lz4_decoder()
        parts = decompress(batch, schema, check.decode, MAX_BATCH_BYTES, check.report.add)
        count = sum(part.row_count for part in parts)
    elif reader.framing.provider is Provider.NULL:
        _check_empty_messages(check, batch, reader)
    check.report.record_count += count
    if check.progress is not None:
        offset = batch.column("offset").values[batch.row_count - 1]
        check.progress(STREAM, check.report.byte_count + offset, check.byte_count)


def _check_empty_messages(check: Verification, batch: Batch, reader: SegmentReader) -> None:
    lengths = batch.to_list("length")
    if 0 in lengths:
        row = lengths.index(0)
        check.report.add(
            note(
                "null-provider-empty-message",
                reader.file.name,
                batch.column("offset").values[row],
                f"{lengths.count(0)} empty messages with stored bytes, the first of them here",
                "0 bytes",
            )
        )


def _check_length(check: Verification, segment: Segment, size: int) -> None:
    limit = check.journal.metastore.unit_limit
    if limit is not None and size < limit and segment.log < check.written_log:
        check.report.add(
            note(
                "segment-short",
                segment_name(segment.log),
                size,
                f"{size} bytes",
                f"at least {limit}, the limit at which a segment is finished",
                loses="messages at its end, unless the limit was raised or the segment was repaired since",
            )
        )
