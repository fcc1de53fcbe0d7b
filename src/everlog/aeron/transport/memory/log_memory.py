"""Log buffers for their writers and readers: three terms and metadata, mapped or private. Source: LogBufferDescriptor,
LogBuffers, MappedRawLog.

The functions below take a log's metadata. A raw tail is ``term id << 32 | offset``. The offset may exceed the term's
length, because publishers claim before they check. Term ids are 32-bit numbers that wrap; the number of terms since the
first, modulo 3, selects the third of the file in use.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

from everlog.aeron.frames.constants import (
    FRAME_ALIGNMENT,
    HEADER_LENGTH,
    MAX_FRAME_LENGTH,
    MAX_TERM_LENGTH,
    MIN_TERM_LENGTH,
    TYPE_DATA,
    UNFRAGMENTED,
    align,
    is_power_of_two,
)
from everlog.aeron.frames.position import wrap_int32
from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.format.layouts import LogMetaData
from everlog.aeron.transport.format.log_buffers import METADATA_LENGTH, NO_END, TERM_COUNT
from everlog.aeron.transport.memory.shared_files import create_file, map_file
from everlog.errors import CorruptData, UsageError
from everlog.kernel.memory import Memory

CONCURRENT_PUBLICATION, EXCLUSIVE_PUBLICATION, IMAGE = 0, 1, 2
PAGE_SIZE = 4096
MAX_PAGE_SIZE = 1 << 30
MAX_LOG_LENGTH = align(TERM_COUNT * MAX_TERM_LENGTH + METADATA_LENGTH, MAX_PAGE_SIZE)
_TAILS = LogMetaData.field("tail_0").offset
_TERM_COUNT = LogMetaData.field("active_term_count").offset
_END = LogMetaData.field("end_of_stream_position").offset
_CONNECTED = LogMetaData.field("is_connected").offset
_TRANSPORTS = LogMetaData.field("active_transport_count").offset
_HEADER = LogMetaData.field("default_header").offset
_REVOKED = LogMetaData.field("is_publication_revoked").offset


@dataclass(frozen=True, slots=True, kw_only=True)
class LogParameters:
    """The metadata of a new log, under their format names. ``term_id`` and ``term_offset`` are the start of a
    publication that does not begin with its initial term; ``None`` otherwise."""

    correlation_id: int
    session_id: int
    stream_id: int
    initial_term_id: int
    term_length: int
    mtu_length: int
    log_type: int = CONCURRENT_PUBLICATION
    term_id: int | None = None
    term_offset: int = 0
    publication_window_length: int = 0
    receiver_window_length: int = 0
    socket_sndbuf_length: int = 0
    os_default_socket_sndbuf_length: int = 0
    os_max_socket_sndbuf_length: int = 0
    socket_rcvbuf_length: int = 0
    os_default_socket_rcvbuf_length: int = 0
    os_max_socket_rcvbuf_length: int = 0
    max_resend: int = 0
    entity_tag: int = 0
    response_correlation_id: int = 0
    linger_timeout_ns: int = 0
    untethered_window_limit_timeout_ns: int = 0
    untethered_linger_timeout_ns: int = 0
    untethered_resting_timeout_ns: int = 0
    group: bool = False
    is_response: bool = False
    rejoin: bool = False
    reliable: bool = False
    sparse: bool = False
    signal_eos: bool = False
    spies_simulate_connection: bool = False
    tether: bool = False

    def __post_init__(self) -> None:
        if not (is_power_of_two(self.term_length) and MIN_TERM_LENGTH <= self.term_length <= MAX_TERM_LENGTH):
            expected = f"a power of two, {MIN_TERM_LENGTH} to {MAX_TERM_LENGTH}"
            raise UsageError("term length of a log buffer", found=str(self.term_length), expected=expected)
        if not 0 <= self.term_offset <= self.term_length or self.term_offset % FRAME_ALIGNMENT:
            expected = f"0 to {self.term_length}, a multiple of {FRAME_ALIGNMENT}"
            raise UsageError("term offset of a log buffer", found=str(self.term_offset), expected=expected)

    def tails(self) -> tuple[tuple[int, int, int], int]:
        """The raw tails of a new log and its active term count. The log of an image has no tails."""
        if self.log_type == IMAGE:
            return (0, 0, 0), 0
        has_position = self.term_id is not None
        term_id = self.initial_term_id if self.term_id is None else self.term_id
        count = wrap_int32(term_id - self.initial_term_id)
        if count < 0:
            expected = f"the initial one, {self.initial_term_id}, or a later one"
            raise UsageError("term id of a log buffer", found=str(term_id), expected=expected)
        tails = [0] * TERM_COUNT
        tails[count % TERM_COUNT] = pack_tail(term_id, self.term_offset if has_position else 0)
        for later in (1, 2):
            # The tails of the terms before: a rotation expects them.
            tails[(count + later) % TERM_COUNT] = pack_tail(wrap_int32(term_id + later - TERM_COUNT), 0)
        return (tails[0], tails[1], tails[2]), count

    def metadata(self, page_size: int) -> bytes:
        """The bytes of a new log's metadata."""
        tails, term_count = self.tails()
        header = DataHeader.pack(
            flags=UNFRAGMENTED,
            type=TYPE_DATA,
            term_offset=self.term_offset,
            session_id=self.session_id,
            stream_id=self.stream_id,
            term_id=self.initial_term_id,
        )
        own = {"session_id", "stream_id", "term_id", "term_offset"}
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in own}
        return LogMetaData.pack(
            tail_0=tails[0],
            tail_1=tails[1],
            tail_2=tails[2],
            active_term_count=term_count,
            end_of_stream_position=NO_END,
            default_frame_header_length=HEADER_LENGTH,
            page_size=page_size,
            default_header=header,
            **values,
        )


