"""The header that handlers get with a fragment. Source: Header."""

from __future__ import annotations

from everlog.aeron.frames.constants import HEADER_LENGTH, align
from everlog.aeron.frames.position import wrap_int32
from everlog.aeron.layouts import DataHeader


class Header:
    """A fragment's data header and the position after the fragment. Immutable: handlers may keep it."""

    __slots__ = ("_fields", "_length", "_shift", "initial_term_id", "position")

    def __init__(self, data: bytes, position: int, initial_term_id: int, shift: int) -> None:
        self._fields = DataHeader.unpack_from(data)
        self._length = align(self._fields.frame_length)
        self._shift = shift
        self.position = position
        """Stream position after the fragment and its alignment bytes."""
        self.initial_term_id = initial_term_id

    @property
    def frame_length(self) -> int:
        """Length of header and payload."""
        return self._fields.frame_length

    @property
    def version(self) -> int:
        """Version of the header format, 0."""
        return self._fields.version

    @property
    def flags(self) -> int:
        """0x80 begins a message, 0x40 ends it."""
        return self._fields.flags

    @property
    def type(self) -> int:
        """1: data."""
        return self._fields.type

    @property
    def term_offset(self) -> int:
        """Offset of the frame in its term."""
        return self._fields.term_offset

    @property
    def session_id(self) -> int:
        """Session id of the publication, int32."""
        return self._fields.session_id

    @property
    def stream_id(self) -> int:
        """Stream id of the publication, int32."""
        return self._fields.stream_id

    @property
    def term_id(self) -> int:
        """Id of the frame's term, int32."""
        return self._fields.term_id

    @property
    def reserved_value(self) -> int:
        """The publisher's reserved value, int64."""
        return self._fields.reserved_value

    @property
    def next_term_offset(self) -> int:
        """Offset in the term after the frame and its alignment bytes."""
        return self.term_offset + self._length

    @property
    def position_bits_to_shift(self) -> int:
        """Shifting a position right by this number of bits gives its term count."""
        return self._shift

    def assembled(self, last: Header, length: int) -> Header:
        """The header of a whole message of ``length`` bytes; this is its first fragment's header, ``last`` the last
        one's."""
        names = ("version", "type", "term_offset", "session_id", "stream_id", "term_id", "reserved_value")
        values = {name: getattr(self._fields, name) for name in names}
        values |= {"frame_length": HEADER_LENGTH + length, "flags": self.flags | last.flags}
        whole = Header(DataHeader.pack(**values), last.position, self.initial_term_id, self._shift)
        terms = wrap_int32(self.term_id - self.initial_term_id)
        whole._length = last.position - (terms << self._shift) - self.term_offset
        return whole
