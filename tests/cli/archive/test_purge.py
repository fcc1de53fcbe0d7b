"""``everlog archive``: the verbs that cut, free, detach, attach, join and delete recordings, and the handing over.

Recordings of one stream, messages of 992 bytes in frames of 1024, 64 in a segment of 64 KiB; message n has the reserved
value n seconds after 2024-01-01T00:00:00Z:

* 0: messages 0 to 223, three segments and a half;
* 1: messages 224 to 255, of another stream.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everlog import open_store
from everlog.aeron import archive

SEGMENT, FRAME = 65536, 1024
NEW_YEAR_NS = 1_704_067_200_000_000_000
Call = Callable[..., tuple[int, list[str], str]]


def payload(number: int) -> bytes:
    return (b"%04d." % number * 199)[: FRAME - 32]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "archive"
    with archive.create(path, segment_length=SEGMENT) as store:
        for stream_id, numbers in ((10, range(224)), (11, range(224, 256))):
            with store.start_recording("aeron:ipc?term-length=64k", stream_id, initial_term_id=-1) as recorder:
                times = [NEW_YEAR_NS + n * 1_000_000_000 for n in numbers]
                recorder.append_many([payload(n) for n in numbers], times)
    return path


@pytest.fixture
def call(call: Call) -> Call:
    """Runs one command line; its lines without the empty one behind the last."""

    def run(*arguments: object) -> tuple[int, list[str], str]:
        code, lines, err = call(*arguments)
        assert lines[-1] == ""
        return code, lines[:-1], err

    return run


def messages(folder: Path, recording_id: int = 0) -> list[int]:
    with open_store(folder) as store:
        found = [bytes(record.payload) for record in store.read(str(recording_id))]
    assert found == [payload(int(data[:4])) for data in found]
    return [int(data[:4]) for data in found]


def segments(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.rec"))


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def script(tmp_path: Path, body: str) -> str:
    """A program for ``--archive-script``, whose arguments are in ``sys.argv``; a path with a space in it."""
    path = tmp_path / "the script.py"
    path.write_text(f"#!{sys.executable}\nimport os, sys, time\n{body}\n")
    path.chmod(stat.S_IRWXU)
    return f"'{path}' --keep"


# How far


@pytest.mark.parametrize(
    ("limits", "start", "freed"),
    [
        (("--before", 2 * SEGMENT), 2 * SEGMENT, 2),
        (("--before", 2 * SEGMENT - 1), SEGMENT, 1),
        (("--before", 10**18), 3 * SEGMENT, 3),
        (("--before", 5), 0, 0),
        (("--keep-bytes", 0), 3 * SEGMENT, 3),
        (("--keep-bytes", 96 * FRAME), 2 * SEGMENT, 2),
        (("--keep-bytes", 96 * FRAME + 1), SEGMENT, 1),
        (("--before", 3 * SEGMENT, "--keep-bytes", 100 * FRAME), SEGMENT, 1),
        (("--before", "2024-01-01T00:02:08Z"), 2 * SEGMENT, 2),
        (("--before", "2024-01-01T00:02:06.999"), SEGMENT, 1),
        (("--before", "2024-01-01T01:02:08+01:00"), 2 * SEGMENT, 2),
        (("--before", "2030-01-01"), 3 * SEGMENT, 3),
        (("--before", "2023-12-31"), 0, 0),
    ],
)
def test_a_purge_frees_whole_segments_up_to_its_limits(
    call: Call, folder: Path, limits: tuple[Any, ...], start: int, freed: int
) -> None:
    times = ("--timestamp-from", "reserved_value:ns") if str(limits[1]).startswith("20") else ()
    code, lines, _ = call("archive", folder, "purge", 0, *limits, *times)
    noun = "segment" if freed == 1 else "segments"
    assert (code, lines) == (0, [f"recording 0: {freed} {noun} freed, starts at {start}"])
    assert messages(folder) == list(range(start // FRAME, 224))
    assert len(segments(folder)) == 5 - freed
    with open_store(folder) as store:
        assert store.verify().faults == []


def test_several_recordings_are_purged_in_one_run_and_told_as_json(call: Call, folder: Path) -> None:
    code, lines, _ = call("archive", folder, "purge", 1, 0, 1, "--keep-bytes", 64 * FRAME, "--json")
    assert code == 0
    first, second = map(json.loads, lines)
    assert first == {
        "verb": "purge",
        "recording_id": 1,
        "start_position": 0,
        "files": 0,
        "segments": [],
        "dry_run": False,
    }
    assert (second["recording_id"], second["start_position"], second["files"]) == (0, 2 * SEGMENT, 2)
    assert second["segments"][1] == {
        "file": "0-65536.rec",
        "start_position": 65536,
        "end_position": 131072,
        "taken_by": None,
    }


def test_a_segment_without_times_is_no_old_one(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "untimed"
    with (
        archive.create(path, segment_length=SEGMENT) as store,
        store.start_recording("aeron:ipc?term-length=64k", 10) as recorder,
    ):
        recorder.append_many([payload(n) for n in range(200)], [1] * 64 + [0] * 64 + [1] * 72)
    code, lines, _ = call(
        "archive", path, "purge", 0, "--before", "2030-01-01", "--timestamp-from", "reserved_value:ns"
    )
    assert (code, lines) == (0, ["recording 0: 1 segment freed, starts at 65536"])


def test_damage_before_the_time_stops_the_purge(call: Call, folder: Path) -> None:
    file = folder / "0-65536.rec"
    file.write_bytes(file.read_bytes()[:2048] + bytes(1024) + file.read_bytes()[3072:])
    before = segments(folder)
    code, lines, err = call(
        "archive", folder, "purge", 0, "--before", "2030-01-01", "--timestamp-from", "reserved_value:ns"
    )
    assert (code, lines) == (1, [])
    assert "0-65536.rec at offset 2048" in err
    assert segments(folder) == before


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "purge needs --before, --keep-bytes, or both"),
        (("--before", "soon"), "--before must be a position, or a time such as 2024-05-06T07:08:09Z, not 'soon'"),
        (("--before", "2024-01-01"), "--before TIME needs --timestamp-from"),
        (("--before", "5", "--timestamp-from", "reserved_value:ns"), "--timestamp-from needs --before TIME"),
        (("--before", "5", "--to", "x", "--archive-script", "y"), "--to and --archive-script exclude each other"),
        (("--before", "5", "--archive-script", "'y"), "a program and its arguments: no closing quotation"),
        (("--before", "5", "--archive-script", " "), "--archive-script needs a program"),
        (("--before", "5", "--script-timeout", "5"), "--script-timeout needs --archive-script"),
    ],
)
def test_a_purge_that_is_not_clear_is_refused(call: Call, folder: Path, arguments: tuple[str, ...], why: str) -> None:
    before = content(folder)
    code, lines, err = call("archive", folder, "purge", 0, *arguments)
    assert (code, lines) == (2, [])
    assert why in err
    assert content(folder) == before


# Handing over


def test_segments_are_in_the_other_folder_before_they_are_freed(call: Call, folder: Path, tmp_path: Path) -> None:
    before, target = content(folder), tmp_path / "kept"
    code, lines, _ = call("archive", folder, "purge", 0, "--before", 2 * SEGMENT, "--to", target, "--json")
    assert code == 0
    assert content(target) == {name: before[name] for name in ("0-0.rec", "0-65536.rec")}
    assert [s["taken_by"] for s in json.loads(lines[0])["segments"]] == [
        str(target / "0-0.rec"),
        str(target / "0-65536.rec"),
    ]
    assert messages(folder) == list(range(128, 224))
    for name, data in content(target).items():
        (folder / name).write_bytes(data)
    assert call("archive", folder, "attach", 0)[1] == ["recording 0: 2 files attached"]
    assert messages(folder) == list(range(224))


def test_a_copy_that_is_there_is_taken_for_that_of_a_purge_that_was_killed(
    call: Call, folder: Path, tmp_path: Path
) -> None:
    target = tmp_path / "kept"
    target.mkdir()
    (target / "0-0.rec").write_bytes((folder / "0-0.rec").read_bytes())
    (target / ".everlog-0-65536.rec").write_bytes(b"half" * 90_000)
    assert call("archive", folder, "purge", 0, "--before", 2 * SEGMENT, "--to", target)[0] == 0
    assert sorted(content(target)) == ["0-0.rec", "0-65536.rec"]
    assert len(content(target)["0-65536.rec"]) == SEGMENT
    assert messages(folder) == list(range(128, 224))


def test_another_file_of_the_name_is_not_overwritten_and_the_segment_stays(
    call: Call, folder: Path, tmp_path: Path
) -> None:
    target = tmp_path / "kept"
    target.mkdir()
    (target / "0-65536.rec").write_bytes(b"mine")
    code, lines, err = call("archive", folder, "purge", 0, "--before", 3 * SEGMENT, "--to", target)
    assert (code, lines) == (2, ["recording 0: 1 segment freed, starts at 65536"])
    assert "kept/0-65536.rec" in err
    assert "exists and differs from the archive's segment" in err
    assert content(target)["0-65536.rec"] == b"mine"
    assert messages(folder) == list(range(64, 224))


def test_the_archives_own_folder_is_no_place_to_hand_over_to(call: Call, folder: Path) -> None:
    before = segments(folder)
    code, _, err = call("archive", folder, "purge", 0, "--before", SEGMENT, "--to", f"{folder}/../{folder.name}")
    assert (code, segments(folder)) == (2, before)
    assert "the archive's own folder" in err


def test_a_script_gets_file_recording_and_positions_and_what_it_prints_is_on_stderr(
    call: Call, folder: Path, tmp_path: Path
) -> None:
    body = "print(sys.argv[1:], os.path.getsize(sys.argv[2])); print('note', file=sys.stderr)"
    command = script(tmp_path, body)
    code, lines, err = call("archive", folder, "purge", 0, "--before", 2 * SEGMENT, "--archive-script", command)
    assert (code, lines) == (0, ["recording 0: 2 segments freed, starts at 131072"])
    for start in (0, SEGMENT):
        arguments = ["--keep", str(folder / f"0-{start}.rec"), "0", str(start), str(start + SEGMENT)]
        assert f"{arguments} 65536" in err
    assert err.count("everlog: note") == 2
    assert messages(folder) == list(range(128, 224))


def test_no_shell_looks_at_the_script(call: Call, folder: Path, tmp_path: Path) -> None:
    command = f"{sys.executable} -c 'import sys; print(sys.argv[1])' ';touch' '$HOME' '*'"
    code, _, err = call("archive", folder, "purge", 0, "--before", SEGMENT, "--archive-script", command)
    assert code == 0
    assert "everlog: ;touch" in err


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("sys.exit(3 if sys.argv[3:] == ['0', '65536', '131072'] else 0)", "exited with code 3"),
        ("os.kill(os.getpid(), 15 if sys.argv[4] == '65536' else 0)", "signal 15"),
        ("time.sleep(60 if sys.argv[4] == '65536' else 0)", "1.5 s"),
    ],
)
def test_a_script_that_fails_keeps_its_segment_and_those_behind_it(
    call: Call, folder: Path, tmp_path: Path, body: str, why: str
) -> None:
    command = script(tmp_path, body)
    began = time.monotonic()
    code, lines, err = call(
        *("archive", folder, "purge", 0, 1, "--keep-bytes", 0, "--archive-script", command, "--script-timeout", 1.5)
    )
    assert time.monotonic() - began < 30
    assert (code, lines) == (2, ["recording 0: 1 segment freed, starts at 65536"])
    assert why in err
    assert "0-65536.rec was not " in err
    assert messages(folder) == list(range(64, 224))
    code, lines, _ = call(
        "archive", folder, "purge", 0, "--keep-bytes", 0, "--archive-script", sys.executable + " -cpass"
    )
    assert (code, lines) == (0, ["recording 0: 2 segments freed, starts at 196608"])


def test_a_script_that_is_not_there_frees_nothing(call: Call, folder: Path) -> None:
    before = segments(folder)
    code, lines, err = call("archive", folder, "purge", 0, "--keep-bytes", 0, "--archive-script", "/no/such/program")
    assert (code, lines, segments(folder)) == (2, [], before)
    assert "/no/such/program" in err
    assert "no such file or directory" in err


# Looking first


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ("purge", 0, "--before", 2 * SEGMENT, "--archive-script", "/no/such/program"),
            [
                "0-0.rec: freed, positions 0 to 65536",
                "0-65536.rec: freed, positions 65536 to 131072",
                "dry run: recording 0: 2 segments freed, starts at 131072; nothing was changed",
            ],
        ),
        (
            ("truncate", 0, 100 * FRAME),
            [
                "recording 0: stops at 102400; everything after it will be removed",
                "0-196608.rec: deleted",
                "0-131072.rec: deleted",
                "0-65536.rec: zeroed from offset 36864 on",
                "recording 0: nothing is left after 102400",
                "dry run: recording 0: truncated to 102400, 2 files deleted; nothing was changed",
            ],
        ),
        (
            ("detach", 0, SEGMENT),
            ["recording 0: starts at 65536", "dry run: recording 0: starts at 65536; nothing was changed"],
        ),
        (
            ("purge-recording", 1),
            [
                "recording 1: DELETED",
                "1-0.rec: deleted",
                "dry run: recording 1: deleted, with 1 file; nothing was changed",
            ],
        ),
        (("attach", 0), ["dry run: recording 0: 0 files attached; nothing was changed"]),
        (("delete-detached-segments", 0), ["dry run: recording 0: 0 files deleted; nothing was changed"]),
    ],
)
def test_a_dry_run_tells_the_steps_and_changes_nothing(
    call: Call, folder: Path, arguments: tuple[Any, ...], expected: list[str]
) -> None:
    before = content(folder)
    assert call("archive", folder, *arguments, "--dry-run")[:2] == (0, expected)
    code, lines, _ = call("archive", folder, *arguments, "--dry-run", "--json")
    (found,) = map(json.loads, lines)
    assert (code, found["dry_run"], found["steps"]) == (0, True, expected[:-1])
    assert content(folder) == before


# The other verbs


def test_a_recording_is_truncated_detached_attached_and_deleted(call: Call, folder: Path) -> None:
    assert call("archive", folder, "truncate", 0, 150 * FRAME)[:2] == (
        0,
        ["recording 0: truncated to 153600, 1 file deleted"],
    )
    assert messages(folder) == list(range(150))
    assert call("archive", folder, "detach", 0, SEGMENT)[1] == ["recording 0: starts at 65536"]
    assert messages(folder) == list(range(64, 150))
    assert call("archive", folder, "attach", 0)[1] == ["recording 0: 1 file attached"]
    assert messages(folder) == list(range(150))
    call("archive", folder, "detach", 0, SEGMENT)
    assert call("archive", folder, "delete-detached-segments", 0)[1] == ["recording 0: 1 file deleted"]
    assert segments(folder) == ["0-131072.rec", "0-65536.rec", "1-0.rec"]
    assert json.loads(call("archive", folder, "purge-recording", 0, "--json")[1][0]) == {
        "verb": "purge-recording",
        "recording_id": 0,
        "files": 2,
        "dry_run": False,
    }
    assert segments(folder) == ["1-0.rec"]


def test_the_segments_of_two_recordings_that_adjoin_become_those_of_one(call: Call, folder: Path) -> None:
    with archive.open_archive(folder, segment_length=SEGMENT) as store:
        first = store.recording(0)
        with store.start_recording(
            "aeron:ipc?term-length=64k", 10, position=2 * SEGMENT, initial_term_id=first.initial_term_id
        ) as recorder:
            recorder.append_many([payload(n) for n in range(128, 140)])
    assert call("archive", folder, "truncate", 0, 2 * SEGMENT)[0] == 0
    assert call("archive", folder, "migrate-segments", 2, 0)[:2] == (0, ["recording 2: 1 file moved to recording 0"])
    assert messages(folder) == list(range(140))
    assert messages(folder, 2) == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("truncate", 0, 100), "frames begin at multiples of 32"),
        (("truncate", 0, 1056), "inside a frame"),
        (("detach", 0, 1024), "a segment from 65536 to 196608"),
        (("migrate-segments", 0, 1), "stream id 10"),
        (("purge-recording", 7), "no recording "),
    ],
)
def test_what_an_archive_refuses_is_told_with_the_reason_also_in_a_dry_run(
    call: Call, folder: Path, arguments: tuple[Any, ...], why: str
) -> None:
    before = {name: data for name, data in content(folder).items() if name != "archive-mark.dat"}
    for more in ((), ("--dry-run",)):
        code, lines, err = call("archive", folder, *arguments, *more)
        assert (code, lines) == (2, [])
        assert why in err
    assert {name: data for name, data in content(folder).items() if name != "archive-mark.dat"} == before


def test_an_archive_that_runs_is_not_changed(call: Call, folder: Path) -> None:
    with archive.open_archive(folder):
        code, lines, err = call("archive", folder, "purge", 0, "--keep-bytes", 0)
    assert (code, lines) == (2, [])
    assert "already open in another everlog process" in err
    assert messages(folder) == list(range(224))


def test_checksums_of_the_catalogs_entries_are_renewed(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "checked"
    with (
        archive.create(path, segment_length=SEGMENT, checksum="crc32c") as store,
        store.start_recording("aeron:ipc?term-length=64k", 10) as recorder,
    ):
        recorder.append_many([payload(n) for n in range(200)])
    assert call("archive", path, "purge", 0, "--keep-bytes", 0)[0] == 0
    with open_store(path) as opened:
        assert opened.verify().faults == []


def test_all_recordings_are_purged_where_nobody_reads_of_it(folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "everlog", "archive", str(folder), "purge", "1", "0", "--keep-bytes", "0"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
    assert messages(folder)[0] == 192
