"""Resolution frames, which drivers' name resolvers exchange. Source: ResolutionEntryFlyweight, DriverNameResolver."""

from __future__ import annotations

from dataclasses import dataclass

from everlog.aeron.frames.constants import align
from everlog.aeron.transport.format.wire_layouts import TYPE_RES, VERSION, FrameHeader, ResolutionEntryHeader
from everlog.errors import CorruptData, UsageError
from everlog.layout import Readable

RESOLUTION_SELF = 0x80
MAX_NAME_LENGTH = 512
_ADDRESS_LENGTHS = {1: 4, 2: 16}
"""A resolution entry's type to the length of its address."""
_NAME_LENGTH_SIZE = 2
_ENTRY_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class ResolutionEntry:
    """A driver's name and its address of 4 or 16 bytes. ``is_self``: the entry is the sender's own."""

    name: str
    address: bytes
    port: int
    age_ms: int = 0
    is_self: bool = False


@dataclass(frozen=True, slots=True)
class Resolution:
    """The entries of a name resolver."""

    entries: tuple[ResolutionEntry, ...]


def read_resolution(data: Readable, offset: int, _length: int) -> Resolution:
    """Decode the entries up to the datagram's end, as the real resolver does. Raises :class:`CorruptData`."""
    end = len(data)
    at, entries = offset + FrameHeader.size, []
    while at < end:
        entry, at = _read_entry(data, at, end)
        entries.append(entry)
    return Resolution(tuple(entries))


def _read_entry(data: Readable, at: int, end: int) -> tuple[ResolutionEntry, int]:
    """An entry, and the offset of the next."""
    kind = data[at]
    address_start = at + ResolutionEntryHeader.size
    name_start = address_start + _ADDRESS_LENGTHS.get(kind, 0) + _NAME_LENGTH_SIZE
    if kind not in _ADDRESS_LENGTHS or name_start > end:
        found = f"type {kind}, {end - at} bytes"
        raise CorruptData(ResolutionEntryHeader.title, offset=at, found=found, expected="type 1 or 2 and its address")
    address_end = name_start - _NAME_LENGTH_SIZE
    count = int.from_bytes(data[address_end:name_start], "little")
    if not 0 < count <= min(MAX_NAME_LENGTH, end - name_start):
        expected = f"1 to {MAX_NAME_LENGTH} bytes, within the datagram"
        raise CorruptData(ResolutionEntryHeader.title, offset=at, found=f"a name of {count} bytes", expected=expected)
    _, flags, port, age_ms = ResolutionEntryHeader.struct.unpack_from(data, at)
    name = bytes(data[name_start : name_start + count]).decode("ascii", "replace")
    address = bytes(data[address_start:address_end])
    entry = ResolutionEntry(name, address, port, age_ms, bool(flags & RESOLUTION_SELF))
    return entry, at + align(name_start + count - at, _ENTRY_ALIGNMENT)


def write_resolution(frame: Resolution) -> bytes:
    """Encode a resolution as datagram. Raises :class:`UsageError` if it can't hold an address or a name."""
    parts = b"".join(_write_entry(entry) for entry in frame.entries)
    return FrameHeader.struct.pack(FrameHeader.size + len(parts), VERSION, 0, TYPE_RES) + parts


def _write_entry(entry: ResolutionEntry) -> bytes:
    kinds = [kind for kind, length in _ADDRESS_LENGTHS.items() if length == len(entry.address)]
    name = entry.name.encode("ascii", "replace")
    if not kinds or not 0 < len(name) <= MAX_NAME_LENGTH:
        found = f"{entry.name!r} at an address of {len(entry.address)} bytes"
        expected = f"a name of 1 to {MAX_NAME_LENGTH} bytes at an address of 4 or 16 bytes"
        raise UsageError("resolution entry", found=found, expected=expected)
    header = ResolutionEntryHeader.struct.pack(
        kinds[0], RESOLUTION_SELF if entry.is_self else 0, entry.port, entry.age_ms
    )
    data = header + entry.address + len(name).to_bytes(_NAME_LENGTH_SIZE, "little") + name
    return data.ljust(align(len(data), _ENTRY_ALIGNMENT), b"\0")
