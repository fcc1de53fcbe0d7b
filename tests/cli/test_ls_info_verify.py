"""``everlog ls``, ``info`` and ``verify``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

A_FAULT = {
    "code": "toy-bad-line",
    "file": "a.toy",
    "offset": 42,
    "found": "b'damaged\\n'",
    "expected": "a record",
    "loses": "one record",
    "repair": "none needed",
    "severity": "fault",
    "stream": "a",
    "address": None,
}


def test_ls_json_prints_one_object_a_line(everlog, toy: Path) -> None:
    result = everlog("ls", toy, "--json")
    assert (result.code, result.stderr) == (0, "")
    size = (toy / "a.toy").stat().st_size
    assert result.rows[0] == {
        "family": "toy",
        "stream": "a",
        "first": "1",
        "last": "5",
        "end": "6",
        "records": None,
        "bytes": size,
        "details": {"kind": "toy"},
    }
    assert [row["stream"] for row in result.rows] == ["a", "b"]


def test_ls_count_reads_the_records_and_warns_of_faults(everlog, toy: Path) -> None:
    result = everlog("ls", toy, "--json", "--count")
    assert [row["records"] for row in result.rows] == [3, 1]
    assert result.code == 1
    assert "toy-bad-line" in result.stderr


def test_ls_all_lists_deleted_streams_too(everlog, toy: Path) -> None:
    assert [row["stream"] for row in everlog("ls", toy, "--json", "--all").rows] == ["a", "b", "deleted-c"]


def test_ls_prints_an_aligned_table_where_no_terminal_is(everlog, toy: Path) -> None:
    lines = everlog("ls", toy).text.splitlines()
    assert lines[0].split() == ["stream", "first", "last", "end", "records", "bytes", "details"]
    assert lines[1].split()[:5] == ["a", "1", "5", "6", "-"]
    assert lines[1].endswith("kind=toy")


def test_a_stream_name_can_not_steer_the_terminal(everlog, toy: Path) -> None:
    (toy / "b.toy").rename(toy / "\x1b[2Jevil\n.toy")
    result = everlog("ls", toy)
    assert "\x1b" not in result.text
    assert "\\x1b[2Jevil\\n" in result.text


def test_info_prints_the_state_for_people_and_programs(everlog, clean: Path) -> None:
    assert everlog("info", clean, "--json").rows == [{"family": "toy", "streams": ["s"], "first": 0}]
    assert everlog("info", clean).text == "family: toy\nstreams:\n  - s\nfirst: 0\n"


def test_verify_json_is_one_report(everlog, toy: Path) -> None:
    result = everlog("verify", toy, "--json")
    report = json.loads(result.stdout)
    offset = (toy / "a.toy").read_bytes().index(b"damaged")
    assert report["faults"] == [A_FAULT | {"offset": offset}]
    assert report["ok"] is False
    assert report["records"] == 5
    assert result.code == 1


def test_verify_prints_every_part_of_a_fault_and_a_closing_line(everlog, toy: Path) -> None:
    result = everlog("verify", toy)
    offset = (toy / "a.toy").read_bytes().index(b"damaged")
    lines = result.text.splitlines()
    assert lines[0] == f"fault  toy-bad-line  a.toy at offset {offset} (stream a)"
    assert lines[1:5] == [
        "       found:    b'damaged\\n'",
        "       expected: a record",
        "       loses:    one record",
        "       repair:   none needed",
    ]
    size = sum(file.stat().st_size for file in toy.iterdir())
    closing = f"damaged: {toy} (toy): 3 streams, 3 segments, 5 records, {size} bytes, 1 fault, 0 notes"
    assert lines[5:] == [closing]


def test_verify_of_a_whole_store_exits_0(everlog, clean: Path) -> None:
    result = everlog("verify", clean)
    assert result.code == 0
    assert result.text.startswith("ok: ")


@pytest.mark.parametrize("command", ["ls", "info", "read", "verify"])
def test_a_folder_that_is_no_store_is_one_line_and_exit_2(everlog, tmp_path: Path, command: str) -> None:
    result = everlog(command, tmp_path)
    assert result.code == 2
    assert result.stdout == b""
    assert str(tmp_path) in result.stderr
    assert "none of the" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ls", "/no/such/folder"], "no such file or directory"),
        (["ls", __file__], "a file;"),
        (["ls", "a\0b"], "'a\\x00b'"),
        (["ls", "memory://no/such"], "no such file or directory"),
        (["ls", "nosuch://x"], "nosuch://x"),
        (["ls"], "Missing argument 'PATH' (see everlog ls --help)"),
        (["lss", "x"], "No such command 'lss'"),
        (["ls", "x", "--colour"], "No such option"),
        (["ls", "x", "--family", "z"], "Invalid value for '--family'"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(everlog, arguments: list[str], message: str) -> None:
    result = everlog(*arguments)
    assert result.code == 2
    assert result.stderr.startswith("everlog: ")
    assert message in result.stderr
    assert arguments[1:2] != [__file__] or __file__ in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_option_that_the_family_does_not_have_is_refused(everlog, toy: Path) -> None:
    result = everlog("ls", toy, "--checksum", "crc32")
    assert result.code == 2
    assert result.stderr.startswith("everlog: --checksum ")
    assert "toy" in result.stderr


def test_a_defect_is_one_line_without_a_traceback(everlog, toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everlog.testing.toy.store.ToyStore.info", lambda self: 1 / 0)
    result = everlog("info", toy)
    assert result.code == 2
    assert result.stderr.startswith("everlog: internal error, please report: ZeroDivisionError")


def test_an_interrupt_exits_130(everlog, toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("everlog.testing.toy.store.ToyStore.info", interrupt)
    assert everlog("info", toy).code == 130
