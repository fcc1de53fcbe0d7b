"""``everlog jlogctl``: what it changes, what it refuses, its JSON, and names of any bytes.

The journal is the golden ``basic``: segments 0 to 2 with 35, 36 and 19 messages; alpha is done with message 12 of
segment 0, beta with message 20 of segment 1, ~tail (of a session that is over) with message 30 of segment 0.
"""

from __future__ import annotations

import os
import struct
import sys
import tarfile
from pathlib import Path
from typing import Any

import click
import pytest

import tests
from everlog.cli.jlogctl import OLD_STYLE, VERBS, jlogctl
from everlog.core.files.writable import LocalWritableStorage

ROOT = tests.ROOT
GOLDEN = ROOT / "tests" / "golden" / "jlog"
PLAIN, NULL, LZ4 = 0x663A7318, 0x15106A00, 0x15106A01


def unpack(case: str, folder: Path, name: str = "log.tar.gz") -> Path:
    with tarfile.open(GOLDEN / case / name) as tar:
        tar.extractall(folder, filter="data")
    return folder / "log"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return unpack("basic", tmp_path)


def checkpoint(log: Path, name: bytes) -> tuple[int, int]:
    log_number, marker = struct.unpack("<II", (log / f"cp.{name.hex()}").read_bytes())
    return log_number, marker


def segments(log: Path) -> list[str]:
    return sorted(path.name for path in log.iterdir() if len(path.name) == 8)


def content(log: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in log.iterdir()}


# Subscribers


def test_a_subscriber_is_added_at_the_beginning(everlog: Any, log: Path) -> None:
    done = everlog("jlogctl", "subscriber", "-j", log, "-a", "new")
    assert (done.code, done.text, done.stderr) == (0, "Added subscriber 'new' -> 00000000:00000000\n", "")
    assert checkpoint(log, b"new") == (0, 0)


def test_a_subscriber_is_added_at_an_address(everlog: Any, log: Path) -> None:
    done = everlog("jlogctl", "subscriber", "-j", log, "-a", "new", "-C", "00000001:00000005")
    assert (done.code, done.text) == (0, "Added subscriber 'new' -> 00000001:00000005\n")
    assert checkpoint(log, b"new") == (1, 5)


def test_a_subscriber_that_is_there_is_not_added(everlog: Any, log: Path) -> None:
    before = content(log)
    done = everlog("jlogctl", "subscriber", "-j", log, "-a", "beta", "-C", "00000000:00000001")
    assert (done.code, done.text) == (1, "")
    assert done.stderr.startswith("everlog: ")
    assert content(log) == before


def test_a_subscriber_is_moved_and_what_nobody_needs_goes(everlog: Any, log: Path) -> None:
    done = everlog("jlogctl", "subscriber", "-j", log, "-u", "alpha", "-C", "00000001:00000024")
    assert (done.code, done.text) == (0, "Updated subscriber 'alpha' 00000000:0000000c -> 00000001:00000024\n")
    assert checkpoint(log, b"alpha") == (1, 36)
    assert segments(log) == ["00000001", "00000002"]
    assert not (log / "00000000.idx").exists()


def test_a_subscriber_is_moved_back(everlog: Any, log: Path) -> None:
    done = everlog("jlogctl", "subscriber", "-j", log, "-u", "beta", "-C", "00000000:00000000")
    assert (done.code, done.text) == (0, "Updated subscriber 'beta' 00000001:00000014 -> 00000000:00000000\n")
    assert segments(log) == ["00000000", "00000001", "00000002"]


def test_an_update_to_nowhere_changes_nothing(everlog: Any, log: Path) -> None:
    before = content(log)
    done = everlog("jlogctl", "subscriber", "-j", log, "-u", "beta")
    assert (done.code, done.text) == (0, "Updated subscriber 'beta' 00000001:00000014 -> 00000001:00000014\n")
    assert content(log) == before


