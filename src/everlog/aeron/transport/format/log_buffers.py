"""Reads log buffers: three terms of a publication or an image, used in turn, and their metadata. Source:
LogBufferDescriptor, LogBuffers, FileStoreLogFactory.

A publication's raw tails say which term each third of the file holds and how much of it is claimed. An image has none:
its receiver's counters say it, or the headers of its frames.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from everlog.aeron.frames.constants import (
    FRAME_ALIGNMENT,
    HEADER_LENGTH,
    MAX_FRAME_LENGTH,
    MAX_TERM_LENGTH,
    MIN_TERM_LENGTH,
    TYPE_DATA,
    TYPE_PADDING,
    is_power_of_two,
)
from everlog.aeron.frames.position import wrap_int32
from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.format.layouts import LogMetaData
from everlog.core.files.storage import ReadableFile, Storage
from everlog.core.files.zeros import nonzero_blocks
from everlog.errors import CorruptData, EverlogError

TERM_COUNT = 3
METADATA_LENGTH = LogMetaData.size
SUFFIX = ".logbuffer"
PUBLICATIONS, IMAGES = "publications", "images"
FOLDERS = (PUBLICATIONS, IMAGES)
LOG_TYPES = {0: "concurrent-publication", 1: "exclusive-publication", 2: "image"}
NO_END = (1 << 63) - 1
"""End-of-stream position while it is unknown."""
_TAILS = Struct("<qqq")
_NAME = re.compile(r"(0|[1-9][0-9]{0,18})\.logbuffer")
_NOT_ZERO = re.compile(rb"[^\0]")


@dataclass(frozen=True, slots=True)
class Term:
    """A term in the ``index``-th third of the file. It begins at position ``start``, and ``length`` bytes of it are
    claimed (in an image, where this is unknown, all)."""

    index: int
    term_id: int
    start: int
    length: int

    @property
    def end(self) -> int:
        """The position after the claimed bytes."""
        return self.start + self.length


@dataclass(frozen=True, slots=True)
class LogBuffer:
    """A log buffer's name (``publications/9``), metadata, and file length when it was read."""

    name: str
    metadata: LogMetaData
    file_length: int
    default_header: DataHeader = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "default_header", DataHeader.unpack_from(self.metadata.default_header))

    @property
    def file_name(self) -> str:
        """The file's name, relative to the driver's folder."""
        return self.name + SUFFIX

    @property
    def registration_id(self) -> int:
        """The registration id, from the file's name."""
        return int(self.name.partition("/")[2])

    @property
    def is_image(self) -> bool:
        """Whether this is an image's log buffer, by its folder."""
        return self.name.startswith(IMAGES)

    @property
    def raw_tails(self) -> tuple[int, int, int]:
        """The raw tail of each term."""
        return self.metadata.tail_0, self.metadata.tail_1, self.metadata.tail_2

    @property
    def term_length(self) -> int:
        """Length of a term in bytes, a power of two."""
        length: int = self.metadata.term_length
        return length

    @property
    def mtu_length(self) -> int:
        """Maximum length of a data frame; 0 if the metadata has an impossible value."""
        mtu: int = self.metadata.mtu_length
        return mtu if HEADER_LENGTH < mtu <= MAX_FRAME_LENGTH else 0

    @property
    def metadata_offset(self) -> int:
        """The metadata's offset in the file."""
        return self.file_length - METADATA_LENGTH

    def term_count_of(self, term_id: int) -> int:
        """The number of terms before this one; negative for a term before the initial term."""
        return wrap_int32(term_id - self.metadata.initial_term_id)

    def tail_term(self, index: int) -> Term | None:
        """The term that a raw tail names; ``None`` if it was never used or does not belong there."""
        tail = self.raw_tails[index]
        term_id = tail >> 32
        count = self.term_count_of(term_id)
        if count < 0 or count % TERM_COUNT != index:
            return None
        return Term(index, term_id, count * self.term_length, min(tail & 0xFFFFFFFF, self.term_length))

    def to_dict(self) -> dict[str, Any]:
        """Metadata and default header as plain values."""
        fields = self.metadata.as_dict()
        for name in ("tail_0", "tail_1", "tail_2", "default_header"):
            del fields[name]
        if fields["end_of_stream_position"] == NO_END:
            fields["end_of_stream_position"] = None
        tails = [{"raw_tail": t, "term_id": t >> 32, "term_offset": t & 0xFFFFFFFF} for t in self.raw_tails]
        return {
            "stream": self.name,
            "file_length": self.file_length,
            **fields,
            "log_type": LOG_TYPES.get(fields["log_type"], fields["log_type"]),
            "tails": tails,
            "default_header": self.default_header.as_dict(),
        }


def parse_name(file_name: str) -> int | None:
    """The registration id in a file's name; ``None`` if it is no log buffer's name."""
    match = _NAME.fullmatch(file_name)
    return None if match is None else int(match[1])


def list_names(storage: Storage) -> list[str]:
    """List the names of the log buffers, publications first, by registration id. Other files, and folders that can't be
    listed, are left out."""
    found = []
    for folder in FOLDERS:
        try:
            names = storage.names(folder) if storage.exists(folder) else []
        except EverlogError:
            continue
        ids = sorted(i for i in map(parse_name, names) if i is not None)
        found += [f"{folder}/{registration_id}" for registration_id in ids]
    return found


