"""``everlog archive``: the lines of Aeron's ArchiveTool, and what is better than there."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import tests
from tests.aeron.archive.described import write_archive

TESTS = tests.ROOT / "tests"
GOLDEN = TESTS / "golden" / "aeron"
Call = Callable[..., tuple[int, list[str], str]]


@pytest.fixture(scope="module")
def unpack(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    root = tmp_path_factory.mktemp("archives")

    def unpacked(name: str) -> Path:
        folder = root / name
        if not folder.exists():
            folder.mkdir(parents=True)
            with tarfile.open(GOLDEN / f"{name}.tar.gz") as tar:
                tar.extractall(folder, filter="data")
        (inner,) = folder.iterdir()
        return inner

    return unpacked


def printed(name: str) -> list[str]:
    """What the original printed: between the command line and the exit code, where those were written down, too."""
    lines = [here(line) for line in (GOLDEN / name).read_text(errors="replace").split("\n")[:-1]]
    return lines[1:-1] if lines[0].startswith("$ ") else lines


def here(line: str) -> str:
    """Without local paths and the time of day."""
    line = re.sub(r"(mark file exists: |file=)\S*?([\w-]+\.(?:dat|rec))", r"\1\2", line)
    return re.sub(r"\d\d:\d\d:\d\d \(start", "NOW (start", line)


@pytest.mark.parametrize(
    ("verb", "name", "code"),
    [
        ("describe", "describe", 0),
        ("describe 11", "describe-11", 0),
        ("describe-all", "describe-all", 0),
        ("count-entries", "count-entries", 0),
        ("pid", "pid", 0),
        ("verify", "verify", 0),
        ("verify -a", "verify-a", 0),
        (
            "verify -a -checksum io.aeron.archive.checksum.Crc32",
            "verify-checksum-without-checksums",
            1,
        ),
    ],
)
def test_lines_are_those_of_the_original(
    call: Call, unpack: Callable[[str], Path], verb: str, name: str, code: int
) -> None:
    found, lines, err = call("archive", unpack("archive-basic/archive"), *verb.split())
    assert found == code
    assert [here(line) for line in lines[:-1]] == printed(f"archive-basic/tool-{name}.txt")
    assert err == ""


@pytest.mark.parametrize("number", [0, 1])
def test_a_cluster_nodes_archive_is_described_as_by_the_original(
    call: Call, unpack: Callable[[str], Path], number: int
) -> None:
    code, lines, err = call("archive", unpack(f"cluster-3node/node{number}") / "archive", "describe-all")
    assert (code, err) == (0, "")
    assert [here(line) for line in lines[:-1]] == printed(f"cluster-3node/archivetool-node{number}-describe-all.txt")


def test_values_of_an_archive_that_was_not_kept_are_printed_as_by_the_original(call: Call, tmp_path: Path) -> None:
    # Of node 2 there is only what the tool printed: a folder with these values gives the same lines.
    lines = printed("cluster-3node/archivetool-node2-describe-all.txt")
    write_archive(tmp_path, lines)
    code, found, err = call("archive", tmp_path, "describe-all")
    assert (code, err) == (0, "")
    assert [here(line) for line in found[:-1]] == lines
    assert len(lines) == 9


@pytest.fixture(scope="module")
def last_checksums(unpack: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ArchiveTool's ``checksum`` without ``-a`` makes: checksums in each recording's last segment file only."""
    folder = tmp_path_factory.mktemp("last") / "archive"
    shutil.copytree(unpack("archive-basic/archive-checksum-crc32"), folder)
    bases: dict[str, list[int]] = {}
    for path in folder.glob("*.rec"):
        recording, base = path.stem.split("-")
        bases.setdefault(recording, []).append(int(base))
    for recording, all_bases in bases.items():
        for base in sorted(all_bases)[:-1]:
            name = f"{recording}-{base}.rec"
            shutil.copy(unpack("archive-basic/archive") / name, folder / name)
    return folder