@pytest.mark.parametrize("flag", ["-a", "-u"])
@pytest.mark.parametrize("address", ["00000002:00000014", "00000003:00000000", "00000000:00000024"])
def test_a_checkpoint_behind_the_last_message_is_refused(everlog: Any, log: Path, flag: str, address: str) -> None:
    before = content(log)
    name = "beta" if flag == "-u" else "new"
    done = everlog("jlogctl", "subscriber", "-j", log, flag, name, "-C", address)
    assert (done.code, done.text) == (2, "")
    assert address in done.stderr
    assert content(log) == before


def test_an_empty_checkpoint_is_set_anew(everlog: Any, log: Path) -> None:
    (log / "cp.616c706861").write_bytes(b"")
    shown = everlog("jlogctl", "subscriber", "-j", log)
    assert shown.code == 1
    assert f"\t{'alpha':>32} @ unreadable" in shown.text.splitlines()
    done = everlog("jlogctl", "subscriber", "-j", log, "-u", "alpha", "-C", "00000001:00000002")
    assert (done.code, done.text) == (0, "Updated subscriber 'alpha' unreadable -> 00000001:00000002\n")
    assert checkpoint(log, b"alpha") == (1, 2)


def test_a_subscriber_is_erased_once(everlog: Any, log: Path) -> None:
    done = everlog("jlogctl", "subscriber", "-j", log, "-e", "beta")
    assert (done.code, done.text) == (0, "Erased subscriber 'beta'\n")
    assert not (log / "cp.62657461").exists()
    again = everlog("jlogctl", "subscriber", "-j", log, "-e", "beta")
    assert (again.code, again.text) == (1, "")
    assert again.stderr == f"everlog: {log}: no subscriber 'beta' (jlogctl subscriber -l lists them)\n"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"b\xc3\xa4d", "bäd"),
        (b"a\n\x1b[31mred", r"a\n\x1b[31mred"),
        (b"\xff\xfe", r"\xff\xfe"),
        (b"-x/../y", "-x/../y"),
    ],
)
def test_names_of_any_bytes_are_kept_and_shown_safely(everlog: Any, log: Path, raw: bytes, shown: str) -> None:
    name = os.fsdecode(raw)
    added = everlog("jlogctl", "subscriber", "-j", log, f"--add={name}")
    assert added.text == f"Added subscriber '{shown}' -> 00000000:00000000\n"
    assert checkpoint(log, raw) == (0, 0)
    listed = everlog("jlogctl", "subscriber", "-j", log)
    # As C's %32s, which counts bytes.
    assert f"\t{' ' * (32 - len(shown.encode()))}{shown} @ 00000000:00000000" in listed.text.splitlines()
    viewed = everlog("jlogctl", "subscriber", "-j", log, f"--perspective={name}")
    assert f"  Perspective of the '{shown}' subscriber" in viewed.text.splitlines()
    files = [row["file"] for row in everlog("jlogctl", "subscriber", "-j", log, "--json").rows]
    assert f"cp.{raw.hex()}" in files
    assert everlog("jlogctl", "subscriber", "-j", log, f"--erase={name}").code == 0


@pytest.mark.parametrize(
    ("at", "view"),
    [
        ((0, 35), ("00000001:00000001", "00000001:00000024")),  # the end of a finished segment: on to the next one
        ((0, 99), ("00000001:00000001", "00000001:00000024")),  # behind its end: the same
        ((2, 19), ("00000002:00000013", "00000002:00000013")),  # nothing left
        ((2, 500), ("00000002:00000013", "00000002:00000013")),
        ((7, 1), ("00000007:00000001", "00000007:00000001")),  # a segment that never was
    ],
)
def test_the_perspective_from_odd_places(everlog: Any, log: Path, at: tuple[int, int], view: tuple[str, str]) -> None:
    (log / "cp.616c706861").write_bytes(struct.pack("<II", *at))
    before = content(log)
    done = everlog("jlogctl", "subscriber", "-j", log, "-p", "alpha")
    assert f"\t     next interval: [{view[0]}, {view[1]}]" in done.text.splitlines()
    assert content(log) == before


