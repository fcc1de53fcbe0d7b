"""Positions, channel URIs, SBE messages, mark files, error logs, segment names."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.aeron.archive.format.segments import index_segments, parse_segment_name, segment_name
from everlog.aeron.channel_uri import ChannelUri
from everlog.aeron.error_log import read_errors
from everlog.aeron.frames.position import segment_base, term_id_of, term_offset_of
from everlog.aeron.layouts import ArchiveMarkHeader, ErrorEntry, SbeMessageHeader
from everlog.aeron.mark_file import read_archive_mark
from everlog.errors import CorruptData, UsageError

K64 = 64 << 10


def test_a_term_id_wraps_like_a_java_int() -> None:
    assert term_id_of(0, -7, K64) == -7
    assert term_id_of(266240, -7, 2 * K64) == -5
    assert term_id_of(K64, 0x7FFFFFFF, K64) == -0x80000000
    assert term_offset_of(266240, 2 * K64) == 4096


def test_segments_are_counted_from_the_term_in_which_a_recording_starts() -> None:
    assert segment_base(266240, 266240, 2 * K64, 2 * K64) == 262144
    assert segment_base(K64 + 96, K64 + 96, K64, 4 * K64) == K64
    assert segment_base(K64 + 96, 5 * K64, K64, 4 * K64) == 5 * K64
    assert segment_base(0, 131071, K64, 2 * K64) == 0


def test_segment_names_are_exact() -> None:
    assert segment_name(7, 131072) == "7-131072.rec"
    assert parse_segment_name("7-131072.rec") == (7, 131072)
    for name in ("07-0.rec", "7-.rec", "-7-0.rec", "7-0.rec.del", "x-0.rec", "7-٣.rec", f"0-{1 << 63}.rec"):
        assert parse_segment_name(name) is None
    assert index_segments(["1-131072.rec", "archive.catalog", "1-0.rec"]) == {1: [0, 131072]}


@pytest.mark.parametrize(
    "text",
    [
        "aeron:ipc",
        "aeron:udp?endpoint=localhost:18121|session-id=-1458262098",
        "aeron-spy:aeron:udp?endpoint=localhost:40123",
        "aeron:ipc?tags=1234,5678|alias=my-alias",
    ],
)
def test_a_channel_uri_survives_parsing(text: str) -> None:
    assert str(ChannelUri.parse(text)) == text


def test_a_channel_uris_parts_are_found() -> None:
    channel = ChannelUri.parse("aeron-spy:aeron:udp?endpoint=h:1|term-length=64k")
    assert (channel.media, channel.is_spy, channel.get("term-length"), channel.get("mtu")) == ("udp", True, "64k", None)
    for text in ("", "aeron:", "aeron:tcp", "udp://x", "aeron:udp?endpoint", "aeron:udp?=x"):
        with pytest.raises(UsageError):
            ChannelUri.parse(text)


def _error(count: int, first: int, last: int, text: bytes) -> bytes:
    entry = ErrorEntry.pack(
        length=ErrorEntry.size + len(text),
        observation_count=count,
        first_observation_timestamp=first,
        last_observation_timestamp=last,
    )
    return (entry + text).ljust((ErrorEntry.size + len(text) + 7) // 8 * 8, b"\0")


def test_distinct_errors_are_read_up_to_the_first_empty_entry() -> None:
    log = _error(3, 10, 30, b"java.lang.Exception: a") + _error(1, 20, 20, "ü".encode()) + bytes(64)
    assert [
        (e.observation_count, e.first_observation_timestamp, e.last_observation_timestamp, e.text)
        for e in read_errors(log)
    ] == [(3, 10, 30, "java.lang.Exception: a"), (1, 20, 20, "ü")]


def test_an_error_with_a_length_out_of_bounds_ends_the_log() -> None:
    log = _error(1, 1, 1, b"good") + struct.pack("<i", 1 << 30) + bytes(60)
    assert [e.text for e in read_errors(log)] == ["good"]


def _mark(with_sbe_header: bool) -> bytes:
    block = ArchiveMarkHeader.pack(
        version=196864, activity_timestamp=1000, pid=12, header_length=512, error_buffer_length=512, archive_id=9
    )
    texts = b"".join(struct.pack("<I", len(t)) + t for t in (b"aeron:ipc", b"", b"", b"/dev/shm/x"))
    sbe = SbeMessageHeader.pack(block_length=128, template_id=200, schema_id=100, version=2)
    head = (sbe if with_sbe_header else b"") + block + texts
    return head.ljust(512, b"\0") + _error(2, 5, 6, b"oops").ljust(512, b"\0")


@pytest.mark.parametrize("with_sbe_header", [True, False])
def test_mark_files_with_and_without_an_sbe_header_are_read(with_sbe_header: bool) -> None:
    mark = read_archive_mark(_mark(with_sbe_header))
    fields = mark.to_dict()
    assert (mark.version, fields["pid"], fields["control_channel"]) == ("3.1.0", 12, "aeron:ipc")
    assert fields["aeron_directory"] == "/dev/shm/x"
    # The archive's id came with schema version 2; a file without an SBE header is older than that.
    assert fields["archive_id"] == (9 if with_sbe_header else None)
    assert [e.text for e in mark.errors] == ["oops"]
    assert mark.problem is None
    assert mark.is_live(11_000)
    assert not mark.is_live(11_001)


def test_every_cut_of_a_mark_file_is_an_error_or_a_stated_problem() -> None:
    whole = _mark(True)
    for cut in range(len(whole)):
        try:
            assert read_archive_mark(whole[:cut]).problem is not None
        except CorruptData:
            assert cut < SbeMessageHeader.size + ArchiveMarkHeader.size


@given(st.binary(max_size=400))
def test_any_bytes_are_a_mark_file_an_error_log_or_corrupt(data: bytes) -> None:
    read_errors(data)
    try:
        read_archive_mark(data).to_dict()
    except CorruptData:
        return
