"""The real archive starts on what everlog recorded, reads the same from it and goes on with it, and everlog with what
that one wrote; in turns, and after either was killed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron import archive
from everlog.testing.series import Series
from tests.interop.archive.both_archives import (
    CHANNEL,
    KILOBYTE,
    SEGMENT,
    TERM,
    Shape,
    begin,
    contents,
    described,
    ours,
    segments,
    theirs,
    verified,
    write,
)
from tests.interop.archive.java_archive import MIXED, SMALL, ArchiveOptions, JavaArchive, Messages

Start = Callable[..., JavaArchive]
CHECKSUMS = [None, "crc32", "crc32c"]

SHAPES = {
    "small messages": Shape(messages=Messages(seed=1, count=400)),
    "fragments, from a network": Shape(
        channel="aeron:udp?endpoint=localhost:24567|term-length=64k|alias=trades",
        stream_id=11,
        messages=Messages(seed=2, sizes=MIXED, count=300),
    ),
    "stops where a segment ends": Shape(messages=Messages(seed=3, sizes=KILOBYTE, count=128)),
    "stops where a term ends": Shape(messages=Messages(seed=3, sizes=KILOBYTE, count=64)),
    "starts in mid-term": Shape(
        messages=Messages(seed=4, sizes=MIXED, count=200),
        stream_options=(("position", 5 * TERM + 4096), ("initial_term_id", -3)),
    ),
    "starts before a term's last frame": Shape(
        messages=Messages(seed=4, count=3), stream_options=(("position", 8 * TERM - 32), ("initial_term_id", 7))
    ),
    "empty": Shape(),
    "empty, in mid-term": Shape(stream_options=(("position", 7 * TERM + 96), ("session_id", -1))),
    "another MTU": Shape(
        channel="aeron:ipc?term-length=128k|mtu=8k",
        messages=Messages(seed=5, sizes=(16000, 16352, 8160, 8161, 0), count=30),
    ),
    "term ids wrap": Shape(
        messages=Messages(seed=6, sizes=MIXED, count=200), stream_options=(("initial_term_id", (1 << 31) - 1),)
    ),
    "the longest messages": Shape(messages=Messages(seed=7, sizes=(8192, 8191, 1), count=60)),
}
WAYS = ("many", "one", "offer")


def rows_of(shape: Shape, more: Messages | None = None) -> list[tuple[int, int, int]]:
    return [row for messages in (shape.messages, more) if messages is not None for row in messages.rows()]


@pytest.mark.parametrize("checksum", CHECKSUMS)
def test_the_real_archive_serves_and_extends_whatever_we_recorded(
    start_archive: Start, aeron_jar: Path, tmp_path: Path, checksum: str | None
) -> None:
    folder = tmp_path / "archive"
    ends: list[int] = []
    with archive.create(folder, segment_length=SEGMENT, checksum=checksum or "none") as own:
        for number, shape in enumerate(SHAPES.values()):
            with begin(own, shape) as recorder:
                assert recorder.recording_id == number
                if shape.messages is not None:
                    assert write(recorder, shape.messages, WAYS[number % 3]) == recorder.recorded_position
            ends.append(recorder.recorded_position)
        listed = described(own)
    verified(aeron_jar, folder, checksum)

    with start_archive(folder, ArchiveOptions(checksum=checksum)) as java:
        assert java.recordings() == listed
        assert [found.stop_position for found in listed] == ends
        for number, (name, shape) in enumerate(SHAPES.items()):
            rows = theirs(java, number)
            assert contents(rows) == rows_of(shape), name
            assert rows == ours(folder, number), name
            assert theirs(java, number, fragments=True) == ours(folder, number, "frame"), name
        for number, (name, shape) in enumerate(SHAPES.items()):
            first = shape.messages or Messages(seed=9, count=0)
            more = replace(first, first=first.count, count=40)
            assert java.extend(number, more).begin == ends[number]
            rows = theirs(java, number)
            assert contents(rows) == rows_of(shape, more), name
            assert rows == ours(folder, number), name
        extended = java.recordings()
        assert java.errors() == []
    assert described(folder) == extended
    verified(aeron_jar, folder, checksum)


@pytest.mark.parametrize("checksum", CHECKSUMS)
@pytest.mark.parametrize("sizes", [MIXED, SMALL, KILOBYTE])
def test_both_write_the_same_bytes_to_the_same_files(
    start_archive: Start, tmp_path: Path, checksum: str | None, sizes: tuple[int, ...]
) -> None:
    fixed = f"{CHANNEL}|session-id=-77|init-term-id=-1|term-id=1|term-offset=4096"
    parts = [Messages(seed=8, sizes=sizes, count=count, first=first) for first, count in ((0, 250), (250, 300))]
    with start_archive(tmp_path / "java", ArchiveOptions(checksum=checksum)) as java:
        recorded = java.record(fixed, 10, parts[0])
        extended = java.extend(0, parts[1])
        theirs_listed = java.recordings()
    with archive.create(tmp_path / "own", segment_length=SEGMENT, checksum=checksum or "none") as own:
        with own.start_recording(theirs_listed[0].original_channel, 10) as recorder:
            assert write(recorder, parts[0]) == recorded.end
        with own.extend_recording(0, session_id=extended.session_id) as recorder:
            assert write(recorder, parts[1], "one") == extended.end
        own_listed = described(own)

    names = segments(tmp_path / "java")
    assert len(names) > 2 or sizes != KILOBYTE
    assert segments(tmp_path / "own") == names
    for name in names:
        assert (tmp_path / "own" / name).read_bytes() == (tmp_path / "java" / name).read_bytes(), name
    own_listed, theirs_listed = (
        [replace(found, start_timestamp=0, stop_timestamp=0) for found in listed]
        for listed in (own_listed, theirs_listed)
    )
    assert own_listed == theirs_listed
    assert (tmp_path / "own/archive.catalog").stat().st_size == (tmp_path / "java/archive.catalog").stat().st_size


@pytest.mark.long
def test_frames_that_the_real_archive_recorded_are_recorded_again_as_they_are(
    start_archive: Start, aeron_jar: Path, tmp_path: Path
) -> None:
    channel = f"{CHANNEL}|session-id=5|init-term-id=40|term-id=42|term-offset=8192"
    messages = Messages(seed=2, sizes=MIXED, count=400)
    with start_archive(tmp_path / "java") as java:
        recorded = java.record(channel, 10, messages)
    data = b"".join(sorted_bytes(tmp_path / "java"))
    begin_at, base = recorded.begin, 2 * TERM
    data = data[begin_at - base : recorded.end - base]
    with archive.create(tmp_path / "own", segment_length=SEGMENT) as own, own.start_recording(channel, 10) as recorder:
        assert recorder.append_block(data) == recorded.end
    assert sorted_bytes(tmp_path / "own") == sorted_bytes(tmp_path / "java")
    verified(aeron_jar, tmp_path / "own", None)
    with start_archive(tmp_path / "own") as java:
        assert contents(theirs(java, 0)) == messages.rows()


def sorted_bytes(folder: Path) -> list[bytes]:
    """Of segment files in the order of their positions."""
    names = sorted(segments(folder), key=lambda name: int(name[:-4].rpartition("-")[2]))
    return [(folder / name).read_bytes() for name in names]


TURNS = 1 + Series.from_environment().rounds(9)


@pytest.mark.parametrize("checksum", [None, "crc32c"])
def test_both_go_on_with_one_recording_in_turns(
    start_archive: Start, aeron_jar: Path, tmp_path: Path, checksum: str | None
) -> None:
    folder = tmp_path / "archive"
    options: dict[str, Any] = {"segment_length": SEGMENT, "checksum": checksum or "none"}
    part, count = Messages(seed=2, sizes=MIXED, count=37), 0
    with archive.create(folder, **options) as own:
        with begin(own, Shape(stream_id=20)) as recorder:
            end = write(recorder, part)
        count += part.count

    def turn(kind: str) -> Messages:
        return replace(part, first=count, count=part.count + (1 if kind == "java" else 0))

    for number in range(1, TURNS + 1):
        with start_archive(folder, ArchiveOptions(checksum=checksum)) as java:
            assert java.find(0).stop_position == end
            more = turn("java")
            recorded = java.extend(0, more)
            assert recorded.begin == end
            end, count = recorded.end, count + more.count
            fresh = java.record(CHANNEL, 21, Messages(seed=number, count=50))
            assert fresh.recording_id == 2 * number - 1
            assert java.errors() == []
        with archive.open_archive(folder, **options) as own:
            assert own.recovered == []
            assert own.stop_position(0) == end
            more = turn("own")
            with own.extend_recording(0) as recorder:
                end, count = write(recorder, more, WAYS[number % 3]), count + more.count
            with begin(own, Shape(stream_id=22)) as recorder:
                assert recorder.recording_id == 2 * number
                write(recorder, Messages(seed=number, count=50))
            with own.extend_recording(2 * number - 1) as recorder:
                write(recorder, Messages(seed=number, first=50, count=25))

    verified(aeron_jar, folder, checksum)
    with start_archive(folder, ArchiveOptions(checksum=checksum)) as java:
        rows = theirs(java, 0)
        assert contents(rows) == replace(part, count=count).rows()
        assert rows == ours(folder, 0)
        for number in range(1, TURNS + 1):
            for recording_id, many in ((2 * number - 1, 75), (2 * number, 50)):
                rows = theirs(java, recording_id)
                assert contents(rows) == Messages(seed=number, count=many).rows()
                assert rows == ours(folder, recording_id)
        assert java.recordings() == described(folder)
        assert java.errors() == []
