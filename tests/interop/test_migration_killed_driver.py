"""``everlog spark migrate`` with its Spark driver killed in the middle, so that workers live on for a moment while the
next run begins: each record is in its target once."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.testing.made.server import Missing, NatsServer, find_server
from tests.interop.nats_streaming import made_channels

KILLS = 3
COUNT = 60_000
CHANNELS = ("one", "two")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    for channel in CHANNELS:
        made_channels.add_messages(tmp_path / "store", channel, range(1, COUNT + 1))
    return tmp_path / "store"


def migrate(store: Path, target: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "everlog", "spark", "migrate", str(store), "--to", target, "--json"]
    return subprocess.Popen([*command, "--master", "local[2]"], stdout=subprocess.PIPE)


def killed_and_completed(store: Path, target: str, moved: Any) -> list[dict[str, Any]]:
    for kill in range(KILLS):
        running = migrate(store, target)
        at = (kill + 1) * COUNT // (KILLS + 1)
        while running.poll() is None and moved() < at:
            time.sleep(0.02)
        assert running.poll() is None, "it ended before it could be killed"
        running.send_signal(signal.SIGKILL)
        running.wait()
    said = migrate(store, target).communicate(timeout=200)[0]
    rows: list[dict[str, Any]] = json.loads(said)["streams"]
    assert [row["error"] for row in rows] == [None, None]
    return rows


@pytest.mark.long
@pytest.mark.parametrize("kind", ["jlog", "aeron-archive"])
def test_a_killed_driver_costs_no_record_of_our_stores(kind: str, store: Path, tmp_path: Path) -> None:
    notes = tmp_path / "to.everlog-migrate"

    def moved() -> int:
        # About 130 bytes for each record; of the larger one.
        return max([file.stat().st_size // 130 for file in notes.glob("*.jsonl")], default=0)

    rows = killed_and_completed(store, f"{kind}:{tmp_path / 'to'}", moved)
    for row in rows:
        folder, _, stream = row["target"].partition(":")
        with everlog.open_store(folder) as target:
            name = stream or target.streams()[0].name
            found = [record.payload for record in target.read(name)]
        assert found == [made_channels.payload_of(n) for n in range(1, COUNT + 1)]
        told = [json.loads(line)["address"] for line in Path(row["manifest"]).read_text().splitlines()]
        assert told == [str(n) for n in range(1, COUNT + 1)]


@pytest.mark.long
def test_a_killed_driver_costs_no_message_in_jetstream(store: Path, tmp_path: Path) -> None:
    try:
        find_server()
    except Missing as missing:
        pytest.skip(str(missing))
    with NatsServer(tmp_path / "jetstream") as server:
        rows = killed_and_completed(store, server.url, lambda: max(state(server, c)[1] for c in CHANNELS))
        assert [(row["outcome"], row["stream"]) for row in rows] == [("moved", "one"), ("moved", "two")]
        for channel in CHANNELS:
            assert state(server, channel) == (COUNT, COUNT)
            assert asyncio.run(payloads(server, channel)) == [made_channels.payload_of(n) for n in range(1, COUNT + 1)]


def state(server: NatsServer, stream: str) -> tuple[int, int]:
    """Messages and last sequence; zeros without a stream."""

    async def look() -> tuple[int, int]:
        import nats
        from nats.js.errors import NotFoundError

        connection = await nats.connect(server.url)
        try:
            found = (await connection.jetstream().stream_info(stream)).state
        except NotFoundError:
            return 0, 0
        finally:
            await connection.close()
        return found.messages, found.last_seq

    return asyncio.run(look())


async def payloads(server: NatsServer, stream: str) -> list[bytes]:
    """All messages, as an ordered consumer gets them."""
    import nats

    connection = await nats.connect(server.url)
    subscription = await connection.jetstream().subscribe(stream, stream=stream, ordered_consumer=True)
    found = []
    while len(found) < COUNT:
        message = await subscription.next_msg(timeout=10)
        found.append(message.data)
    await connection.close()
    return found
