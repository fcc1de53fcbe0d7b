"""``everlog driver DIR log-inspect``: prints log buffers frame by frame, as LogInspector does."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click

from everlog.aeron.frames.constants import FRAME_ALIGNMENT, HEADER_LENGTH, TYPE_DATA, align
from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.format.cnc_file import CNC_NAME
from everlog.aeron.transport.format.log_buffers import SUFFIX, TERM_COUNT, LogBuffer, list_names
from everlog.aeron.transport.store import DriverStore, Options
from everlog.cli.driver.sampling import FAULTS_FOUND, storage_at
from everlog.cli.text import json_line, printable, warn
from everlog.core.files.storage import ReadableFile
from everlog.errors import CorruptData, EverlogError, NotAStore

RULER = "=" * 70
CHUNK_BYTES = 1 << 20


@click.command
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each log buffer and each frame.")
@click.option("--limit", type=click.IntRange(min=0), metavar="BYTES", help="Print at most BYTES of each payload.")
@click.option("--format", "kind", type=click.Choice(["hex", "ascii"]), default="hex", help="How to print payloads.")
@click.option("--skip-default-header", is_flag=True, help="Leave out the default header, which publishers copy.")
@click.option("--scan-over-zeroes", is_flag=True, help="Skip gaps without frames and continue after them.")
@click.argument("logs", nargs=-1, metavar="[LOG]...")
@click.pass_obj
def log_inspect(folder: str, /, logs: tuple[str, ...], as_json: bool, **given: Any) -> int:
    """Print log buffers: metadata, raw tails and every frame. LOG is a stream's name in everlog ls, such as
    publications/9; by default all are printed. A log buffer that can't be read is a warning; the others are still
    printed."""
    store = DriverStore(storage_at(folder), Options())
    names = [name.removesuffix(SUFFIX) for name in logs] or list_names(store.storage)
    if not names and not DriverStore.detect(store.storage):
        found = f"neither {CNC_NAME} nor log buffers"
        raise NotAStore(folder, found=found, message=f"no media driver here: {folder} has {found}")
    code = 0
    for name in names:
        try:
            file, log = store.folder.open_log(name)
        except EverlogError as error:
            if logs and not isinstance(error, CorruptData):
                raise  # a wrong LOG; a listed log that is gone was just deleted by the running driver
            warn(str(error))
            code = FAULTS_FOUND
            continue
        with file:
            inspection = Inspection(file, log, os.path.join(folder, log.file_name), **given)
            code = max(code, inspection.print_json() if as_json else inspection.print())
    return code


@dataclass(slots=True)
class Step:
    """A place in a term: a frame, or space without one, of which ``shown`` bytes are printed."""

    index: int
    offset: int
    header: DataHeader
    shown: int
    is_frame: bool


@dataclass(slots=True)
class Inspection:
    """Prints one log buffer."""

    file: ReadableFile
    log: LogBuffer
    path: str
    limit: int | None
    kind: str
    skip_default_header: bool
    scan_over_zeroes: bool

    def print(self) -> int:
        """Print LogInspector's lines; returns the exit code."""
        for line in self._heading():
            print(line)
        code = 0
        for index in range(TERM_COUNT):
            print(f"\n{RULER}\nIndex {index} Term Data\n")
            for step in self._steps(index):
                print(f"{step.offset}: {header_text(step.header)}")
                if step.shown >= 0:
                    self._print_payload(step)
                code = max(code, self._report_overrun(step))
        return code

    def print_json(self) -> int:
        """Print an object for the metadata and one for each frame; returns the exit code."""
        print(json_line({"kind": "log", "file": self.path, **self.log.to_dict()}))
        code = 0
        for index in range(TERM_COUNT):
            for step in self._steps(index):
                if step.is_frame:
                    is_data = step.header.type == TYPE_DATA  # padding has no content and may be very long
                    payload = self._payload(step, step.shown).hex() if is_data else None
                    place = {"kind": "frame", "stream": self.log.name, "index": index, "offset": step.offset}
                    print(json_line(place | step.header.as_dict() | {"payload_hex": payload}))
                code = max(code, self._report_overrun(step))
        return code

    def _heading(self) -> Iterator[str]:
        log, metadata = self.log, self.log.metadata
        yield RULER
        yield f"{time.strftime('%a %b %d %H:%M:%S %Z %Y')} Inspection dump for {printable(self.path)}"
        yield RULER
        yield f"   Is connected: {str(metadata.is_connected == 1).lower()}"
        yield f"Initial term id: {metadata.initial_term_id}"
        yield f"     Term count: {metadata.active_term_count}"
        yield f"   Active index: {metadata.active_term_count % TERM_COUNT}"
        yield f"    Term length: {log.term_length}"
        yield f"     MTU length: {metadata.mtu_length}"
        yield f"      Page size: {metadata.page_size}"
        yield f"   EOS position: {metadata.end_of_stream_position}"
        yield ""
        if not self.skip_default_header:
            yield f"default {header_text(log.default_header)}"
        yield ""
        for index, tail in enumerate(log.raw_tails):
            term_id, offset = tail >> 32, tail & 0xFFFFFFFF
            position = log.term_count_of(term_id) * log.term_length + min(offset, log.term_length)
            values = f"termOffset={offset} termId={term_id} rawTail={tail} position={position}"
            yield f"Index {index} Term Meta Data {values}"

    def _steps(self, index: int) -> Iterator[Step]:
        """A term's frames, in order. A place without a frame ends the term."""
        start, offset, room = index * self.log.term_length, 0, self.log.term_length
        chunk_at, chunk = 0, b""
        while offset < room:
            if not chunk_at <= offset <= chunk_at + len(chunk) - HEADER_LENGTH:
                chunk_at, chunk = offset, self.file.read_at(start + offset, min(CHUNK_BYTES, room - offset))
            header = DataHeader.unpack_from(chunk, offset - chunk_at)
            length = header.frame_length
            left = room - offset - HEADER_LENGTH
            if length < HEADER_LENGTH:
                if length == 0 and self.scan_over_zeroes:
                    yield Step(index, offset, header, -1, False)
                    offset += FRAME_ALIGNMENT
                    continue
                yield Step(index, offset, header, self._limited(left), False)
                return
            yield Step(index, offset, header, self._limited(min(length - HEADER_LENGTH, left)), True)
            offset += align(length)

    def _limited(self, length: int) -> int:
        return length if self.limit is None else min(length, self.limit)

    def _report_overrun(self, step: Step) -> int:
        """Warn of a frame that exceeds its term, at which LogInspector would fail; returns the exit code."""
        if not step.is_frame or step.offset + align(step.header.frame_length) <= self.log.term_length:
            return 0
        where = f"{self.log.file_name} at offset {step.index * self.log.term_length + step.offset}"
        warn(f"{where}: frame length {step.header.frame_length}; expected a frame within its term")
        return FAULTS_FOUND

    def _payload(self, step: Step, length: int, skip: int = 0) -> bytes:
        at = step.index * self.log.term_length + step.offset + HEADER_LENGTH + skip
        return self.file.read_at(at, length)

    def _print_payload(self, step: Step) -> None:
        """Print a payload in pieces: the space after a term's last frame may be very long."""
        for skip in range(0, step.shown, CHUNK_BYTES):
            data = self._payload(step, min(CHUNK_BYTES, step.shown - skip), skip)
            sys.stdout.write(data.hex().upper() if self.kind == "hex" else ascii_text(data))
        print()


def header_text(header: DataHeader) -> str:
    """``DATA Header{frame-length=1408 version=0 ...}``."""
    return (
        f"DATA Header{{frame-length={header.frame_length} version={header.version} flags={header.flags:08b} "
        f"type={header.type} term-offset={header.term_offset} session-id={header.session_id} "
        f"stream-id={header.stream_id} term-id={header.term_id} reserved-value={header.reserved_value}}}"
    )


def ascii_text(data: bytes) -> str:
    """Bytes as ASCII, other bytes as 0, with control characters escaped."""
    return printable(bytes(byte if byte < 0x80 else 0 for byte in data).decode("ascii"))
