"""Encodes and decodes wire frames other than data. Source: Aeron protocol specification; the flyweights of
``io.aeron.protocol``.

A datagram holds one frame of these types. Data and padding frames are not decoded here: compiled code handles them in
batches. Decoding checks only that the frame can be read; ``is_valid`` checks its numbers, as that needs the stream's
term length. Numbers are signed, as in Java.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from everlog.aeron.frames.constants import (
    FLAG_BEGIN,
    FLAG_END,
    FRAME_ALIGNMENT,
    HEADER_LENGTH,
    MAX_TERM_LENGTH,
    MIN_TERM_LENGTH,
    is_power_of_two,
)
from everlog.aeron.frames.constants import TYPE_DATA as TYPE_DATA
from everlog.aeron.frames.constants import TYPE_PADDING as TYPE_PADDING
from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.format.wire_layouts import TYPE_ERR as TYPE_ERR
from everlog.aeron.transport.format.wire_layouts import TYPE_EXT as TYPE_EXT
from everlog.aeron.transport.format.wire_layouts import TYPE_NAK as TYPE_NAK
from everlog.aeron.transport.format.wire_layouts import TYPE_RES as TYPE_RES
from everlog.aeron.transport.format.wire_layouts import TYPE_RSP_SETUP as TYPE_RSP_SETUP
from everlog.aeron.transport.format.wire_layouts import TYPE_RTTM as TYPE_RTTM
from everlog.aeron.transport.format.wire_layouts import TYPE_SETUP as TYPE_SETUP
from everlog.aeron.transport.format.wire_layouts import TYPE_SM as TYPE_SM
from everlog.aeron.transport.format.wire_layouts import VERSION as VERSION
from everlog.aeron.transport.format.wire_layouts import (
    ErrorFrameHeader,
    FrameHeader,
    GroupTag,
    NakFrame,
    ResponseSetupFrame,
    RttMeasurementFrame,
    SetupFrame,
    StatusMessageFrame,
)
from everlog.aeron.transport.protocol.wire_resolution import MAX_NAME_LENGTH as MAX_NAME_LENGTH
from everlog.aeron.transport.protocol.wire_resolution import Resolution, read_resolution, write_resolution
from everlog.aeron.transport.protocol.wire_resolution import ResolutionEntry as ResolutionEntry
from everlog.errors import CorruptData
from everlog.layout import Layout, Readable

FLAG_EOS, FLAG_REVOKED = 0x20, 0x10
"""Flags of heartbeats, in addition to ``FLAG_BEGIN | FLAG_END``."""
SM_SEND_SETUP, SM_EOS = 0x80, 0x40
SETUP_SEND_RESPONSE, SETUP_GROUP = 0x80, 0x40
RTTM_REPLY = 0x80
ERROR_HAS_GROUP_TAG = 0x08
MAX_UDP_PAYLOAD_LENGTH = 65_504
"""The longest datagram, and therefore the largest MTU."""
MAX_ERROR_MESSAGE_LENGTH = 1023
_HEARTBEAT_FLAGS = FLAG_BEGIN | FLAG_END


@dataclass(frozen=True, slots=True)
class Setup:
    """A publication's parameters. ``flags``: ``SETUP_GROUP``, ``SETUP_SEND_RESPONSE``."""

    session_id: int
    stream_id: int
    initial_term_id: int
    active_term_id: int
    term_offset: int
    term_length: int
    mtu_length: int
    ttl: int = 0
    flags: int = 0

    def is_valid(self) -> bool:
        """Whether an image can be created from it."""
        length, mtu = self.term_length, self.mtu_length
        return (
            MIN_TERM_LENGTH <= length <= MAX_TERM_LENGTH
            and is_power_of_two(length)
            and _is_term_offset(self.term_offset, length)
            and HEADER_LENGTH <= mtu <= MAX_UDP_PAYLOAD_LENGTH
            and mtu % FRAME_ALIGNMENT == 0
        )


@dataclass(frozen=True, slots=True)
class StatusMessage:
    """A receiver's position and window. ``feedback`` has the bytes after the frame's 36, unless they are a group tag,
    which has 8 bytes. ``flags``: ``SM_SEND_SETUP``, ``SM_EOS``."""

    session_id: int
    stream_id: int
    consumption_term_id: int
    consumption_term_offset: int
    receiver_window_length: int
    receiver_id: int
    group_tag: int | None = None
    flags: int = 0
    feedback: bytes = b""

    def is_valid(self, term_length: int) -> bool:
        """Whether its numbers are possible for a stream of that term length."""
        window_fits = 0 <= self.receiver_window_length <= term_length >> 1
        return window_fits and _is_term_offset(self.consumption_term_offset, term_length)


