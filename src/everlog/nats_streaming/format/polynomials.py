"""Detects the CRC polynomial. A store does not record it, so known ones are tried if a checksum does not match."""

from __future__ import annotations

from everlog.core.files.storage import Storage
from everlog.core.report import Fault
from everlog.errors import EverlogError
from everlog.kernel.crc32 import CASTAGNOLI, IEEE, Crc32
from everlog.nats_streaming.format.layouts import RecordHeader
from everlog.nats_streaming.format.records import FIRST_RECORD, HEADER

KOOPMAN = 0xEB31D82E
KNOWN = (IEEE, CASTAGNOLI, KOOPMAN)
_MAX_PAYLOAD_BYTES = 16 << 20


def fitting_polynomial(storage: Storage, name: str, crc: Crc32) -> int | None:
    """Return the known polynomial that matches the first record of a file, or ``None`` if ``crc`` already matches or
    none does."""
    try:
        with storage.open(name) as file:
            head = file.read_at(FIRST_RECORD, HEADER)
            if len(head) < HEADER:
                return None
            word, expected = RecordHeader.unpack_from(head).values
            if not 0 < word <= _MAX_PAYLOAD_BYTES:
                return None
            payload = file.read_at(FIRST_RECORD + HEADER, word)
    except EverlogError:
        return None
    if len(payload) != word or crc.checksum(payload) == expected:
        return None
    return next((p for p in KNOWN if p != crc.polynomial and Crc32(p).checksum(payload) == expected), None)


def polynomial_fault(name: str, found: int, fitting: int) -> Fault:
    """Make the fault that names the right polynomial, ``fitting``."""
    return Fault(
        "wrong-polynomial",
        name,
        FIRST_RECORD,
        f"checksums of polynomial 0x{fitting:08x}",
        f"0x{found:08x}",
        "everything, until the right polynomial is given",
        f"read with crc_poly={fitting} (a server: -file_crc_poly {fitting})",
    )
