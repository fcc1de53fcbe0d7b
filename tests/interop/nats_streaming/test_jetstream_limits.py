"""What a real nats-server takes, and how long a migration tries: sizes, patience, counts over lost connections."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everlog.discovery import FoundStore
from everlog.errors import EverlogError, UsageError
from everlog.pipelines.migrate import channel as migrate_channel
from everlog.pipelines.migrate.channel import ChannelImport, move_channel
from everlog.pipelines.migrate.connection import Connection
from everlog.pipelines.migrate.move import ChannelMove, StreamSettings
from everlog.spark.jobs.jetstream import JetStreamTarget, move_one, plan_channels
from everlog.testing.made.channel import Channel, make_store
from everlog.testing.made.server import NatsServer


@pytest.fixture
def server(start_server: Callable[..., NatsServer], tmp_path: Path) -> NatsServer:
    """One that takes 1 KiB."""
    small = tmp_path / "small.conf"
    small.write_text("max_payload: 1KB\n")
    return start_server("-c", str(small))


def plan(store: Path, server: NatsServer, patience_s: float = 20, **stream_options: Any) -> ChannelMove:
    connection = Connection(servers=(server.url,), patience_s=patience_s)
    (move,) = plan_channels(
        FoundStore(str(store), "nats-streaming"), JetStreamTarget(connection=connection, **stream_options)
    )
    return move


def test_a_message_is_moved_where_it_fits_to_the_byte_with_its_headers(server: NatsServer, tmp_path: Path) -> None:
    # NATS/1.0 and the empty line 12, Everlog-Time 46, Everlog-Sequence 21, Nats-Expected-Stream 25, -Last-Sequence 32.
    store = make_store(tmp_path / "store")
    channel = Channel(store, "c")
    channel.append(bytes(1024 - 136))
    assert move_one(plan(store, server))["moved"] == 1
    channel.append(bytes(1024 - 135))
    assert (
        "message 2 of channel c must be at most 888 bytes: the server's max_payload of 1024 minus 136 bytes of headers,"
        " not 889 bytes" in move_one(plan(store, server))["error"]
    )


def test_headers_of_long_names_count(server: NatsServer, tmp_path: Path) -> None:
    store = make_store(tmp_path / "store")
    Channel(store, "n" * 30).append(bytes(900))
    move = plan(store, server, subject_prefix="p.", stream_prefix="p-")
    # Everlog-Channel 49, and the stream's name is 31 longer.
    assert "at most 808 bytes: the server's max_payload of 1024 minus 216 bytes of headers" in move_one(move)["error"]


def test_a_migration_that_gets_nowhere_is_given_up(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(tmp_path / "store")
    channel = Channel(store, "c")
    for size in (5, 5, 1000, 5):
        channel.append(bytes(size))
    monkeypatch.setattr(migrate_channel, "header_bytes", lambda headers: 0)  # the server closes the connection
    began = time.monotonic()
    with pytest.raises(EverlogError):
        move_channel(plan(store, server, patience_s=1))
    assert time.monotonic() - began < 15


def test_what_is_told_is_what_the_server_has_however_often_the_connection_is_lost(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(tmp_path / "store")
    channel = Channel(store, "c")
    for number in range(1, 1201):
        channel.append(b"%04d" % number)
        channel.sequence += number % 100 == 0  # a gap
    acknowledge, losses = ChannelImport._on_ack, {30, 31, 700}

    async def losing(self: ChannelImport, message: Any) -> None:
        sequence = int(message.subject.rpartition(".")[2])
        if sequence in losses:
            losses.remove(sequence)
            await self._js.nc.close()
        elif not self._js.nc.is_closed:
            await acknowledge(self, message)

    monkeypatch.setattr(ChannelImport, "_on_ack", losing)
    told: list[int] = []
    result = move_channel(plan(store, server), told.append)
    assert (result["moved"], result["gaps"], result["moved_bytes"]) == (1200, 11, 4800)
    assert result["messages"] == 1200
    assert result["retries"] >= 1
    assert told == sorted(told)
    assert told[-1] <= 1211


def test_a_store_that_was_replaced_by_a_shorter_one_is_refused(server: NatsServer, tmp_path: Path) -> None:
    for name, count in (("old", 9), ("new", 5)):
        store = make_store(tmp_path / name)
        channel = Channel(store, "c")
        for number in range(count):
            channel.append(b"%s %d" % (name.encode(), number))
    move_channel(plan(tmp_path / "old", server))
    assert move_channel(plan(tmp_path / "old", server))["outcome"] == "up to date"
    with pytest.raises(UsageError, match=r"message 5 of stream .* differs from that of channel 'c'"):
        move_channel(plan(tmp_path / "new", server))


def test_a_store_that_ends_before_its_stream_is_refused_at_once(server: NatsServer, tmp_path: Path) -> None:
    for count in (9, 5):
        store = make_store(tmp_path / str(count))
        channel = Channel(store, "c")
        for number in range(count):
            channel.append(b"%d" % number)
        move = plan(store, server, settings=StreamSettings(finish=False))
        if count == 9:
            move_channel(move)
        else:
            with pytest.raises(UsageError, match=r"messages up to 9; channel .* ends at 5"):
                move_channel(move)
