"""The same operations on copies of one folder, by everlog and by the real archive: the same answers, files, descriptors
and bytes; and what everlog's verbs leave, as the real archive reads it."""

from __future__ import annotations

import gzip
import json
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

import everlog
import tests
from everlog.aeron import archive
from everlog.aeron.archive.recording.refusals import ArchiveError
from everlog.cli.archive import archive as archive_command
from everlog.errors import EverlogError
from tests.interop.archive.both_archives import (
    KILOBYTE,
    SEGMENT,
    Shape,
    begin,
    contents,
    copied,
    described,
    ours,
    segments,
    theirs,
    verified,
    write,
)
from tests.interop.archive.java_archive import (
    CHECKSUM_CLASSES,
    MIXED,
    ArchiveOptions,
    JavaArchive,
    Messages,
    PeerError,
    archive_tool,
)

Start = Callable[..., JavaArchive]
REFUSED = "refused"
NO_FILE_BEHIND = (
    "Invariant violation: startPosition=0 and/or stopPosition=131072 exceed max segment file position=131071"
)

OPERATIONS = {
    "truncate": "truncate_recording",
    "purge": "purge_recording",
    "purge_segments": "purge_segments",
    "detach": "detach_segments",
    "delete_detached": "delete_detached_segments",
    "attach": "attach_segments",
    "migrate_segments": "migrate_segments",
}
"""What the real archive's operations are called here."""


@dataclass
class Both:
    """Two archives on two copies."""

    own: archive.Archive
    java: JavaArchive

    def do(self, operation: str, *arguments: int) -> int | str | None:
        """The answer of both, which is the same; so is what they list, and their files."""
        answers: list[int | str | None] = []
        for side, name in ((self.own, OPERATIONS[operation]), (self.java, operation)):
            try:
                answers.append(getattr(side, name)(*arguments))
            except (EverlogError, PeerError) as refused:
                answers.append(REFUSED)
                said = str(refused)
        assert answers[0] == answers[1], (operation, arguments, answers, said if REFUSED in answers else "")
        self.check()
        return answers[0]

    def check(self) -> None:
        assert described(self.own) == self.java.recordings()
        assert segments(Path(self.own.path)) == segments(self.java.folder)


@contextmanager
def both(start: Start, folder: Path) -> Iterator[Both]:
    """Both archives on copies of a folder; at the end both folders hold the same, and verify says so."""
    own_folder, java_folder = copied(folder, f"{folder.name}-own"), copied(folder, f"{folder.name}-java")
    with start(java_folder) as java:
        with archive.open_archive(own_folder, segment_length=SEGMENT) as own:
            yield Both(own, java)
        for name in segments(own_folder):
            assert (own_folder / name).read_bytes() == (java_folder / name).read_bytes(), name
        for listed in java.recordings():
            assert theirs(java, listed.recording_id) == ours(own_folder, listed.recording_id)
        assert java.errors() == []


def kilobytes(folder: Path, *recordings: tuple[int, int]) -> Path:
    """Recordings of frames of 1 KiB: each from a position, in segments, on, and so many frames."""
    with archive.create(folder, segment_length=SEGMENT) as own:
        for first, count in recordings:
            shape = Shape(stream_options=(("initial_term_id", 7), ("position", first * SEGMENT)), stream_id=5)
            with begin(own, shape) as recorder:
                write(recorder, Messages(seed=3, sizes=KILOBYTE, first=first * 128, count=count))
    return folder


def test_segments_are_detached_attached_deleted_and_purged_alike(start_archive: Start, tmp_path: Path) -> None:
    with both(start_archive, kilobytes(tmp_path / "a", (0, 5 * 128 + 10), (2, 300))) as each:
        for no_boundary in (1024, SEGMENT + 1024, 6 * SEGMENT, 0, -1):
            assert each.do("detach", 0, no_boundary) == REFUSED
        assert each.do("detach", 0, 2 * SEGMENT) is None
        assert each.do("detach", 0, SEGMENT) == REFUSED  # behind its start now
        assert each.do("attach", 0) == 2
        assert each.do("attach", 0) == 0
        assert each.do("detach", 0, SEGMENT) is None
        assert each.do("delete_detached", 0) == 1
        assert each.do("delete_detached", 0) == 0
        assert each.do("purge_segments", 0, 3 * SEGMENT) == 2
        assert each.do("purge_segments", 0, 3 * SEGMENT + 32) == REFUSED
        assert each.do("purge_segments", 0, 5 * SEGMENT) == 2
        assert each.do("purge_segments", 0, 6 * SEGMENT) == REFUSED
        assert each.do("purge", 0) == 1
        assert each.do("purge", 0) == REFUSED
        assert each.do("detach", 0, 5 * SEGMENT) == REFUSED
        assert each.do("detach", 1, 3 * SEGMENT) is None
        assert each.do("attach", 1) == 1
        assert each.do("purge", 9) == REFUSED


