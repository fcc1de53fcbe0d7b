"""``everlog archive DIR dump``: prints recordings frame by frame."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import NamedTuple

import click

from everlog.aeron.archive.folder.recordings import recording_of
from everlog.aeron.archive.format.catalog import CatalogEntry
from everlog.aeron.archive.format.segments import SegmentReader
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.frames.constants import (
    FLAG_BEGIN,
    FLAG_END,
    HEADER_LENGTH,
    MAX_FRAME_LENGTH,
    NULL_POSITION,
    TYPE_DATA,
    TYPE_PADDING,
    UNFRAGMENTED,
    align,
)
from everlog.aeron.frames.position import term_offset_of
from everlog.aeron.layouts import DataHeader
from everlog.cli.archive.recordings import (
    NOT_DONE,
    descriptor_header_text,
    descriptor_text,
    json_option,
    mark_lines,
    open_archive,
    require_catalog,
    require_mark,
)
from everlog.cli.faults import FaultPrinter
from everlog.cli.text import json_line, printable, warn
from everlog.errors import StoreUnavailable

NO_LIMIT = (1 << 63) - 1
HEX_WIDTH = 16
RULE = "+--------+-------------------------------------------------+----------------+"


class Frame(NamedTuple):
    """A data or padding frame. ``offset`` is the offset of its data in its term."""

    position: int
    header: DataHeader
    offset: int
    data: bytes


@click.command
@click.argument("limit", metavar="[FRAMES]", type=click.IntRange(min=1), default=NO_LIMIT)
@json_option
@click.pass_obj
def dump(folder: str, limit: int, as_json: bool) -> int:
    """Print each recording's descriptor and its first FRAMES frames (default: all) with a hex dump. With --json, print
    an object for each frame, with its data in base64. Exit code 1 if a recording can't be read to its end.
    """
    faults = FaultPrinter()
    code = 0
    with open_archive(folder) as store:
        catalog = require_catalog(store, faults)
        if not as_json:
            click.echo("\n".join(mark_lines(store, require_mark(store))))
            click.echo(f"Catalog capacity in bytes: {catalog.size}")
            click.echo(f"\nDumping up to {limit} fragments per recording")
        for entry in catalog.entries:
            code |= _dump_json(store, entry, limit) if as_json else _dump_text(store, entry, limit)
    faults.close()
    return code | faults.exit_code


def _dump_json(store: ArchiveStore, entry: CatalogEntry, limit: int) -> int:
    frames = _Frames(store, entry)
    for number, frame in enumerate(frames.walk()):
        if number == limit:
            return 0
        header = frame.header
        found = {
            "recording_id": entry.recording_id,
            "position": frame.position,
            "type": header.type,
            "flags": header.flags,
            "length": len(frame.data) if header.type == TYPE_DATA else header.frame_length - HEADER_LENGTH,
            "reserved_value": header.reserved_value,
            "data": b64encode(frame.data).decode(),
        }
        click.echo(json_line(found))
    return frames.exit_code


def _dump_text(store: ArchiveStore, entry: CatalogEntry, limit: int) -> int:
    recording, stop = recording_of(entry), entry.stop_position
    length = NULL_POSITION if stop == NULL_POSITION else stop - recording.start_position
    lines = ["", "", f"Recording {entry.recording_id}", f"  channel: {printable(entry.texts['stripped_channel'])}"]
    lines += [f"  streamId: {recording.stream_id}", f"  stream length: {length}"]
    lines += [descriptor_header_text(entry), descriptor_text(entry)]
    if length == 0:
        lines.append("Recording is empty")
    elif recording.is_deleted or store.folder.is_purged(recording):
        lines.append("Recording is deleted")
    click.echo("\n".join(lines))
    if length == 0 or recording.is_deleted or store.folder.is_purged(recording):
        return 0
    frames = _Frames(store, entry)
    for count, frame in enumerate(frames.walk(), 1):
        click.echo("\n".join(_frame_lines(frame)))
        if count == limit:
            if stop != NULL_POSITION:
                left = length - (frame.position + align(frame.header.frame_length))
                click.echo(f"{left} bytes of (from {length}) remaining in recording id {entry.recording_id}")
            return 0
    return frames.exit_code


def _frame_lines(frame: Frame) -> Iterator[str]:
    header = frame.header
    yield ""
    length = header.frame_length - HEADER_LENGTH
    yield f"Frame at position [{frame.position}] data at offset [{frame.offset}] with length = {length}"
    if header.type == TYPE_PADDING:
        yield "PADDING FRAME"
        return
    if header.type != TYPE_DATA:
        yield f"Unexpected frame type {header.type}"
        return
    if header.flags & UNFRAGMENTED != UNFRAGMENTED:
        begin, end = header.flags & FLAG_BEGIN, header.flags & FLAG_END
        yield f"Fragmented frame. {'BEGIN_FRAGMENT' if begin else ''}{'END_FRAGMENT' if end else ''}"
    yield from hex_lines(frame.data)


def hex_lines(data: bytes) -> Iterator[str]:
    """A hex dump in Agrona's format; an empty line for no data."""
    if not data:
        yield ""
        return
    yield "         +-------------------------------------------------+"
    yield "         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |"
    yield RULE
    for at in range(0, len(data), HEX_WIDTH):
        row = data[at : at + HEX_WIDTH]
        digits = "".join(f" {byte:02x}" for byte in row)
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        yield f"|{at:08x}|{digits:<{3 * HEX_WIDTH}} |{text:<{HEX_WIDTH}}|"
    yield RULE


class _Frames:
    """Walks a recording's frames up to its end or the first invalid one."""

    def __init__(self, store: ArchiveStore, entry: CatalogEntry) -> None:
        self._store = store
        self._recording = recording_of(entry)
        self.exit_code = 0

    def walk(self) -> Iterator[Frame]:
        """The frames, in order. A missing or invalid frame ends them with a warning and exit code 1."""
        recording = self._recording
        if recording.is_deleted or self._store.folder.is_purged(recording):
            return
        term = recording.term_buffer_length
        reader = SegmentReader(self._store.storage, self._store.folder.segment_map(recording))
        position = recording.start_position
        try:
            while recording.stop_position is None or position < recording.stop_position:
                raw = reader.read(position, HEADER_LENGTH)
                if len(raw) < HEADER_LENGTH or not any(raw[:4]):
                    self._ends_at(position, "no frame")
                    return
                header = DataHeader.unpack_from(raw)
                offset, length = term_offset_of(position, term), header.frame_length
                most = MAX_FRAME_LENGTH if header.type == TYPE_DATA else term
                if not HEADER_LENGTH <= length <= min(most, term - offset):
                    self._ends_at(position, f"a frame of {length} bytes")
                    return
                is_data = header.type == TYPE_DATA
                data = reader.read(position + HEADER_LENGTH, length - HEADER_LENGTH) if is_data else b""
                yield Frame(position, header, offset + HEADER_LENGTH, data)
                position += align(length)
        except StoreUnavailable as error:
            self.exit_code = NOT_DONE
            warn(f"recording {recording.recording_id} at position {position}: {error}")
        finally:
            reader.close()

    def _ends_at(self, position: int, found: str) -> None:
        """Report damage, unless this is the end of an active recording."""
        recording = self._recording
        if recording.stop_position is None and found == "no frame":
            return
        self.exit_code = NOT_DONE
        expected = "a frame" if recording.stop_position is None else f"frames up to {recording.stop_position}"
        warn(f"recording {recording.recording_id} at position {position}: {found}; expected {expected}")
