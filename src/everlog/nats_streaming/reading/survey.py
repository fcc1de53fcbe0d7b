"""Surveys a slice: from its index if that is good, otherwise from its records."""

from __future__ import annotations

from dataclasses import replace

from everlog.core.files.storage import BytesFile, ReadableFile, Storage
from everlog.core.report import Fault, Severity
from everlog.errors import StoreUnavailable
from everlog.kernel.columns import RowSink
from everlog.kernel.crc32 import Crc32
from everlog.nats_streaming.format.layouts import MAX_RECORD_BYTES, FileVersion, RecordHeader
from everlog.nats_streaming.format.messages import MsgProto
from everlog.nats_streaming.format.polynomials import fitting_polynomial, polynomial_fault
from everlog.nats_streaming.format.protobuf import BadMessage
from everlog.nats_streaming.format.records import crc_text, version_fault
from everlog.nats_streaming.reading.index import IndexFold, IndexProblem, fold_index, grow_index, whole_bytes
from everlog.nats_streaming.reading.slice_reader import FIRST_RECORD, Regressions, SliceFile, SliceReader
from everlog.nats_streaming.reading.slices import Extent, Slice, SliceState
from everlog.nats_streaming.reading.small_files import Surveyed, read_if_small
from everlog.nats_streaming.reading.walk import RecordWalker

HEADER = RecordHeader.size


def no_damage(code: str, start: int, end: int, found: str, expected: str, sequence: int) -> None:
    """Ignore damage that another pass reports."""