def test_recordings_are_truncated_alike(start_archive: Start, tmp_path: Path) -> None:
    with both(start_archive, kilobytes(tmp_path / "a", (0, 5 * 128 + 10), (2, 300), (0, 128), (0, 128))) as each:
        for no_end in (4 * SEGMENT + 1000, 6 * SEGMENT, -1024):
            assert each.do("truncate", 0, no_end) == REFUSED
        assert each.do("truncate", 0, 5 * SEGMENT + 2048) == 0
        assert each.do("truncate", 0, 3 * SEGMENT + 64 * 1024) == 2
        assert each.do("truncate", 0, 3 * SEGMENT + 1024) == 0
        assert each.do("truncate", 0, SEGMENT) == 3
        assert each.do("truncate", 0, 0) == 1
        assert each.do("truncate", 1, 0) == REFUSED
        assert each.do("truncate", 1, 2 * SEGMENT) == 3
        assert each.do("truncate", 2, SEGMENT - 1024) == 1  # the file of zeros behind its end goes


def test_messages_of_several_fragments_are_truncated_alike(start_archive: Start, tmp_path: Path) -> None:
    messages = Messages(seed=2, sizes=MIXED, count=400)
    with archive.create(tmp_path / "a", segment_length=SEGMENT) as own, begin(own, Shape()) as recorder:
        write(recorder, messages)
    with both(start_archive, tmp_path / "a") as each:
        fragments = [row[0] for row in theirs(each.java, 0, fragments=True)]
        for position in (fragments[-5], fragments[300], fragments[299], fragments[7]):
            assert each.do("truncate", 0, position) != REFUSED


def test_segments_migrate_alike(start_archive: Start, tmp_path: Path) -> None:
    folder = kilobytes(tmp_path / "a", (0, 256), (2, 100), (4, 10), (2, 256), (4, 10))
    with both(start_archive, folder) as each:
        assert each.do("migrate_segments", 0, 2) == REFUSED
        assert each.do("migrate_segments", 0, 0) == REFUSED
        assert each.do("migrate_segments", 0, 1) == 2  # before another one
        assert each.do("truncate", 3, 4 * SEGMENT) == 1
        assert each.do("migrate_segments", 4, 3) == 1  # behind another one
        assert each.do("migrate_segments", 1, 3) == REFUSED
        assert each.do("purge", 0) == 0


@pytest.mark.long
def test_a_truncation_that_is_refused_changes_nothing_here(start_archive: Start, tmp_path: Path) -> None:
    folder = kilobytes(tmp_path / "a", (0, 300))
    other = copied(folder, "java")
    with archive.open_archive(folder, segment_length=SEGMENT) as own:
        with pytest.raises(ArchiveError, match="position 131104"):
            own.truncate_recording(0, SEGMENT + 32)
        assert own.stop_position(0) == 300 << 10
    with start_archive(other) as java:
        with pytest.raises(PeerError, match="131104 position not aligned to a data header"):
            java.truncate(0, SEGMENT + 32)
        assert java.find(0).stop_position == SEGMENT + 32  # it has moved, and frames lie over it
    with everlog.open_store(other) as store:
        assert {fault.code for fault in store.verify().faults} == {"segment-beyond-stop", "stop-position"}


@pytest.mark.long
def test_a_recording_that_was_cut_to_a_segments_beginning_is_extended_by_either(
    start_archive: Start, aeron_jar: Path, tmp_path: Path
) -> None:
    folder = kilobytes(tmp_path / "a", (0, 300))
    with archive.open_archive(folder, segment_length=SEGMENT) as own:
        assert own.truncate_recording(0, SEGMENT) == 2
    assert segments(folder) == ["0-0.rec"]
    with everlog.open_store(folder) as store:
        assert store.verify().faults == []
    # Its own verify wants a file behind the end, also of what it has truncated itself.
    said = archive_tool(aeron_jar, copied(folder, "tool"), "verify", "-a")
    assert (said.exit_code, said.stdout) == (255, f"(recordingId=0) ERR: {NO_FILE_BEHIND}\n")
    with start_archive(folder) as java:
        assert java.extend(0, Messages(seed=3, sizes=KILOBYTE, first=128, count=200)).begin == SEGMENT
        assert contents(theirs(java, 0)) == Messages(seed=3, sizes=KILOBYTE, count=328).rows()
        assert java.truncate(0, 2 * SEGMENT) == 1
    said = archive_tool(aeron_jar, copied(folder, "tool-2"), "verify", "-a")
    assert (said.exit_code, said.stdout[: len("(recordingId=0) ERR")]) == (255, "(recordingId=0) ERR")
    with archive.open_archive(folder, segment_length=SEGMENT) as own, own.extend_recording(0) as recorder:
        write(recorder, Messages(seed=3, sizes=KILOBYTE, first=256, count=3))
    verified(aeron_jar, folder, None)
    assert contents(ours(folder, 0)) == Messages(seed=3, sizes=KILOBYTE, count=259).rows()


