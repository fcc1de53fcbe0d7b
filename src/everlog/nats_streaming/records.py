"""Single records, and the typed logs ``clients.dat`` and ``subs.dat``.

Source: ``stores/filestore.go`` (readRecord, checkFileVersion). A damaged record is reported and reading goes on
behind it: at the end that its header claims when a good record is there, else at the next place where one is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from everlog.core.report import Fault, Severity
from everlog.core.storage import ReadableFile
from everlog.core.store import FaultSink
from everlog.kernel.crc32 import Crc32
from everlog.nats_streaming.blocks import BlockReader
from everlog.nats_streaming.layouts import MAX_TYPED_BYTES, SUPPORTED_VERSION, FileVersion, RecordHeader

FIRST_RECORD = FileVersion.size
HEADER = RecordHeader.size
_SEARCHED_PAYLOAD_BYTES = 64 << 10
"""A record that is searched for behind damage is not larger than this: the store's own never are."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record of a typed log."""

    offset: int
    type: int
    payload: bytes


def version_fault(name: str, head: bytes, *, loses: str) -> Fault | None:
    """What is wrong with a file's first 4 bytes; ``None`` when nothing is."""
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
    """Found and expected checksum, for a fault."""
    return f"checksum 0x{found:08x}", f"0x{expected:08x} as in its header"


@dataclass(frozen=True, slots=True)
class LogFile:
    """An open log; ``name`` and ``stream`` are for faults, ``types`` are those that the server knows."""

    file: ReadableFile
    name: str
    types: range
    stream: str | None = None


class TypedLog:
    """The records of ``clients.dat`` or ``subs.dat``; what is damaged goes to ``on_fault``."""

    def __init__(self, log: LogFile, crc: Crc32, check: bool, on_fault: FaultSink) -> None:
        self._blocks = BlockReader(log.file)
        self._size = self._blocks.size
        self._name = log.name
        self._types = log.types
        self._crc = crc
        self._check = check
        self._on_fault = on_fault
        self._stream = log.stream

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
                continue
            code, found, expected, claimed = record
            if code == "zero-padding":
                after = self._search(at)
                if after is None:
                    self._fault(code, at, found, expected, None)
                    return
                self._fault("zero-hole", at, f"{after - at} bytes of zeros", "a record", after)
            else:
                after = self._resume(at, claimed)
                self._fault(code, at, found, expected, after)
                if after is None:
                    return
            at = after

    def _read(self, at: int) -> LogRecord | tuple[str, str, str, int]:
        """The record at ``at``; else code, found, expected and the offset where it claims to end."""
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
            return "bad-record-type", f"type {kind}", f"{self._types.start} to {self._types.stop - 1}", end
        if length > left:
            return "torn-record", f"{left} bytes", f"a payload of {length} bytes", end
        payload = self._blocks.get(at + HEADER, length)
        if self._check and (actual := self._crc.checksum(payload)) != crc:
            found, expected = crc_text(actual, crc)
            return "bad-crc", found, expected, end
        return LogRecord(at, kind, payload)

    def _resume(self, at: int, claimed: int) -> int | None:
        if claimed == self._size or (claimed < self._size and self._is_sound(claimed)):
            return claimed
        return self._search(at)

    def _is_sound(self, at: int) -> bool:
        """Whether a record with a good checksum starts there: checked even where checksums are not asked for."""
        head = self._blocks.get(at, HEADER)
        if len(head) < HEADER:
            return False
        word, crc = RecordHeader.unpack_from(head).values
        length = word & MAX_TYPED_BYTES
        if word >> 24 not in self._types or not 0 < length <= min(_SEARCHED_PAYLOAD_BYTES, self._size - at - HEADER):
            return False
        return bool(self._crc.checksum(self._blocks.get(at + HEADER, length)) == crc)

    def _search(self, at: int) -> int | None:
        """The next sound record behind ``at``. A record's payload starts with the tag of a first field, which keeps
        candidates few."""
        end = self._size - HEADER
        budget = max(4 * self._size, 1 << 20)
        probe = at + 1
        while probe < end:
            block = self._blocks.file.read_at(probe, min(1 << 16, self._size - probe))
            found = -1
            for tag in (b"\x08", b"\x0a"):
                i = block.find(tag, HEADER)
                while i >= 0 and (found < 0 or i - HEADER < found):
                    head = RecordHeader.unpack_from(block, i - HEADER).values[0]
                    if head >> 24 in self._types and 0 < head & MAX_TYPED_BYTES <= _SEARCHED_PAYLOAD_BYTES:
                        budget -= head & MAX_TYPED_BYTES
                        if budget < 0:
                            return None
                        if self._is_sound(probe + i - HEADER):
                            found = i - HEADER
                    i = block.find(tag, i + 1)
            if found >= 0:
                return probe + found
            if probe + len(block) >= self._size:
                return None
            probe += len(block) - HEADER
        return None

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