def test_checksums_of_last_segments_only_are_compared_as_by_the_original(call: Call, last_checksums: Path) -> None:
    verify = ["verify", "-checksum", "org.agrona.checksum.Crc32"]
    found, lines, _ = call("archive", last_checksums, *verify)
    assert (found, lines[:-1]) == (0, printed("archive-basic/tool-verify-checksum-last.txt"))
    found, lines, _ = call("archive", last_checksums, *verify, "-a")
    first, *others = printed("archive-basic/tool-verify-checksum-last-a.txt")
    assert (found, [here(line) for line in lines[1:-1]]) == (1, others)
    # The original takes a recording's files as the folder happens to list them, and tells of the first one.
    assert first == ("(recordingId=0, file=0-131072.rec) ERR: checksum failed recorded=-1458262100 (expected=78330853)")
    assert here(lines[0]).startswith("(recordingId=0, file=0-0.rec) ERR: checksum failed recorded=-1458262100 ")
    whole = [json.loads(line) for line in call("archive", last_checksums, *verify, "-a", "--json")[1][:-1]]
    seen = {(f["file"], int(f["expected"].rpartition(" ")[2], 16)) for f in whole[0]["faults"]}
    assert ("0-131072.rec", 78330853) in seen


def test_checksums_are_compared(call: Call, unpack: Callable[[str], Path]) -> None:
    folder = unpack("archive-basic/archive-checksum-crc32")
    found, lines, _ = call("archive", folder, "verify", "-a", "-checksum", "org.agrona.checksum.Crc32")
    assert (found, lines[:-1]) == (0, printed("archive-basic/tool-verify-checksum-crc32.txt"))
    found, lines, _ = call("archive", folder, "verify", "3", "-checksum", "Crc32c")
    assert found == 1
    assert re.fullmatch(r"\(recordingId=3\) ERR: invalid Catalog checksum: expected=-?\d+, actual=-?\d+", lines[0])
    assert call("archive", folder, "verify", "-checksum", "Adler32")[0] == 2


@pytest.mark.parametrize("name", ["torn-half-crc", "torn-half-plain", "torn-page-crc", "torn-page-plain"])
def test_a_torn_tail_that_the_original_calls_ok_is_an_error_and_nothing_is_written(
    call: Call, unpack: Callable[[str], Path], name: str
) -> None:
    folder = unpack(f"archive-crash/{name}")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    found, lines, _ = call("archive", folder, "verify")
    assert found == 1
    assert [line.split(" ")[1] if "file=" not in line else "ERR:" for line in lines[:-1]] == ["OK", "OK", "ERR:", "OK"]
    assert "torn-frame" in lines[2]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_failed_checksum_has_the_originals_words(call: Call, unpack: Callable[[str], Path]) -> None:
    # torn-half-crc: the original says recorded=593884281 (expected=1161092524); everlog calls the tail torn. In the
    # middle of a recording it says the same words.
    (line,) = [line for line in printed("archive-crash/tool-torn-half-crc-verify-checksum.txt") if "ERR" in line]
    assert line == "(recordingId=2, file=2-655360.rec) ERR: checksum failed recorded=593884281 (expected=1161092524)"
    folder = unpack("archive-crash/torn-half-crc")
    _, lines, _ = call("archive", folder, "verify", "2", "--json")
    (fault, *_) = json.loads(lines[0])["faults"]
    numbers = [int(fault[key].rpartition(" ")[2], 16) for key in ("found", "expected")]
    assert numbers == [593884281, 1161092524]