# ArchiveTool's verbs


ASKED = ("compact", "delete-orphaned-segments", "migrate")


def files(folder: Path) -> dict[str, bytes]:
    """But the mark file, and what is kept for an undo."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "archive-mark.dat"}


def own_tool(folder: Path, *words: str) -> int:
    """The verb by everlog; its exit code."""
    yes = ["--yes"] if words[0] in ASKED else []
    done = CliRunner().invoke(archive_command, [str(folder), *words, "--no-backup", *yes], standalone_mode=False)
    assert done.exception is None, (words, done.exception)
    return int(done.return_value or 0)


def each_tool(jar: Path, own: Path, java: Path, *words: str) -> str:
    """The verb by everlog and by ArchiveTool, which leave the same bytes; what the latter printed."""
    said = archive_tool(jar, java, *words)
    assert own_tool(own, *words) == min(said.exit_code, 1), (words, said)
    assert files(own) == files(java), words
    return said.stdout


@pytest.mark.parametrize("kind", ["crc32", "crc32c"])
def test_both_tools_leave_the_same_bytes_and_the_real_archive_starts_on_them(
    start_archive: Start, aeron_jar: Path, tmp_path: Path, kind: str
) -> None:
    own_folder = kilobytes(tmp_path / "own", (0, 300), (0, 128), (2, 40))
    with archive.open_archive(own_folder, segment_length=SEGMENT) as own:
        with begin(own, Shape(stream_id=6)) as recorder:
            write(recorder, Messages(seed=2, sizes=MIXED, count=300))
        own.detach_segments(0, SEGMENT)
        own.purge_recording(2)
    (own_folder / "77-0.rec").write_bytes(bytes(SEGMENT))
    java_folder = copied(own_folder, "java")

    def each(*words: str) -> str:
        return each_tool(aeron_jar, own_folder, java_folder, *words)

    each("mark-invalid", "1")
    each("mark-valid", "1")
    each("mark-invalid", "1")
    each("checksum", CHECKSUM_CLASSES[kind], "-a")
    assert "deleted 2 records" in each("compact")
    each("delete-orphaned-segments")
    # What was detached is gone; a file of a recording that the catalog does not know stays.
    assert ("0-0.rec" in segments(own_folder), "77-0.rec" in segments(own_folder)) == (False, True)
    (own_folder / "77-0.rec").unlink()
    assert own_tool(own_folder, "capacity", "2000000") == 0  # which ArchiveTool tells of and does not have

    for checksum in (None, kind):
        verified(aeron_jar, own_folder, checksum)
    with start_archive(own_folder, ArchiveOptions(checksum=kind)) as java:
        assert [found.recording_id for found in java.recordings()] == [0, 3]
        assert java.recordings() == described(own_folder)
        for recording_id in (0, 3):
            rows = theirs(java, recording_id)
            assert rows == ours(own_folder, recording_id)
        assert contents(rows) == Messages(seed=2, sizes=MIXED, count=300).rows()
        java.extend(3, Messages(seed=2, sizes=MIXED, first=300, count=20))
    with archive.open_archive(own_folder, segment_length=SEGMENT, checksum=kind) as own:
        with own.extend_recording(3) as recorder:
            write(recorder, Messages(seed=2, sizes=MIXED, first=320, count=20))
        with begin(own, Shape()) as recorder:
            assert recorder.recording_id == 4
    verified(aeron_jar, own_folder, kind)
    assert contents(ours(own_folder, 3)) == Messages(seed=2, sizes=MIXED, count=340).rows()


OLD = tests.GOLDEN / "aeron" / "archive-old-releases"
OLD_RELEASES = ["1.9.3-stopped", "1.7.0-stopped", "1.24.0-killed"]


@pytest.mark.parametrize("name", OLD_RELEASES)
@pytest.mark.long
def test_an_archive_of_an_old_release_that_we_migrated_is_replayed_and_extended_by_todays(
    start_archive: Start, aeron_jar: Path, tmp_path: Path, name: str
) -> None:
    truth = json.loads(gzip.decompress((OLD / f"{name}-truth.json.gz").read_bytes()))["recordings"]
    with tarfile.open(OLD / f"{name}.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    folder = next(tmp_path.rglob("archive.catalog")).parent
    assert own_tool(folder, "migrate") == 0
    with start_archive(folder, ArchiveOptions(forgets_owner=True)) as java:
        for recording in truth:
            rows = theirs(java, recording["recordingId"], fragments=True)
            expected = [(e, n, crc, r, f, t, o) for e, n, r, f, t, o, crc in recording["replay"]["fragments"]]
            assert rows == expected
        java.extend(0, Messages(seed=1, count=10))
    with archive.open_archive(folder) as own, own.extend_recording(1) as recorder:
        write(recorder, Messages(seed=1, count=10))
    verified(aeron_jar, folder, None, known=("segment-long",))  # by 32 bytes, as 1.7 made them
