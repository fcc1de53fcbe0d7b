"""Reads the records of one slice, skipping damage.

With a good index its entries decide: the walker reads the parts of the ``.dat`` file that they cover, and after a
damaged record continues at the next entry. Without one it reads record by record; after damage it continues where the
damaged record claims to end if the next message starts there, otherwise at the next whole message of this channel with
a right checksum and a plausible sequence. Sequences go back if a server lost records of its index and wrote them again:
the last record of each sequence counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from everlog.core.files.storage import ReadableFile
from everlog.core.files.window import Window
from everlog.core.report import Fault, Severity
from everlog.errors import FileChanged
from everlog.kernel.crc32 import Crc32
from everlog.nats_streaming.format.blocks import BlockReader
from everlog.nats_streaming.format.budget import Budget
from everlog.nats_streaming.format.layouts import MAX_RECORD_BYTES, RecordHeader
from everlog.nats_streaming.reading.index import IndexLookup
from everlog.nats_streaming.reading.search import MessageSearch
from everlog.nats_streaming.reading.slices import Extent
from everlog.nats_streaming.reading.walk import RecordWalker
from everlog.nats_streaming.reading.walk_status import (
    BAD_CRC,
    BAD_MESSAGE,
    FULL,
    MORE,
    NO_BOUND,
    OUT_OF_ORDER,
    TOO_LARGE,
    ZEROS,
)

HEADER = RecordHeader.size
FIRST_RECORD = 4
MAX_WINDOW_BYTES = MAX_RECORD_BYTES + HEADER
_CHECKED = (BAD_CRC, BAD_MESSAGE, OUT_OF_ORDER)
"""The walker's results for a record that it read to its end."""

DamageSink = Callable[[str, int, int, str, str, int], None]
"""``damage(code, start, end, found, expected, sequence)``: bytes ``start`` to ``end`` of the ``.dat`` file are skipped;
``sequence`` is the first lost one, as far as that is known."""


class Regressions:
    """Collects where sequences go back, and so which records later ones replace, as extents with an upper bound."""

    def __init__(self) -> None:
        self._marks: list[tuple[int, int]] = []

    def add(self, offset: int, sequence: int) -> None:
        """Note that the record at ``offset`` has ``sequence``, which is not above the one before."""
        while self._marks and self._marks[-1][1] >= sequence:
            self._marks.pop()
        self._marks.append((offset, sequence))

    def __len__(self) -> int:
        return len(self._marks)

    def extents(self, start: int, end: int) -> tuple[Extent, ...]:
        """Return the extents from ``start`` to ``end``."""
        out = []
        for offset, sequence in self._marks:
            out.append(Extent(start, offset, sequence))
            start = offset
        out.append(Extent(start, end, NO_BOUND))
        return tuple(out)


@dataclass(frozen=True, slots=True)
class SliceFile:
    """An open ``.dat`` file and how far to read it; ``channel`` is the name as bytes, ``crc`` the store's checksum."""

    file: ReadableFile
    size: int
    channel: bytes
    crc: Crc32


