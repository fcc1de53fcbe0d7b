"""Data frames from the network into images' terms, a batch of datagrams with one call.

A datagram holds frames of one image that follow each other. What it says is not to be believed: a length that doesn't
add up to the datagram's, a place outside of a term, of another type or not a multiple of 32 make it invalid. What is
behind the position that the last status message told (the publication was told already that it is consumed) or
beyond half a term ahead of it is left out. So a datagram writes only to space that its image's subscribers have done
with, and never behind a term's end: ``term offset + length <= term length`` is what makes it valid.

Of the rest of a batch the caller is told: frames that are not data, sessions that nobody knows yet, images that are
heard on a transport for the first time, ends of streams.

Source: DataTransportPoller, UdpChannelTransport (isValidFrame), DataPacketDispatcher (onDataPacket), PublicationImage
(insertPacket, validatePacket), TermRebuilder. This is the readable twin of ``_packets.pyx``.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from everlog.aeron.frames.constants import FLAG_BEGIN, HEADER_LENGTH, TYPE_DATA, TYPE_PADDING, align, is_power_of_two
from everlog.aeron.frames.position import wrap_int32
from everlog.aeron.layouts import DataHeader
from everlog.kernel.memory import Memory
from everlog.kernel.udp import Datagrams

CONTROL: Final = 0
"""A frame that is not data, to be decoded."""
NEW_SESSION: Final = 1
"""Data of a stream that is subscribed to, in a session that is not known."""
NEW_CONNECTION: Final = 2
"""An image's data or heartbeat, the first by this transport."""
END_OF_STREAM: Final = 3
"""A heartbeat that says that the stream ends at its position."""

FLAG_EOS: Final = 0x20
TERM_COUNT: Final = 3
MAX_TRANSPORTS: Final = 1024
"""Of one channel: more destinations than this are not served."""
MIN_HEADER_LENGTH: Final = 8
CONTROL_TYPES: Final = frozenset((2, 3, 4, 5, 6, 7, 11))
"""NAK, status message, error, setup, RTT measurement, resolution, response setup."""
RESERVED_VALUE_OFFSET: Final = 24
MAX_TIMESTAMP_OFFSET: Final = (1 << 31) - 1 + HEADER_LENGTH
NO_TIME: Final = -(1 << 63)
INVALID: Final = -1
_START = Struct("<iBBH")
_HEADER = Struct("<iBBHi")
_I64 = Struct("<q")

Note = tuple[int, int]
"""Index of a datagram in its batch, and what about it."""


