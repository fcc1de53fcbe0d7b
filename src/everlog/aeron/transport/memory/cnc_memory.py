"""A driver's ``cnc.dat`` mapped for a driver or its clients; :class:`~everlog.aeron.transport.format.cnc_file.CncFile`
reads the same file. Source: CncFileDescriptor.

A driver writes the version last, and then gives the file its name (:meth:`CncMemory.signal_ready`). Aeron's own drivers
create the file under its final name, so a client that reads version 0 sees a driver that is starting, or that died
while starting.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self

from everlog.aeron.frames.constants import align
from everlog.aeron.transport.format.cnc_file import CNC_NAME, MAX_BUFFER_BYTES, read_header
from everlog.aeron.transport.format.counters import METADATA_LENGTH, VALUE_LENGTH
from everlog.aeron.transport.format.layouts import CncMetaData
from everlog.aeron.transport.memory.broadcast import TRAILER_LENGTH as BROADCAST_TRAILER
from everlog.aeron.transport.memory.ring_buffer import TRAILER_LENGTH as RING_TRAILER
from everlog.aeron.transport.memory.ring_buffer import ManyToOneRingBuffer
from everlog.aeron.transport.memory.shared_files import FileDraft, draft_file, map_file
from everlog.errors import CorruptData, StoreUnavailable, UsageError
from everlog.kernel.memory import Memory

CNC_VERSION = 2 << 8
"""0.2.0."""
MIB = 1 << 20
ALIGNMENT = 8
"""Alignment of the buffers: their numbers are read in a single access."""
_VERSION = CncMetaData.field("cnc_version").offset


@dataclass(frozen=True, slots=True, kw_only=True)
class CncSettings:
    """Buffer lengths as in the file's metadata, trailers included; the length of the counters' metadata follows from
    that of their values. The file's length is a multiple of ``file_page_size``."""

    to_driver_buffer_length: int = MIB + RING_TRAILER
    to_clients_buffer_length: int = MIB + BROADCAST_TRAILER
    counters_values_buffer_length: int = MIB
    error_log_buffer_length: int = MIB
    client_liveness_timeout_ns: int = 10_000_000_000
    file_page_size: int = 4096
    pid: int | None = None
    """Process id of the driver; ``None`` for this process."""

    @property
    def counters_metadata_buffer_length(self) -> int:
        """Length of the counters' metadata: as many counters as there are values."""
        return self.counters_values_buffer_length * (METADATA_LENGTH // VALUE_LENGTH)

    def header(self, now_ms: int) -> bytes:
        """The metadata, with version 0."""
        return CncMetaData.pack(
            to_driver_buffer_length=self.to_driver_buffer_length,
            to_clients_buffer_length=self.to_clients_buffer_length,
            counters_metadata_buffer_length=self.counters_metadata_buffer_length,
            counters_values_buffer_length=self.counters_values_buffer_length,
            error_log_buffer_length=self.error_log_buffer_length,
            client_liveness_timeout_ns=self.client_liveness_timeout_ns,
            start_timestamp_ms=now_ms,
            pid=os.getpid() if self.pid is None else self.pid,
            file_page_size=self.file_page_size,
        )

    def file_length(self) -> int:
        """The file's length in bytes. Raises :class:`UsageError` if it exceeds 2 GiB or a buffer's length is no
        multiple of 8."""
        lengths = [
            self.to_driver_buffer_length,
            self.to_clients_buffer_length,
            self.counters_metadata_buffer_length,
            self.counters_values_buffer_length,
            self.error_log_buffer_length,
        ]
        if any(length < 0 or length % ALIGNMENT for length in lengths):
            found, expected = ", ".join(map(str, lengths)), f"a multiple of {ALIGNMENT} bytes each"
            raise UsageError(f"buffer lengths of {CNC_NAME}", found=found, expected=expected)
        total = align(CncMetaData.size + sum(lengths), self.file_page_size)
        if total > MAX_BUFFER_BYTES:
            expected = f"at most {MAX_BUFFER_BYTES} bytes"
            raise UsageError(f"length of {CNC_NAME}", found=f"{total} bytes", expected=expected)
        return total


class CncMemory:
    """The file's five buffers. ``header`` has their lengths and the driver's properties."""

    def __init__(self, memory: Memory, header: CncMetaData, where: str = CNC_NAME) -> None:
        self.header = header
        self._draft: FileDraft | None = None
        self._metadata = memory.slice(0, CncMetaData.size)
        ends = [CncMetaData.size]
        for field in CncMetaData.fields[1:6]:
            length = header.values[field.index]
            if length % ALIGNMENT:
                expected = f"a multiple of {ALIGNMENT}"
                raise CorruptData(where, offset=field.offset, found=f"{field.name} {length}", expected=expected)
            ends.append(ends[-1] + length)
        if ends[-1] > memory.length:
            raise CorruptData(where, found=f"{memory.length} bytes", expected=f"{ends[-1]} bytes or more")
        parts = [memory.slice(start, end - start) for start, end in pairwise(ends)]
        self.to_driver, self.to_clients, self.counters_metadata, self.counters_values, self.error_log = parts

    @classmethod
    def create(cls, folder: Path, settings: CncSettings, now_ms: int) -> Self:
        """Create the file of a new driver under a temporary name, until :meth:`signal_ready`. Raises
        :class:`StoreExists` if the file exists, :class:`WriteFailed` if the disk is full, :class:`UsageError` for
        invalid lengths."""
        draft = draft_file(Path(folder) / CNC_NAME, settings.file_length())
        cnc = cls._initialised(draft.memory, settings, now_ms)
        cnc._draft = draft
        return cnc

    @classmethod
    def allocate(cls, settings: CncSettings, now_ms: int) -> Self:
        """The same in private memory, for simulations."""
        return cls._initialised(Memory.allocate(settings.file_length()), settings, now_ms)

    @classmethod
    def _initialised(cls, memory: Memory, settings: CncSettings, now_ms: int) -> Self:
        header = settings.header(now_ms)
        memory.write(0, header)
        return cls(memory, CncMetaData.unpack_from(header))

    @classmethod
    def map(cls, folder: Path, *, writable: bool = True) -> Self:
        """Map a driver's file. Raises :class:`StoreUnavailable` if it does not exist or its driver is still starting,
        :class:`UnsupportedVersion` for a version other than 0.2, :class:`CorruptData` for invalid lengths."""
        path = Path(folder) / CNC_NAME
        try:
            memory = map_file(path, minimum=CncMetaData.size, maximum=MAX_BUFFER_BYTES, writable=writable)
        except CorruptData as problem:
            hint = "a driver is starting, or died while it was starting"
            raise StoreUnavailable(str(path), found=problem.found, expected=problem.expected, hint=hint) from None
        memory.get_i32_acquire(_VERSION)
        return cls(memory, read_header(memory.read(0, CncMetaData.size), str(path)), str(path))

    def signal_ready(self) -> None:
        """Let clients connect. Raises :class:`WriteFailed` if the file can't be renamed."""
        self._metadata.put_i32_volatile(_VERSION, CNC_VERSION)
        draft, self._draft = self._draft, None
        if draft is not None:
            draft.publish()

    @property
    def is_ready(self) -> bool:
        """Whether the driver has written the version."""
        return self._metadata.get_i32_acquire(_VERSION) != 0

    def close(self) -> None:
        """Drop the memory; it is unmapped with the last reference to a part of it. Deletes a file that was not
        ready."""
        draft, self._draft = self._draft, None
        if draft is not None:
            draft.discard()
        nothing = Memory.allocate(CncMetaData.size)
        self._metadata = self.to_driver = self.to_clients = nothing
        self.counters_metadata = self.counters_values = self.error_log = nothing


def is_driver_active(folder: Path, now_ms: int, timeout_ms: int) -> bool:
    """Whether a driver of this folder had a heartbeat within ``timeout_ms``. An unreadable file, or one whose driver
    never got ready, counts as inactive. Raises :class:`UnsupportedVersion` for a driver of another version."""
    try:
        cnc = CncMemory.map(folder, writable=False)
        heartbeat = ManyToOneRingBuffer(cnc.to_driver).consumer_heartbeat
    except (StoreUnavailable, CorruptData):
        return False
    return abs(now_ms - heartbeat) <= timeout_ms
