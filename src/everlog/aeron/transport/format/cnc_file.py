"""Reads ``cnc.dat``, the command and control file between a media driver and its clients, while they write it. Source:
CncFileDescriptor.

Only the used parts are read, in pieces with ``pread``: the file has tens of megabytes, most of them holes.
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
"""Major and minor version. While the major one is 0, either may change the layout."""
CHUNK_BYTES = 64 << 10
MAX_READS = 4
"""How often counters are read again if they changed during the read."""
MAX_BUFFER_BYTES = (1 << 31) - 1
MAX_USED_BYTES = 256 << 20
"""Limit of the used counters' metadata (half a million counters) and of the used error log."""
DRIVER_TIMEOUT_MS = 10_000
"""A driver is gone if its heartbeat is older than this and than the client liveness timeout."""
CLOSED = -1
"""Heartbeat of a driver that was closed properly."""


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the file: ``start <= offset < end``."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """Length in bytes."""
        return self.end - self.start


class CncFile:
    """An open ``cnc.dat`` with valid metadata. A truncated file is read as far as it goes, and ``problem`` says so.
    Close it, or use it in a ``with`` statement."""

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
        """Open the file. Raises :class:`StoreUnavailable` if it does not exist or its driver is just starting,
        :class:`UnsupportedVersion` if its version is not 0.2, :class:`CorruptData` if its metadata is invalid."""
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
        """How much of the file exists if it is truncated, else ``None``."""
        return None if self.size >= self.error_log.end else f"{self.size} bytes of {self.error_log.end}"

    @property
    def version(self) -> str:
        """The version as text, for example ``0.2.0``."""
        return version_text(self.header.cnc_version)

    @property
    def max_counter_id(self) -> int:
        """The highest counter id that fits."""
        return self.counters_values.length // VALUE_LENGTH - 1

    def read(self, region: Region, length: int | None = None, skip: int = 0) -> bytes:
        """Read bytes of a region; fewer if the file ends within it."""
        start = region.start + skip
        room = max(region.end - start, 0)
        return self._file.read_at(start, room if length is None else min(length, room))

    def used_from(self, region: Region, skip: int) -> int:
        """The offset in a region, from ``skip`` on, of the first byte that is not 0; the region's length if all are 0
        or the file ends before."""
        return first_nonzero(self._file, region.start + skip, region.end) - region.start

    # Counters

    def counters(self) -> list[Counter]:
        """Read the allocated counters. Counters that change during the read are read again, so that no counter has the
        label of one and the value of another."""
        return [counter for counter in self.all_counters() if counter.state == ALLOCATED]

    def counter(self, counter_id: int) -> Counter | None:
        """Read the counter with that id; ``None`` if it is not allocated, or changes during the read."""
        place = counter_id * METADATA_LENGTH
        metadata = self.read(self.counters_metadata, METADATA_LENGTH, place)
        values = self.read(self.counters_values, VALUE_LENGTH, counter_id * VALUE_LENGTH)
        if self.read(self.counters_metadata, METADATA_LENGTH, place) != metadata:
            return None
        found = next(parse_counters(metadata, values, counter_id), None)
        return found if found is not None and found.state == ALLOCATED else None

    def all_counters(self) -> list[Counter]:
        """Read all counters, including reclaimed ones, up to the first that was never used."""
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
        """Read the driver's distinct errors."""
        return read_errors(self.used_error_log())

    def used_error_log(self) -> bytes:
        """Read the error log up to its first chunk of zeros."""
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
                found=f"more than {length} bytes in use",
                expected=f"at most {MAX_USED_BYTES}",
            )

    def to_driver_trailer(self) -> RingBufferTrailer | None:
        """Read the trailer of the clients' commands; ``None`` if the file ends before it."""
        if self.to_driver.length < RingBufferTrailer.size:
            return None
        skip = self.to_driver.length - RingBufferTrailer.size
        data = self.read(self.to_driver, skip=skip)
        return RingBufferTrailer.unpack_from(data) if len(data) == RingBufferTrailer.size else None

    def to_clients_trailer(self) -> BroadcastTrailer | None:
        """Read the trailer of the driver's events; ``None`` if the file ends before it."""
        if self.to_clients.length < BroadcastTrailer.size:
            return None
        data = self.read(self.to_clients, skip=self.to_clients.length - BroadcastTrailer.size)
        return BroadcastTrailer.unpack_from(data) if len(data) == BroadcastTrailer.size else None

    def heartbeat_ms(self) -> int | None:
        """The driver's last heartbeat in milliseconds since 1970; ``None`` if the file ends before it."""
        trailer = self.to_driver_trailer()
        return None if trailer is None else trailer.consumer_heartbeat

    def is_live(self, now_ms: int) -> bool:
        """Whether the driver's last heartbeat is within the timeout."""
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
        """Close the file. Idempotent."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_header(data: bytes, name: str = CNC_NAME) -> CncMetaData:
    """Decode the metadata at the start of the file. Raises as :meth:`CncFile.open` does."""
    if len(data) < CncMetaData.size:
        raise CorruptData(name, offset=0, found=f"{len(data)} bytes", expected=f"metadata of {CncMetaData.size} bytes")
    header = CncMetaData.unpack_from(data)
    version = header.cnc_version
    if version == 0:
        raise StoreUnavailable(
            name, offset=0, found="version 0", expected="0.2.0", hint="a driver is starting, or died while starting"
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
                name, offset=field.offset, found=f"{field.name} {length}", expected="buffers of at most 2 GiB in total"
            )
    return header


def driver_errors(storage: Storage) -> list[DistinctError]:
    """Read the distinct errors of a folder's driver. Raises as :meth:`CncFile.open` does."""
    with CncFile.open(storage) as cnc:
        return cnc.errors()