class ImageRebuilder:
    """An image as the receiver's thread knows it: where its data goes. ``terms``: three of one length; ``hwm``: where
    the highest position that was heard of is told, a counter's value as memory and offset. Raises ``ValueError`` for
    terms that are none.

    The image's receiver sets ``last_sm_position`` (data before it is left out), ``over_run_threshold`` (data behind it
    is left out), ``max_window_length``, ``is_rejected`` (all is left out) and :attr:`timestamp_offset`.
    ``hwm_position`` is read by others.
    """

    def __init__(
        self, terms: Sequence[Memory], initial_term_id: int, start_position: int, hwm: tuple[Memory, int]
    ) -> None:
        length = terms[0].length if len(terms) == TERM_COUNT else 0
        if not is_power_of_two(length) or length < HEADER_LENGTH or any(term.length != length for term in terms):
            raise ValueError("three terms of one length, a power of two, are meant")
        self._terms = tuple(terms)
        self._term_length = length
        self._initial_term_id = initial_term_id
        self._hwm, self._hwm_offset = hwm
        self._hwm.put_i64_release(self._hwm_offset, start_position)
        self.hwm_position = self.last_sm_position = start_position
        self.over_run_threshold = 0
        self.max_window_length = 0
        self.is_rejected = False
        self._timestamp_offset = -1
        self.time_of_last_packet_ns = 0
        self._heard: dict[int, int] = {}

    @property
    def timestamp_offset(self) -> int:
        """In a frame, where the time of reception goes; -1: nowhere. Setting it raises ``ValueError`` for one in the
        header before its reserved value."""
        return self._timestamp_offset

    @timestamp_offset.setter
    def timestamp_offset(self, offset: int) -> None:
        if not RESERVED_VALUE_OFFSET <= offset <= MAX_TIMESTAMP_OFFSET and offset != -1:
            raise ValueError(f"a timestamp at {offset} of a frame")
        self._timestamp_offset = offset

    def time_heard(self, transport_index: int) -> int:
        """When a transport brought something last; :data:`NO_TIME`: never."""
        return self._heard.get(transport_index, NO_TIME)

    def forget(self, transport_index: int) -> None:
        """A transport is gone."""
        self._heard.pop(transport_index, None)

    def hear(self, transport_index: int, now_ns: int) -> bool:
        """Know a transport: it brought something. Gives whether it was new. Raises ``IndexError`` for one that can't
        be."""
        if not 0 <= transport_index < MAX_TRANSPORTS:
            raise IndexError(f"transport {transport_index}: 0..{MAX_TRANSPORTS - 1}")
        is_new = transport_index not in self._heard
        self._heard[transport_index] = now_ns
        return is_new

    def _position_of(self, data: bytes) -> int:
        """Of a data frame's term id and offset."""
        header = DataHeader.unpack_from(data)
        term_count = wrap_int32(header.term_id - self._initial_term_id)
        return term_count * self._term_length + header.term_offset

    def _is_new(self, transport_index: int, now_ns: int) -> bool:
        """Note that a transport brought something; a new one stays new until the caller, who is told, knows it."""
        if transport_index not in self._heard:
            return True
        self._heard[transport_index] = now_ns
        return False

    def _packet_length(self, data: bytes) -> int:
        """Bytes that a datagram's frames take in the term, 0 for a heartbeat, :data:`INVALID`. ``data`` is as long as
        the datagram, a multiple of 32."""
        term_offset = DataHeader.unpack_from(data).term_offset
        if not 0 <= term_offset < self._term_length or term_offset % HEADER_LENGTH:
            return INVALID
        frame_length = _HEADER.unpack_from(data)[0]
        if len(data) == HEADER_LENGTH and frame_length == 0:
            return 0
        at, kind = 0, -1
        while at <= len(data) - HEADER_LENGTH:
            frame_length, _, _, kind, offset = _HEADER.unpack_from(data, at)
            if frame_length < HEADER_LENGTH or kind not in (TYPE_DATA, TYPE_PADDING) or offset != term_offset + at:
                return INVALID
            if align(frame_length) > self._term_length - offset:
                return INVALID
            at += align(frame_length)
        return at if at == len(data) or (at > len(data) and kind == TYPE_PADDING) else INVALID

    def _write(self, data: bytes, position: int, time_ns: int) -> None:
        """Insert a datagram whose length was checked, unless it is there."""
        term = self._terms[position // self._term_length % TERM_COUNT]
        offset = position & (self._term_length - 1)
        if term.get_i32(offset) == 0:
            data = self._stamped(data, time_ns)
            term.write(offset + 8, data[8:])
            term.put_i64_release(offset, _I64.unpack_from(data)[0])

    def _stamped(self, data: bytes, time_ns: int) -> bytes:
        stamped, at = bytearray(data), 0
        while self._timestamp_offset >= 0 and at < len(data):
            frame_length, _, flags, kind, _ = _HEADER.unpack_from(data, at)
            end = at + self._timestamp_offset + 8
            is_inside = end <= at + frame_length <= len(data)
            if kind == TYPE_DATA and flags & FLAG_BEGIN and is_inside:
                _I64.pack_into(stamped, end - 8, time_ns)
            at += align(frame_length)
        return bytes(stamped)

    def _propose_hwm(self, position: int) -> None:
        """Raise the highest position that was heard of."""
        if position > self.hwm_position:
            self.hwm_position = position
            self._hwm.put_i64_release(self._hwm_offset, position)


class ImageSessions:
    """The images of one channel, by stream and session, and what the last batch did: counts of ``invalid`` datagrams,
    ``heartbeats``, ``under_runs`` and ``over_runs``, and ``notes``, at most two for each datagram."""

    def __init__(self) -> None:
        self._streams: set[int] = set()
        self._sessions: dict[tuple[int, int], ImageRebuilder | None] = {}
        self.invalid = self.heartbeats = self.under_runs = self.over_runs = 0
        self.notes: list[Note] = []

    def add_stream(self, stream_id: int) -> None:
        """Somebody subscribes: new sessions of this stream are noted from now on."""
        self._streams.add(stream_id)

    def remove_stream(self, stream_id: int) -> None:
        """Nobody subscribes any more: new sessions are left out."""
        self._streams.discard(stream_id)

    def put(self, stream_id: int, session_id: int, image: ImageRebuilder | None) -> None:
        """Where a session's data goes; ``None``: it is left out without a note."""
        self._sessions[stream_id, session_id] = image

    def remove(self, stream_id: int, session_id: int) -> None:
        """A session is not known any more."""
        self._sessions.pop((stream_id, session_id), None)

    def __len__(self) -> int:
        return len(self._sessions)

    def insert(self, batch: Datagrams, transport_index: int, now_ns: int, time_ns: int) -> int:
        """Take all datagrams of a batch, received by one transport; gives their bytes. ``time_ns``: since 1970, for
        timestamps. Raises ``IndexError`` for a transport that can't be."""
        if not 0 <= transport_index < MAX_TRANSPORTS:
            raise IndexError(f"transport {transport_index}: 0..{MAX_TRANSPORTS - 1}")
        self.invalid = self.heartbeats = self.under_runs = self.over_runs = 0
        self.notes = []
        received = 0
        for index in range(len(batch)):
            data = batch.read(index)
            received += len(data)
            self._take(index, data, transport_index, now_ns, time_ns)
        return received

    def _take(self, index: int, data: bytes, transport_index: int, now_ns: int, time_ns: int) -> None:
        if len(data) <= MIN_HEADER_LENGTH:
            self.invalid += 1
            return
        frame_length, version, flags, kind = _START.unpack_from(data)
        if frame_length < 0 or version != 0:
            self.invalid += 1
        elif kind in (TYPE_DATA, TYPE_PADDING):
            if len(data) % HEADER_LENGTH:
                self.invalid += 1
            else:
                self._take_data(index, data, flags, (transport_index, now_ns, time_ns))
        elif kind in CONTROL_TYPES:
            self.notes.append((index, CONTROL))
        else:
            self.invalid += 1

    def _take_data(self, index: int, data: bytes, flags: int, arrival: tuple[int, int, int]) -> None:
        header = DataHeader.unpack_from(data)
        key = header.stream_id, header.session_id
        image = self._sessions.get(key)
        if image is not None:
            if not image.is_rejected:
                self._insert(image, index, data, arrival)
        elif key not in self._sessions and header.stream_id in self._streams and not flags & FLAG_EOS:
            self.notes.append((index, NEW_SESSION))

    def _insert(self, image: ImageRebuilder, index: int, data: bytes, arrival: tuple[int, int, int]) -> None:
        transport_index, now_ns, time_ns = arrival
        length = image._packet_length(data)
        if length == INVALID:
            self.invalid += 1
            return
        position = image._position_of(data)
        # Of padding only the header is written, and a sender may send that where its limit is.
        if position + (len(data) if length else 0) > image.over_run_threshold:
            self.over_runs += 1
            return
        if length == 0:
            if position < max(0, image.last_sm_position - image._term_length):
                self.under_runs += 1
                return
            self.heartbeats += 1
        elif position < image.last_sm_position or position < 0:
            self.under_runs += 1
            if position < image.last_sm_position - image.max_window_length:
                return
            if image._is_new(transport_index, now_ns):
                self.notes.append((index, NEW_CONNECTION))
            return
        else:
            image._write(data, position, time_ns)
        image.time_of_last_packet_ns = now_ns
        if image._is_new(transport_index, now_ns):
            self.notes.append((index, NEW_CONNECTION))
        if length == 0 and data[5] & FLAG_EOS:
            self.notes.append((index, END_OF_STREAM))
        image._propose_hwm(position + length)
