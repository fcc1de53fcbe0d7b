"""The command line over golden stores: what only a family brings."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

import tests
from everlog.cli.app import run

GOLDEN = tests.GOLDEN


def unpack(name: str, folder: Path) -> Path:
    with tarfile.open(GOLDEN / name) as tar:
        tar.extractall(folder, filter="data")
    (store,) = folder.iterdir()
    return store


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Any:
    def run_command(*arguments: object) -> tuple[int, list[dict[str, Any]], str]:
        out, err = io.BytesIO(), io.StringIO()
        text = io.TextIOWrapper(out, encoding="utf-8", write_through=True)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", text)
            patch.setattr(sys, "stderr", err)
            code = run([str(argument) for argument in arguments])
            text.flush()
        return code, [json.loads(line) for line in out.getvalue().splitlines()], err.getvalue()

    return run_command


COMMON = ["stream", "address", "timestamp_ns", "length", "crc32", "payload"]


def test_aeron_rows_have_the_familys_keys(call: Any, tmp_path: Path) -> None:
    store = unpack("aeron/archive-basic/archive.tar.gz", tmp_path)
    code, rows, _ = call("read", store, "--json", "--stream", "3", "--limit", 5)
    assert code == 0
    assert list(rows[0])[:6] == COMMON
    own = ["position", "end_position", "session_id", "stream_id", "term_id", "term_offset", "flags", "reserved_value"]
    assert list(rows[0])[6:] == own
    assert [row["address"] for row in rows] == [str(row["position"]) for row in rows]
    frames = call("read", store, "--json", "--frames", "--no-payload")[1]
    messages = call("read", store, "--json", "--no-payload")[1]
    assert len(frames) > len(messages)
    assert sum(row["length"] for row in frames) == sum(row["length"] for row in messages)


def test_aeron_lists_and_reads_deleted_recordings_only_with_all(call: Any, tmp_path: Path) -> None:
    store = unpack("aeron/archive-basic/archive.tar.gz", tmp_path)
    few = [row["stream"] for row in call("ls", store, "--json")[1]]
    every = [row["stream"] for row in call("ls", store, "--json", "--all")[1]]
    (deleted,) = set(every) - set(few)
    code, _, error = call("read", store, "--json", "--stream", deleted)
    assert (code, "deleted" in error) == (2, True)
    assert call("read", store, "--json", "--stream", deleted, "--all")[0] in (0, 1)


def test_jlog_addresses_are_as_jlogctl_prints_them(call: Any, tmp_path: Path) -> None:
    store = unpack("jlog/basic/log.tar.gz", tmp_path)
    rows = call("read", store, "--json", "--from", "00000001:00000003", "--limit", 2)[1]
    assert list(rows[0]) == [*COMMON, "log", "marker", "offset"]
    assert [(row["address"], row["log"], row["marker"]) for row in rows] == [
        ("00000001:00000003", 1, 3),
        ("00000001:00000004", 1, 4),
    ]


def test_jlog_pre_commit_is_read_when_asked_for(call: Any, tmp_path: Path) -> None:
    store = unpack("jlog/precommit_unflushed/log.tar.gz", tmp_path)
    truth = json.loads((GOLDEN / "jlog/precommit_unflushed/truth.json").read_text())
    assert call("read", store, "--json")[1] == []
    assert len(call("read", store, "--json", "--pre-commit")[1]) == len(truth["pre_commit"]["messages"])


def test_nats_rows_have_the_familys_keys_and_limits_hide_messages(call: Any, tmp_path: Path) -> None:
    store = unpack("nats_streaming/lim_default_slice.tar.gz", tmp_path)
    truth = json.loads((GOLDEN / "nats_streaming/lim_default_slice.truth.json").read_text())
    ((name, channel),) = truth["channels"].items()
    rows = call("read", store, "--json", "--stream", name)[1]
    assert list(rows[0]) == [*COMMON, "sequence", "subject", "reply", "slice", "offset"]
    limited = call("read", store, "--json", "--stream", name, "--max-msgs", channel["count"])[1]
    assert len(rows) > len(limited) == channel["count"]
    assert [row["sequence"] for row in limited] == [message["seq"] for message in channel["messages"]]


def test_nats_keys_come_from_file_environment_or_option(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = unpack("nats_streaming/encrypted_AES.tar.gz", tmp_path / "x")
    (tmp_path / "key").write_text("mykey\n")
    plain = [row["crc32"] for row in call("read", store, "--json", "--encryption-key-file", tmp_path / "key")[1]]
    code, rows, error = call("read", store, "--json")
    assert (code, error.count("note: enc.ch: encrypted: ")) == (0, 1)
    assert "6 of 6 payloads that look encrypted" in error
    sealed = [row["crc32"] for row in rows]
    code, rows, error = call("read", store, "--json", "--encryption-key", "mykey")
    assert [row["crc32"] for row in rows] == plain != sealed
    assert (code, "shows in process lists" in error, "mykey" in error) == (0, True, False)
    monkeypatch.setenv("NATS_STREAMING_ENCRYPTION_KEY", "mykey")
    assert [row["crc32"] for row in call("read", store, "--json")[1]] == plain


def test_python_m_everlog_is_the_command(tmp_path: Path) -> None:
    store = unpack("jlog/basic/log.tar.gz", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "everlog", "ls", str(store)], capture_output=True, check=True, text=True
    )
    assert done.stdout.splitlines()[1].startswith("journal")