class LogMemory:
    """A log buffer: three ``terms`` and ``metadata``."""

    def __init__(self, memory: Memory, where: str) -> None:
        """Raises :class:`CorruptData` if the metadata contradict the memory's length."""
        if memory.length < METADATA_LENGTH:
            expected = f"metadata of {METADATA_LENGTH} bytes"
            raise CorruptData(where, found=f"{memory.length} bytes", expected=expected)
        start = memory.length - METADATA_LENGTH
        metadata = memory.slice(start, METADATA_LENGTH)
        header = LogMetaData.unpack_from(metadata.read(0, METADATA_LENGTH))
        length = header.term_length
        if not (is_power_of_two(length) and MIN_TERM_LENGTH <= length <= MAX_TERM_LENGTH):
            at = start + LogMetaData.field("term_length").offset
            expected = f"a power of two, {MIN_TERM_LENGTH} to {MAX_TERM_LENGTH}"
            raise CorruptData(where, offset=at, found=f"term length {length}", expected=expected)
        if memory.length < TERM_COUNT * length + METADATA_LENGTH or start % FRAME_ALIGNMENT:
            expected = f"{TERM_COUNT} terms of {length} bytes and metadata"
            raise CorruptData(where, found=f"{memory.length} bytes", expected=expected)
        if not HEADER_LENGTH < header.mtu_length <= MAX_FRAME_LENGTH or header.mtu_length % FRAME_ALIGNMENT:
            at = start + LogMetaData.field("mtu_length").offset
            expected = f"{HEADER_LENGTH + FRAME_ALIGNMENT} to {MAX_FRAME_LENGTH}, a multiple of {FRAME_ALIGNMENT}"
            raise CorruptData(where, offset=at, found=f"MTU {header.mtu_length}", expected=expected)
        self.where = where
        self.header = header
        """The metadata when this object was created."""
        self.file_length = memory.length
        self.term_length: int = length
        self.initial_term_id: int = header.initial_term_id
        self.mtu_length: int = header.mtu_length
        self.correlation_id: int = header.correlation_id
        self.page_size: int = header.page_size
        self.log_type: int = header.log_type
        self.default_header = header.default_header[:HEADER_LENGTH]
        frame = DataHeader.unpack_from(self.default_header)
        self.session_id: int = frame.session_id
        self.stream_id: int = frame.stream_id
        self.metadata = metadata
        self.terms: tuple[Memory, ...] = tuple(memory.slice(i * length, length) for i in range(TERM_COUNT))

    @classmethod
    def create(cls, path: Path, parameters: LogParameters, *, page_size: int = PAGE_SIZE, sparse: bool = False) -> Self:
        """Create a file. Raises :class:`StoreExists`, and :class:`WriteFailed` if the disk is full. With ``sparse``,
        blocks are allocated on first write; the caller ensures that there is space."""
        length = align(TERM_COUNT * parameters.term_length + METADATA_LENGTH, page_size)
        data = parameters.metadata(page_size)

        def prepare(memory: Memory) -> None:
            memory.write(memory.length - METADATA_LENGTH, data)

        return cls(create_file(Path(path), length, sparse=sparse, prepare=prepare), str(path))

    @classmethod
    def allocate(cls, parameters: LogParameters) -> Self:
        """A new log in private memory, for simulations."""
        memory = Memory.allocate(TERM_COUNT * parameters.term_length + METADATA_LENGTH)
        memory.write(memory.length - METADATA_LENGTH, parameters.metadata(PAGE_SIZE))
        return cls(memory, f"log {parameters.correlation_id}")

    @classmethod
    def map(cls, path: Path, *, writable: bool = True) -> Self:
        """Map another process's file. Raises :class:`StoreUnavailable`, and :class:`CorruptData` for invalid
        metadata."""
        minimum = TERM_COUNT * MIN_TERM_LENGTH + METADATA_LENGTH
        memory = map_file(Path(path), minimum=minimum, maximum=MAX_LOG_LENGTH, writable=writable)
        return cls(memory, str(path))

    @property
    def position_bits_to_shift(self) -> int:
        """Base-2 logarithm of the term length."""
        return self.term_length.bit_length() - 1

    def close(self) -> None:
        """Drop the memory; it is unmapped with the last reference to a part of it."""
        nothing = Memory.allocate(METADATA_LENGTH)
        self.metadata, self.terms = nothing, (nothing,) * TERM_COUNT


