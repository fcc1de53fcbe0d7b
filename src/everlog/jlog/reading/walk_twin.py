"""The message walker in plain Python: the specification of ``_walk.pyx``, and the fallback if that is not built.

A message is accepted if its header is plausible (see :mod:`everlog.jlog.format.framing`), it ends inside the data, its
end is the end of the data or another plausible header, and no other plausible header is inside its payload. Otherwise
the walker stops with a status, and :mod:`everlog.jlog.reading.recovery` examines the place and decides.

Computed numbers of a row: 0 time in nanoseconds since 1970, 1 segment number, 2 marker, 3 offset in the file. Byte span
0 is the stored payload (without the zeros that the null provider stores for an empty message).
"""

from __future__ import annotations

from everlog.jlog.format.framing import LZ4_MAX_EXPANSION, MAX_MESSAGE_BYTES, MICROSECONDS, Provider
from everlog.jlog.format.layouts import NULL_EMPTY_BYTES, JlogCompressedHeader, JlogHeader
from everlog.kernel.columns_twin import RowSink
from everlog.layout import Readable

MORE = 0
"""The message at the returned place is incomplete in the buffer."""
FULL = 1
"""The sink has no room for the message at the returned place."""
END = 2
"""The data ends at the returned place, with a whole message before it."""
STOP = 3
"""The next message is number ``stop``."""
FAULT = 4
"""The message at the returned place has no valid successor, does not end inside the data, or is not a message."""
SUSPECT = 5
"""The message at the returned place is valid, but contains another plausible header."""

TIMESTAMP_NS, LOG, MARKER, OFFSET = range(4)


def walk_messages(
    data: Readable,
    start: int,
    end: int,
    at_end: bool,
    base: int,
    magic: int,
    provider: int,
    log: int,
    marker: int,
    first: int,
    stop: int,
    trusted: int,
    sink: RowSink,
) -> tuple[int, int, int]:
    """Walk the messages of ``data[start:end]``; those numbered ``first`` <= marker < ``stop`` go into ``sink``.

    ``data[0]`` is at ``base`` in the file; ``at_end`` says that the data ends at ``end``. ``marker`` is the number of
    the message at ``start``. The message at ``trusted`` (an index into ``data``, or -1) is accepted without checking
    its payload or successor. Returns the place reached, the number of the message there, and a status.
    """
    header_bytes = JlogHeader.size if provider == Provider.PLAIN else JlogCompressedHeader.size
    at = start
    while True:
        if marker >= stop:
            return at, marker, STOP
        if at == end and at_end:
            return at, marker, END
        if end - at < header_bytes:
            return at, marker, FAULT if at_end else MORE
        stored = stored_length(data, at, magic, provider)
        if stored < 0:
            return at, marker, FAULT
        payload = at + header_bytes
        after = payload + stored
        if after > end:
            return at, marker, FAULT if at_end else MORE
        if at != trusted:
            status = _followed(data, after, end, at_end, header_bytes, magic, provider)
            if status < 0:
                status = _holds_header(data, payload, after, header_bytes, magic, provider, after == end)
            if status >= 0:
                return at, marker, status
        if marker >= first:
            span = (payload, after)
            if provider == Provider.NULL:
                span = (payload, payload + JlogHeader.unpack_from(data, at).length)
            if not sink.has_room(span[1] - span[0]):
                return at, marker, FULL
            header = JlogHeader.unpack_from(data, at)
            nanoseconds = header.tv_sec * 1_000_000_000 + header.tv_usec * 1000
            sink.add_row(data, at, (nanoseconds, log, marker, base + at), ((span,),))
        at = after
        marker += 1


def stored_length(data: Readable, at: int, magic: int, provider: int) -> int:
    """Bytes of stored payload after the complete header at ``at``; -1 if it is not plausible."""
    header = JlogHeader.unpack_from(data, at)
    length: int = header.length
    if header.magic != magic or header.tv_usec >= MICROSECONDS or length > MAX_MESSAGE_BYTES:
        return -1
    if magic == 0 and header.tv_sec == 0:
        return -1
    if provider == Provider.PLAIN:
        return length
    stored: int = JlogCompressedHeader.unpack_from(data, at).stored_length
    if stored > MAX_MESSAGE_BYTES:
        return -1
    if provider == Provider.NULL and stored != length and not (length == 0 and stored == NULL_EMPTY_BYTES):
        return -1
    if provider == Provider.LZ4 and not (
        1 <= stored <= length + length // 255 + 16 and length <= stored * LZ4_MAX_EXPANSION
    ):
        return -1
    return stored


def _followed(data: Readable, after: int, end: int, at_end: bool, header_bytes: int, magic: int, provider: int) -> int:
    """-1 if the data ends at ``after`` or another header is there, else the status to stop with."""
    if end - after < header_bytes:
        if not at_end:
            return MORE
        return -1 if after == end else FAULT
    return -1 if stored_length(data, after, magic, provider) >= 0 else FAULT


def _holds_header(
    data: Readable, start: int, end: int, header_bytes: int, magic: int, provider: int, is_last: bool
) -> int:
    """``SUSPECT`` if ``data[start:end]`` has a plausible header with its whole message, else -1. In the last message of
    the data (``is_last``) the header is enough, because the inner message may be torn too."""
    mark = magic.to_bytes(4, "little")
    whole = data if isinstance(data, bytes | bytearray) else bytes(data)
    at = whole.find(mark, start, end)
    while at >= 0 and at + header_bytes <= end:
        stored = stored_length(data, at, magic, provider)
        if stored >= 0 and (is_last or at + header_bytes + stored <= end):
            return SUSPECT
        at = whole.find(mark, at + 1, end)
    return -1
