"""``everlog ls``, ``info`` and ``metrics`` of journals: lags, warnings, the endpoint."""

from __future__ import annotations

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import tests
from everlog.cli.monitoring.metrics import parse_listen
from everlog.errors import UsageError
from everlog.testing.contract import snapshot

GOLDEN = tests.GOLDEN / "jlog"
NOW = 1_700_000_100
NS = 1_000_000_000


@pytest.fixture
def jlog(everlog, monkeypatch):
    """Runs one command line at ``NOW``."""
    monkeypatch.setattr("time.time_ns", lambda: NOW * NS)
    return everlog


@pytest.fixture
def basic(tmp_path: Path) -> Path:
    """90 messages of the real library; alpha has read 12, beta 55, ~tail 30. As it was written just now."""
    with tarfile.open(GOLDEN / "basic" / "log.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
    for file in (tmp_path / "log").iterdir():
        os.utime(file, (NOW - 10, NOW - 10))
    return tmp_path / "log"


@pytest.fixture
def ill(basic: Path) -> Path:
    """The same, alpha's checkpoint two hours old, as are its messages; one more in no segment."""
    os.utime(basic / "cp.616c706861", (NOW - 7200, NOW - 7200))
    (basic / "cp.1b5b324a").write_bytes(struct.pack("<II", 0x63, 1))
    return basic


def test_ls_prints_a_table_of_lags(jlog, basic: Path) -> None:
    result = jlog("ls", basic)
    assert (result.code, result.stderr) == (0, "")
    rows = [line.split() for line in result.text.splitlines()]
    at = rows.index(["subscriber", "checkpoint", "lag_messages", "lag_bytes", "lag_seconds"])
    assert rows[at - 1] == []
    # Sizes of the segments: 4144, 4224, 2192; the first that waits for each is at 1408, 2218 (of segment 1), 3520.
    assert [row[:4] for row in rows[at + 1 :]] == [
        ["alpha", "00000000:0000000c", "78", "9152"],
        ["beta", "00000001:00000014", "35", "4198"],
        ["~tail", "00000000:0000001e", "60", "7040"],
    ]


def test_ls_and_info_give_lags_as_json(jlog, basic: Path) -> None:
    (row,) = jlog("ls", basic, "--json").rows
    (info,) = jlog("info", basic, "--json").rows
    (alpha, beta, tail) = row["details"]["subscribers"]
    # alpha's first is message 12 of all, which the library wrote at 1700000012.012.
    assert (alpha["lag"], alpha["lag_messages"], alpha["lag_bytes"], alpha["lag_seconds"]) == (78, 78, 9152, 87.988)
    assert (beta["lag_messages"], tail["lag_messages"]) == (35, 60)
    assert info["subscribers"] == [alpha, beta, tail]
    assert row["warnings"] == info["warnings"] == []


def test_info_shows_lags_to_people(jlog, basic: Path) -> None:
    lines = [line.strip() for line in jlog("info", basic).text.splitlines()]
    at = lines.index("- name: alpha")
    assert lines[at + 6 : at + 10] == ["lag: 78", "lag_messages: 78", "lag_bytes: 9152", "lag_seconds: 87.988"]


LATER = NOW + 7200


@pytest.mark.parametrize("command", ["ls", "info"])
def test_warnings_are_lines_on_stderr_and_no_fault(jlog, ill: Path, command: str, monkeypatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: LATER * NS)
    for file in ill.glob("cp.*"):
        if file.name != "cp.616c706861":
            os.utime(file, (LATER, LATER))
    result = jlog(command, ill)
    assert result.code == 0
    stalled, missing = result.stderr.splitlines()
    assert stalled.startswith("everlog: warning: cp.616c706861: subscriber-stalled: ")
    assert stalled.endswith("(start its reader again, or remove the subscriber)")
    assert missing.startswith("everlog: warning: cp.1b5b324a: checkpoint-without-segment: ")
    assert "subscriber \\x1b[2J" in missing


@pytest.mark.parametrize("command", ["ls", "info"])
def test_warnings_are_a_list_in_json(jlog, ill: Path, command: str) -> None:
    result = jlog(command, ill, "--json")
    assert (result.code, result.stderr) == (0, "")
    (warning,) = result.rows[0]["warnings"]
    assert (warning["code"], warning["file"], warning["severity"]) == (
        "checkpoint-without-segment",
        "cp.1b5b324a",
        "fault",
    )
    assert set(warning) >= {"found", "expected", "loses", "repair"}


def test_a_hint_is_a_note(jlog, basic: Path) -> None:
    (basic / "metastore").write_bytes(struct.pack("<IIII", 2, 4096, 0, 0x663A7318))
    result = jlog("ls", basic)
    assert result.code == 0
    assert result.stderr.startswith("everlog: note: metastore: safety-unsafe: safety")


def test_families_without_such_checks_have_no_warnings(everlog, clean: Path) -> None:
    assert "warnings" not in everlog("ls", clean, "--json").rows[0]
    assert "subscriber" not in everlog("ls", clean).text


def test_count_counts_what_would_cost_too_much_else(jlog, tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.mkdir()
    payload = bytes(9 << 20)
    (path / "00000000").write_bytes(struct.pack("<IIII", 0x663A7318, NOW - 5, 0, 0))
    (path / "00000001").write_bytes(struct.pack("<IIII", 0x663A7318, NOW, 0, len(payload)) + payload)
    (path / "metastore").write_bytes(struct.pack("<IIII", 1, 4096, 1, 0x663A7318))
    (path / "cp.61").write_bytes(bytes(8))
    for options, count in [((), None), (("--count",), 2)]:
        (row,) = jlog("ls", path, "--json", *options).rows
        (subscriber,) = row["details"]["subscribers"]
        assert (row["records"], subscriber["lag_messages"]) == (count, count)
        assert (subscriber["lag_bytes"], subscriber["lag_seconds"]) == (len(payload) + 32, 5)
    assert jlog("ls", path).text.splitlines()[-1].split() == ["a", "00000000:00000000", "-", "9437216", "5.0"]


def values(text: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_once_prints_what_prometheus_reads(jlog, basic: Path, ill: Path) -> None:
    result = jlog("metrics", basic, "--once")
    assert (result.code, result.stderr) == (0, "")
    found = values(result.text)
    assert found["everlog_jlog_up", str(basic)] == 1
    assert found["everlog_jlog_subscriber_lag_messages", str(basic), "alpha"] == 78
    assert found["everlog_jlog_subscriber_lag_bytes", str(basic), "beta"] == 4198
    assert found["everlog_jlog_subscriber_lag_seconds", str(basic), "alpha"] == pytest.approx(87.988)
    assert found["everlog_jlog_subscriber_lag_messages", str(basic), "\\x1b[2J"] == 0
    assert found["everlog_jlog_last_write_timestamp_seconds", str(basic)] == NOW - 10
    assert found["everlog_jlog_warnings", "checkpoint-without-segment", str(basic)] == 1


def test_a_path_that_is_no_store_is_refused_unless_its_family_is_said(jlog, basic: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    refused = jlog("metrics", basic, gone, "--once")
    assert (refused.code, refused.stdout) == (2, b"")
    told = jlog("metrics", basic, gone, "--once", "--family", "jlog")
    assert told.code == 0
    assert told.stderr.startswith("everlog: warning: ")
    assert str(gone) in told.stderr
    assert "no such file or directory" in told.stderr
    assert told.stderr.count("\n") == 1
    found = values(told.text)
    assert (found["everlog_jlog_up", str(gone)], found["everlog_jlog_up", str(basic)]) == (0, 1)


def test_a_family_without_metrics_is_wrong_usage(everlog, tmp_path: Path) -> None:
    result = everlog("metrics", tmp_path, "--once", "--family", "nats-streaming")
    assert result.code == 2
    assert f"no metrics for {tmp_path}: NATS Streaming stores have none" in result.stderr
    assert "or JLog journal" in result.stderr


def test_without_the_package_one_line_names_the_extra(jlog, basic: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    result = jlog("metrics", basic, "--once")
    assert result.code == 2
    assert "prometheus-client" in result.stderr
    assert "pip install 'everlog[metrics]'" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("127.0.0.1:9464", ("127.0.0.1", 9464)),
        ("9464", ("127.0.0.1", 9464)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),
        ("[::1]:80", ("::1", 80)),
        ("localhost:65535", ("localhost", 65535)),
    ],
)
def test_where_to_listen_is_a_host_and_a_port(text: str, place: tuple[str, int]) -> None:
    assert parse_listen(text) == place


@pytest.mark.parametrize("text", ["", ":9464", "host:", "host", "host:65536", "::1:80", "a b:1", "host:-1", "[::1]"])
def test_a_place_to_listen_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--listen"):
        parse_listen(text)


def test_a_port_that_is_taken_is_one_line(jlog, basic: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = jlog("metrics", basic, "--listen", f"127.0.0.1:{port}")
    assert result.code == 2
    assert result.stderr.startswith("everlog: ")
    assert "can't listen on" in result.stderr
    assert f"127.0.0.1:{port}: address already in use" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.fixture
def server(basic: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``everlog metrics`` on a free port, and its URL."""
    command = [sys.executable, "-m", "everlog", "metrics", str(basic), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            match = re.fullmatch(r"everlog: serving (http://127\.0\.0\.1:\d+/metrics)\n", line)
            assert match is not None, line
            yield process, match[1]
        finally:
            process.kill()


def test_the_endpoint_gives_the_state_at_each_scrape_and_changes_nothing(server, basic: Path) -> None:
    before = snapshot(basic)
    process, url = server
    with urllib.request.urlopen(url, timeout=20) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        found = values(answer.read().decode())
    assert found["everlog_jlog_subscriber_lag_messages", str(basic), "alpha"] == 78
    assert snapshot(basic) == before
    (basic / "cp.616c706861").write_bytes(struct.pack("<II", 1, 20))
    with urllib.request.urlopen(url, timeout=20) as answer:
        found = values(answer.read().decode())
    assert found["everlog_jlog_subscriber_lag_messages", str(basic), "alpha"] == 35
    assert process.poll() is None


def test_the_endpoint_ends_when_it_is_interrupted(server) -> None:
    process, _ = server
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130


@pytest.mark.parametrize("arguments", [["ls"], ["ls", "--count"], ["ls", "--json"], ["info"], ["metrics", "--once"]])
@pytest.mark.parametrize("case", ["basic", "precommit_unflushed", "e_cp_empty", "e_idx_longer", "e_meta_missing"])
def test_looking_changes_no_byte(jlog, tmp_path: Path, arguments: list[str], case: str) -> None:
    archive = GOLDEN / case / "before.tar.gz"
    archive = archive if archive.exists() else GOLDEN / case / "log.tar.gz"
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    before = snapshot(tmp_path)
    assert jlog(arguments[0], tmp_path / "log", *arguments[1:]).code == 0
    assert snapshot(tmp_path) == before
