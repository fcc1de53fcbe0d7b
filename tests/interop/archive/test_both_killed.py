"""Archives that are killed while they record: everlog or the real one finds the end, and either goes on. And who owns
the folder meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import everlog
import tests
from everlog.aeron import archive
from everlog.errors import StoreUnavailable
from everlog.testing.series import Series
from tests.interop.archive.both_archives import (
    CHANNEL,
    CUT_OFF,
    SEGMENT,
    Shape,
    begin,
    contents,
    copied,
    ours,
    theirs,
    verified,
    write,
)
from tests.interop.archive.java_archive import MIXED, ArchiveOptions, JavaArchive, Messages, PeerError, archive_tool

Start = Callable[..., JavaArchive]
CHECKSUMS = [None, "crc32"]
ROUNDS = Series.from_environment().rounds(2)
PART = Messages(seed=2, sizes=MIXED, count=100)
STRADDLES = "incomplete last fragment straddling page boundary"

RECORDING_PROCESS = f"""
import sys
sys.path[:0] = {[str(tests.ROOT)]!r}
from dataclasses import replace
from tests.interop.archive.both_archives import SEGMENT, Shape, begin, write
from tests.interop.archive.java_archive import MIXED, Messages
from everlog.testing.series import Series
from everlog.aeron import archive
folder, checksum, first, lines = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
opening = archive.open_archive if first else archive.create
with opening(folder, segment_length=SEGMENT, checksum=checksum) as own:
    recorder = own.extend_recording(0) if first else begin(own, Shape(stream_id=20))
    while lines:
        position = write(recorder, Messages(seed=2, sizes=MIXED, first=first, count=40))
        first, lines = first + 40, lines - 1
        print(position, first, flush=True)
    sys.stdin.read()
