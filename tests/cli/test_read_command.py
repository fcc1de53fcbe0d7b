"""``everlog read``."""

from __future__ import annotations

import base64
import struct
import zlib
from pathlib import Path

import pytest

from everlog.cli import read as read_module
from everlog.cli.read import unescaped
from everlog.cli.records import hex_line, shortened
from everlog.jlog.store import JlogStore
from everlog.testing.toy.store import toy_line


def test_json_has_the_common_keys_then_the_familys_own(everlog, toy: Path) -> None:
    result = everlog("read", toy, "--stream", "a", "--json")
    first = result.rows[0]
    assert first == {
        "stream": "a",
        "address": "1",
        "timestamp_ns": 1_700_000_000_123_456_789,
        "length": 3,
        "crc32": f"{zlib.crc32(b'one'):08x}",
        "payload": base64.b64encode(b"one").decode(),
        "number": 1,
        "topic": "x",
    }
    assert list(first) == ["stream", "address", "timestamp_ns", "length", "crc32", "payload", "number", "topic"]
    assert result.stdout.startswith(b'{"stream": "a", "address": "1", "timestamp_ns": 1700000000123456789, ')
    assert [row["topic"] for row in result.rows] == ["x", None, 'q"\\\x1b']
    assert [row["timestamp_ns"] for row in result.rows] == [1_700_000_000_123_456_789, None, 1_700_000_001_000_000_000]


def test_a_fault_is_a_warning_and_the_records_around_it_are_given(everlog, toy: Path) -> None:
    result = everlog("read", toy, "--json", "--no-payload")
    assert [(row["stream"], row["address"]) for row in result.rows] == [("a", "1"), ("a", "2"), ("a", "5"), ("b", "7")]
    assert "payload" not in result.rows[0]
    assert result.code == 1
    assert result.stderr.startswith("everlog: warning: a.toy at offset ")
    assert result.stderr.count("\n") == 1


def test_a_percent_sign_in_a_stream_name_is_no_template(everlog, clean: Path) -> None:
    (clean / "s.toy").rename(clean / '50%d"x.toy')
    assert [row["stream"] for row in everlog("read", clean, "--json", "--limit", 2).rows] == ['50%d"x'] * 2


def test_from_is_inclusive_and_to_exclusive(everlog, clean: Path) -> None:
    rows = everlog("read", clean, "--json", "--from", 11, "--to", 13).rows
    assert [row["address"] for row in rows] == ["11", "12"]


@pytest.mark.parametrize(("limit", "count"), [(0, 0), (1, 1), (3, 3), (99, 5)])
def test_limit_counts_records(everlog, clean: Path, limit: int, count: int) -> None:
    assert len(everlog("read", clean, "--json", "--limit", limit).rows) == count


def test_limit_counts_over_all_streams(everlog, toy: Path) -> None:
    rows = everlog("read", toy, "--json", "--limit", 4, "--stream", "b", "--stream", "a").rows
    assert [(row["stream"], row["address"]) for row in rows] == [("b", "7"), ("a", "1"), ("a", "2"), ("a", "5")]


def test_raw_is_exactly_the_payloads(everlog, toy: Path) -> None:
    assert everlog("read", toy, "--raw").stdout == b"one\xff\x00twothree\n"


def test_raw_with_a_delimiter_puts_it_behind_each(everlog, toy: Path) -> None:
    assert everlog("read", toy, "--raw", "--delimiter", r"\0\n").stdout == b"one\0\n\xff\x00two\0\nthree\n\0\n\0\n"


def test_delimiters_know_a_few_escapes() -> None:
    assert unescaped(r"\n\t\r\0\\\x1Fä\q") == b"\n\t\r\0\\\x1f\xc3\xa4\\q"


def test_hex_dumps_each_record(everlog, toy: Path) -> None:
    lines = everlog("read", toy, "--hex", "--stream", "a", "--from", 2, "--to", 3).text.splitlines()
    assert lines[0] == "a  2  -  5 bytes"
    assert lines[1].startswith("00000000  ff 00 74 77 6f ")
    assert lines[1].endswith("|..two|")


def test_a_full_hex_line_has_sixteen_bytes() -> None:
    expected = "00000010  41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f 50  |ABCDEFGHIJKLMNOP|"
    assert hex_line(16, b"ABCDEFGHIJKLMNOP") == expected