def test_the_perspective_steps_over_missing_segments(everlog: Any, log: Path) -> None:
    (log / "00000000").unlink()
    (log / "00000001").unlink()
    done = everlog("jlogctl", "subscriber", "-j", log, "-p", "alpha")
    assert "\t     next interval: [00000002:00000001, 00000002:00000013]" in done.text.splitlines()


def test_a_segment_that_is_not_there_yet_is_the_next_one(everlog: Any, log: Path) -> None:
    (log / "00000002").unlink()
    (log / "cp.616c706861").write_bytes(struct.pack("<II", 1, 36))
    done = everlog("jlogctl", "subscriber", "-j", log, "-p", "alpha")
    # As the original says of an empty segment.
    assert done.text.splitlines()[3:5] == [
        "Last write: 00000002:00000000",
        "\t     next interval: [00000002:00000000, 00000002:00000000]",
    ]


# Making and changing journals


def metastore(log: Path) -> tuple[int, ...]:
    return struct.unpack("<IIII", (log / "metastore").read_bytes())


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ((), (0, 4 << 20, 1, PLAIN)),
        (("-s", "4096", "--safety", "safe"), (0, 4096, 2, PLAIN)),
        (("-c", "on"), (0, 4 << 20, 1, LZ4)),
        (("-c", "lz4", "--safety", "metasafe"), (0, 4 << 20, 1, LZ4)),
        (("-c", "null", "--safety", "unsafe"), (0, 4 << 20, 0, NULL)),
        (("-c", "off", "-s4294967295"), (0, 0xFFFFFFFF, 1, PLAIN)),
    ],
)
def test_a_journal_is_created(
    everlog: Any, tmp_path: Path, arguments: tuple[str, ...], fields: tuple[int, ...]
) -> None:
    done = everlog("jlogctl", "create", "-j", tmp_path / "new", *arguments)
    assert (done.code, done.text, done.stderr) == (0, "", "")
    assert metastore(tmp_path / "new") == fields


def test_a_journal_is_created_with_a_buffer(everlog: Any, tmp_path: Path) -> None:
    everlog("jlogctl", "create", "-j", tmp_path / "new", "-p", "1000")
    assert (tmp_path / "new" / "pre_commit").read_bytes() == bytes(1004)
    assert everlog("jlogctl", "meta", "-j", tmp_path / "new", "-p").text == "1000\n"


def test_creating_over_something_changes_nothing(everlog: Any, log: Path) -> None:
    before = content(log)
    done = everlog("jlogctl", "create", "-j", log, "-s", "77")
    assert (done.code, done.text) == (1, "")
    assert content(log) == before


@pytest.mark.parametrize("verb", ["create", "alter"])
@pytest.mark.parametrize("size", ["0", "-1", "4294967296", "4k"])
def test_a_segment_size_that_can_not_be_is_refused(everlog: Any, log: Path, verb: str, size: str) -> None:
    before = content(log)
    path = log if verb == "alter" else log.parent / "new"
    done = everlog("jlogctl", verb, "-j", path, "-s", size)
    assert (done.code, done.text) == (2, "")
    assert content(log) == before
    assert not (log.parent / "new").exists()


def test_settings_are_altered(everlog: Any, log: Path) -> None:
    done = everlog("jlogctl", "alter", "-j", log, "-s", "8192", "--safety", "safe", "-p", "64", "-c", "off")
    assert (done.code, done.text, done.stderr) == (0, "", "")
    assert metastore(log) == (2, 8192, 2, PLAIN)
    assert (log / "pre_commit").stat().st_size == 68


@pytest.mark.parametrize("word", ["on", "lz4", "null"])
def test_the_compression_of_a_journal_stays(everlog: Any, log: Path, word: str) -> None:
    before = content(log)
    done = everlog("jlogctl", "alter", "-j", log, "-s", "8192", "-c", word)
    assert (done.code, done.text) == (2, "")
    assert content(log) == before


