"""Every struct of a datagram other than data, declared once. All are little-endian.

Data and padding frames begin with the same header as in terms, :class:`~everlog.aeron.layouts.DataHeader`; a heartbeat
is that header alone, with frame length 0. All frames share the first eight bytes, :class:`FrameHeader`.
"""

from __future__ import annotations

from everlog.layout import Layout, i32, i64, u8, u16

VERSION = 0
TYPE_NAK, TYPE_SM, TYPE_ERR, TYPE_SETUP, TYPE_RTTM, TYPE_RES, TYPE_RSP_SETUP, TYPE_EXT = 2, 3, 4, 5, 6, 7, 11, 0xFFFF


class FrameHeader(
    Layout, size=8, title="Wire: what all frames begin with", source="Aeron protocol specification; HeaderFlyweight"
):
    """The first eight bytes of every frame."""

    frame_length: int = i32(0, "header and everything after it")
    version: int = u8(4, "0")
    flags: int = u8(5, "depend on the type")
    type: int = u16(
        6, "0 padding, 1 data, 2 NAK, 3 status message, 4 error, 5 setup, 6 RTT, 7 resolution, 11 response setup"
    )


class NakFrame(Layout, size=28, title="Wire: NAK", source="Aeron protocol specification, NAK; NakFlyweight"):
    """A receiver is missing a range of a term and requests it from the sender."""

    frame_length: int = i32(0, "28")
    version: int = u8(4)
    flags: int = u8(5)
    type: int = u16(6, "2")
    session_id: int = i32(8)
    stream_id: int = i32(12)
    term_id: int = i32(16)
    term_offset: int = i32(20, "of the first missing byte, a multiple of 32")
    length: int = i32(24, "missing bytes")


class StatusMessageFrame(
    Layout,
    size=36,
    title="Wire: status message",
    source="Aeron protocol specification, Status Message; StatusMessageFlyweight",
):
    """The position of a receiver's consumers, and its window. A group tag (int64) may follow; the frame is then 44
    bytes long."""

    frame_length: int = i32(0, "36, or 44 with a group tag")
    version: int = u8(4)
    flags: int = u8(5, "0x80 send a setup frame, 0x40 end of stream: the receiver leaves")
    type: int = u16(6, "3")
    session_id: int = i32(8)
    stream_id: int = i32(12)
    consumption_term_id: int = i32(16)
    consumption_term_offset: int = i32(20, "a multiple of 32")
    receiver_window_length: int = i32(24, "bytes accepted from there on; at most half a term")
    receiver_id: int = i64(28, "of the receiving driver")


class GroupTag(Layout, size=8, title="Wire: a status message's group tag", source="StatusMessageFlyweight"):
    """At the end of a status message of 44 bytes."""

    group_tag: int = i64(0)


class ErrorFrameHeader(Layout, size=40, title="Wire: error", source="ErrorFlyweight"):
    """A receiver rejects an image. The message (ASCII, at most 1,023 bytes) follows."""

    frame_length: int = i32(0, "40 and the message")
    version: int = u8(4)
    flags: int = u8(5, "0x08 has a group tag")
    type: int = u16(6, "4")
    session_id: int = i32(8)
    stream_id: int = i32(12)
    receiver_id: int = i64(16)
    group_tag: int = i64(24)
    error_code: int = i32(32)
    message_length: int = i32(36)


class SetupFrame(Layout, size=40, title="Wire: setup", source="Aeron protocol specification, Setup; SetupFlyweight"):
    """A publication's parameters, from which a receiver creates its image."""

    frame_length: int = i32(0, "40")
    version: int = u8(4)
    flags: int = u8(5, "0x80 send a response setup, 0x40 the channel has many receivers")
    type: int = u16(6, "5")
    term_offset: int = i32(8, "of the next frame, a multiple of 32")
    session_id: int = i32(12)
    stream_id: int = i32(16)
    initial_term_id: int = i32(20)
    active_term_id: int = i32(24)
    term_length: int = i32(28, "a power of two, 64 KiB to 1 GiB")
    mtu_length: int = i32(32, "maximum length of a data frame; a multiple of 32")
    ttl: int = i32(36, "of multicast datagrams; 0: the system's default")


class RttMeasurementFrame(Layout, size=40, title="Wire: RTT measurement", source="RttMeasurementFlyweight"):
    """One end sends its time, the other returns it: the round-trip time is the difference, less the delta."""

    frame_length: int = i32(0, "40")
    version: int = u8(4)
    flags: int = u8(5, "0x80 asks for a reply")
    type: int = u16(6, "6")
    session_id: int = i32(8)
    stream_id: int = i32(12)
    echo_timestamp_ns: int = i64(16, "of the requester's clock")
    reception_delta_ns: int = i64(24, "from the request's arrival to the reply's departure")
    receiver_id: int = i64(32)


class ResponseSetupFrame(Layout, size=20, title="Wire: response setup", source="ResponseSetupFlyweight"):
    """Announces to a requester the session that answers it."""

    frame_length: int = i32(0, "20")
    version: int = u8(4)
    flags: int = u8(5)
    type: int = u16(6, "11")
    session_id: int = i32(8)
    stream_id: int = i32(12)
    response_session_id: int = i32(16)


class ResolutionEntryHeader(
    Layout, size=8, title="Wire: resolution entry", source="ResolutionEntryFlyweight; DriverNameResolver"
):
    """A name and its address, in a resolution frame after the eight common bytes. The address (4 or 16 bytes), the
    name's length (uint16) and the name (ASCII, at most 512 bytes) follow. Entries begin at multiples of 8 bytes."""

    resolution_type: int = u8(0, "1 IPv4, 2 IPv6")
    flags: int = u8(1, "0x80 the sender itself")
    port: int = u16(2)
    age_ms: int = i32(4, "since the name was last reported")
