"""Verifies one slice: every record against its checksum and the index, and the bytes that the index does not cover."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from everlog.core.files.storage import ReadableFile
from everlog.core.report import Fault, Report, Severity
from everlog.kernel.columns import RowSink
from everlog.kernel.sources import Bytes, Source, Value
from everlog.nats_streaming.format.layouts import FileVersion, IndexRecord
from everlog.nats_streaming.reading import walk_twin as row
from everlog.nats_streaming.reading.channels import Reading
from everlog.nats_streaming.reading.decrypting import undecryptable
from everlog.nats_streaming.reading.encryption import ChannelCipher, looks_encrypted
from everlog.nats_streaming.reading.index import IndexLookup
from everlog.nats_streaming.reading.slice_reader import SliceFile, SliceReader, fault_of
from everlog.nats_streaming.reading.slices import Slice, SliceState
from everlog.nats_streaming.reading.walk import RecordWalker

_COLUMNS: list[tuple[str, str, Source]] = [
    ("offset", "q", Value(row.OFFSET)),
    ("sequence", "q", Value(row.SEQUENCE)),
    ("timestamp", "q", Value(row.TIMESTAMP)),
    ("size", "q", Value(row.SIZE)),
    ("subject", "B", Bytes(row.SUBJECT)),
]
_DATA: tuple[str, str, Source] = ("data", "B", Bytes(row.DATA))
_ROWS, _BYTES = 8192, 2 << 20
_SAMPLED = 64
_ENTRIES_AT_ONCE = 4096

Entry = tuple[int, int, int, int]
"""Offset, sequence, timestamp, size."""


class SliceCheck:
    """Verifies slices of the channel ``stream``. Faults go to ``add``, counts to ``report``."""

    def __init__(
        self, reading: Reading, stream: str, channel: bytes, report: Report, add: Callable[[Fault], None]
    ) -> None:
        self._reading = reading
        self._stream = stream
        self._channel = channel
        self._report = report
        self._add = add
        self._damaged = False
        self._last = 0
        self._foreign = False
        self.cipher: ChannelCipher | None = None
        self.opened = 0
        self.closed: list[Fault] = []
        self.sealed = 0
        self.sampled = 0

    def run(self, state: SliceState) -> None:
        """Check a slice that has its ``.dat`` file. Raises :class:`~everlog.errors.EverlogError` if reading fails."""
        piece = state.slice
        self._report.segment_count += 1
        self._report.byte_count += piece.dat_size or 0
        self._last, self._damaged, self._foreign = 0, False, False
        for fault in state.faults:
            self._add(fault)
        if piece.dat_size is None or not (state.extents or state.count):
            return
        file, index = self._reading.open_files(state)
        with file:
            if index is None:
                self._superseded(state)
                self._records(state, file, None, iter(()))
                return
            with index:
                lookup = IndexLookup(index, state.count)
                self._records(state, file, lookup, _entries(index, state.count))
                self._uncovered(state, file, lookup)

    def _records(
        self, state: SliceState, file: ReadableFile, lookup: IndexLookup | None, entries: Iterator[Entry]
    ) -> None:
        reading, piece = self._reading, state.slice
        sink = RowSink([*_COLUMNS, _DATA], _ROWS, _BYTES)
        walker = RecordWalker(sink, reading.crc if reading.check else None, piece.number)

        def damage(code: str, start: int, stop: int, found: str, expected: str, sequence: int) -> None:
            self._damaged = True
            lost = sequence or max(state.first - 1, 1)
            self._add(fault_of(piece.dat, self._stream, code, start, stop, found, expected, lost))

        reader = SliceReader(SliceFile(file, state.data_end, self._channel, reading.crc), lookup, damage)
        matcher = _Matcher(self._add, state, self._stream, entries) if lookup is not None else None
        for extent in state.extents:
            walker.below_sequence = extent.below
            for _ in reader.run(walker, extent.start, extent.end):
                self._batch(piece, sink, matcher)
        self._batch(piece, sink, matcher)

    def _batch(self, piece: Slice, sink: RowSink, matcher: _Matcher | None) -> None:
        count, taken = sink.take()
        if not count:
            return
        self._report.record_count += count
        numbers = [taken[name][0][:count].tolist() for name in ("offset", "sequence", "timestamp", "size")]
        rows: list[Entry] = list(zip(*numbers, strict=True))
        if matcher is not None:
            matcher.match(rows)
        self._sequences(piece, rows)
        offsets = taken["data"][1]
        assert offsets is not None
        self._data(piece, rows, taken["data"][0], offsets[: count + 1].tolist())
        if not self._foreign and bytes(taken["subject"][0]) != self._channel * count:
            self._foreign_subject(piece, rows, taken["subject"])

    def _sequences(self, piece: Slice, rows: list[Entry]) -> None:
        last = self._last
        if last == 0 or rows[-1][1] - last != len(rows):
            for offset, sequence, _, _ in rows:
                if last and sequence != last + 1 and not self._damaged:
                    self._add(gap_fault(piece.dat, offset, self._stream, last + 1, sequence))
                last = sequence
        self._last, self._damaged = rows[-1][1], False

    def _foreign_subject(
        self, piece: Slice, rows: list[Entry], subject: tuple[memoryview, memoryview | None, memoryview | None, int]
    ) -> None:
        values, offsets = subject[0], subject[1]
        assert offsets is not None
        for i, (offset, sequence, _, _) in enumerate(rows):
            found = bytes(values[offsets[i] : offsets[i + 1]])
            if found != self._channel:
                self._foreign = True
                text = found[:200].decode("utf-8", "backslashreplace")
                expected = f"the channel {self._stream!r}"
                self._note("foreign-subject", piece.dat, offset, f"subject {text!r}", expected, sequence)
                return

    def _data(self, piece: Slice, rows: list[Entry], values: memoryview, ends: list[int]) -> None:
        if self.cipher is None:
            for i in range(min(len(rows), _SAMPLED)):
                if ends[i + 1] > ends[i]:
                    self.sampled += 1
                    self.sealed += looks_encrypted(bytes(values[ends[i] : ends[i + 1]]))
            return
        for i, (offset, sequence, _, _) in enumerate(rows):
            data = bytes(values[ends[i] : ends[i + 1]])
            plain = self.cipher.open(data)
            if plain is None:
                self.closed.append(undecryptable(self._stream, piece.dat, offset, sequence, len(data)))
            elif plain is not data:
                self.opened += 1

    def _superseded(self, state: SliceState) -> None:
        for extent in state.extents[:-1]:
            self._note(
                "superseded-record",
                state.slice.dat,
                extent.end,
                f"sequence {extent.below} again",
                "rising sequences; the earlier records from this sequence on do not count",
                extent.below,
            )

    def _uncovered(self, state: SliceState, file: ReadableFile, lookup: IndexLookup) -> None:
        """Check the bytes of the ``.dat`` file between and after the indexed records."""
        at = FileVersion.size
        for extent in state.extents:
            if extent.start > at:
                self._region(state, file, at, extent.start, lookup)
            at = extent.end
        # The size is from before the index was read, so that later records do not count as orphans.
        size = min(file.size(), state.slice.dat_size or 0)
        if size > at:
            self._region(state, file, at, size, None)

    def _region(self, state: SliceState, file: ReadableFile, start: int, end: int, lookup: IndexLookup | None) -> None:
        """Check an uncovered region; ``lookup`` is ``None`` for the bytes after the last record."""
        damaged: list[tuple[str, int, int, str, str]] = []

        def damage(code: str, at: int, stop: int, found: str, expected: str, sequence: int) -> None:
            damaged.append((code, at, stop, found, expected))

        sink = RowSink([("offset", "q", Value(row.OFFSET)), ("sequence", "q", Value(row.SEQUENCE))], _ROWS, _BYTES)
        walker = RecordWalker(sink, self._reading.crc if self._reading.check else None, 0)
        reader = SliceReader(SliceFile(file, end, self._channel, self._reading.crc), None, damage)
        first: tuple[int, int] | None = None
        for _ in reader.run(walker, start, end):
            first = first or _first_row(sink)
            sink.reset()
        first = first or _first_row(sink)
        if first is not None:
            self._orphans(state.slice, first, walker, lookup)
        for code, at, stop, found, expected in damaged:
            self._report_uncovered(state.slice, code, at, stop, found, expected, lookup is None)

    def _orphans(self, piece: Slice, first: tuple[int, int], walker: RecordWalker, lookup: IndexLookup | None) -> None:
        offset, sequence = first
        found = f"{walker.count} records, sequences {sequence} to {walker.last_sequence}"
        if lookup is not None and _holds(lookup, sequence) and _holds(lookup, walker.last_sequence):
            self._note("superseded-record", piece.dat, offset, found, "indexed records", sequence)
            return
        self._add(
            Fault(
                "orphan-record",
                piece.dat,
                offset,
                found,
                "indexed records",
                "these records; unless the index was cut, the server had not acknowledged them",
                "remove the index; a server rebuilds it with these records",
                stream=self._stream,
                address=str(sequence),
            )
        )

    def _report_uncovered(
        self, piece: Slice, code: str, at: int, stop: int, found: str, expected: str, is_tail: bool
    ) -> None:
        if code == "zero-padding" and is_tail:
            self._add(fault_of(piece.dat, self._stream, code, at, stop, found, expected, 0))
        elif code in ("zero-padding", "zero-hole"):
            self._add(
                Fault(
                    "zero-hole",
                    piece.dat,
                    at,
                    f"{stop - at} bytes of zeros",
                    "a record",
                    "nothing now; but a server that loses the index cuts the file at the zeros",
                    "keep the index, or close the gap between the records",
                    stream=self._stream,
                )
            )
        else:
            self._note("torn-tail", piece.dat, at, found, expected, None)

    def _note(self, code: str, file: str, offset: int, found: str, expected: str, sequence: int | None) -> None:
        address = None if sequence is None else str(sequence)
        self._add(
            Fault(code, file, offset, found, expected, severity=Severity.NOTE, stream=self._stream, address=address)
        )


class _Matcher:
    """Compares records with the index's entries, both in offset order; skipped records are missing on one side."""

    def __init__(self, add: Callable[[Fault], None], state: SliceState, stream: str, entries: Iterator[Entry]) -> None:
        self._add = add
        self._state = state
        self._stream = stream
        self._entries = entries
        self._held: list[Entry] = []
        self._at = 0

    def match(self, rows: list[Entry]) -> None:
        """Compare the next records."""
        held = self._held + list(islice(self._entries, max(len(rows) - len(self._held), 0)))
        if held[: len(rows)] == rows:
            self._held = held[len(rows) :]
            self._at += len(rows)
            return
        k = 0
        for found in rows:
            while True:
                if k == len(held):
                    held, k = list(islice(self._entries, _ENTRIES_AT_ONCE)), 0
                if not held or held[k][0] >= found[0]:
                    break
                k += 1
                self._at += 1
            if not held:
                return
            if held[k] != found and held[k][0] == found[0]:
                self._mismatch(held[k], found)
            k += 1
            self._at += 1
        self._held = held[k:]

    def _mismatch(self, entry: Entry, found: Entry) -> None:
        names = ("offset", "sequence", "timestamp", "size")
        wrong = [i for i in range(4) if entry[i] != found[i]]
        self._add(
            Fault(
                "index-mismatch",
                self._state.slice.idx,
                FileVersion.size + IndexRecord.size * self._at,
                ", ".join(f"{names[i]} {entry[i]}" for i in wrong),
                ", ".join(f"{names[i]} {found[i]}" for i in wrong) + f" as in the record at {found[0]}",
                "nothing here: the record is read; but a server may return a wrong message for this sequence",
                "remove the index; a server rebuilds it",
                stream=self._stream,
                address=str(found[1]),
            )
        )


