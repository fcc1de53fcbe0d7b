"""Decides what to do where the walker stops: whether the message there is whole, and where the next one starts.

Without checksums only headers can decide. The rules, worst error first: never return a message that was not written;
lose no whole message.

* A message with a plausible header that ends inside the data is whole, unless another message starts before its end:
  then it was not written completely, and others were appended after it.
* A place counts as the start of a message if its header is plausible and confirmed: by another plausible header (or the
  end of the data) directly after its message, or by the index. In a journal of version 1.x, whose magic is 0, four more
  must follow.
* Inside the extent declared by a plausible header, headers that are not older than it count: messages appended after a
  torn one are later, while frames inside a payload are earlier. Older headers count if their chain passes the end of
  that extent without ending there, or reaches the end of the data: frames in a payload do neither, messages from a
  buffer do.
* A message that ends exactly at another header or at the end of the data, and contains such headers, the last of which
  ends exactly where it does, was torn as well (the C library's readers return one message made of two here).
  Exceptions: the index has it as one message, or the inner ones are later than the message after it; then they are
  payload.
* Headers as old as a torn message that ends after the data are treated like older ones: a forwarded message may have
  the time of what it quotes.
* Inside the extent of a message without a valid successor, even an unconfirmed header shows that this message was torn.
* If an index has a message and the next one, and gives another end, its length is wrong.
* A header inside a message whose LZ4 payload decodes does not count if its own payload does not decode.

A damaged stretch counts as one message in the numbering, unless the index knows the number of the message after it. So
addresses after a single lost message stay the same. A stretch shorter than a header held no message and counts as none:
it is the rest of the previous message, whose length is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from everlog.core.files.storage import ReadableFile
from everlog.errors import MissingDependency
from everlog.jlog.format.compression import Decode, lz4_decoder
from everlog.jlog.format.framing import KNOWN, LEGACY, Framing, Header, Provider
from everlog.jlog.format.index import SegmentIndex
from everlog.jlog.format.layouts import JlogCompressedHeader

FIRST_SEARCH_BYTES, SEARCH_BYTES = 4 << 10, 1 << 20
"""The data is searched in pieces that grow from the first size to the second, because the next message is often
near."""
CACHE_BYTES = 64 << 10
LEGACY_CHAIN = 4
"""This many plausible headers must follow one of version 1.x."""
MAX_CHAIN_STEPS = 100_000
"""Maximum number of headers examined inside one message before it is accepted; also the budget of a segment beyond one
step per 16 bytes."""
_ZEROS = bytes(SEARCH_BYTES + JlogCompressedHeader.size)
TORN = frozenset({"torn-record", "torn-header", "zero-bytes"})
"""Fault codes of an unfinished write."""


class SegmentData:
    """Random access to the bytes ``start <= offset < end`` of a file, a few at a time. ``cut_at`` is set if the file
    was found to end earlier: it was cut during reading, and conclusions from it are void."""

    def __init__(self, file: ReadableFile, start: int, end: int) -> None:
        self.file = file
        self.start = start
        self.end = end
        self.cut_at: int | None = None
        self.steps_left = (end - start) // 16 + MAX_CHAIN_STEPS
        self._cached_at = 0
        self._cached = b""

    def read(self, offset: int, length: int) -> bytes:
        """Bytes, fewer at the end of the data."""
        length = min(length, self.end - offset)
        at = offset - self._cached_at
        if not 0 <= at <= len(self._cached) - length:
            self._cached_at, at = offset, 0
            self._cached = self.read_file(offset, max(length, CACHE_BYTES))
        return self._cached[at : at + length]

    def read_file(self, offset: int, length: int) -> bytes:
        """Uncached bytes, fewer at the end of the data or where the file was cut."""
        length = min(length, self.end - offset)
        found = self.file.read_at(offset, length)
        if len(found) < length:
            self.cut_at = offset + len(found)
        return found

    def header(self, offset: int, framing: Framing) -> Header | None:
        """The plausible header at an offset, or ``None``."""
        if not self.start <= offset < self.end:
            return None
        return framing.parse(self.read(offset, framing.header_bytes), 0, offset)

    def is_zero(self, start: int, end: int) -> bool:
        """Whether all bytes are 0."""
        return next(self.pieces(start, end), None) is None

    def pieces(self, start: int, end: int, overlap: int = 0) -> Iterator[tuple[int, bytes, int]]:
        """The bytes from ``start`` to ``end`` that are not all zeros, in pieces: offset, bytes, and how many of them
        are the piece's own; up to ``overlap`` more follow, which the next piece repeats. Anything of ``overlap + 1``
        bytes that is not all zeros is whole in the piece where it starts. Holes are not read. The first pieces are
        small, for callers that stop early."""
        at, size = start, FIRST_SEARCH_BYTES
        while at < end:
            data = self.file.next_data(at)
            if data - overlap > at:
                at, size = data - overlap, FIRST_SEARCH_BYTES
                continue
            found = self.read_file(at, min(size + overlap, end - at))
            if found != _ZEROS[: len(found)]:
                yield at, found, min(size, len(found))
            if len(found) < min(size, end - at):  # the file was cut
                return
            at += size
            size = min(2 * size, SEARCH_BYTES)


@dataclass(frozen=True, slots=True)
class Verdict:
    """``whole``: accept the message where the walker stopped. Otherwise the bytes up to ``resume`` are lost, with fault
    code ``code``."""

    whole: bool
    resume: int = 0
    code: str = ""
    header: Header | None = None


WHOLE = Verdict(True)


def examine(data: SegmentData, at: int, framing: Framing, index: SegmentIndex) -> Verdict:
    """Judge the message at ``at``, which by the walker has no valid successor."""
    header = data.header(at, framing)
    if header is None:
        resume = find_message(data, at + 1, framing, index) or data.end
        return Verdict(False, resume, _code_of_bytes(data, at, resume, framing))
    if 0 < data.end - header.end < framing.header_bytes and is_followed(data, header, framing):
        return examine_suspect(data, at, framing, index)
    found = find_message(data, at + 1, framing, index, inside=header)
    if header.end > data.end:
        return Verdict(False, found or data.end, "torn-record", header)
    if found is not None and found < header.end:
        swallows = data.end - header.end < framing.header_bytes
        return Verdict(False, found, "merged-records" if swallows else "torn-record", header)
    begun = _begun_inside(data, header, framing)
    if begun is not None:
        inner = data.header(begun, framing)
        is_last = inner is None or inner.end > data.end
        return Verdict(False, begun if is_last else found or data.end, "torn-record", header)
    if _index_contradicts(data, header, framing, index):
        return Verdict(False, found or data.end, "damaged-bytes", header)
    return WHOLE


def examine_suspect(data: SegmentData, at: int, framing: Framing, index: SegmentIndex) -> Verdict:
    """Judge the message at ``at``, which is followed by another but contains a plausible header."""
    outer = data.header(at, framing)
    if outer is None or _index_has(outer, index):
        return WHOLE
    following = data.header(outer.end, framing)
    steps = min(data.steps_left, MAX_CHAIN_STEPS)
    dead: set[int] = set()
    for inner in _candidates(data, at + framing.header_bytes, outer.end, framing):
        if inner.timestamp_us < outer.timestamp_us or _is_quoted(data, inner, outer, framing):
            continue
        path: list[int] = []
        link: Header | None = inner
        while link is not None and link.end < outer.end and link.offset not in dead and steps > 0:
            steps -= 1
            data.steps_left -= 1
            path.append(link.offset)
            link = data.header(link.end, framing)
        if steps <= 0:
            return WHOLE
        is_later = link is not None and following is not None and link.timestamp_us > following.timestamp_us
        if link is not None and link.offset not in dead and not is_later and _ends_like(link, outer, data):
            return Verdict(False, inner.offset, "merged-records", outer)
        dead.update(path)
    return WHOLE


def _is_quoted(data: SegmentData, inner: Header, outer: Header, framing: Framing) -> bool:
    """Whether LZ4 shows that a header is part of another message's payload: that one decodes and its own does not. If
    both decode, this is undecided, because a block may consist of literals only. Also False without lz4."""
    if framing.provider is not Provider.LZ4 or inner.end > data.end:
        return False
    try:
        decode = lz4_decoder()
    except MissingDependency:
        return False
    return not _decodes(data, inner, framing, decode) and _decodes(data, outer, framing, decode)


def _decodes(data: SegmentData, header: Header, framing: Framing, decode: Decode) -> bool:
    start = header.offset + framing.header_bytes
    data.steps_left -= (header.end - start) // 16
    if data.steps_left < 0:
        return False
    try:
        decode(data.read_file(start, header.end - start), header.length)
    except ValueError:
        return False
    return True


def _ends_like(link: Header, outer: Header, data: SegmentData) -> bool:
    """Whether the last message of a chain ends where the outer one does, or is torn by the end of the data there."""
    return link.end == outer.end or (outer.end == data.end and link.end > data.end)


def _begun_inside(data: SegmentData, outer: Header, framing: Framing) -> int | None:
    """The start of a message inside another that has no valid successor: a header that is not older, or is cut off by
    the end of the data."""
    payload = outer.offset + framing.header_bytes
    for header in _candidates(data, payload, min(outer.end + framing.header_bytes - 1, data.end), framing):
        if header.offset < outer.end and header.timestamp_us >= outer.timestamp_us:
            return header.offset
    start = max(payload, data.end - framing.header_bytes + 1)
    at = data.read(start, data.end - start).find(framing.magic_bytes) if start < outer.end else -1
    return start + at if 0 <= at < outer.end - start else None


def find_message(
    data: SegmentData, start: int, framing: Framing, index: SegmentIndex, inside: Header | None = None
) -> int | None:
    """The start of the next message at or after ``start``. ``inside`` is the header whose extent contains ``start``."""
    dead: set[int] = set()
    for header in _candidates(data, start, data.end, framing):
        if (
            inside is not None
            and header.offset < inside.end
            and header.timestamp_us < inside.timestamp_us + (inside.end > data.end)
            and not _leads_out(data, header, inside, framing, dead)
        ):
            continue
        if header.end <= data.end and (is_followed(data, header, framing) or _index_confirms(header, index)):
            return header.offset
    return None


def _leads_out(data: SegmentData, inner: Header, outer: Header, framing: Framing, dead: set[int]) -> bool:
    """Whether the chain of messages from ``inner`` passes the end of ``outer``, or reaches the end of the data before
    that. ``dead`` collects headers that don't lead there."""
    path: list[int] = []
    link: Header | None = inner
    while link is not None and link.offset not in dead and data.steps_left > 0:
        data.steps_left -= 1
        path.append(link.offset)
        if link.end >= min(outer.end, data.end):
            if link.end != outer.end and link.end <= data.end and is_followed(data, link, framing):
                return True
            break
        link = data.header(link.end, framing)
    dead.update(path)
    return False


