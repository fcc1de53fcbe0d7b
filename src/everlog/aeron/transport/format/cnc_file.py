"""``cnc.dat``, the command and control file between a media driver and its clients, read while it is written. Source:
CncFileDescriptor.

It is read with ``pread`` in pieces, and no more of it than is used: it has tens of megabytes, most of them holes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

from everlog.aeron.error_log import DistinctError, read_errors
from everlog.aeron.frames.constants import version_text
from everlog.aeron.transport.format.counters import (
    ALLOCATED,
    METADATA_LENGTH,
    VALUE_LENGTH,
    Counter,
    parse_counters,
    used_length,
)
from everlog.aeron.transport.format.layouts import BroadcastTrailer, CncMetaData, RingBufferTrailer
from everlog.core.files.storage import ReadableFile, Storage
from everlog.core.files.zeros import first_nonzero
from everlog.errors import CorruptData, LimitExceeded, StoreUnavailable, UnsupportedVersion
from everlog.time_units import NS_PER_MS

CNC_NAME = "cnc.dat"
SUPPORTED = 0, 2
"""Major and minor version. Both changed the layout while the major one is 0."""
CHUNK_BYTES = 64 << 10
MAX_READS = 4
"""How often counters are read anew when they changed meanwhile."""
MAX_BUFFER_BYTES = (1 << 31) - 1
MAX_USED_BYTES = 256 << 20
"""Of the counters' metadata (half a million counters) and of the error log: more is refused."""
DRIVER_TIMEOUT_MS = 10_000
"""A driver whose heartbeat is older than this, and no client's timeout is longer, is gone."""
CLOSED = -1
"""Heartbeat of a driver that closed as it should."""


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the file, ``start <= offset < end``."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """Bytes."""
        return self.end - self.start


class CncFile:
    """An open ``cnc.dat`` whose metadata is right. A file that was cut is read as far as it goes: then ``problem`` says
    so. Close it, or use it in a ``with`` statement."""

    def __init__(self, file: ReadableFile, header: CncMetaData, size: int) -> None:
        self.header = header
        self.size = size
        self._file = file
        lengths = (
            header.to_driver_buffer_length,
            header.to_clients_buffer_length,
            header.counters_metadata_buffer_length,
            header.counters_values_buffer_length,
            header.error_log_buffer_length,
        )
        ends = [CncMetaData.size]
        for length in lengths:
            ends.append(ends[-1] + length)
        regions = [Region(start, end) for start, end in pairwise(ends)]
        self.to_driver, self.to_clients, self.counters_metadata, self.counters_values, self.error_log = regions

    @classmethod
    def open(cls, storage: Storage, name: str = CNC_NAME) -> Self:
        """Raises :class:`StoreUnavailable` when there is none or a driver is just starting, :class:`UnsupportedVersion`
        for another version than 0.2, :class:`CorruptData` for metadata that can't be."""
        file = storage.open(name)
        try:
            size = file.size()
            header = read_header(file.read_at(0, CncMetaData.size), name)
            return cls(file, header, size)
        except BaseException:
            file.close()
            raise

    @property
    def problem(self) -> str | None:
        """What is missing of the file, or ``None``."""
        return None if self.size >= self.error_log.end else f"{self.size} bytes of {self.error_log.end}"

    @property
    def version(self) -> str:
        """Such as ``0.2.0``."""
        return version_text(self.header.cnc_version)

    @property
    def max_counter_id(self) -> int:
        """The highest id that there is room for."""
        return self.counters_values.length // VALUE_LENGTH - 1

    def read(self, region: Region, length: int | None = None, skip: int = 0) -> bytes:
        """Bytes of a region, fewer where the file ends before it does."""
        start = region.start + skip
        room = max(region.end - start, 0)
        return self._file.read_at(start, room if length is None else min(length, room))

    def used_from(self, region: Region, skip: int) -> int:
        """How far into a region the first byte is, from ``skip`` on, that is not 0; the region's length where there is
        none, or the file ends before it."""
        return first_nonzero(self._file, region.start + skip, region.end) - region.start

    # Counters

    def counters(self) -> list[Counter]:
        """The allocated counters. What changed while it was read is read anew, so that no counter has the label of one
        and the value of another."""
        return [counter for counter in self.all_counters() if counter.state == ALLOCATED]

    def counter(self, counter_id: int) -> Counter | None:
        """The counter of that id, if it is allocated; ``None``, too, where it changes while it is read."""
        place = counter_id * METADATA_LENGTH
        metadata = self.read(self.counters_metadata, METADATA_LENGTH, place)
        values = self.read(self.counters_values, VALUE_LENGTH, counter_id * VALUE_LENGTH)
        if self.read(self.counters_metadata, METADATA_LENGTH, place) != metadata:
            return None
        found = next(parse_counters(metadata, values, counter_id), None)
        return found if found is not None and found.state == ALLOCATED else None

    def all_counters(self) -> list[Counter]:
        """Reclaimed ones too, up to the first that was never used."""
        metadata = self._used_metadata()
        for _ in range(MAX_READS):
            count = len(metadata) // METADATA_LENGTH
            values = self.read(self.counters_values, count * VALUE_LENGTH)
            again = self._used_metadata()
            if again == metadata:
                break
            metadata = again
        return list(parse_counters(metadata, values))

    def _used_metadata(self) -> bytes:
        """Metadata records up to the first that was never used."""
        pieces: list[bytes] = []
        at, end = 0, self.counters_metadata.length
        while at < end:
            piece = self.read(self.counters_metadata, CHUNK_BYTES, at)
            used = used_length(piece)
            pieces.append(piece[:used])
            if used < CHUNK_BYTES:
                break
            at += used
            self._check_used(at, self.counters_metadata)
        return b"".join(pieces)

    # The rest

    def errors(self) -> list[DistinctError]:
        """The driver's distinct errors."""
        return read_errors(self.used_error_log())

    def used_error_log(self) -> bytes:
        """The error log up to the chunk of zeros that ends it."""
        pieces: list[bytes] = []
        at = 0
        while at < self.error_log.length:
            piece = self.read(self.error_log, CHUNK_BYTES, at)
            pieces.append(piece)
            if len(piece) < CHUNK_BYTES or not any(piece):
                break
            at += CHUNK_BYTES
            self._check_used(at, self.error_log)
        return b"".join(pieces)

    def _check_used(self, length: int, region: Region) -> None:
        if length > MAX_USED_BYTES:
            raise LimitExceeded(
                self._file.name,
                offset=region.start,
                found=f"over {length} bytes in use",
                expected=f"at most {MAX_USED_BYTES}",
            )

    def to_driver_trailer(self) -> RingBufferTrailer | None:
        """The trailer of the clients' commands; ``None`` where the file does not hold it."""
        if self.to_driver.length < RingBufferTrailer.size:
            return None
        skip = self.to_driver.length - RingBufferTrailer.size
        data = self.read(self.to_driver, skip=skip)
        return RingBufferTrailer.unpack_from(data) if len(data) == RingBufferTrailer.size else None

    def to_clients_trailer(self) -> BroadcastTrailer | None:
        """The trailer of the driver's answers; ``None`` where the file does not hold it."""
        if self.to_clients.length < BroadcastTrailer.size:
            return None
        data = self.read(self.to_clients, skip=self.to_clients.length - BroadcastTrailer.size)
        return BroadcastTrailer.unpack_from(data) if len(data) == BroadcastTrailer.size else None

    def heartbeat_ms(self) -> int | None:
        """When the driver last said that it runs, in milliseconds since 1970; ``None`` where the file does not say."""
        trailer = self.to_driver_trailer()
        return None if trailer is None else trailer.consumer_heartbeat

    def is_live(self, now_ms: int) -> bool:
        """Whether a driver said within the timeout that it runs."""
        heartbeat = self.heartbeat_ms()
        timeout = max(DRIVER_TIMEOUT_MS, self.header.client_liveness_timeout_ns // NS_PER_MS)
        return heartbeat is not None and abs(now_ms - heartbeat) <= timeout

    def to_dict(self) -> dict[str, Any]:
        """Metadata and heartbeat as plain values."""
        fields = self.header.as_dict()
        to_driver, to_clients = self.to_driver_trailer(), self.to_clients_trailer()
        return {
            **fields,
            "version": self.version,
            "file_length": self.size,
            "max_counter_id": self.max_counter_id,
            "heartbeat_ms": self.heartbeat_ms(),
            "to_driver": None if to_driver is None else to_driver.as_dict(),
            "to_clients": None if to_clients is None else to_clients.as_dict(),
        }

    def close(self) -> None:
        """Give the file back; a second call does nothing."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_header(data: bytes, name: str = CNC_NAME) -> CncMetaData:
    """The metadata at the start of the file. Raises as :meth:`CncFile.open` does."""
    if len(data) < CncMetaData.size:
        raise CorruptData(name, offset=0, found=f"{len(data)} bytes", expected=f"metadata of {CncMetaData.size} bytes")
    header = CncMetaData.unpack_from(data)
    version = header.cnc_version
    if version == 0:
        raise StoreUnavailable(
            name, offset=0, found="version 0", expected="0.2.0", hint="a driver is starting, or died while it did"
        )
    if not 0 < version < 1 << 24 or (version >> 16, version >> 8 & 0xFF) != SUPPORTED:
        found = f"version {version_text(version)}" if 0 < version < 1 << 24 else f"version {version:#x}"
        raise UnsupportedVersion(name, offset=0, found=found, expected="version 0.2.x")
    total = CncMetaData.size
    for field in CncMetaData.fields[1:6]:
        length = header.values[field.index]
        total += length
        if length < 0 or total > MAX_BUFFER_BYTES:
            raise CorruptData(
                name, offset=field.offset, found=f"{field.name} {length}", expected="lengths of 2 GiB together, at most"
            )
    return header


def driver_errors(storage: Storage) -> list[DistinctError]:
    """The distinct errors of the driver whose folder this is. Raises as :meth:`CncFile.open` does."""
    with CncFile.open(storage) as cnc:
        return cnc.errors()