"""
ENDLESS = -1


def recorded_until_killed(
    folder: Path, checksum: str | None, first: int, lines: int, is_writing: bool = True
) -> tuple[int, int]:
    """A process of ours records and is killed, while it writes or while it waits; the last position that it
    acknowledged, and how many messages were before that."""
    command = [sys.executable, "-c", RECORDING_PROCESS, str(folder), checksum or "none", str(first)]
    command.append(str(ENDLESS if is_writing else lines))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        said += process.stdout.read().splitlines(keepends=True)
    position, count = [line for line in said if line.endswith("\n")][-1].split()
    return int(position), int(count)


def java_ends(start: Start, folder: Path, checksum: str | None) -> int | str:
    """Where the real archive says that recording 0 stops, or why it does not start."""
    try:
        with start(folder, ArchiveOptions(checksum=checksum, forgets_owner=True)) as java:
            return java.find(0).stop_position
    except PeerError as refused:
        return str(refused)


def taken_over(folder: Path, checksum: str | None) -> archive.Archive:
    """Opened at once, although its owner was alive just now."""
    return archive.open_archive(folder, segment_length=SEGMENT, checksum=checksum or "none", liveness_timeout_s=0.0)


@pytest.mark.parametrize("checksum", CHECKSUMS)
def test_after_our_process_was_killed_we_find_the_end_and_the_real_archive_goes_on(
    start_archive: Start, aeron_jar: Path, tmp_path: Path, checksum: str | None
) -> None:
    folder, count = tmp_path / "archive", 0
    for number in range(ROUNDS):
        acknowledged, at_least = recorded_until_killed(folder, checksum, count, 8 + 5 * number)
        by_java = java_ends(start_archive, copied(folder, f"copy-{number}"), checksum)
        with taken_over(folder, checksum) as own:
            assert len(own.recovered) >= 1
            end = own.stop_position(0)
            assert end is not None
            assert end >= acknowledged
        # A write that the signal cut off is a torn frame, at which the real archive stumbles or which it takes.
        if isinstance(by_java, str):
            assert STRADDLES in by_java
        else:
            assert end <= by_java <= end + 1408
        count = len(ours(folder, 0, was_killed=True))
        assert count >= at_least
        verified(aeron_jar, folder, checksum, known=(CUT_OFF,))
        with start_archive(folder, ArchiveOptions(checksum=checksum)) as java:
            assert java.find(0).stop_position == end
            recorded = java.extend(0, replace(PART, first=count))
            assert recorded.begin == end
            count += PART.count
            rows = theirs(java, 0)
            assert contents(rows) == replace(PART, count=count).rows()
            assert rows == ours(folder, 0, was_killed=True)
            assert java.errors() == []
        verified(aeron_jar, folder, checksum, known=(CUT_OFF,))


@pytest.mark.parametrize("checksum", CHECKSUMS)
def test_after_the_real_archive_was_killed_we_find_the_end_and_both_go_on(
    start_archive: Start, aeron_jar: Path, tmp_path: Path, checksum: str | None
) -> None:
    folder, count = tmp_path / "archive", 0
    for number in range(ROUNDS):
        java = start_archive(folder, ArchiveOptions(checksum=checksum))
        if number == 0:
            java.record(CHANNEL, 20, stop=False)
        else:
            java.extend(0, stop=False)
        acknowledged = java.publish(0, replace(PART, first=count)).end
        java.publish_without_waiting(0, replace(PART, first=count + PART.count, count=1 << 30))
        wanted = folder / f"0-{(acknowledged // SEGMENT + 4) * SEGMENT}.rec"
        while not wanted.exists():
            assert java.process.poll() is None
        java.kill()

        by_java = java_ends(start_archive, copied(folder, f"copy-{number}"), checksum)
        with taken_over(folder, checksum) as own:
            assert len(own.recovered) >= 1
            end = own.stop_position(0)
            assert end is not None
            assert end > acknowledged
            if isinstance(by_java, str):
                assert STRADDLES in by_java
            else:
                assert end <= by_java <= end + 1408
            count = len(ours(folder, 0, was_killed=True))
            with own.extend_recording(0) as recorder:
                end = write(recorder, replace(PART, first=count))
                count += PART.count
        verified(aeron_jar, folder, checksum, known=(CUT_OFF,))
        with start_archive(folder, ArchiveOptions(checksum=checksum)) as java:
            assert java.find(0).stop_position == end
            rows = theirs(java, 0)
            assert contents(rows) == replace(PART, count=count).rows()
            assert rows == ours(folder, 0, was_killed=True)
            assert java.extend(0, replace(PART, first=count)).begin == end
            count += PART.count
            assert java.errors() == []
    assert contents(ours(folder, 0, was_killed=True)) == replace(PART, count=count).rows()
    verified(aeron_jar, folder, checksum, known=(CUT_OFF,))


# Ends that were torn in known ways

FRAGMENT = (1376,)
"""With its header, a frame of 1408 bytes: the third one of a file lies over a page's end."""


def damaged(folder: Path, name: str, offset: int, data: bytes) -> None:
    with (folder / name).open("r+b") as file:
        file.seek(offset)
        file.write(data)


def unstopped(folder: Path, messages: Messages, checksum: str | None) -> Path:
    """What a kill leaves behind the last of some messages: a copy of a folder that is open."""
    with (
        archive.create(folder, segment_length=SEGMENT, checksum=checksum or "none") as own,
        begin(own, Shape(stream_id=20)) as recorder,
    ):
        write(recorder, messages)
        return copied(folder, "killed")


REFUSES = "refuses"
NOTHING, INSIDE, OVER_PAGE, NEGATIVE, ZEROS, SHORT = range(6)


# Which tear, the checksum, frames; how many frames are left for us, and for the real archive.
TEARS = [
    # Half of a frame that lies in one page: without a checksum nobody knows. With one, the real archive does not look
    # at it, and then a replay ends there with an error.
    (INSIDE, "crc32", 2, 1, 2),
    # A file of zeros behind one that is not full: the real archive takes it for the last one.
    (ZEROS, None, 4, 4, None),
    (INSIDE, None, 2, 2, 2),
    (NOTHING, None, 4, 4, 4),
    (NOTHING, "crc32", 4, 4, 4),
    # A frame whose second page never came.
    (OVER_PAGE, None, 3, 2, REFUSES),
    (OVER_PAGE, "crc32", 3, 2, REFUSES),
    (NEGATIVE, None, 4, 3, 3),
    # The file's end is cut off behind the last frame.
    (SHORT, None, 4, 4, 4),
]