class Surveyor:
    """Surveys slices of one channel. ``crc`` is the store's checksum; ``check`` says whether it is compared on all
    records."""

    def __init__(self, storage: Storage, stream: str, channel: bytes, crc: Crc32, check: bool) -> None:
        self._storage = storage
        self._stream = stream
        self._channel = channel
        self._crc = crc
        self._check = check

    def survey(self, piece: Slice) -> Surveyed:
        """Survey a slice that has its ``.dat`` file. Raises :class:`StoreUnavailable`."""
        with self._storage.open(piece.dat) as file:
            index, fold, problem = self._index(piece)
            records = read_if_small(file)  # after the index: a server writes a record before its index entry
            state = self._state(piece, records, fold, problem)
        return Surveyed(state, *(f if isinstance(f, BytesFile) else None for f in (records, index)))

    def _state(
        self, piece: Slice, file: ReadableFile, fold: IndexFold | None, problem: IndexProblem | None
    ) -> SliceState:
        size = max(file.size(), FIRST_RECORD)
        head = file.read_at(0, FIRST_RECORD)
        faults: list[Fault] = []
        loses = "nothing: the records are read"
        if (bad := version_fault(piece.dat, head, loses=loses)) is not None:
            if len(head) < FileVersion.size or not self._starts_well(file, size):
                return SliceState(piece, False, faults=(self._unreadable(bad, fold),))
            faults.append(replace(bad, stream=self._stream))
        if fold is not None and fold.walker.count and problem is None:
            problem = self._last_message(file, size, fold)
            if problem is None:
                return _indexed(piece, fold, tuple(faults))
        elif fold is not None and problem is None and size > FIRST_RECORD:
            problem = IndexProblem("index-damaged", fold.end, "no records", "one for each in the .dat file")
        if problem is not None:
            faults.append(self._index_fault(piece, problem))
        if self._check and (polynomial := fitting_polynomial(self._storage, piece.dat, self._crc)) is not None:
            # None of the checksums fits: one fault covers them all.
            fault = polynomial_fault(piece.dat, self._crc.polynomial, polynomial)
            return SliceState(piece, False, faults=(replace(fault, stream=self._stream),))
        return self._records(file, size, piece, tuple(faults))

    def grow(self, piece: Slice, fold: IndexFold | None) -> tuple[SliceState, IndexFold] | None:
        """Survey a slice that is being written, by the entries appended to its index since ``fold``; ``None`` if the
        index is not good. An incomplete index record is ignored. Raises :class:`StoreUnavailable`."""
        if piece.idx_size is None:
            return None
        with self._storage.open(piece.dat) as file, self._storage.open(piece.idx) as index:
            if version_fault(piece.dat, file.read_at(0, FIRST_RECORD), loses="nothing") is not None:
                return None
            size = whole_bytes(index.size())
            if fold is None or not grow_index(fold, index, size):
                fold = fold_index(index, size, self._crc if self._check else None)
            if fold.problem is not None or not fold.walker.count:
                return None
            if self._last_message(file, file.size(), fold) is not None:
                return None
            return _indexed(piece, fold, ()), fold

    def missing(self, piece: Slice) -> SliceState:
        """Report an index without its ``.dat`` file: its messages are lost."""
        _, fold, _ = self._index(piece)
        lost = f"{fold.walker.count} messages" if fold is not None else "the slice's messages"
        first = last = 0
        if fold is not None and fold.walker.count:
            first, last = fold.walker.first_sequence, fold.walker.last_sequence
            lost += f", sequences {first} to {last}"
        fault = Fault(
            "slice-missing",
            piece.idx,
            None,
            f"no {piece.dat}",
            "the slice's .dat file",
            lost,
            "restore the file from a copy",
            stream=self._stream,
            address=str(first) if first else None,
        )
        return SliceState(piece, False, first=first, last=last, faults=(fault,))

    def _index(self, piece: Slice) -> tuple[ReadableFile | None, IndexFold | None, IndexProblem | None]:
        if piece.idx_size is None:
            return None, None, IndexProblem("index-missing", 0, "no index", "an .idx file")
        try:
            with self._storage.open(piece.idx) as file:
                index = read_if_small(file)
                fold = fold_index(index, index.size(), self._crc if self._check else None)
        except StoreUnavailable as error:
            return None, None, IndexProblem("index-damaged", 0, str(error.found), "a readable index")
        return index, fold, fold.problem

    def _index_fault(self, piece: Slice, problem: IndexProblem) -> Fault:
        stops = problem.code in ("file-version", "short-version-word")
        offset = None if problem.code == "index-missing" else problem.offset
        return Fault(
            problem.code,
            piece.idx,
            offset,
            problem.found,
            problem.expected,
            "nothing: the records are read one by one",
            "remove the index; a server rebuilds it" if stops else "a server rebuilds it",
            Severity.FAULT if stops else Severity.NOTE,
            self._stream,
        )

    def _unreadable(self, fault: Fault, fold: IndexFold | None) -> Fault:
        if fold is None or not fold.walker.count:
            return replace(fault, stream=self._stream, loses="the slice's messages")
        walker = fold.walker
        loses = f"{walker.count} messages, sequences {walker.first_sequence} to {walker.last_sequence}"
        return replace(fault, stream=self._stream, loses=loses, address=str(walker.first_sequence))

    def _starts_well(self, file: ReadableFile, size: int) -> bool:
        return self._message_problem(file, size, FIRST_RECORD, None, None) is None

    def _last_message(self, file: ReadableFile, size: int, fold: IndexFold) -> IndexProblem | None:
        walker = fold.walker
        why = self._message_problem(file, size, walker.last_offset, walker.last_size, walker.last_sequence)
        return None if why is None else IndexProblem("index-damaged", fold.end - 32, *why)

    def _message_problem(
        self, file: ReadableFile, size: int, offset: int, length: int | None, sequence: int | None
    ) -> tuple[str, str] | None:
        """Return what is wrong with the message at ``offset``, as found and expected, or ``None``. Its checksum is
        always compared."""
        where = f"record at {offset} of the .dat file"
        data = file.read_at(offset, HEADER + length) if length is not None else file.read_at(offset, HEADER)
        if len(data) < HEADER:
            return f"no {where}", "the last message"
        claimed, crc = RecordHeader.unpack_from(data).values
        if length is None:
            if claimed > min(size - offset - HEADER, MAX_RECORD_BYTES):
                return f"no whole {where}", "a message"
            data += file.read_at(offset + HEADER, claimed)
            length = claimed
        if claimed != length:
            return f"{claimed} bytes in the {where}", f"{length} bytes as in the index"
        if len(data) < HEADER + length:
            return f"no whole {where}", "the last message"
        if (actual := self._crc.checksum(data, HEADER)) != crc:
            found, expected = crc_text(actual, crc)
            return f"{found} of the {where}", expected
        try:
            written = MsgProto.sequence_in(data, HEADER)
        except BadMessage as error:
            return f"{error} in the {where}", "a message"
        if sequence is not None and written != sequence:
            return f"sequence {written} in the {where}", f"{sequence} as in the index"
        return None

    def _records(self, file: ReadableFile, size: int, piece: Slice, faults: tuple[Fault, ...]) -> SliceState:
        """Read all records; if sequences go back, read a second time for those that count."""
        marks = Regressions()
        walker = self._pass(file, size, marks, (Extent(FIRST_RECORD, size),))
        extents = marks.extents(FIRST_RECORD, size)
        if len(marks):
            walker = self._pass(file, size, None, extents)
        return SliceState(
            piece,
            False,
            walker.count,
            walker.byte_count,
            walker.first_found,
            walker.last_sequence,
            walker.first_timestamp,
            walker.max_timestamp,
            extents,
            faults,
        )

    def _pass(
        self, file: ReadableFile, size: int, marks: Regressions | None, extents: tuple[Extent, ...]
    ) -> RecordWalker:
        sink = RowSink([], 1 << 62, 1 << 62)
        walker = RecordWalker(sink, self._crc if self._check else None, 0)
        reader = SliceReader(SliceFile(file, size, self._channel, self._crc), None, no_damage, marks)
        for extent in extents:
            walker.below_sequence = extent.below
            for _ in reader.run(walker, extent.start, extent.end):
                sink.reset()
        return walker


def _indexed(piece: Slice, fold: IndexFold, faults: tuple[Fault, ...]) -> SliceState:
    walker = fold.walker
    return SliceState(
        piece,
        True,
        walker.count,
        walker.byte_count,
        walker.first_sequence,
        walker.last_sequence,
        walker.first_timestamp,
        walker.max_timestamp,
        tuple(fold.extents),
        faults,
    )
