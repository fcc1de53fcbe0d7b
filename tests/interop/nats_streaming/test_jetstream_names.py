"""Channels that a NATS server does not take, or whose streams' names change with what else the store has; and what a
dry run says of streams that can't get the rest."""

from __future__ import annotations

import asyncio
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

from everlog.discovery import FoundStore
from everlog.errors import UsageError
from everlog.pipelines.migrate.channel import move_channel
from everlog.pipelines.migrate.connection import Connection
from everlog.pipelines.migrate.move import ChannelMove
from everlog.pipelines.migrate.naming import SubjectMapping
from everlog.spark.jobs.jetstream import JetStreamTarget, move_one, plan_channels, rehearse, with_streams
from everlog.testing.made.channel import Channel, make_store
from everlog.testing.made.server import NatsServer


def filled(store: Path, name: str, count: int) -> Channel:
    channel = Channel(store, name)
    for number in range(count):
        channel.append(b"%d" % number)
    return channel


def plan(store: Path, server: NatsServer, **stream_options: Any) -> list[ChannelMove]:
    target = JetStreamTarget(connection=Connection(servers=(server.url,), patience_s=5), **stream_options)
    return plan_channels(FoundStore(str(store), "nats-streaming"), target)


def test_channels_on_subjects_of_the_server_or_of_the_migration_fail_alone(server: NatsServer, tmp_path: Path) -> None:
    store = make_store(tmp_path / "store")
    wrong = ["$JS.API.INFO", "$SYS.x", "_everlog.gap", "with space"]
    for name in (*wrong, "fine"):
        filled(store, name, 3)
    moves = plan(store, server)
    rows = {row["channel"]: row for row in map(move_one, moves)}
    assert (rows["fine"]["error"], rows["fine"]["moved"]) == (None, 3)
    for name in wrong:
        assert f"{store}: channel {name!r} can't be moved" in rows[name]["error"]
        assert "--map FROM=TO" in rows[name]["error"]
    told = {row["channel"]: row["outcome"] for row in rehearse(moves)}
    assert told == dict.fromkeys(wrong, "would fail") | {"fine": "up to date"}
    with pytest.raises(UsageError, match="channel 'with space'"):
        move_channel(next(move for move in moves if move.channel == "with space"))
    texts = ("_everlog.>=old.>", "with space=with-space", "$JS.>=js.>", "$SYS.>=sys.>")
    mapped = plan(store, server, mappings=tuple(SubjectMapping.parse(text) for text in texts))
    moved = {row["channel"]: row["moved"] for row in map(move_one, mapped)}
    assert moved == dict.fromkeys(wrong, 3) | {"fine": 0}


def test_a_new_channel_does_not_rename_the_streams_of_others(server: NatsServer, tmp_path: Path) -> None:
    store = make_store(tmp_path / "store")
    first = filled(store, "a.b", 3)
    (move,) = plan(store, server)
    assert (move.stream, move_channel(move)["moved"]) == ("a_b", 3)
    filled(store, "a_b", 2)
    first.append(b"more")
    assert [(row["stream"], row["moved"]) for row in rehearse(plan(store, server))] == [
        ("a_b", 1),
        (f"a_b_{zlib.crc32(b'a_b'):08x}", 2),
    ]
    moves = with_streams(plan(store, server))
    rows = [move_one(move) for move in moves]
    assert [(row["error"], row["moved"], row["messages"]) for row in rows] == [(None, 1, 4), (None, 2, 2)]
    assert {row["outcome"] for row in rehearse(plan(store, server))} == {"up to date"}
    # Without the one that came first the other's own name would be free.
    shutil.rmtree(store / "a.b")
    (left,) = with_streams(plan(store, server))
    assert left.stream == f"a_b_{zlib.crc32(b'a_b'):08x}"


def test_a_dry_run_tells_that_others_have_published_behind(server: NatsServer, tmp_path: Path) -> None:
    store = make_store(tmp_path / "store")
    channel = filled(store, "grow", 2)
    move_channel(plan(store, server)[0])

    async def publish() -> None:
        import nats

        connection = await nats.connect(server.url)
        await connection.jetstream().publish("grow", b"live")
        await connection.close()

    asyncio.run(publish())
    assert rehearse(plan(store, server))[0]["outcome"] == "up to date"
    channel.append(b"late")
    (row,) = rehearse(plan(store, server))
    assert row["outcome"] == "would fail"
    assert "the migration ended at 2" in row["error"]
    assert row["error"] == move_one(plan(store, server)[0])["error"]


def test_channels_are_moved_from_a_notebooks_cell_where_a_loop_runs(server: NatsServer, tmp_path: Path) -> None:
    store = make_store(tmp_path / "store")
    filled(store, "c", 3)

    async def cell() -> list[tuple[str, int]]:
        moves = with_streams(plan(store, server))
        return [(row["outcome"], row["moved"]) for row in (*rehearse(moves), *map(move_one, moves))]

    assert asyncio.run(cell()) == [("would move", 3), ("moved", 3)]


def test_a_dry_run_counts_damage(server: NatsServer, tmp_path: Path) -> None:
    store = make_store(tmp_path / "store")
    filled(store, "c", 3)
    data = bytearray((store / "c" / "msgs.1.dat").read_bytes())
    data[len(data) // 2] ^= 1
    (store / "c" / "msgs.1.dat").write_bytes(data)
    (row,) = rehearse(plan(store, server))
    assert (row["moved"], row["faults"]) == (2, 1)
