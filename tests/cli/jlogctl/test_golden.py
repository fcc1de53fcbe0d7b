"""``everlog jlogctl`` beside the real one: every command line that was recorded, on a fresh copy of its journal.

Lines on stdout are compared as sets, for the original lists a folder in the order in which the system gives it. Where
ours differs on purpose, the tables below say how and why.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

import tests
from everlog.core.files.storage import LocalStorage
from everlog.jlog.options import JlogOptions
from everlog.jlog.store import JlogStore

GOLDEN = tests.GOLDEN / "jlog"
CASES = sorted(path.parent.name for path in GOLDEN.glob("*/truth.json"))
CHANGING = ("clean", "repair")
"""Verbs that may change a journal. All others look."""

NOT_FLUSHED = "looking does not flush another process's pre-commit buffer into the journal"
NOT_CREATED = "looking does not create a segment"
NAMED = "LZ4 is called by its name; the original says unknown"
UNFLUSHED_SEGMENT = "\t00000000 [        0 bytes] 1 pending readers\n"
UNFLUSHED_VIEW = (
    "--------------------\n  Perspective of the 's' subscriber\n    current checkpoint: 00000000:00000000\n"
    "Last write: 00000000:00000000\n\t     next interval: [00000000:00000000, 00000000:00000000]\n"
    "--------------------\n\n"
)
NO_INDEX = "\t\t idx: none\n"
STDOUT: dict[tuple[str, str], tuple[str, str]] = {
    **{
        ("precommit_unflushed", line): (UNFLUSHED_SEGMENT, NOT_FLUSHED)
        for line in ("data -j log", "data -j log -d", "data -j log -d -v")
    },
    ("precommit_unflushed", "data -j log -i"): (UNFLUSHED_SEGMENT + NO_INDEX, NOT_FLUSHED),
    ("precommit_unflushed", "data -j log -i -d"): (UNFLUSHED_SEGMENT + NO_INDEX, NOT_FLUSHED),
    ("precommit_unflushed", "-l log"): ("log\n" + UNFLUSHED_SEGMENT, NOT_FLUSHED),
    ("precommit_unflushed", "-d log"): ("log\n" + UNFLUSHED_SEGMENT, NOT_FLUSHED),
    ("precommit_unflushed", "-i log"): ("log\n" + UNFLUSHED_SEGMENT + NO_INDEX, NOT_FLUSHED),
    ("precommit_unflushed", "subscriber -j log -p s"): (UNFLUSHED_VIEW, NOT_FLUSHED),
    ("precommit_unflushed", "-p s log"): ("log\n" + UNFLUSHED_VIEW, NOT_FLUSHED),
    **{
        ("empty_init", line): ("", NOT_CREATED)
        for line in ("data -j log", "data -j log -i", "data -j log -d", "data -j log -d -v", "data -j log -i -d")
    },
    **{("empty_init", line): ("log\n", NOT_CREATED) for line in ("-l log", "-i log", "-d log")},
    ("lz4", "meta -j log -c"): ("lz4\n", NAMED),
    ("lz4", "meta -j log"): (
        "magic          15106a01\nstoragelog     00000001\ncompression    lz4\nsafety         metasafe\n"
        "precommit      0\nsegmentsize    4096\n",
        NAMED,
    ),
}
"""Case and command line to our stdout, and why it is not the original's."""
STDERR: dict[tuple[str, str], tuple[str | None, str]] = {
    ("precommit_unflushed", "data -j log -d -v"): ("", NOT_FLUSHED),
    ("empty_init", "data -j log -d -v"): ("", NOT_CREATED),
    ("empty_init", "clean -j log"): (
        "everlog: note: log: no subscribers, so nothing is deleted (subscribers decide what is no longer needed)\n",
        "the original deletes every segment when nobody has said what is not needed any more",
    ),
    ("precommit_big_message_loses_data", "repair -j log -v"): (None, "what the original lost is told"),
}
UNKNOWN_SUBSCRIBER = "everlog: log: no subscriber '{}' (jlogctl subscriber -l lists them)\n"
"""Ours for ``error opening 'log': JLOG_ERR_INVALID_SUBSCRIBER``, with exit code 1; the original's is 0."""