@pytest.mark.parametrize(("word", "shown"), [("lz4", "lz4"), ("null", "on"), ("off", "off")])
def test_meta_names_the_compression(everlog: Any, tmp_path: Path, word: str, shown: str) -> None:
    everlog("jlogctl", "create", "-j", tmp_path / "new", "-c", word)
    assert everlog("jlogctl", "meta", "-j", tmp_path / "new", "-c").text == f"{shown}\n"


def test_meta_shows_what_a_damaged_metastore_says(everlog: Any, tmp_path: Path) -> None:
    log = unpack("basic", tmp_path)
    (log / "metastore").write_bytes(struct.pack("<IIII", 2, 4096, 7, PLAIN))
    before = content(log)
    done = everlog("jlogctl", "meta", "-j", log)
    assert done.code == 1
    assert done.text.splitlines()[2:4] == ["compression    off", "safety         unknown"]
    assert "safety 7" in done.stderr
    assert content(log) == before


# Cleaning


def test_without_subscribers_nothing_is_deleted(everlog: Any, log: Path) -> None:
    for path in log.glob("cp.*"):
        path.unlink()
    done = everlog("jlogctl", "clean", "-j", log)
    assert (done.code, done.text) == (0, "")
    assert "no subscribers" in done.stderr
    assert segments(log) == ["00000000", "00000001", "00000002"]


def test_what_all_are_done_with_is_deleted_but_never_the_segment_that_is_written(everlog: Any, log: Path) -> None:
    for name in ("cp.616c706861", "cp.62657461", "cp.7e7461696c"):
        (log / name).write_bytes(struct.pack("<II", 3, 0))  # as when the last segment is done, before the next is there
    done = everlog("jlogctl", "clean", "-j", log, "-v", "--json")
    assert (done.code, done.rows) == (0, [{"path": str(log), "removed": ["00000000", "00000001"]}])
    assert segments(log) == ["00000002"]
    assert done.stderr.count("deleted") == 2


@pytest.mark.parametrize("raw", [b"", b"\1\0\0\0", struct.pack("<II", 99, 0)])
def test_a_checkpoint_that_is_none_holds_everything(everlog: Any, log: Path, raw: bytes) -> None:
    for name in ("cp.616c706861", "cp.62657461", "cp.7e7461696c"):
        (log / name).write_bytes(struct.pack("<II", 2, 0))
    (log / "cp.626164").write_bytes(raw)
    done = everlog("jlogctl", "clean", "-j", log)
    assert (done.code, done.text) == (1, "")
    assert segments(log) == ["00000000", "00000001", "00000002"]


# Repairing


def test_a_repair_keeps_what_it_cuts_out(everlog: Any, tmp_path: Path) -> None:
    log = unpack("e_zero_tail", tmp_path, "before.tar.gz")
    done = everlog("jlogctl", "data", "-j", log, "-r", "--json")
    (kept,) = tmp_path.glob("log.repair-*")
    assert done.code == 0
    assert done.rows[-1]["backup"] == str(kept)
    assert done.rows[-1]["remains"] == []
    assert (log / "00000002").stat().st_size == 1422
    assert (kept / "00000002@1422").read_bytes() == bytes(512)