def pack_tail(term_id: int, term_offset: int) -> int:
    """The raw tail of a term id and offset."""
    return (term_id << 32) + term_offset


def tail_term_id(tail: int) -> int:
    """The term id of a raw tail."""
    return tail >> 32


def tail_offset(tail: int, term_length: int) -> int:
    """Bytes of the term that are claimed, at most the term's length."""
    return min(tail & 0xFFFFFFFF, term_length)


def raw_tail(metadata: Memory, index: int) -> int:
    """The raw tail of a third, read with acquire order."""
    return metadata.get_i64_acquire(_TAILS + 8 * index)


def set_raw_tail(metadata: Memory, index: int, tail: int) -> None:
    """Write a raw tail with release order."""
    metadata.put_i64_release(_TAILS + 8 * index, tail)


def compare_and_set_raw_tail(metadata: Memory, index: int, expected: int, tail: int) -> bool:
    """Replace a raw tail if it is ``expected``. Returns whether it did."""
    return metadata.compare_and_set_i64(_TAILS + 8 * index, expected, tail)


def active_term_count(metadata: Memory) -> int:
    """The active term count: terms since the first."""
    return metadata.get_i32_acquire(_TERM_COUNT)


def set_active_term_count(metadata: Memory, count: int) -> None:
    """Write the active term count with release order."""
    metadata.put_i32_release(_TERM_COUNT, count)


def active_tail(metadata: Memory) -> int:
    """The raw tail of the active term, consistent with the active term count."""
    while True:
        count = active_term_count(metadata)
        tail = raw_tail(metadata, count % TERM_COUNT)
        if count == active_term_count(metadata):
            return tail


def index_by_term(initial_term_id: int, term_id: int) -> int:
    """The third that a term lies in."""
    return wrap_int32(term_id - initial_term_id) % TERM_COUNT


def index_by_position(position: int, bits_to_shift: int) -> int:
    """The third that a position lies in."""
    return (position >> bits_to_shift) % TERM_COUNT


def compute_position(term_id: int, term_offset: int, bits_to_shift: int, initial_term_id: int) -> int:
    """The position: bytes since the stream's start."""
    return (wrap_int32(term_id - initial_term_id) << bits_to_shift) + term_offset


def end_of_stream_position(metadata: Memory) -> int:
    """The position at which the stream ends; the largest number until it is known."""
    return metadata.get_i64_acquire(_END)


def set_end_of_stream_position(metadata: Memory, position: int) -> None:
    """Write the end-of-stream position with release order."""
    metadata.put_i64_release(_END, position)


def is_connected(metadata: Memory) -> bool:
    """Whether the publication has subscribers."""
    return metadata.get_i32_acquire(_CONNECTED) == 1


def set_is_connected(metadata: Memory, value: bool) -> None:
    """Write whether the publication has subscribers, with release order."""
    metadata.put_i32_release(_CONNECTED, 1 if value else 0)


def active_transport_count(metadata: Memory) -> int:
    """An image's number of live transports."""
    return metadata.get_i32_acquire(_TRANSPORTS)


def set_active_transport_count(metadata: Memory, count: int) -> None:
    """Write an image's number of live transports, with release order."""
    metadata.put_i32_release(_TRANSPORTS, count)


def is_publication_revoked(metadata: Memory) -> bool:
    """Whether the publication was revoked."""
    return metadata.read(_REVOKED, 1) == b"\1"


def set_is_publication_revoked(metadata: Memory, value: bool) -> None:
    """Mark it as revoked. Readers see that with the end-of-stream position, which is written next."""
    metadata.write(_REVOKED, b"\1" if value else b"\0")