AGAIN = "a subscriber whose place is not known begins anew; the original sets it to the end, past what it had not read"
SHORT = "a checkpoint that does not say where it is needs every segment; the original takes the half that is there"
OPENED = "without a metastore the segments are listed all the same; the original opens nothing"
LEGACY = "messages of version 1.x are no damage; the original erases them"
STEPPED = "the original tells a number that it does not use"
BASE_LISTING = (
    "\t00000000 [     4268 bytes] {} pending readers\n\t00000001 [     4375 bytes] 2 pending readers\n"
    "\t00000002 [     1422 bytes] 2 pending readers\n"
)
REPAIR_STDOUT: dict[tuple[str, str], tuple[str, str]] = {
    ("e_cp_after_last", "jlogctl_repair_f"): (BASE_LISTING.format(2), AGAIN),
    ("e_cp_short", "jlogctl_data_r"): (BASE_LISTING.format(2), SHORT),
    ("e_meta_empty", "jlogctl_data_r"): (BASE_LISTING.format(1), OPENED),
    ("e_meta_missing", "jlogctl_data_r"): (BASE_LISTING.format(1), OPENED),
}
"""Case and repair to our stdout, and why it is not the original's."""
TOO_BIG = "checkpoint cp.6f6e65 log too big {} -> 00000000"
FIXING = "fixing checkpoint cp.6f6e65 data {} != {}"
ERASED = {"Message 1 at [0] has invalid reserved value 0", "One or more errors were found."}
INTEGRITY = "metastore integrity check failed"
OPEN_FAILED = {
    "Failed to open jlog at 'log'",
    "perhaps the metastore is damaged or this directory isn't a jlog?",
}
REPAIR_STDERR: dict[tuple[str, str], tuple[set[str], str]] = {
    ("e_cp_after_last", "jlogctl_repair"): (
        {TOO_BIG.format("00000063"), FIXING.format("00000063:00000005", "00000002:00000009")},
        AGAIN,
    ),
    ("e_cp_next_segment", "jlogctl_repair"): ({TOO_BIG.format("00000003")}, STEPPED),
    ("e_seg_empty_closed", "jlogctl_repair"): (
        {FIXING.format("00000001:00000004", "00000001:00000000")},
        "the checkpoint is moved when the empty segment goes, by repair -f",
    ),
    ("e_legacy_12byte", "jlogctl_repair"): ({INTEGRITY}, LEGACY),
    ("e_legacy_12byte_noidx", "jlogctl_repair"): (
        {
            INTEGRITY,
            "JLOG-1230 error: 18 (JLOG_ERR_FILE_CORRUPT) errno: 2 (No such file or directory)",
            "could not resync index for 00000001",
            FIXING.format("00000001:00000004", "00000001:00000000"),
        },
        LEGACY,
    ),
    ("e_meta_empty", "jlogctl_data_r"): (OPEN_FAILED, OPENED),
    ("e_meta_missing", "jlogctl_data_r"): (OPEN_FAILED, OPENED),
    **{
        (case, name): (ERASED, LEGACY)
        for case in ("e_legacy_12byte", "e_legacy_12byte_noidx")
        for name in ("jlogctl_repair_f", "jlogctl_data_r")
    },
}
"""Case and repair to lines of the original's that ours does not print, and why."""


def truth(case: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / case / "truth.json").read_text())
    return found


RECORDED = [
    pytest.param(case, entry, id=f"{case}: {' '.join(entry['args'])}")
    for case in CASES
    for entry in truth(case).get("jlogctl", ())
]
REPAIRS = {
    "jlogctl_repair": ("repair", "-j", "log", "-v"),
    "jlogctl_repair_f": ("repair", "-f", "-j", "log"),
    "jlogctl_data_r": ("data", "-j", "log", "-r"),
}
REPAIRED = [
    pytest.param(case, name, id=f"{case}: {name}") for case in CASES if "repairs" in truth(case) for name in REPAIRS
]


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.chdir(tmp_path)
    yield
    monkeypatch.undo()
    time.tzset()


def unpack(case: str, folder: Path) -> Path:
    name = "before.tar.gz" if (GOLDEN / case / "before.tar.gz").exists() else "log.tar.gz"
    with tarfile.open(GOLDEN / case / name) as tar:
        tar.extractall(folder, filter="data")
    return folder / "log"


def fingerprint(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        path.name: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) for path in folder.iterdir()
    }


def lines(text: str) -> list[str]:
    return sorted(text.splitlines())


@pytest.mark.parametrize(("case", "entry"), RECORDED)
def test_a_command_prints_what_the_original_prints(
    everlog: Any, tmp_path: Path, case: str, entry: dict[str, Any]
) -> None:
    unpack(case, tmp_path)
    done = everlog("jlogctl", *entry["args"])
    key = case, " ".join(entry["args"])
    assert lines(done.text) == lines(STDOUT[key][0] if key in STDOUT else entry["stdout"])
    if "INVALID_SUBSCRIBER" in entry["stderr"]:
        name = entry["args"][entry["args"].index("-p") + 1]
        assert (done.code, done.stderr) == (1, UNKNOWN_SUBSCRIBER.format(name))
    elif key in STDERR:
        assert STDERR[key][0] is None or done.stderr == STDERR[key][0]
    elif entry["args"][0] != "clean":
        assert (done.code, lines(done.stderr)) == (entry["rc"], lines(entry["stderr"]))