@pytest.mark.parametrize(("tear", "checksum", "frames", "own_end", "java_end"), TEARS)
def test_torn_ends_as_either_finds_them(
    start_archive: Start,
    aeron_jar: Path,
    tmp_path: Path,
    tear: int,
    checksum: str | None,
    frames: int,
    own_end: int,
    java_end: int | str | None,
) -> None:
    folder = unstopped(tmp_path / "archive", Messages(seed=3, sizes=FRAGMENT, count=frames), checksum)
    last = (frames - 1) * 1408
    if tear == INSIDE:
        damaged(folder, "0-0.rec", last + 700, bytes(708))
    elif tear == OVER_PAGE:
        damaged(folder, "0-0.rec", 4096, bytes(4096))
    elif tear == NEGATIVE:
        damaged(folder, "0-0.rec", last, (-1408).to_bytes(4, "little", signed=True))
    elif tear == ZEROS:
        (folder / f"0-{SEGMENT}.rec").write_bytes(bytes(SEGMENT))
    elif tear == SHORT:
        with (folder / "0-0.rec").open("r+b") as file:
            file.truncate(last + 1408)

    by_java = java_ends(start_archive, copied(folder, "java"), checksum)
    if isinstance(java_end, str):
        assert STRADDLES in str(by_java)
    else:
        assert by_java == (SEGMENT if java_end is None else java_end * 1408)
    with taken_over(folder, checksum) as own:
        assert own.stop_position(0) == own_end * 1408
    verified(aeron_jar, folder, checksum)
    with start_archive(folder, ArchiveOptions(checksum=checksum)) as java:
        rows = theirs(java, 0)
        assert len(rows) == own_end
        assert rows == ours(folder, 0)
        assert java.extend(0, Messages(seed=3, sizes=MIXED, count=20)).begin == own_end * 1408
        assert theirs(java, 0) == ours(folder, 0)


def test_behind_a_full_segment_whose_owner_died_before_the_next_both_go_on(
    start_archive: Start, aeron_jar: Path, tmp_path: Path
) -> None:
    count = SEGMENT // 1024
    folder = unstopped(tmp_path / "archive", Messages(seed=3, sizes=(992,), count=count), None)
    (folder / f"0-{SEGMENT}.rec").unlink()
    with taken_over(folder, None) as own:
        assert own.stop_position(0) == SEGMENT
    verified(aeron_jar, folder, None)
    with start_archive(folder) as java:
        assert java.extend(0, Messages(seed=3, sizes=(992,), first=count, count=20)).begin == SEGMENT
        assert theirs(java, 0) == ours(folder, 0)
        assert contents(theirs(java, 0)) == Messages(seed=3, sizes=(992,), count=count + 20).rows()
    verified(aeron_jar, folder, None)


@pytest.mark.long
def test_a_message_that_ends_in_zeros_over_a_page_is_kept_by_both_after_a_kill(
    start_archive: Start, aeron_jar: Path, tmp_path: Path
) -> None:
    """Without a checksum it looks torn, so everlog puts an empty padding frame behind it."""
    payloads = [b"first".ljust(3000), b"in doubt".ljust(7000, b"\0")]
    with archive.create(tmp_path / "archive", segment_length=SEGMENT) as own:
        recorder = own.start_recording("aeron:ipc?term-length=64k|mtu=8k", 20)
        assert recorder.append_many(payloads) == 3040 + 7040 + 32
        folder = copied(tmp_path / "archive", "killed")
        assert java_ends(start_archive, copied(folder, "java"), None) == 10112
    with taken_over(folder, None) as own:
        assert own.stop_position(0) == 10112
    verified(aeron_jar, folder, None)
    with start_archive(folder) as java:
        expected = [(len(payload), zlib.crc32(payload), 0) for payload in payloads]
        assert contents(theirs(java, 0)) == expected
        more = Messages(seed=3, count=20)
        assert java.extend(0, more).begin == 10112
        assert contents(theirs(java, 0)) == expected + more.rows()
        assert theirs(java, 0) == ours(folder, 0)
        assert java.replay(0, 10112).rows() == more.rows()
        assert java.errors() == []
    verified(aeron_jar, folder, None)


