"""Structs shared by Aeron's formats, each declared once. All are little-endian."""

from __future__ import annotations

from everlog.layout import Layout, gap, i8, i32, i64, u8, u16

NULL_VALUE = -1
"""Aeron's number for "no value"."""


class DataHeader(Layout, size=32, title="Data frame header", source="Aeron protocol specification, Data Frame"):
    """Header of each frame on the wire, in term buffers and in recordings. Frames begin at multiples of 32 bytes."""

    frame_length: int = i32(0, "header and payload, without the padding to 32 bytes; 0 or negative: not written yet")
    version: int = u8(4)
    flags: int = u8(5, "0x80 begin, 0x40 end of a message, 0x20 end of stream")
    type: int = u16(6, "0 padding, 1 data")
    term_offset: int = i32(8, "of this frame in its term")
    session_id: int = i32(12, "in a recording with checksums, the frame's checksum")
    stream_id: int = i32(16)
    term_id: int = i32(20, "initial term id + position / term length")
    reserved_value: int = i64(24, "set by the publisher")


class CatalogHeader(Layout, size=32, title="Catalog header", source="aeron-archive-codecs.xml, CatalogHeader"):
    """At the start of ``archive.catalog`` from version 3 on."""

    version: int = i32(0, "major << 16 | minor << 8 | patch")
    length: int = i32(4, "32")
    next_recording_id: int = i64(8)
    alignment: int = i32(16, "64; entries are padded to a multiple of it")
    _reserved = gap(20, 12)


class OldCatalogHeader(
    Layout,
    size=1024,
    title="Catalog header up to version 2",
    source="aeron-archive-codecs.xml of Aeron 1.31, CatalogHeader",
):
    """At the start of ``archive.catalog``. Recording N has entry N: 1024 bytes at (N + 1) * 1024."""

    version: int = i32(0, "major << 16 | minor << 8 | patch; up to Aeron 1.16 the SBE schema's version, 0 or 2")
    entry_length: int = i32(4, "1024")
    _unused = gap(8, 1016)


class DescriptorHeader(
    Layout, size=32, title="Catalog entry header", source="aeron-archive-codecs.xml, RecordingDescriptorHeader"
):
    """Before each recording's descriptor in a catalog from version 3 on."""

    length: int = i32(0, "bytes of the descriptor, padding included; 0: no further entry")
    state: int = i32(4, "0 invalid, 1 valid, 2 deleted")
    checksum: int = i32(8, "of the descriptor with its padding; 0 if no checksum is configured")
    _reserved = gap(12, 20)


class OldDescriptorHeader(
    Layout,
    size=32,
    title="Catalog entry header up to version 2",
    source="aeron-archive-codecs.xml of Aeron 1.31, RecordingDescriptorHeader",
):
    """Before each recording's descriptor in a catalog of version 0, 1 or 2."""

    length: int = i32(0, "bytes of the descriptor, without padding; 0: no further entry")
    valid: int = i8(4, "0 invalid (also purged recordings), 1 valid")
    _unused = gap(5, 27, "Aeron 1.7 left an SBE message header in the last 8 bytes")


class RecordingDescriptor(
    Layout,
    size=80,
    title="Recording descriptor",
    source="aeron-archive-codecs.xml, RecordingDescriptor",
    var_data=("stripped_channel", "original_channel", "source_identity"),
):
    """A recording. Times are milliseconds since 1970; a position or time of -1 is not known yet."""

    control_session_id: int = i64(0, "of the request that last extended it, or 0")
    correlation_id: int = i64(8)
    recording_id: int = i64(16)
    start_timestamp: int = i64(24)
    stop_timestamp: int = i64(32, "-1 while active")
    start_position: int = i64(40)
    stop_position: int = i64(48, "-1 while active")
    initial_term_id: int = i32(56)
    segment_file_length: int = i32(60)
    term_buffer_length: int = i32(64)
    mtu_length: int = i32(68, "maximum length of a data frame")
    session_id: int = i32(72, "of the last recorded image")
    stream_id: int = i32(76)


class SbeMessageHeader(
    Layout, size=8, title="SBE message header", source="aeron-archive-mark-codecs.xml, messageHeader"
):
    """Precedes an SBE message and identifies its type."""

    block_length: int = u16(0)
    template_id: int = u16(2)
    schema_id: int = u16(4)
    version: int = u16(6)


class ArchiveMarkHeader(
    Layout,
    size=128,
    title="Archive mark file header",
    source="aeron-archive-mark-codecs.xml, MarkFileHeader",
    var_data=("control_channel", "local_control_channel", "events_channel", "aeron_directory"),
):
    """Follows an SBE message header (template 200, schema 100); older archives wrote it without one, at offset 0. Aeron
    1.7 and older had no mark file."""

    version: int = i32(0, "major << 16 | minor << 8 | patch; 0 while an archive is starting")
    _unused = gap(4, 4)
    activity_timestamp: int = i64(8, "milliseconds since 1970, updated about once a second; -1 after a clean close")
    start_timestamp: int = i64(16)
    pid: int = i64(24)
    control_stream_id: int = i32(32)
    local_control_stream_id: int = i32(36)
    events_stream_id: int = i32(40)
    header_length: int = i32(44, "offset of the error log; 0 in the oldest files, which have no log")
    error_buffer_length: int = i32(48)
    _unused_2 = gap(52, 4)
    archive_id: int = i64(56, "since schema version 2; -1 unknown")
    _unused_3 = gap(64, 64)


class ErrorEntry(Layout, size=24, title="Distinct error log entry", source="Agrona, DistinctErrorLog"):
    """An error and its number of observations; its text (UTF-8) follows. Entries begin at multiples of 8 bytes."""

    length: int = i32(0, "header and text; 0: no further entry")
    observation_count: int = i32(4)
    last_observation_timestamp: int = i64(8, "milliseconds since 1970; 0 while the entry is being written")
    first_observation_timestamp: int = i64(16)