@pytest.mark.parametrize(("case", "entry"), [p for p in RECORDED if p.values[1]["args"][0] not in CHANGING])
def test_looking_changes_no_byte_and_no_time(everlog: Any, tmp_path: Path, case: str, entry: dict[str, Any]) -> None:
    log = unpack(case, tmp_path)
    before = fingerprint(log)
    everlog("jlogctl", *entry["args"])
    everlog("jlogctl", *entry["args"], "--json") if entry["args"][0][0] != "-" else None
    assert fingerprint(log) == before


@pytest.mark.parametrize("case", CASES)
def test_cleaning_deletes_no_segment_that_a_subscriber_needs(everlog: Any, tmp_path: Path, case: str) -> None:
    log = unpack(case, tmp_path)
    before = {path.name for path in log.iterdir()}
    everlog("jlogctl", "clean", "-j", "log")
    gone = before - {path.name for path in log.iterdir()}
    # Subscriber "one" is in segment 1, or done with segment 2; "~t" is of a session that is over, and holds nothing.
    free = {"e_cp_next_segment": {"00000000", "00000001"}}.get(case, {"00000000"} if is_of_one(case) else set())
    assert {name.removesuffix(".idx") for name in gone if not name.startswith("cp.7e")} == free


def is_of_one(case: str) -> bool:
    """Whether the case is broken_base with a damage that says nothing else about subscriber "one"."""
    is_unclear = case in ("e_cp_after_last", "e_cp_empty", "e_cp_short", "e_lz4_intact_repair", "e_trunc_bogus_noidx")
    has_metastore = case not in ("e_meta_empty", "e_meta_missing", "e_meta_zero")
    return case.startswith(("broken_", "e_")) and not is_unclear and has_metastore and not case.startswith("e_legacy")


@pytest.mark.parametrize(("case", "name"), REPAIRED)
def test_a_repair_prints_what_the_original_prints(everlog: Any, tmp_path: Path, case: str, name: str) -> None:
    unpack(case, tmp_path)
    recorded = truth(case)["repairs"][name]
    done = everlog("jlogctl", *REPAIRS[name])
    key = case, name
    assert lines(done.text) == lines(REPAIR_STDOUT[key][0] if key in REPAIR_STDOUT else recorded["stdout"])
    missing = set(recorded["stderr"].splitlines()) - set(done.stderr.splitlines())
    assert missing == REPAIR_STDERR.get(key, (set(), ""))[0]


@pytest.mark.parametrize(("case", "name"), REPAIRED)
def test_a_repair_loses_no_message_and_no_subscriber(everlog: Any, tmp_path: Path, case: str, name: str) -> None:
    log = unpack(case, tmp_path)
    before = payloads(log)
    done = everlog("jlogctl", *REPAIRS[name])
    assert payloads(log) == before
    again = everlog("jlogctl", *REPAIRS[name])
    assert again.code == done.code
    assert "Log file reconstructed" not in again.stderr


@pytest.mark.parametrize("case", sorted({p.values[0] for p in REPAIRED}))
def test_a_full_repair_leaves_no_fault(everlog: Any, tmp_path: Path, case: str) -> None:
    log = unpack(case, tmp_path)
    done = everlog("jlogctl", "repair", "-f", "-j", "log")
    left = {
        fault.code
        for fault in JlogStore(LocalStorage(log), JlogOptions()).verify().faults
        if fault.severity.value == "fault"
    }
    assert (done.code, left) == ((1, {"missing-segments"}) if case == "e_seg_empty_closed" else (0, set()))


@pytest.mark.parametrize(("case", "name"), REPAIRED)
def test_a_dry_run_changes_nothing_and_tells_what_would(everlog: Any, tmp_path: Path, case: str, name: str) -> None:
    log = unpack(case, tmp_path)
    before = fingerprint(log)
    dry = everlog("jlogctl", *REPAIRS[name], "--dry-run")
    assert fingerprint(log) == before
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
    everlog("jlogctl", *REPAIRS[name])
    assert (fingerprint(log) == before) == ("would repair" not in dry.text)


def payloads(log: Path) -> list[bytes]:
    return [
        record.payload
        for record in JlogStore(LocalStorage(log), JlogOptions()).read("journal", on_fault=lambda fault: None)
    ]
