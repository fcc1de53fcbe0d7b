"""``everlog spark migrate`` as people run it, on a session of Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.cli.app import run as run_command
from everlog.testing.made.channel import Channel, make_store
from everlog.testing.made.server import Missing, NatsServer, find_server


@pytest.fixture
def run(spark: Any, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def command(*arguments: object) -> tuple[int, str, str]:
        code = run_command(["spark", "migrate", *map(str, arguments)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


@pytest.fixture
def basic(golden: Callable[[str], Path]) -> Path:
    return golden("nats_streaming/basic_sigterm") / "basic_sigterm"


@pytest.mark.parametrize("kind", ["jlog", pytest.param("aeron-archive", marks=pytest.mark.long)])
def test_channels_are_moved_to_our_stores_and_told_as_a_table_and_as_json(
    kind: str, run: Any, basic: Path, tmp_path: Path
) -> None:
    to = f"{kind}:{tmp_path / 'to'}"
    code, out, _ = run(basic, "--to", to, "--dry-run", "--json")
    assert (code, sum(row["moved"] for row in json.loads(out)["streams"])) == (0, 109)
    assert not (tmp_path / "to").exists()
    code, out, err = run(basic, "--to", to)
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["outcome", "stream", "target", "moved", "bytes", "total", "faults"]
    moved = {line[1]: line[3] for line in lines[1:]}
    assert moved == {
        "UPPER-case_1": "5",
        "a.b.c.d": "28",
        "données.été": "12",
        "empty.channel": "1",
        "foo": "37",
        "one": "2",
        "orders.eu.new": "24",
    }
    code, out, _ = run(basic, "--to", to, "--json", "-o", "stream=foo")
    (row,) = json.loads(out)["streams"]
    assert (code, row["outcome"], row["moved"], row["total"]) == (0, "up to date", 0, 37)
    folder, _, stream = row["target"].partition(":")
    with everlog.open_store(folder) as store:
        assert sum(1 for _ in store.read(stream or store.streams()[0].name)) == 37


def test_channels_are_moved_to_jetstream(run: Any, basic: Path, tmp_path: Path) -> None:
    try:
        find_server()
    except Missing as missing:
        pytest.skip(str(missing))
    with NatsServer(tmp_path / "jetstream") as server:
        code, out, _ = run(basic, "--to", server.url, "--dry-run")
        assert code == 0
        assert "would move" in out
        code, out, err = run(basic, "--to", server.url)
        assert (code, err) == (0, "")
        assert "foo: durable dur1 -> consumer dur1 from 3, 10 pending: made" in out
        assert "foo: plain subscription of c-plain: not moved" in out
        code, out, _ = run(basic, "--to", server.url, "--json")
        rows = json.loads(out)["streams"]
        assert (code, {row["outcome"] for row in rows}) == (0, {"up to date"})
        assert sum(row["messages"] for row in rows) == 109


def test_a_purged_store_exits_with_1_and_goes_on_where_that_is_asked_for(run: Any, tmp_path: Path) -> None:
    store = make_store(tmp_path / "stan")
    channel = Channel(store, "x")
    to = ["--to", f"jlog:{tmp_path / 'to'}"]
    channel.append(b"1")
    assert run(store, *to)[0] == 0
    for _ in range(2):
        channel.roll()
        channel.append(b"more")
    for part in (1, 2):
        for suffix in ("dat", "idx"):
            (store / "x" / f"msgs.{part}.{suffix}").unlink()
    for way in (["--dry-run"], []):
        code, _, err = run(store, *to, *way)
        assert (code, "removed before they were moved" in err) == (1, True)
    code, out, err = run(store, *to, "-o", "failOnDataLoss=false")
    assert (code, err.startswith("everlog: warning: "), "moved" in out) == (1, True, True)
    assert run(store, *to)[0] == 0


def test_damage_that_is_left_out_exits_with_1(run: Any, golden: Callable[[str], Path], tmp_path: Path) -> None:
    store = golden("nats_streaming/broken/msgs_bad_crc_mid") / "broken" / "msgs_bad_crc_mid"
    code, _, err = run(store, "--to", f"jlog:{tmp_path / 'a'}", "-o", "stream=foo")
    assert (code, "msgs.2.dat at offset" in err) == (1, True)
    code, out, err = run(store, "--to", f"jlog:{tmp_path / 'b'}", "-o", "stream=foo", "-o", "onFault=skip")
    assert (code, err, out.splitlines()[1].split()[-3:]) == (1, "", [out.splitlines()[1].split()[-3], "36", "1"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "elsewhere"], "--to must be aeron-archive:FOLDER, jlog:FOLDER or nats"),
        (["--to", "kafka:x"], "target must be 'aeron-archive' or 'jlog'"),
        (["--to", "jlog:"], "the target's folder is missing"),
        (["--to", "jlog:x", "--creds", __file__], "--creds needs a NATS server as the target"),
        (["--to", "nats://127.0.0.1:1", "--notes", "x"], "--notes needs a folder as the target"),
        (["--to", "nats://me:secret@127.0.0.1:1"], "the server's URL has a user or a token in it"),
        (["--to", "nats://127.0.0.1:1"], "expected a NATS server with JetStream"),
        (["--to", "jlog:x", "-o", "start=3"], "--option start is unknown; known: stream, family"),
        (["--to", "jlog:x", "--term-length", "65536"], "--term-length does not apply to JLog journals"),
        (["--to", "jlog:x", "--reserved-value", "none"], "--reserved-value does not apply to JLog journals"),
        (["--to", "aeron-archive:x", "--compression", "lz4"], "--compression does not apply to Aeron archives"),
        (["--to", "aeron-archive:x", "--term-length", "1000"], ", not 1000"),
        (["--to", "aeron-archive:x", "--term-length", "0"], ", not 0"),
        (["--to", "jlog:x", "--segment-bytes", "-5"], "segment bytes must be 1 to"),
        (["--to", "jlog:x", "--segment-bytes", "0"], "segment bytes must be 1 to"),
        (["--to", f"jlog:{__file__}"], "is a file; give a folder"),
        (
            ["--to", "nats://127.0.0.1:1", "-o", "failOnDataLoss=false"],
            "--option failOnDataLoss=false needs a folder as the target, not a NATS server",
        ),
        (["--to", "nats://127.0.0.1:1", "--patience", "-1"], "'-1' is not a number of seconds"),
        (["--to", "jlog:x", "-o", "encryptionKey=secret"], "encryptionKey is refused; use encryptionKeyFile"),
        (["--to", "nats://127.0.0.1:1", "--map", "a=*"], "the same wildcards on both sides"),
    ],
)
def test_wrong_usage_is_told_in_one_line(arguments: list[str], message: str, run: Any, basic: Path) -> None:
    code, out, err = run(basic, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert "secret" not in err