class SliceReader:
    """Reads the records of one ``.dat`` file into a walker's sink. With ``marks``, records whose sequences go back are
    noted there and accepted; without, they are damage."""

    def __init__(
        self, source: SliceFile, lookup: IndexLookup | None, damage: DamageSink, marks: Regressions | None = None
    ) -> None:
        self._file = source.file
        self._crc = source.crc
        self._lookup = lookup
        self._damage = damage
        self._marks = marks
        self._blocks = BlockReader(source.file, source.size)
        self._budget = Budget(source.size, MAX_RECORD_BYTES)
        self._channel = source.channel
        self._kept_search: MessageSearch | None = None
        self._walked_from = 0
        self._passed_to = -1
        self._lost = 0

    @property
    def _search(self) -> MessageSearch:
        """The search for the next message, created at the first damage."""
        if self._kept_search is None:
            self._kept_search = MessageSearch(self._file, self._channel, self._crc, self._budget)
        return self._kept_search

    def run(self, walker: RecordWalker, start: int, end: int) -> Iterator[None]:
        """Read bytes ``start`` to ``end``; yield whenever the sink is full. Raises :class:`FileChanged`."""
        self._walked_from = start
        window = Window(self._file.read_into, start, end, max_bytes=MAX_WINDOW_BYTES)
        window.refill()
        while True:
            status = walker.walk(window.buffer, window.at, window.filled, window.base)
            window.at = walker.at
            at = window.address
            if status == FULL:
                yield
                continue
            if status == MORE:
                if at == end:
                    return
                if at + walker.needed <= end:
                    if not window.refill():
                        self._changed(window, end)
                    continue
            if status == OUT_OF_ORDER and self._marks is not None:
                self._marks.add(at, walker.found_sequence)
                walker.last_sequence = walker.found_sequence - 1
                continue
            after = self._pass_over(status, walker, window, end)
            if after is None:
                return
            window.seek(after)

    def _changed(self, window: Window, end: int) -> None:
        there = window.base + window.filled
        raise FileChanged(self._file.name, offset=there, found="the end of the file", expected=f"bytes up to {end}")

    def _pass_over(self, status: int, walker: RecordWalker, window: Window, end: int) -> int | None:
        """Report the damage that stopped the walker; return where to continue, ``None`` if the rest is lost."""
        at = window.address
        code, found, expected = self._describe(status, walker, window, end)
        lost = walker.found_sequence + (status != OUT_OF_ORDER)
        if at == self._passed_to:  # damage upon damage
            lost = self._lost + 1
        if self._lookup is not None:
            lost, after = self._by_index(at)
        elif status == ZEROS:
            after = self._search.find(at + 1, end, walker.found_sequence)
            code = "zero-padding" if after is None else "zero-hole"
        else:
            after = self._by_chain(status, walker, at, end, lost)
        if not self._charge(status, at, after, at + walker.needed):
            after = None
        stop = end if after is None else min(after, end)
        self._passed_to, self._walked_from, self._lost = stop, stop, lost
        self._damage(code, at, stop, found, expected, lost)
        return after if after is not None and after < end else None

    def _describe(self, status: int, walker: RecordWalker, window: Window, end: int) -> tuple[str, str, str]:
        at = window.address
        head = self._blocks.get(at, HEADER)
        if len(head) < HEADER or (status == MORE and end - at < HEADER):
            return "torn-record", f"{end - at} bytes", f"a record header of {HEADER} bytes"
        length, crc = RecordHeader.unpack_from(head).values
        if status == MORE:
            return "torn-record", f"{end - at - HEADER} bytes", f"a payload of {length} bytes"
        if status == ZEROS:
            return "zeroed-record", "zeros", "a record"
        if status == TOO_LARGE:
            return "record-too-large", f"{length} bytes", f"at most {MAX_RECORD_BYTES}"
        if status == BAD_CRC:
            begin = window.at + HEADER
            actual = self._crc.checksum(window.buffer, begin, begin + length)
            return "bad-crc", f"checksum 0x{actual:08x}", f"0x{crc:08x} as in its header"
        if status == OUT_OF_ORDER:
            return "sequence-order", f"sequence {walker.found_sequence}", f"above {walker.last_sequence}"
        assert status == BAD_MESSAGE
        return "bad-message", "a payload that does not parse", "a message with a sequence"

    def _charge(self, status: int, at: int, after: int | None, claimed: int) -> bool:
        """Charge the budget for bytes that are read again: those from ``after`` to ``claimed``. Return false if the
        budget is spent."""
        self._budget.earn(at - self._walked_from)
        if status in _CHECKED and after is not None and after < claimed:
            self._budget.spend(claimed - after)
        return not self._budget.is_spent

    def _by_index(self, at: int) -> tuple[int, int | None]:
        """Return the damaged record's sequence, and where the next record starts. Raises :class:`FileChanged`."""
        assert self._lookup is not None
        i = self._lookup.after(at)
        lost = self._lookup.entry(i - 1).sequence if i > 0 else 0
        if i == self._lookup.count:
            return lost, None
        after = self._lookup.entry(i).offset
        if after <= at:  # a good index rises: without progress, reading would not end
            raise FileChanged(self._file.name, offset=at, found=f"an index entry for {after}", expected=f"above {at}")
        return lost, after

    def _by_chain(self, status: int, walker: RecordWalker, at: int, end: int, lost: int) -> int | None:
        if status in _CHECKED:
            claimed = at + walker.needed
            if claimed == end or self._search.follows(claimed, end, lost):
                return claimed
        return self._search.find(at + 1, end, walker.found_sequence)


def fault_of(
    name: str, stream: str, code: str, start: int, end: int, found: str, expected: str, sequence: int
) -> Fault:
    """Make the fault for damage in a ``.dat`` file."""
    if code == "zero-padding":
        return Fault(
            code,
            name,
            start,
            found,
            "the end of the file",
            repair="a server cuts it off",
            severity=Severity.NOTE,
            stream=stream,
        )
    if code == "zero-hole":
        return Fault(
            code,
            name,
            start,
            f"{end - start} bytes of zeros",
            expected,
            "nothing here; but a server stops at the zeros and cuts the file there",
            "rebuild the index from all records before a server starts",
            stream=stream,
            address=str(sequence),
        )
    repair = {
        "torn-record": "cut the file at this offset (a server does with -file_truncate_bad_eof)",
        "sequence-order": "rebuild the index",
    }.get(code, "restore the file from a copy, or rebuild it from its good records")
    return Fault(
        code,
        name,
        start,
        found,
        expected,
        f"sequence {sequence} ({end - start} bytes)",
        repair,
        stream=stream,
        address=str(sequence),
    )
