"""Reads single records and the typed logs ``clients.dat`` and ``subs.dat``.

A damaged record is reported, and reading continues after it: at the end that its header claims if a good record starts
there, otherwise at the next good record. Source: ``stores/filestore.go`` (readRecord, checkFileVersion)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from everlog.core.files.storage import ReadableFile
from everlog.core.report import Fault, Severity
from everlog.core.store import FaultSink
from everlog.kernel.crc32 import Crc32
from everlog.nats_streaming.format.blocks import BlockReader
from everlog.nats_streaming.format.budget import Budget
from everlog.nats_streaming.format.layouts import MAX_TYPED_BYTES, SUPPORTED_VERSION, FileVersion, RecordHeader

FIRST_RECORD = FileVersion.size
HEADER = RecordHeader.size
_SEARCHED_PAYLOAD_BYTES = 64 << 10
"""Largest payload that the search after damage accepts; the records of these logs are always smaller."""
_FIRST_SEARCH_BYTES = 1 << 10
_SEARCH_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record of a typed log. ``offset`` is that of its header."""

    offset: int
    type: int
    payload: bytes


def version_fault(name: str, head: bytes, *, loses: str) -> Fault | None:
    """Check a file's first 4 bytes. Returns the fault, or ``None`` if they are right."""
    if len(head) < FileVersion.size:
        return Fault(
            "short-version-word",
            name,
            0,
            f"{len(head)} bytes",
            "a version word of 4 bytes",
            loses,
            "restore the file from a copy, or remove it",
        )
    version = FileVersion.unpack_from(head).version
    if version != SUPPORTED_VERSION:
        return Fault(
            "file-version", name, 0, f"version {version}", "version 1", loses, "set the first 4 bytes to 01 00 00 00"
        )
    return None


def crc_text(found: int, expected: int) -> tuple[str, str]:
    """Return the texts of a found and an expected checksum, for a fault."""
    return f"checksum 0x{found:08x}", f"0x{expected:08x} as in the record's header"


@dataclass(frozen=True, slots=True)
class LogFile:
    """An open log. ``types`` are the record types that the server knows; ``name`` and ``stream`` appear in faults."""

    file: ReadableFile
    name: str
    types: range
    stream: str | None = None