def gap_fault(file: str, offset: int | None, stream: str, first: int, end: int) -> Fault:
    """Make the fault for missing sequences: ``first <= sequence < end``."""
    return Fault(
        "sequence-gap",
        file,
        offset,
        f"sequence {end}",
        f"sequence {first}",
        f"{end - first} messages, {first} to {end - 1}",
        "restore the missing records from a copy",
        stream=stream,
        address=str(first),
    )


def _entries(file: ReadableFile, count: int) -> Iterator[Entry]:
    at, left = FileVersion.size, count
    while left:
        some = min(left, _ENTRIES_AT_ONCE)
        data = file.read_at(at, some * IndexRecord.size)
        data = data[: len(data) // IndexRecord.size * IndexRecord.size]
        if not data:
            return
        for sequence, offset, timestamp, size, _ in IndexRecord.struct.iter_unpack(data):
            yield offset, sequence, timestamp, size
        at += len(data)
        left -= some


def _first_row(sink: RowSink) -> tuple[int, int] | None:
    count, taken = sink.take()
    return (taken["offset"][0][0], taken["sequence"][0][0]) if count else None


def _holds(lookup: IndexLookup, sequence: int) -> bool:
    i = lookup.at_sequence(sequence)
    return i < lookup.count and bool(lookup.entry(i).sequence == sequence)
