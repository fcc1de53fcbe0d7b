"""Writes data frames from the network into images' terms, one batch of datagrams per call.

A datagram has consecutive frames of one image. Its content is not trusted: it is invalid if the frames' lengths don't
add up to the datagram's, if a frame has another type, or if its offset is outside the term or not a multiple of 32.
Data before the position of the last status message (already reported as consumed) is dropped, and so is data more than
half a term ahead of it. So a datagram writes only to space that all subscribers have read, and never past a term's end,
since a valid datagram has ``term offset + length <= term length``.

Everything else in a batch is noted for the caller: control frames, unknown sessions, the first data of an image on a
transport, and ends of streams.

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
"""A control frame, which the caller decodes."""
NEW_SESSION: Final = 1
"""Data of an unknown session in a subscribed stream."""
NEW_CONNECTION: Final = 2
"""An image's first data or heartbeat on this transport."""
END_OF_STREAM: Final = 3
"""A heartbeat that announces the end of the stream at its position."""

FLAG_EOS: Final = 0x20
TERM_COUNT: Final = 3
MAX_TRANSPORTS: Final = 1024
"""Most destinations of one channel."""
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
"""Index of a datagram in its batch, and the kind of the note."""


class ImageRebuilder:
    """The receiver thread's view of an image, into which data is written. ``terms`` are three of the same length;
    ``hwm`` is the counter of the highest received position, as memory and offset. Raises ``ValueError`` for invalid
    terms.

    The image's receiver sets ``last_sm_position`` (data before it is dropped), ``over_run_threshold`` (data after it is
    dropped), ``max_window_length``, ``is_rejected`` (all data is dropped) and :attr:`timestamp_offset`. Others read
    ``hwm_position``.
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
        """Offset in a frame at which the reception time is written; -1 for none. Setting it raises ``ValueError`` for
        an offset before the header's reserved value."""
        return self._timestamp_offset

    @timestamp_offset.setter
    def timestamp_offset(self, offset: int) -> None:
        if not RESERVED_VALUE_OFFSET <= offset <= MAX_TIMESTAMP_OFFSET and offset != -1:
            raise ValueError(f"a timestamp at {offset} of a frame")
        self._timestamp_offset = offset

    def time_heard(self, transport_index: int) -> int:
        """The time of a transport's last packet, or :data:`NO_TIME`."""
        return self._heard.get(transport_index, NO_TIME)

    def forget(self, transport_index: int) -> None:
        """Forget a removed transport."""
        self._heard.pop(transport_index, None)

    def hear(self, transport_index: int, now_ns: int) -> bool:
        """Record a packet from a transport. Returns whether the transport was new. Raises ``IndexError`` for an index
        out of range."""
        if not 0 <= transport_index < MAX_TRANSPORTS:
            raise IndexError(f"transport {transport_index}: 0..{MAX_TRANSPORTS - 1}")
        is_new = transport_index not in self._heard
        self._heard[transport_index] = now_ns
        return is_new

    def _position_of(self, data: bytes) -> int:
        """The stream position of a data frame."""
        header = DataHeader.unpack_from(data)
        term_count = wrap_int32(header.term_id - self._initial_term_id)
        return term_count * self._term_length + header.term_offset

    def _is_new(self, transport_index: int, now_ns: int) -> bool:
        """Record a packet from a known transport. A new transport stays new until the caller adds it, after a note."""
        if transport_index not in self._heard:
            return True
        self._heard[transport_index] = now_ns
        return False

    def _packet_length(self, data: bytes) -> int:
        """Bytes that a datagram's frames take up in the term, 0 for a heartbeat, or :data:`INVALID`. The length of
        ``data`` is a multiple of 32."""
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
        """Insert a checked datagram, unless its data is already in the term."""
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
        """Raise the highest received position."""
        if position > self.hwm_position:
            self.hwm_position = position
            self._hwm.put_i64_release(self._hwm_offset, position)


class ImageSessions:
    """The images of one channel, by stream and session, and the results of the last batch: counts of ``invalid``
    datagrams, ``heartbeats``, ``under_runs`` and ``over_runs``, and ``notes``, at most two per datagram."""

    def __init__(self) -> None:
        self._streams: set[int] = set()
        self._sessions: dict[tuple[int, int], ImageRebuilder | None] = {}
        self.invalid = self.heartbeats = self.under_runs = self.over_runs = 0
        self.notes: list[Note] = []

    def add_stream(self, stream_id: int) -> None:
        """Note new sessions of a subscribed stream from now on."""
        self._streams.add(stream_id)

    def remove_stream(self, stream_id: int) -> None:
        """Ignore new sessions of a stream from now on."""
        self._streams.discard(stream_id)

    def put(self, stream_id: int, session_id: int, image: ImageRebuilder | None) -> None:
        """Set a session's image; ``None`` drops the session's data without a note."""
        self._sessions[stream_id, session_id] = image

    def remove(self, stream_id: int, session_id: int) -> None:
        """Forget a session."""
        self._sessions.pop((stream_id, session_id), None)

    def __len__(self) -> int:
        return len(self._sessions)

    def insert(self, batch: Datagrams, transport_index: int, now_ns: int, time_ns: int) -> int:
        """Process a batch of datagrams that one transport received. Returns the number of bytes. ``time_ns`` (since
        1970) is written as the reception time. Raises ``IndexError`` for a transport index out of range."""
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
        # Only the header of padding is written, and a sender may send it at its limit.
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