@pytest.mark.long
@pytest.mark.parametrize("checksum", [None, "crc32"])
def test_a_message_whose_last_fragment_is_missing_is_given_by_nobody(
    start_archive: Start, aeron_jar: Path, tmp_path: Path, checksum: str | None
) -> None:
    folder = unstopped(tmp_path / "archive", Messages(seed=3, sizes=(3000,), count=2), checksum)
    fragments = [1408, 2816, 3104, 4512, 5920, 6208]
    damaged(folder, "0-0.rec", fragments[4], bytes(288))
    assert java_ends(start_archive, copied(folder, "java"), checksum) == fragments[4]
    with taken_over(folder, checksum) as own:
        assert own.stop_position(0) == fragments[4]
    verified(aeron_jar, folder, checksum, known=(CUT_OFF,))
    with start_archive(folder, ArchiveOptions(checksum=checksum)) as java:
        assert [row[0] for row in theirs(java, 0, fragments=True)] == fragments[:5]
        assert contents(theirs(java, 0)) == Messages(seed=3, sizes=(3000,), count=1).rows()
        java.extend(0, Messages(seed=3, sizes=(3000,), first=1, count=2))
        assert contents(theirs(java, 0)) == Messages(seed=3, sizes=(3000,), count=3).rows()
        assert theirs(java, 0) == ours(folder, 0, was_killed=True)
    with everlog.open_store(folder) as store:
        assert store.verify().ok  # it is noted, and no fault
    with archive.open_archive(folder, checksum=checksum or "none") as own:
        assert [len(record.payload) for record in own.replay(0)] == [3000] * 3


# Whose folder it is


def test_our_open_archive_keeps_the_real_one_out_and_lets_it_in_once_it_is_closed(
    start_archive: Start, tmp_path: Path
) -> None:
    folder = tmp_path / "archive"
    with archive.create(folder, segment_length=SEGMENT) as own, begin(own, Shape()) as recorder:
        with pytest.raises(PeerError, match="active mark file detected"):
            start_archive(folder)
        end = write(recorder, PART)
    with start_archive(folder) as java:
        assert java.find(0).stop_position == end
        with pytest.raises(StoreUnavailable, match=rf"process {java.process.pid}, active 0\.\d s ago"):
            archive.open_archive(folder)
        assert len(ours(folder, 0)) == PART.count  # who only reads need not wait
        assert java.extend(0, replace(PART, first=PART.count)).begin == end
    with archive.open_archive(folder) as own:
        assert own.recovered == []
        with own.extend_recording(0) as recorder:
            write(recorder, replace(PART, first=2 * PART.count))
    with start_archive(folder) as java:
        assert contents(theirs(java, 0)) == replace(PART, count=3 * PART.count).rows()


@pytest.mark.long
def test_a_killed_owner_keeps_the_folder_for_ten_seconds_from_either(start_archive: Start, tmp_path: Path) -> None:
    own_folder, java_folder = tmp_path / "own", tmp_path / "java"
    recorded_until_killed(own_folder, None, 0, 3, is_writing=False)
    java = start_archive(java_folder)
    java.record(CHANNEL, 20, PART, stop=False)
    java.kill()
    killed = time.monotonic()
    with pytest.raises(PeerError, match="active mark file detected"):
        start_archive(own_folder)
    with pytest.raises(StoreUnavailable, match="silent for 10 s"):
        archive.open_archive(java_folder)
    time.sleep(max(8.0 - (time.monotonic() - killed), 0))
    with pytest.raises(StoreUnavailable):
        archive.open_archive(java_folder)
    time.sleep(3.0)
    with start_archive(own_folder) as java, archive.open_archive(java_folder, segment_length=SEGMENT) as own:
        assert theirs(java, 0) == ours(own_folder, 0)
        assert java.replay(0).count == 120
        assert own.stop_position(0) == own.recorded_position(0)
        assert contents(ours(java_folder, 0)) == PART.rows()


def test_the_tool_tells_whose_our_folder_is(aeron_jar: Path, tmp_path: Path) -> None:
    with archive.create(tmp_path / "archive", segment_length=SEGMENT) as own:
        with begin(own, Shape()) as recorder:
            write(recorder, PART)
        told = archive_tool(aeron_jar, tmp_path / "archive", "pid")
        assert (told.exit_code, told.stdout.strip()) == (0, str(os.getpid()))