def test_dump_prints_the_first_frames_of_every_recording(call: Call, unpack: Callable[[str], Path]) -> None:
    code, lines, _ = call("archive", unpack("archive-basic/archive"), "dump", "3")
    expected = printed("archive-basic/tool-dump-3.txt")
    end = next(i for i, line in enumerate(expected) if line.startswith("398048 bytes of (from 398240) remaining"))
    assert code == 0
    assert [here(line) for line in lines[: end + 1]] == expected[: end + 1]
    further = expected[end + 3 : expected.index("397824 bytes of (from 398240) remaining in recording id 0")]
    twice = [here(line) for line in call("archive", unpack("archive-basic/archive"), "dump", "6")[1]]
    assert twice[end + 1 : end + 1 + len(further)] == further
    # The original asks after each three, and stops at the deleted recording 8.
    assert [line for line in lines if re.fullmatch(r"Recording \d+", line)] == [f"Recording {n}" for n in range(14)]
    assert lines[lines.index("Recording 8") :].index("Recording is deleted") < 8


def test_dump_as_json_has_the_payloads(call: Call, unpack: Callable[[str], Path]) -> None:
    folder = unpack("archive-basic/archive")
    code, lines, _ = call("archive", folder, "dump", "4", "--json")
    frames = [json.loads(line) for line in lines[:-1]]
    read = [
        json.loads(line) for line in call("read", folder, "--json", "--frames", "--stream", "0", "--limit", 4)[1][:-1]
    ]
    assert code == 0
    assert [(f["position"], f["data"]) for f in frames[:4]] == [(r["position"], r["payload"]) for r in read]
    assert base64.b64decode(frames[0]["data"]) == b" "


def test_errors_says_that_the_driver_is_not_here(call: Call, unpack: Callable[[str], Path]) -> None:
    code, lines, err = call("archive", unpack("archive-basic/archive"), "errors")
    assert code == 1
    assert lines[:5] == printed("archive-basic/tool-errors.txt")[:5]
    assert "can't read the media driver's errors" in err


def test_a_recording_that_is_none_and_a_folder_that_is_none_are_wrong_usage(
    call: Call, unpack: Callable[[str], Path], tmp_path: Path
) -> None:
    code, _, err = call("archive", unpack("archive-basic/archive"), "describe", "99")
    assert (code, "no recording 99" in err) == (2, True)
    assert call("archive", tmp_path, "describe")[0] == 2
    assert call("archive", tmp_path / "nowhere", "pid")[0] == 2
    assert call("archive", unpack("archive-basic/archive"), "polish")[0] == 2


@pytest.mark.parametrize("verb", ["describe", "describe-all", "count-entries", "pid", "errors", "verify"])
def test_every_verb_has_json(call: Call, unpack: Callable[[str], Path], verb: str) -> None:
    _, lines, _ = call("archive", unpack("archive-basic/archive"), verb, "--json")
    assert all(isinstance(json.loads(line), dict) for line in lines[:-1])
    assert len(lines) == {"describe": 14, "describe-all": 15, "verify": 15}.get(verb, 2)


@pytest.mark.parametrize(
    "command", ["read PATH --json", "export PATH OUT", "ls PATH --count", "archive PATH dump --json"]
)
def test_a_segment_that_the_system_does_not_let_be_read_keeps_no_other_recording(
    call: Call, unpack: Callable[[str], Path], tmp_path: Path, command: str
) -> None:
    folder = tmp_path / "archive"
    shutil.copytree(unpack("archive-basic/archive"), folder)
    (folder / "3-0.rec").unlink()
    os.mkfifo(folder / "3-0.rec")
    out = tmp_path / "out.jsonl"
    paths = {"PATH": folder, "OUT": out}
    code, lines, err = call(*(paths.get(word, word) for word in command.split()))
    assert (code, err.count(f"{folder}/3-0.rec"), err.count("a FIFO")) == (1, 1, 1)
    assert err.startswith(
        "everlog: warning: stream 3: " if "archive" not in command else "everlog: warning: recording 3 "
    )
    if command.startswith("ls"):
        assert [line.split()[4] for line in lines if line.startswith(("2 ", "13 "))] == ["70", "43"]
    else:
        rows = map(json.loads, out.read_text().splitlines() if out.exists() else lines[:-1])
        found = {int(row.get("stream", row.get("recording_id"))) for row in rows}
        assert found >= {0, 1, 2, 4, 5, 6, 7, 9, 11, 12, 13}
        assert 3 not in found
