"""Searches a ``.dat`` file for the next message after damage."""

from __future__ import annotations

from everlog.core.files.storage import ReadableFile
from everlog.kernel.crc32 import Crc32
from everlog.nats_streaming.format.budget import Budget
from everlog.nats_streaming.format.layouts import MAX_RECORD_BYTES, RecordHeader
from everlog.nats_streaming.format.protobuf import BadMessage, read_varint

HEADER = RecordHeader.size
SEARCH_BYTES = 1 << 20
_ZEROS = bytes(SEARCH_BYTES)
MAX_RETRIES = 1024
"""How far a sequence may go back after damage: a server writes at most this many messages before their index."""

_PREFIX_BYTES = 1 + 10 + 1 + 5
"""Longest start of a payload up to the channel's name."""


class MessageSearch:
    """Finds messages of the channel ``channel``. The last block is cached, so that a search that begins where the
    previous one ended reads nothing twice."""

    def __init__(self, file: ReadableFile, channel: bytes, crc: Crc32, budget: Budget) -> None:
        self._file = file
        self._crc = crc
        self._budget = budget
        self._pattern = b"\x12" + _varint(len(channel)) + channel
        self._overlap = HEADER + _PREFIX_BYTES + len(self._pattern)
        self._base = 0
        self._block = b""

    def find(self, at: int, end: int, last: int) -> int | None:
        """Return the offset of the first whole message from ``at`` on with a right checksum and a sequence that can
        follow ``last`` (0: any); ``None`` if none starts before ``end`` or the budget is spent."""
        place = at
        while place < end:
            if not self._load(place, end):
                return None
            hit = -1 if self._block == _ZEROS else self._block.find(self._pattern, max(place - self._base, 0))
            while hit >= 0:
                begin = _payload_start(self._block, hit)
                if self._base + begin - HEADER >= at and self._is_message(begin, hit, end, at, last):
                    return self._base + begin - HEADER
                if self._budget.is_spent:
                    return None
                hit = self._block.find(self._pattern, hit + 1)
            place = self._base + len(self._block) - self._overlap
            if place + self._overlap >= end:
                return None
        return None

    def follows(self, at: int, end: int, lost: int) -> bool:
        """Whether the message after sequence ``lost`` seems to start at ``at``; the walker then checks it. Any other
        message there means that the damaged length is wrong."""
        head = self._file.read_at(at, min(self._overlap, end - at))
        if len(head) < HEADER:
            return False
        length = RecordHeader.unpack_from(head).length
        sequence, after = _sequence_of(head, HEADER)
        if sequence != lost + 1:
            return False
        return bool(at + HEADER + length <= end and head.startswith(self._pattern, after))

    def _load(self, place: int, end: int) -> bool:
        """Load the block with ``place``, or with what follows a hole there; return whether there is data to search."""
        block_end = self._base + len(self._block)
        if self._base <= place and (place + self._overlap < block_end or end <= block_end):
            return True
        data = self._file.next_data(place)
        if data >= end:
            return False
        self._base = max(place, data - self._overlap)
        self._block = self._file.read_at(self._base, min(SEARCH_BYTES, end - self._base))
        self._budget.earn(len(self._block))
        return len(self._block) > self._overlap or self._base + len(self._block) >= end

    def _is_message(self, begin: int, subject: int, end: int, start: int, last: int) -> bool:
        length, crc = RecordHeader.unpack_from(self._block, begin - HEADER).values
        offset = self._base + begin
        least = subject - begin + len(self._pattern)
        if not least <= length <= min(MAX_RECORD_BYTES, end - offset):
            return False
        sequence, _ = _sequence_of(self._block, begin)
        room = 1 + (offset - HEADER - start) // (HEADER + len(self._pattern) + 2)
        if last and not max(1, last - MAX_RETRIES) <= sequence <= last + 1 + room:
            return False
        payload = self._file.read_at(offset, length)
        is_right = bool(len(payload) == length and self._crc.checksum(payload) == crc)
        if not is_right:
            self._budget.spend(length)
        return is_right


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _sequence_of(data: bytes, at: int) -> tuple[int, int]:
    """The sequence at a payload's start and the offset after it; sequence 0 if the payload starts otherwise."""
    if data[at : at + 1] != b"\x08":
        return 0, at
    try:
        return read_varint(data, at + 1, len(data))
    except BadMessage:
        return 0, at


def _payload_start(block: bytes, subject: int) -> int:
    """The start of the payload whose subject field is at ``subject``, with a tag and a varint before it; -1 if there is
    none, or no room for a header before it."""
    at = subject - 1
    if at < 1 or block[at] > 0x7F:
        return -1
    while at > 1 and subject - at < 10 and block[at - 1] > 0x7F:
        at -= 1
    return at - 1 if block[at - 1] == 0x08 and at - 1 >= HEADER else -1