@dataclass(frozen=True, slots=True)
class Nak:
    """A range of a term that a receiver is missing."""

    session_id: int
    stream_id: int
    term_id: int
    term_offset: int
    length: int

    def is_valid(self, term_length: int) -> bool:
        """Whether the range lies in a term of that length."""
        return _is_term_offset(self.term_offset, term_length) and 0 <= self.length <= term_length - self.term_offset


@dataclass(frozen=True, slots=True)
class RttMeasurement:
    """A request to measure the round-trip time (``RTTM_REPLY`` in ``flags``), or the reply."""

    session_id: int
    stream_id: int
    echo_timestamp_ns: int
    reception_delta_ns: int
    receiver_id: int
    flags: int = 0


@dataclass(frozen=True, slots=True)
class ErrorFrame:
    """A receiver rejects an image. Messages longer than ``MAX_ERROR_MESSAGE_LENGTH`` are cut; characters outside ASCII
    become question marks."""

    session_id: int
    stream_id: int
    receiver_id: int
    error_code: int
    message: str
    group_tag: int | None = None


@dataclass(frozen=True, slots=True)
class ResponseSetup:
    """Announces the session that answers a requester."""

    session_id: int
    stream_id: int
    response_session_id: int


Frame = Setup | StatusMessage | Nak | RttMeasurement | ErrorFrame | ResponseSetup | Resolution


def frame_type(datagram: Readable, offset: int = 0) -> int:
    """The type of the frame at ``offset``; -1 if it has no whole header or another version."""
    if len(datagram) - offset < FrameHeader.size:
        return -1
    _, version, _, kind = FrameHeader.struct.unpack_from(datagram, offset)
    return int(kind) if version == VERSION else -1


def decode(datagram: Readable, offset: int = 0) -> Frame:
    """Decode the frame at ``offset``, which extends to the datagram's end. Raises :class:`CorruptData` if it is too
    short, of another version, or of a type that is not decoded here (data, padding, extensions)."""
    length = len(datagram) - offset
    kind = frame_type(datagram, offset)
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise CorruptData("datagram", found=f"frame type {kind}", expected=f"one of {sorted(_DECODERS)}")
    layout, read = decoder
    frame_length = FrameHeader.struct.unpack_from(datagram, offset)[0]
    if length < layout.size or not 0 <= frame_length <= length:
        expected = f"at least {layout.size} bytes, frame length 0 to {length}"
        raise CorruptData(layout.title, found=f"{length} bytes, frame length {frame_length}", expected=expected)
    return read(datagram, offset, frame_length)


def encode(frame: Frame) -> bytes:
    """Encode a frame as datagram. Raises :class:`UsageError` if a resolution can't hold an address or a name."""
    return _ENCODERS[type(frame)](frame)


def heartbeat(session_id: int, stream_id: int, term_id: int, term_offset: int, flags: int = _HEARTBEAT_FLAGS) -> bytes:
    """Encode a heartbeat: a data frame without data that reports a publication's position."""
    return DataHeader.struct.pack(0, VERSION, flags, TYPE_DATA, term_offset, session_id, stream_id, term_id, 0)


def _is_term_offset(offset: int, term_length: int) -> bool:
    return 0 <= offset < term_length and offset % FRAME_ALIGNMENT == 0


def _read_setup(data: Readable, offset: int, _length: int) -> Setup:
    (_, _, flags, _, term_offset, session, stream, initial, active, term_length, mtu, ttl) = (
        SetupFrame.struct.unpack_from(data, offset)
    )
    return Setup(session, stream, initial, active, term_offset, term_length, mtu, ttl, flags)


def _write_setup(frame: Setup) -> bytes:
    return SetupFrame.struct.pack(
        SetupFrame.size,
        VERSION,
        frame.flags,
        TYPE_SETUP,
        frame.term_offset,
        frame.session_id,
        frame.stream_id,
        frame.initial_term_id,
        frame.active_term_id,
        frame.term_length,
        frame.mtu_length,
        frame.ttl,
    )


def _read_status_message(data: Readable, offset: int, length: int) -> StatusMessage:
    _, _, flags, _, session, stream, term_id, term_offset, window, receiver = StatusMessageFrame.struct.unpack_from(
        data, offset
    )
    start = offset + StatusMessageFrame.size
    extra = length - StatusMessageFrame.size
    tag, feedback = None, b""
    if extra == GroupTag.size:
        tag = GroupTag.struct.unpack_from(data, start)[0]
    elif extra > 0:
        feedback = bytes(data[start : start + extra])
    return StatusMessage(session, stream, term_id, term_offset, window, receiver, tag, flags, feedback)