def test_a_repair_without_a_backup_makes_no_folder(everlog: Any, tmp_path: Path) -> None:
    log = unpack("e_zero_tail", tmp_path, "before.tar.gz")
    assert everlog("jlogctl", "data", "-j", log, "-r", "--no-backup").code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_a_segment_that_is_open_is_not_rewritten(everlog: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not sys.platform.startswith("linux"):  # which alone tells
        monkeypatch.setattr(LocalWritableStorage, "is_open_elsewhere", lambda self, name: name == "00000002")
    log = unpack("e_garbage_middle_current", tmp_path, "before.tar.gz")
    before = content(log)
    with (log / "00000002").open("rb"):
        done = everlog("jlogctl", "repair", "-f", "-j", log)
    assert done.code == 1
    assert "stop the journal's writers and readers first" in done.stderr
    assert content(log) == before


# The old style


def test_the_old_style_takes_any_number_of_journals(everlog: Any, log: Path) -> None:
    done = everlog("jlogctl", "-s", "log", "nolog", "log")
    listing = ["log", "alpha @ 00000000:0000000c", "beta @ 00000001:00000014", "~tail @ 00000000:0000001e"]
    assert [line.strip() for line in done.text.splitlines()] == [*listing, "nolog", *listing]
    assert done.code == 2
    assert len(done.stderr.splitlines()) == 1


def test_the_old_style_adds_and_shows_no_more(everlog: Any, log: Path) -> None:
    done = everlog("jlogctl", "-a", "new", "-C", "00000002:00000003", "-s", "log")
    assert (done.code, done.text) == (0, "log\nAdded subscriber 'new' -> 00000002:00000003\n")
    assert checkpoint(log, b"new") == (2, 3)


def test_the_old_style_shows_the_rest_where_adding_failed(everlog: Any, log: Path) -> None:
    done = everlog("jlogctl", "-a", "beta", "-s", "log")
    assert done.code == 1
    assert len(done.text.splitlines()) == 4


def test_the_old_style_erases_and_shows(everlog: Any, log: Path) -> None:
    done = everlog("jlogctl", "-e", "beta", "-s", "log")
    assert (done.code, done.text.splitlines()[:2]) == (0, ["log", "Erased subscriber 'beta'"])
    assert len(done.text.splitlines()) == 4


def test_the_old_style_moves(everlog: Any, log: Path) -> None:
    done = everlog("jlogctl", "-u", "beta", "-C", "00000001:00000015", "-l", "log")
    assert (done.code, done.text) == (0, "log\nUpdated subscriber 'beta' 00000001:00000014 -> 00000001:00000015\n")


def test_the_old_style_cleans_without_a_word(everlog: Any, log: Path) -> None:
    (log / "cp.616c706861").write_bytes(struct.pack("<II", 1, 0))
    done = everlog("jlogctl", "-c", "-l", "-s", "log")
    assert (done.code, done.text) == (0, "")
    assert segments(log) == ["00000001", "00000002"]


def test_the_old_style_repairs(everlog: Any, tmp_path: Path) -> None:
    log = unpack("e_meta_missing", tmp_path, "before.tar.gz")
    done = everlog("jlogctl", "-R", "-d", log)
    assert done.code == 0
    assert metastore(log) == (2, 4 << 20, 1, PLAIN)
    assert len(done.text.splitlines()) == 4


# Usage


USAGE = [
    ("frobnicate",),
    ("subscriber", "-j"),
    ("subscriber", "-j", "log", "-a", "x", "-l"),
    ("subscriber", "-j", "log", "-a", "x", "-e", "y"),
    ("subscriber", "-j", "log", "-C", "00000001:00000001"),
    ("subscriber", "-j", "log", "-u", "beta", "-C", "1"),
    ("subscriber", "-j", "log", "-u", "beta", "-C", "0000000g:00000001"),
    ("subscriber", "-j", "log", "-a", ""),
    ("subscriber", "-j", "log", "-a", "x" * 127),
    ("subscriber", "-j", "log", "more"),
    ("subscriber", "-j", "nolog"),
    ("data", "-j", "log", "-x"),
    ("data", "-j", "log", "--dry-run"),
    ("data", "-j", "log/metastore"),
    ("data", "-j", "."),
    ("clean", "-j", "."),
    ("meta", "-j", "log", "-c", "-f"),
    ("meta", "-j", "nolog"),
    ("create",),
    ("create", "-j", "new", "-c", "maybe"),
    ("create", "-j", "new", "-p", "x"),
    ("alter", "-j", "log"),
    ("alter", "-j", "nolog", "-s", "1"),
    ("repair", "-j", "nolog"),
    ("-s",),
    ("-x", "log"),
    ("-C", "00000001:00000001", "log"),
    ("-s", "--dry-run", "log"),
]


@pytest.mark.parametrize("arguments", USAGE, ids=" ".join)
def test_wrong_usage_is_one_line_and_exit_code_2(everlog: Any, log: Path, arguments: tuple[str, ...]) -> None:
    before = content(log)
    done = everlog("jlogctl", *arguments)
    assert (done.code, done.text) == (2, "")
    assert done.stderr.startswith("everlog: ")
    assert len(done.stderr.splitlines()) == 1
    assert content(log) == before
    assert not (log.parent / "new").exists()


def test_no_verb_is_wrong_usage_and_shows_the_verbs(everlog: Any) -> None:
    done = everlog("jlogctl")
    assert (done.code, done.text) == (2, "")
    assert all(f"  {verb} " in done.stderr for verb in VERBS)


def test_help_tells_every_option_of_every_verb(everlog: Any) -> None:
    done = everlog("jlogctl", "help")
    assert done.code == 0
    assert [flag for _, flag in flags() if flag not in done.text] == []


def flags() -> list[tuple[str, str]]:
    context = click.Context(jlogctl)
    commands = {name: jlogctl.get_command(context, name) for name in (*VERBS, OLD_STYLE)}
    return [
        (n, flag) for n, c in commands.items() if c for p in c.params if isinstance(p, click.Option) for flag in p.opts
    ]


def test_every_option_is_documented() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8").split("## everlog jlogctl")[1].split("\n## ")[0]
    missing = [f for f in flags() if f"`{f[1]}`" not in text and f"`{f[1]} " not in text and f" {f[1]}`" not in text]
    assert [f for f in missing if f" {f[1]} " not in text] == []


# Ownership


def test_files_of_others_are_told(everlog: Any, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the system tells it: only root can give files away."""
    real = os.stat

    def stat(path: Any, *rest: Any, **more: Any) -> os.stat_result:
        found = real(path, *rest, **more)
        is_metastore = str(path).endswith("metastore")
        return os.stat_result((*found[:4], 1, 2, *found[6:])) if is_metastore else found

    monkeypatch.setattr("everlog.cli.jlogctl.ownership.os.stat", stat)
    mine = f"{os.geteuid()}/{real(log).st_gid}"
    done = everlog("jlogctl", "data", "-j", "log")
    assert done.code == 0
    assert done.stderr.splitlines() == [
        f"metastore owner/group [1/2] doesn't match jlog [{mine}]",
        "",
        "A permissions mismatch can cause these to fail later",
        "*IF* the jlog ownership is correct you can run (as root):",
        "",
        f"  chown -R {mine.replace('/', ':')} {os.path.realpath(log)}",
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ("subscriber", "-j", "log"),
        ("data", "-j", "log"),
        ("clean", "-j", "log"),
        ("repair", "-j", "log"),
        ("-s", "log"),
    ],
)
def test_a_file_that_can_not_be_looked_at_is_told(everlog: Any, log: Path, arguments: tuple[str, ...]) -> None:
    (log / "dangling\n").symlink_to("nowhere")
    done = everlog("jlogctl", *arguments)
    assert r"failed to stat log/dangling\n: No such file or directory" in done.stderr.splitlines()
    assert done.code == 0


# JSON


def test_json_of_subscribers(everlog: Any, log: Path) -> None:
    assert everlog("jlogctl", "subscriber", "-j", "log", "--json").rows[1] == {
        "path": "log",
        "subscriber": "beta",
        "file": "cp.62657461",
        "log": 1,
        "marker": 20,
        "checkpoint": "00000001:00000014",
        "transient": False,
    }
    assert everlog("jlogctl", "subscriber", "-j", "log", "-p", "beta", "--json").rows == [
        {
            "path": "log",
            "subscriber": "beta",
            "checkpoint": "00000001:00000014",
            "last_write": "00000002:00000013",
            "next_first": "00000001:00000015",
            "next_last": "00000001:00000024",
            "next_count": 16,
        }
    ]


def test_json_of_changes(everlog: Any, log: Path) -> None:
    added = everlog("jlogctl", "subscriber", "-j", "log", "-a", "n", "--json").rows
    assert added == [{"path": "log", "added": "n", "file": "cp.6e", "checkpoint": "00000000:00000000"}]
    moved = everlog("jlogctl", "subscriber", "-j", "log", "-u", "n", "-C", "00000000:00000007", "--json").rows
    assert moved == [
        {
            "path": "log",
            "updated": "n",
            "file": "cp.6e",
            "before": "00000000:00000000",
            "checkpoint": "00000000:00000007",
        }
    ]
    erased = everlog("jlogctl", "subscriber", "-j", "log", "-e", "n", "--json").rows
    assert erased == [{"path": "log", "erased": "n", "file": "cp.6e"}]


def test_json_of_segments(everlog: Any, log: Path) -> None:
    rows = everlog("jlogctl", "data", "-j", "log", "-i", "-d", "--json").rows
    assert rows[0] == {
        "path": "log",
        "segment": "00000000",
        "bytes": 4144,
        "pending_readers": 2,
        "index": {"state": "closed", "messages": 35},
        "faults": [],
    }
    assert rows[2]["index"] == {"state": "none", "messages": None}


def test_json_of_messages(everlog: Any, log: Path) -> None:
    rows = everlog("jlogctl", "data", "-j", "log", "-d", "-v", "--json").rows
    assert rows[2] == {
        "path": "log",
        "segment": "00000000",
        "message": 2,
        "offset": 26,
        "header_bytes": 16,
        "stored_bytes": 200,
        "length": 200,
        "timestamp_ns": 1_700_000_001_001_000_000,
    }
    assert sum("message" in row for row in rows) == 90


def test_json_of_faults(everlog: Any, tmp_path: Path) -> None:
    log = unpack("e_trunc_last_noidx", tmp_path, "before.tar.gz")
    done = everlog("jlogctl", "data", "-j", log, "-d", "--json")
    assert done.code == 1
    assert [[fault["code"] for fault in row["faults"]] for row in done.rows] == [[], [], ["torn-record"]]


def test_json_of_the_metastore(everlog: Any, log: Path) -> None:
    expected = {
        "path": "log",
        "magic": "663a7318",
        "storagelog": 2,
        "compression": "none",
        "safety": "almost_safe",
        "precommit": 0,
        "segmentsize": 4096,
    }
    assert everlog("jlogctl", "meta", "-j", "log", "--json").rows == [expected]
    assert everlog("jlogctl", "meta", "-j", "log", "-l", "--json").rows == [{"path": "log", "storagelog": 2}]
    created = everlog("jlogctl", "create", "-j", "new", "--json").rows
    assert created == [{"path": "new", "created": True}]
    (altered,) = everlog("jlogctl", "alter", "-j", "new", "-s", "9", "--json").rows
    assert altered["altered"]["segmentsize"] == 9


def test_json_of_a_repair(everlog: Any, tmp_path: Path) -> None:
    log = unpack("e_cp_marker_too_big", tmp_path, "before.tar.gz")
    (dry,) = everlog("jlogctl", "repair", "-j", log, "--dry-run", "--json").rows
    assert (dry["dry_run"], [step["file"] for step in dry["steps"]], dry["done"]) == (True, ["cp.6f6e65"], [])
    (done,) = everlog("jlogctl", "repair", "-j", log, "--json").rows
    assert done["done"] == ["set cp.6f6e65 to 00000001:00000019"]
    assert checkpoint(log, b"one") == (1, 25)