def test_lines_for_people_show_time_length_and_a_preview(everlog, toy: Path) -> None:
    lines = everlog("read", toy).text.splitlines()
    assert lines[0] == "a  1  2023-11-14T22:13:20.123456789Z         3  one"
    assert lines[1] == "a  2  -         5  ff0074776f"
    assert lines[2] == "a  5  2023-11-14T22:13:21.000000000Z         6  three\\n"
    assert lines[3] == "b  7  1970-01-01T00:00:00.000000000Z         0"


def test_long_text_is_shortened_at_a_character() -> None:
    assert shortened("é".encode() * 100) == "é" * 30 + "..."
    assert shortened(b"x" + "é".encode() * 100) == "x" + "é" * 29 + "..."
    assert shortened(b"\xff" * 100) == "ff" * 30 + "..."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--json", "--raw"], "--json and --raw exclude each other"),
        (["--raw", "--no-payload"], "--no-payload and --raw exclude each other"),
        (["--delimiter", "x"], "--delimiter needs --raw"),
        (["--from", "x"], "address must be a number, not 'x'"),
        (["--stream", "nope"], "'nope'"),
        (["--limit", "-1"], "Invalid value for '--limit'"),
    ],
)
def test_wrong_usage_of_read_is_one_line(everlog, clean: Path, arguments: list[str], message: str) -> None:
    result = everlog("read", clean, *arguments)
    assert result.code == 2
    assert result.stdout == b""
    assert result.stderr.startswith("everlog: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_follow_prints_what_comes_later_once(everlog, clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    polls = iter([[15, 16], [], [17]])

    def append_then_interrupt(seconds: float) -> None:
        numbers = next(polls, None)
        if numbers is None:
            raise KeyboardInterrupt
        with (clean / "s.toy").open("ab") as file:
            for number in numbers:
                file.write(toy_line(number, None, None, b"new"))

    monkeypatch.setattr(read_module.time, "sleep", append_then_interrupt)
    result = everlog("read", clean, "--json", "--follow", "--from", "13")
    assert [row["address"] for row in result.rows] == ["13", "14", "15", "16", "17"]
    assert result.code == 130


def test_follow_ends_at_its_limit(everlog, clean: Path) -> None:
    assert len(everlog("read", clean, "--json", "--follow", "--limit", 2).rows) == 2


def test_follow_keeps_the_first_address_of_a_stream_that_had_no_record_yet(
    everlog, clean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            with (clean / "s.toy").open("ab") as file:
                file.write(toy_line(15, None, None, b"early") + toy_line(20, None, None, b"wanted"))
        if len(waits) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(read_module.time, "sleep", wait)
    result = everlog("read", clean, "--json", "--follow", "--from", "20")
    assert [row["address"] for row in result.rows] == ["20"]


def message(payload: bytes) -> bytes:
    """As a journal has it."""
    return struct.pack("<IIII", 0x663A7318, 1_800_000_000, 0, len(payload)) + payload


def write_segment(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal's first segment, which a next one follows for the metastore."""
    (path / "metastore").write_bytes(struct.pack("<IIII", 1, 4096, 1, 0x663A7318))
    (path / "00000000").write_bytes(message(b"one"))


def test_follow_waits_for_a_writer_that_goes_on_below_the_last_segment(
    everlog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_segment(tmp_path, monkeypatch)
    (tmp_path / "00000001").write_bytes(message(b"three"))
    late = (tmp_path / "00000000").open("ab", buffering=0)
    steps = iter([lambda: late.write(message(b"two")), lambda: None, late.close, lambda: None])

    def wait(seconds: float) -> None:
        step = next(steps, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    monkeypatch.setattr(read_module.time, "sleep", wait)
    result = everlog("read", tmp_path, "--raw", "--delimiter", " ", "--follow")
    assert result.stdout == b"one two three "


def test_follow_passes_over_no_segment_that_is_followed_only_when_it_is_read(
    everlog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_segment(tmp_path, monkeypatch)
    late = (tmp_path / "00000000").open("ab", buffering=0)
    ask = JlogStore.settled_end

    def settled_end(store: JlogStore, stream: str) -> int | None:
        end = ask(store, stream)
        (tmp_path / "00000001").write_bytes(message(b"three"))
        return end

    monkeypatch.setattr(JlogStore, "settled_end", settled_end)
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if not late.closed:
            late.write(message(b"two"))
            late.close()
        if len(waits) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(read_module.time, "sleep", wait)
    result = everlog("read", tmp_path, "--raw", "--delimiter", " ", "--follow")
    assert result.stdout == b"one two three "
