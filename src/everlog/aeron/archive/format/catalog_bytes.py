"""Encodes a catalog of version 3.1. Source: Catalog, aeron-archive-codecs.xml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from everlog.aeron.archive.format.catalog import ALIGNMENT, STATES, CatalogEntry, descriptor_problem
from everlog.aeron.family_options import Checksum
from everlog.aeron.frames.constants import NULL_POSITION, NULL_TIMESTAMP, align
from everlog.aeron.layouts import CatalogHeader, DescriptorHeader, RecordingDescriptor
from everlog.errors import LimitExceeded, UsageError
from everlog.kernel.crc32 import CASTAGNOLI, IEEE, Crc32

VERSION = 3 << 16 | 1 << 8
MAX_CATALOG_BYTES = (1 << 31) - 1
MAX_TEXT_BYTES = 64 << 10
"""The longest channel or source identity that is written; those of real archives have some hundred bytes."""
STATE_CODES = {name: code for code, name in STATES.items()}
CHECKSUMS: dict[Checksum, Crc32] = {"crc32": Crc32(IEEE), "crc32c": Crc32(CASTAGNOLI)}


@dataclass(frozen=True, kw_only=True)
class Descriptor:
    """A recording's descriptor in the catalog. Times are milliseconds since 1970; ``stop_position`` and
    ``stop_timestamp`` are -1 while the recording is active. ``control_session_id`` and ``correlation_id`` are 0 if no
    network client requested it."""

    recording_id: int
    start_timestamp: int
    stop_timestamp: int = NULL_TIMESTAMP
    start_position: int = 0
    stop_position: int = NULL_POSITION
    initial_term_id: int
    segment_file_length: int
    term_buffer_length: int
    mtu_length: int
    session_id: int
    stream_id: int
    stripped_channel: str
    original_channel: str
    source_identity: str
    control_session_id: int = 0
    correlation_id: int = 0

    @classmethod
    def of(cls, entry: CatalogEntry) -> Descriptor:
        """Return the descriptor of a catalog entry."""
        names = (field.name for field in RecordingDescriptor.block.members)
        values: dict[str, Any] = dict(zip(names, entry.values, strict=True))
        values.update(entry.texts)
        return cls(**values)

    def check(self) -> None:
        """Raises :class:`UsageError` if a field is invalid."""
        values = tuple(getattr(self, field.name) for field in RecordingDescriptor.block.members)
        problem = descriptor_problem(values)
        if problem is not None:
            name, found, expected = problem
            raise UsageError(name, found=str(found), expected=expected)


def encode_header(next_recording_id: int, version: int = VERSION, alignment: int = ALIGNMENT) -> bytes:
    """Return a catalog's header."""
    return CatalogHeader.pack(
        version=version, length=CatalogHeader.size, next_recording_id=next_recording_id, alignment=alignment
    )


def encode_body(descriptor: Descriptor, alignment: int = ALIGNMENT) -> bytes:
    """Return an entry's body: what follows its header, zero-padded to the next entry. Raises :class:`UsageError` for an
    invalid field or text that is not ASCII, :class:`LimitExceeded` for a text over ``MAX_TEXT_BYTES``."""
    descriptor.check()
    block = {field.name: getattr(descriptor, field.name) for field in RecordingDescriptor.block.members}
    parts = [RecordingDescriptor.pack(**block)]
    for text in RecordingDescriptor.var_data:
        encoded = _ascii(text.name, getattr(descriptor, text.name))
        parts += [len(encoded).to_bytes(4, "little"), encoded]
    body = b"".join(parts)
    return body.ljust(align(DescriptorHeader.size + len(body), alignment) - DescriptorHeader.size, b"\0")


def encode_entry_header(body: bytes, state: str, checksum: Checksum = "none") -> bytes:
    """Return the header of an entry with this body. ``checksum`` is ``none``, ``crc32`` or ``crc32c``; it covers the
    whole body."""
    crc = CHECKSUMS.get(checksum)
    return DescriptorHeader.pack(
        length=len(body), state=STATE_CODES[state], checksum=0 if crc is None else to_int32(crc.checksum(body))
    )


def encode_entry(
    descriptor: Descriptor, state: str = "VALID", checksum: Checksum = "none", alignment: int = ALIGNMENT
) -> bytes:
    """Return a whole entry, header and body."""
    body = encode_body(descriptor, alignment)
    return encode_entry_header(body, state, checksum) + body


def to_int32(value: int) -> int:
    """Convert an unsigned 32-bit value to the signed one with the same bits."""
    return value - (1 << 32) if value >> 31 else value


def _ascii(name: str, text: str) -> bytes:
    try:
        encoded = text.encode("ascii")
    except UnicodeEncodeError as error:
        raise UsageError(name, found=repr(text), expected="ASCII text") from error
    if len(encoded) > MAX_TEXT_BYTES:
        raise LimitExceeded(name, found=f"{len(encoded)} bytes", expected=f"at most {MAX_TEXT_BYTES}")
    return encoded