def is_followed(data: SegmentData, header: Header, framing: Framing) -> bool:
    """Whether a message ends at the end of the data, or is followed by plausible headers or the start of one."""
    links = LEGACY_CHAIN if framing == LEGACY else 1
    link = header
    for _ in range(links):
        if link.end == data.end:
            return True
        rest = data.end - link.end
        if 0 < rest < framing.header_bytes:
            mark = framing.magic_bytes
            return data.read(link.end, min(rest, len(mark))) == mark[:rest]
        following = data.header(link.end, framing)
        if following is None:
            return False
        link = following
    return True


def holds_header(data: SegmentData, start: int, framing: Framing) -> bool:
    """Whether a plausible header exists between ``start`` and the end of the data."""
    return next(_candidates(data, start, data.end, framing), None) is not None


def detect_framing(data: SegmentData, at: int, preferred: Framing | None) -> Framing | None:
    """The framing of the message at ``at``: ``preferred`` if it fits, else a known one that is confirmed, else
    ``None``."""
    if preferred is not None and preferred != LEGACY and data.header(at, preferred) is not None:
        return preferred
    for framing in KNOWN:
        header = data.header(at, framing)
        if header is not None and (framing != LEGACY or is_followed(data, header, framing)):
            return framing
    return None


def _candidates(data: SegmentData, start: int, end: int, framing: Framing) -> Iterator[Header]:
    """Plausible headers that are completely in ``start..end``, in order."""
    pattern = framing.pattern
    for base, chunk, own in data.pieces(start, end, framing.header_bytes - 1):
        match = pattern.search(chunk)
        while match is not None and match.start() < own:
            header = framing.parse(chunk, match.start(), base + match.start())
            if header is not None:
                yield header
            match = pattern.search(chunk, match.start() + 1)


def _index_confirms(header: Header, index: SegmentIndex) -> bool:
    marker = index.marker_at(header.offset)
    if marker is None:
        return False
    following = index.offset_of(marker + 1)
    return following is None or following == header.end


def _index_has(header: Header, index: SegmentIndex) -> bool:
    """Whether a sound index has a message that starts at the header and ends where it says."""
    marker = index.marker_at(header.offset) if index.is_sound else None
    if marker is None:
        return False
    is_last = marker == index.good and index.closed
    return (index.data_bytes if is_last else index.offset_of(marker + 1)) == header.end


def _index_contradicts(data: SegmentData, header: Header, framing: Framing, index: SegmentIndex) -> bool:
    marker = index.marker_at(header.offset)
    following = None if marker is None else index.offset_of(marker + 1)
    return following is not None and following != header.end and data.header(following, framing) is not None


def _code_of_bytes(data: SegmentData, start: int, end: int, framing: Framing) -> str:
    rest = end - start
    mark = framing.magic_bytes
    if end == data.end and rest < framing.header_bytes and data.read(start, min(rest, 4)) == mark[:rest]:
        return "torn-header"
    return "zero-bytes" if data.is_zero(start, end) else "damaged-bytes"