def _write_status_message(frame: StatusMessage) -> bytes:
    extra = frame.feedback if frame.group_tag is None else GroupTag.struct.pack(frame.group_tag)
    return StatusMessageFrame.struct.pack(
        StatusMessageFrame.size + len(extra),
        VERSION,
        frame.flags,
        TYPE_SM,
        frame.session_id,
        frame.stream_id,
        frame.consumption_term_id,
        frame.consumption_term_offset,
        frame.receiver_window_length,
        frame.receiver_id,
    ) + bytes(extra)


def _read_nak(data: Readable, offset: int, _length: int) -> Nak:
    return Nak(*NakFrame.struct.unpack_from(data, offset)[4:])


def _write_nak(frame: Nak) -> bytes:
    return NakFrame.struct.pack(
        NakFrame.size,
        VERSION,
        0,
        TYPE_NAK,
        frame.session_id,
        frame.stream_id,
        frame.term_id,
        frame.term_offset,
        frame.length,
    )


def _read_rtt(data: Readable, offset: int, _length: int) -> RttMeasurement:
    _, _, flags, _, session, stream, echo, delta, receiver = RttMeasurementFrame.struct.unpack_from(data, offset)
    return RttMeasurement(session, stream, echo, delta, receiver, flags)


def _write_rtt(frame: RttMeasurement) -> bytes:
    return RttMeasurementFrame.struct.pack(
        RttMeasurementFrame.size,
        VERSION,
        frame.flags,
        TYPE_RTTM,
        frame.session_id,
        frame.stream_id,
        frame.echo_timestamp_ns,
        frame.reception_delta_ns,
        frame.receiver_id,
    )


def _read_error(data: Readable, offset: int, length: int) -> ErrorFrame:
    _, _, flags, _, session, stream, receiver, tag, code, count = ErrorFrameHeader.struct.unpack_from(data, offset)
    start = offset + ErrorFrameHeader.size
    if not 0 <= count <= min(MAX_ERROR_MESSAGE_LENGTH, length - ErrorFrameHeader.size):
        expected = f"at most {MAX_ERROR_MESSAGE_LENGTH} bytes, within the frame's {length}"
        raise CorruptData(ErrorFrameHeader.title, found=f"a message of {count} bytes", expected=expected)
    message = bytes(data[start : start + count]).decode("ascii", "replace")
    return ErrorFrame(session, stream, receiver, code, message, tag if flags & ERROR_HAS_GROUP_TAG else None)


def _write_error(frame: ErrorFrame) -> bytes:
    message = frame.message.encode("ascii", "replace")[:MAX_ERROR_MESSAGE_LENGTH]
    tagged = frame.group_tag is not None
    header = ErrorFrameHeader.struct.pack(
        ErrorFrameHeader.size + len(message),
        VERSION,
        ERROR_HAS_GROUP_TAG if tagged else 0,
        TYPE_ERR,
        frame.session_id,
        frame.stream_id,
        frame.receiver_id,
        frame.group_tag or 0,
        frame.error_code,
        len(message),
    )
    return header + message


def _read_response_setup(data: Readable, offset: int, _length: int) -> ResponseSetup:
    return ResponseSetup(*ResponseSetupFrame.struct.unpack_from(data, offset)[4:])


def _write_response_setup(frame: ResponseSetup) -> bytes:
    fields = frame.session_id, frame.stream_id, frame.response_session_id
    return ResponseSetupFrame.struct.pack(ResponseSetupFrame.size, VERSION, 0, TYPE_RSP_SETUP, *fields)


_DECODERS: dict[int, tuple[type[Layout], Callable[[Readable, int, int], Frame]]] = {
    TYPE_NAK: (NakFrame, _read_nak),
    TYPE_SM: (StatusMessageFrame, _read_status_message),
    TYPE_ERR: (ErrorFrameHeader, _read_error),
    TYPE_SETUP: (SetupFrame, _read_setup),
    TYPE_RTTM: (RttMeasurementFrame, _read_rtt),
    TYPE_RES: (FrameHeader, read_resolution),
    TYPE_RSP_SETUP: (ResponseSetupFrame, _read_response_setup),
}
_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    Nak: _write_nak,
    StatusMessage: _write_status_message,
    ErrorFrame: _write_error,
    Setup: _write_setup,
    RttMeasurement: _write_rtt,
    Resolution: write_resolution,
    ResponseSetup: _write_response_setup,
}