def read_log_buffer(file: ReadableFile, name: str) -> LogBuffer:
    """Read a log buffer's metadata. Raises :class:`CorruptData` if the file is too short for its terms or the term
    length is invalid."""
    size = file.size()
    data = file.read_at(max(size - METADATA_LENGTH, 0), METADATA_LENGTH)
    if len(data) < METADATA_LENGTH:
        raise CorruptData(
            name + SUFFIX, offset=0, found=f"{size} bytes", expected=f"metadata of {METADATA_LENGTH} bytes"
        )
    metadata = LogMetaData.unpack_from(data)
    length = metadata.term_length
    if not (is_power_of_two(length) and MIN_TERM_LENGTH <= length <= MAX_TERM_LENGTH):
        offset = size - METADATA_LENGTH + LogMetaData.field("term_length").offset
        expected = f"a power of two from {MIN_TERM_LENGTH} to {MAX_TERM_LENGTH}"
        raise CorruptData(name + SUFFIX, offset=offset, found=f"term length {length}", expected=expected)
    if size < TERM_COUNT * length + METADATA_LENGTH:
        expected = f"{TERM_COUNT} terms of {length} bytes and metadata"
        raise CorruptData(name + SUFFIX, offset=0, found=f"{size} bytes", expected=expected)
    return LogBuffer(name, metadata, size)


def read_raw_tails(file: ReadableFile, log: LogBuffer) -> tuple[int, ...]:
    """Read the current raw tails; empty if the file was truncated."""
    data = file.read_at(log.metadata_offset, _TAILS.size)
    return _TAILS.unpack(data) if len(data) == _TAILS.size else ()


def terms_of(log: LogBuffer, file: ReadableFile, high_water_mark: int | None = None) -> list[Term]:
    """Find the terms that may hold frames, by position. ``high_water_mark`` is that of an image's receiver: with it,
    terms need not be searched unless the frames contradict it."""
    if any(log.raw_tails):
        found = [_claimed_term(log, file, index) for index in range(TERM_COUNT)]
    elif high_water_mark is not None and _may_be_mark(log, file, high_water_mark):
        found = [_received_term(log, index, high_water_mark) for index in range(TERM_COUNT)]
    else:
        found = [_searched_term(log, file, index) for index in range(TERM_COUNT)]
    return sorted((term for term in found if term is not None), key=lambda term: term.start)


def _claimed_term(log: LogBuffer, file: ReadableFile, index: int) -> Term | None:
    """The term by its raw tail, or by its frames if the tail is invalid; ``None`` if the third was never used."""
    if log.term_count_of(log.raw_tails[index] >> 32) < 0:
        return None
    return log.tail_term(index) or _searched_term(log, file, index)


def _may_be_mark(log: LogBuffer, file: ReadableFile, high_water_mark: int) -> bool:
    """Whether the frames in the third that a receiver's mark points to belong to the term it implies. If that third has
    no frames, no other third may begin with a frame of an impossible term."""
    terms = [_received_term(log, index, high_water_mark) for index in range(TERM_COUNT)]
    active = high_water_mark // log.term_length % TERM_COUNT
    if terms[active] is None:
        return False
    found = _searched_term(log, file, active)
    if found is not None:
        return found == terms[active]
    starts = [next(_terms_from(log, file, i, HEADER_LENGTH), None) for i in range(TERM_COUNT)]
    return all(start in (None, term) for start, term in zip(starts, terms, strict=True))


def _received_term(log: LogBuffer, index: int, high_water_mark: int) -> Term | None:
    """The term in a third of an image's file, computed from its receiver's high-water mark."""
    active = high_water_mark // log.term_length
    count = active - (active - index) % TERM_COUNT
    if high_water_mark < 0 or count < 0 or count >= 1 << 31:
        return None
    term_id = wrap_int32(log.metadata.initial_term_id + count)
    return Term(index, term_id, count * log.term_length, log.term_length)


def _searched_term(log: LogBuffer, file: ReadableFile, index: int) -> Term | None:
    """The term of the first header in a third of the file that may belong to this log."""
    return next(_terms_from(log, file, index, log.term_length), None)


def _terms_from(log: LogBuffer, file: ReadableFile, index: int, length: int) -> Iterator[Term]:
    """The terms of the headers in the first ``length`` bytes of a third."""
    for at, header in _headers(file, index * log.term_length, length):
        count = log.term_count_of(header.term_id)
        same = header.stream_id == log.default_header.stream_id and header.session_id == log.default_header.session_id
        if same and at == header.term_offset and count >= 0 and count % TERM_COUNT == index:
            yield Term(index, header.term_id, count * log.term_length, log.term_length)


def _headers(file: ReadableFile, start: int, length: int) -> Iterator[tuple[int, DataHeader]]:
    """Possible frame headers in ``length`` bytes from ``start``, with their term offsets. Zeros are skipped quickly."""
    for offset, data in nonzero_blocks(file, start, start + length):
        found = _NOT_ZERO.search(data)
        first = 0 if found is None else found.start() // FRAME_ALIGNMENT * FRAME_ALIGNMENT
        for at in range(first, len(data) - 31, FRAME_ALIGNMENT):
            header = DataHeader.unpack_from(data, at)
            if header.type in (TYPE_DATA, TYPE_PADDING) and HEADER_LENGTH <= header.frame_length <= MAX_TERM_LENGTH:
                yield offset - start + at, header