class TypedLog:
    """Iterates over the records of ``clients.dat`` or ``subs.dat``. Reports damage to ``on_fault``."""

    def __init__(self, log: LogFile, crc: Crc32, check: bool, on_fault: FaultSink) -> None:
        self._blocks = BlockReader(log.file)
        self._size = self._blocks.size
        self._name = log.name
        self._types = log.types
        self._crc = crc
        self._check = check
        self._on_fault = on_fault
        self._stream = log.stream
        self._budget = Budget(self._size, MAX_TYPED_BYTES)
        self._searched = BlockReader(log.file, self._size)

    def __iter__(self) -> Iterator[LogRecord]:
        fault = version_fault(self._name, self._blocks.get(0, FIRST_RECORD), loses="nothing: the records are read")
        if fault is not None:
            self._on_fault(fault)
        at = FIRST_RECORD
        while at < self._size:
            record = self._read(at)
            if isinstance(record, LogRecord):
                yield record
                at += HEADER + len(record.payload)
                self._budget.earn(HEADER + len(record.payload))
                continue
            code, found, expected, claimed = record
            if code == "zero-padding":
                after = self._search(at)
                if after is None:
                    self._fault(code, at, found, expected, None)
                    return
                self._fault("zero-hole", at, f"{after - at} bytes of zeros", "a record", after)
            else:
                after = self._resume(at, code, claimed)
                self._fault(code, at, found, expected, after)
                if after is None:
                    return
            at = after

    def _read(self, at: int) -> LogRecord | tuple[str, str, str, int]:
        """The record at ``at``, or a fault's code, found and expected, and the offset where the record claims to
        end."""
        head = self._blocks.get(at, HEADER)
        left = self._size - at - HEADER
        if left < 0:
            return "torn-record", f"{len(head)} bytes", f"a record header of {HEADER} bytes", self._size
        word, crc = RecordHeader.unpack_from(head).values
        if word == 0 and crc == 0:
            return "zero-padding", "zeros", "a record or the end of the file", at
        kind, length = word >> 24, word & MAX_TYPED_BYTES
        end = at + HEADER + length
        if kind not in self._types:
            return "bad-record-type", f"type {kind}", f"a type from {self._types.start} to {self._types.stop - 1}", end
        if length > left:
            return "torn-record", f"{left} bytes", f"a payload of {length} bytes", end
        payload = self._blocks.get(at + HEADER, length)
        if self._check and (actual := self._crc.checksum(payload)) != crc:
            found, expected = crc_text(actual, crc)
            return "bad-crc", found, expected, end
        return LogRecord(at, kind, payload)

    def _resume(self, at: int, code: str, claimed: int) -> int | None:
        if claimed == self._size or (claimed < self._size and self._is_sound(claimed)):
            return claimed
        after = self._search(at)
        if code == "bad-crc" and after is not None:
            self._budget.spend(max(claimed - after, 0))  # these bytes are read again
        return None if self._budget.is_spent else after

    def _is_sound(self, at: int) -> bool:
        """Whether a record with a good checksum starts there; checked even if ``check`` is false."""
        file = self._blocks.file  # bypasses the block, as the claimed offset may be far from the next read
        head = file.read_at(at, HEADER)
        length = self._searched_length(head, at)
        if length == 0:
            return False
        payload = file.read_at(at + HEADER, length)
        if len(payload) == length and self._crc.checksum(payload) == RecordHeader.unpack_from(head).crc:
            return True
        self._budget.spend(length)
        return False

    def _searched_length(self, head: bytes, at: int) -> int:
        """The payload's length from a header, or 0 if the header is implausible."""
        if len(head) < HEADER:
            return 0
        word: int = RecordHeader.unpack_from(head).values[0]
        length = word & MAX_TYPED_BYTES
        is_likely = word >> 24 in self._types and length <= min(_SEARCHED_PAYLOAD_BYTES, self._size - at - HEADER)
        return length if is_likely else 0

    def _search(self, at: int) -> int | None:
        """The next sound record after ``at``; ``None`` if none follows or the budget is spent."""
        probe, size = at + 1, _FIRST_SEARCH_BYTES
        while probe < self._size - HEADER:
            data = self._searched.file.next_data(probe)
            if data >= self._size:
                return None
            probe = max(probe, data - HEADER)
            block = self._searched.get(probe, min(size, self._size - probe))
            found = self._sound_in(block, probe)
            if found is not None or self._budget.is_spent or probe + len(block) >= self._size:
                return found
            self._budget.earn(len(block))
            probe += len(block) - HEADER
            size = min(2 * size, _SEARCH_BYTES)
        return None

    def _sound_in(self, block: bytes, base: int) -> int | None:
        """The offset of the first sound record whose header is in the block. Only bytes followed by the tag of a first
        field are candidates."""
        end = len(block)
        for tag in (b"\x08", b"\x0a"):
            i = block.find(tag, HEADER, end)
            while i >= 0 and not self._budget.is_spent:
                start = i - HEADER
                if self._searched_length(block[start:i], base + start) and self._is_sound(base + start):
                    end = i
                    break
                i = block.find(tag, i + 1, end)
        return base + end - HEADER if end < len(block) else None

    def _fault(self, code: str, at: int, found: str, expected: str, after: int | None) -> None:
        harmless = code == "zero-padding"
        end = self._size if after is None else after
        self._on_fault(
            Fault(
                code,
                self._name,
                at,
                found,
                expected,
                "nothing" if code in ("zero-padding", "zero-hole") else f"the {end - at} bytes from {at} to {end}",
                "a server cuts it off" if harmless else _REPAIRS.get(code, "remove these bytes from the file"),
                Severity.NOTE if harmless else Severity.FAULT,
                self._stream,
            )
        )


_REPAIRS = {"torn-record": "cut the file at this offset (a server does with -file_truncate_bad_eof)"}
