"""``timestamp_from=sbe:FIELD``: times of an archive's records out of their messages."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.aeron.layouts import DataHeader
from everlog.errors import UsageError
from everlog.sbe import parse_schema

TERM_BYTES = 1 << 16
BEGIN, END, WHOLE = 0x80, 0x40, 0xC0

SCHEMA = (
    "<messageSchema id='3' version='1'><types><composite name='messageHeader'>"
    "<type name='blockLength' primitiveType='uint16'/><type name='templateId' primitiveType='uint16'/>"
    "<type name='schemaId' primitiveType='uint16'/><type name='version' primitiveType='uint16'/></composite>"
    "<composite name='Stamp'><type name='at' primitiveType='int64'/></composite></types>"
    "<message name='one' id='1'><field name='at' id='1' type='uint64'/></message>"
    "<message name='two' id='2'><field name='x' id='1' type='int32'/><field name='at' id='2' type='int32' "
    "presence='optional' timeUnit='second'/><field name='stamp' id='3' type='Stamp' timeUnit='microsecond'/></message>"
    "<message name='three' id='3'><field name='text' id='1' type='char'/></message></messageSchema>"
)


def one(at: int) -> bytes:
    return struct.pack("<4HQ", 8, 1, 3, 1, at)


def two(at: int, stamp: int) -> bytes:
    return struct.pack("<4Hiiq", 16, 2, 3, 1, 9, at, stamp)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """One recording, of which only a segment file is left."""
    return write(tmp_path / "archive", [(one(1_000), WHOLE), (two(7, 5_000_000), WHOLE), (b"plain", WHOLE)])


def write(folder: Path, frames: list[tuple[bytes, int]]) -> Path:
    folder.mkdir()
    segment = bytearray()
    for payload, flags in frames:
        length = DataHeader.size + len(payload)
        header = DataHeader.pack(
            frame_length=length, flags=flags, type=1, term_offset=len(segment), session_id=5, stream_id=10, term_id=1
        )
        segment += (header + payload).ljust((length + 31) & ~31, b"\0")
    (folder / "0-0.rec").write_bytes(segment.ljust(TERM_BYTES, b"\0"))
    return folder


def times(folder: Path, source: str, level: str = "record", **options: Any) -> list[int | None]:
    schema = parse_schema(SCHEMA)
    with everlog.open_store(folder, timestamp_from=source, sbe_schema=schema, **options) as store:
        (stream,) = store.streams()
        batches = store.scan(stream.name, columns=["timestamp_ns", "timestamp", "position"], level=level)
        return [value for batch in batches for value in batch.to_list("timestamp_ns")]


def test_each_message_has_the_time_of_its_own_template(archive: Path) -> None:
    assert times(archive, "sbe:at:ns") == [1_000, 7, None]
    assert times(archive, "sbe:at:us") == [1_000_000, 7_000, None]
    assert times(archive, "sbe:at:ms") == [1_000_000_000, 7_000_000, None]


def test_without_a_unit_the_schema_says_which(archive: Path) -> None:
    assert times(archive, "sbe:stamp.at") == [None, 5_000_000, None]
    with pytest.raises(UsageError, match=r"unit of 'at' differs .*ns, s"):
        times(archive, "sbe:at")


def test_null_values_cut_messages_and_times_beyond_63_bits_are_no_times(tmp_path: Path) -> None:
    frames = [(two(-(2**31), 0), WHOLE), (one(5)[:-1], WHOLE), (one(2**64 - 1), WHOLE), (one(2**63 - 1), WHOLE)]
    assert times(write(tmp_path / "a", frames), "sbe:at:ns") == [None, None, None, 2**63 - 1]


def test_times_that_nanoseconds_cannot_hold_are_none(tmp_path: Path) -> None:
    frames = [(one(at), WHOLE) for at in (10, 2**53, 9_223_372_036_854)] + [(b"plain", WHOLE)]
    folder = write(tmp_path / "a", frames)
    assert times(folder, "sbe:at:ms") == [10_000_000, None, 9_223_372_036_854_000_000, None]
    assert times(folder, "sbe:at:ns") == [10, 2**53, 9_223_372_036_854, None]


def test_fragments_behind_the_first_have_no_time_though_they_look_like_messages(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", [(one(4), BEGIN), (one(5), 0), (one(6), END), (one(7), WHOLE)])
    assert times(folder, "sbe:at:ns", level="frame") == [4, None, None, 7]
    assert times(folder, "sbe:at:ns") == [4, 7]


def test_columns_that_were_not_asked_for_are_not_given(archive: Path) -> None:
    with everlog.open_store(archive, timestamp_from="sbe:at:ns", sbe_schema=parse_schema(SCHEMA)) as store:
        (batch,) = store.scan("0", columns=["timestamp_ns"])
        assert list(batch.data) == ["timestamp_ns"]
        records = list(store.read("0"))
    assert [(record.timestamp_ns, record.payload) for record in records] == [
        (1_000, one(1_000)),
        (7, two(7, 5_000_000)),
        (None, b"plain"),
    ]


def test_a_schema_file_is_read_and_a_wrong_source_refused(archive: Path, tmp_path: Path) -> None:
    file = tmp_path / "schema.xml"
    file.write_text(SCHEMA)
    with everlog.open_store(archive, timestamp_from="sbe:at:ns", sbe_schema=str(file)) as store:
        assert [record.timestamp_ns for record in store.read("0")] == [1_000, 7, None]
    for source, found in [
        ("sbe:at", "needs an SBE schema"),
        ("sbe:", "sbe:FIELD"),
        ("sbe:at:hours", "sbe:FIELD"),
        ("here", "one of .*sbe:FIELD"),
    ]:
        with pytest.raises(UsageError, match=found):
            everlog.open_store(archive, timestamp_from=source)
    for source in ("sbe:text", "sbe:nothing", "sbe:stamp"):
        with pytest.raises(UsageError, match="whole number"):
            everlog.open_store(archive, timestamp_from=source, sbe_schema=str(file))
