"""NATS Streaming stores that the real server wrote, moved into a real nats-server's JetStream: what that then serves is
compared with the real Streaming server's own account of the stores."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import time
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import tests
from everlog.discovery import FoundStore
from everlog.errors import CorruptData, LimitExceeded, UnknownStream, UsageError
from everlog.pipelines.migrate.channel import move_channel
from everlog.pipelines.migrate.connection import Connection, JetStream
from everlog.pipelines.migrate.move import ChannelMove, StreamSettings
from everlog.pipelines.migrate.naming import SubjectMapping
from everlog.spark.jobs.jetstream import JetStreamTarget, move_one, plan_channels, rehearse
from everlog.testing.made.server import NatsServer
from tests.interop.nats_streaming import made_channels

GOLDEN = tests.GOLDEN / "nats_streaming"
KILLS = int(os.environ.get("EVERLOG_JETSTREAM_KILLS", "2"))
"""Of each side."""


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    root = tmp_path_factory.mktemp("golden")

    def unpack(name: str) -> Path:
        if not (root / name).exists():
            with tarfile.open(GOLDEN / f"{name}.tar.gz") as archive:
                archive.extractall(root, filter="data")
        return root / name

    return unpack


def truth(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((GOLDEN / f"{name}.truth.json").read_text(encoding="utf-8"))
    return loaded


def plan(store: Path, server: NatsServer, *, patience_s: float = 20, **stream_options: Any) -> list[ChannelMove]:
    reading = {name: stream_options.pop(name) for name in ("options", "on_fault", "streams") if name in stream_options}
    connection = Connection(servers=(server.url,), patience_s=patience_s)
    target = JetStreamTarget(connection=connection, **stream_options)
    return plan_channels(FoundStore(str(store), "nats-streaming"), target, **reading)


class Served:
    """What a client sees of a stream, through nats-py's own API."""

    def __init__(self, server: NatsServer, stream: str) -> None:
        asyncio.run(self._load(server, stream))

    async def _load(self, server: NatsServer, stream: str) -> None:
        import nats
        from nats.js.errors import NotFoundError

        connection = await nats.connect(server.url)
        context = connection.jetstream()
        self.info = await context.stream_info(stream)
        self.state = self.info.state
        self.messages: dict[int, Any] = {}
        for sequence in range(self.state.first_seq, self.state.last_seq + 1):
            try:
                self.messages[sequence] = await context.get_msg(stream, sequence)
            except NotFoundError:
                continue
        self.consumers = {found.name: found for found in await context.consumers_info(stream)}
        await connection.close()

    def rows(self) -> list[tuple[int, str, str, str]]:
        """Sequence, subject, CRC-32 of the payload, time."""
        return [
            (sequence, m.subject, f"{zlib.crc32(m.data or b''):08x}", m.headers["Everlog-Time"])
            for sequence, m in self.messages.items()
        ]


def time_text(timestamp_ns: int) -> str:
    seconds, rest = divmod(timestamp_ns, 10**9)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{rest:09d}Z"


def rows_of(channel: str, messages: list[dict[str, Any]]) -> list[tuple[int, str, str, str]]:
    return [(m["seq"], channel, m["data_crc32"], time_text(m["timestamp"])) for m in messages]


@pytest.mark.parametrize("name", ["basic_sigterm", "lim_max_msgs", "lim_max_age", "compacted", "cluster_1node"])
def test_jetstream_serves_every_message_under_its_sequence(
    name: str, server: NatsServer, golden: Callable[[str], Path]
) -> None:
    store = golden(name) / "store" if name == "cluster_1node" else golden(name)
    moves = plan(store, server)
    channels = truth(name)["channels"]
    assert {move.channel for move in moves} == set(channels)
    for move in moves:
        result = move_channel(move)
        expected, served = channels[move.channel], Served(server, move.stream)
        assert (served.state.first_seq, served.state.last_seq) == (expected["first_seq"], expected["last_seq"])
        assert served.state.messages == expected["count"] == result["moved"]
        assert served.rows() == rows_of(move.channel, expected["messages"])
        assert served.info.config.subjects == [move.channel]
        for sent, message in zip(served.messages.values(), expected["messages"], strict=True):
            assert sent.headers.get("Everlog-Reply", "") == message.get("reply", "")


def test_an_encrypted_store_is_moved_with_the_key_of_a_file(
    server: NatsServer, golden: Callable[[str], Path], tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_text("mykey\n")
    (move,) = plan(golden("encrypted_AES"), server, options={"encryption_key_file": str(key)})
    move_channel(move)
    plain = truth("encrypted_AES")["plain_messages"]
    assert [row[2] for row in Served(server, move.stream).rows()] == [m["data_crc32"] for m in plain]


@pytest.mark.smoke
def test_durables_and_queue_groups_become_consumers_where_they_stood(
    server: NatsServer, golden: Callable[[str], Path]
) -> None:
    # By hand from the real server's account: the floor is one below the first pending one, for a group of all members.
    stood = {
        "a.b.c.d": {
            "dq_grp": (1, [2, 3, 5, 6, 7, 9, 10, 11, 12, 13], 13),
            "dqo_off": (0, [1, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14], 14),
        },
        "données.été": {"dur5": (1, [2, 3, 4, 6, 7, 8, 9, 10, 11], 11)},
        "foo": {
            "dur1": (2, [3, 5, 6, 7, 8, 9, 10, 11, 12, 13], 13),
            "workers": (1, [2, 4, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16], 16),
        },
        "orders.eu.new": {"dur2": (5, [6, 7, 8, 9, 10, 11, 12, 13], 13), "dur3": (0, [1, 3, 4, 5], 5)},
    }
    for move in plan(golden("basic_sigterm"), server):
        result = move_channel(move)
        served = Served(server, move.stream)
        found = {}
        for name, consumer in served.consumers.items():
            assert consumer.num_pending == served.state.last_seq - stood[move.channel][name][2]
            assert consumer.config.ack_wait == 120
            delivered = asyncio.run(fetch(server, move.stream, name, consumer.num_ack_pending))
            found[name] = (consumer.ack_floor.stream_seq, sorted(delivered), consumer.delivered.stream_seq)
        assert found == stood.get(move.channel, {})
        assert {c["name"]: c["pending"] for c in result["consumers"]} == {n: p for n, (_, p, _) in found.items()}


async def fetch(server: NatsServer, stream: str, consumer: str, count: int) -> list[int]:
    """The next messages that an application would get, sequences only."""
    import nats

    connection = await nats.connect(server.url)
    subscription = await connection.jetstream().pull_subscribe_bind(consumer=consumer, stream=stream)
    messages: list[Any] = []
    while len(messages) < count:
        messages += await subscription.fetch(count - len(messages), timeout=5)
    await connection.close()
    return [message.metadata.sequence.stream for message in messages]


def test_pending_messages_can_be_skipped(server: NatsServer, golden: Callable[[str], Path]) -> None:
    settings = StreamSettings(pending="skip")
    (move,) = plan(golden("basic_sigterm"), server, streams=["foo"], settings=settings, queue_groups=False)
    result = move_channel(move)
    served = Served(server, "foo")
    assert set(served.consumers) == {"dur1"}
    assert served.consumers["dur1"].ack_floor.stream_seq == 13
    assert asyncio.run(fetch(server, "foo", "dur1", 1)) == [14]
    assert result["consumers"][0]["pending"] == [3, 5, 6, 7, 8, 9, 10, 11, 12, 13]
    assert [sub["kind"] for sub in move.subscriptions.left_out] == ["plain", "queue", "queue"]


def test_a_damaged_message_is_an_error_or_a_gap_that_is_counted(
    server: NatsServer, golden: Callable[[str], Path]
) -> None:
    store = golden("broken/msgs_bad_crc_mid")
    (strict,) = plan(store, server, streams=["foo"])
    with pytest.raises(CorruptData, match=r"foo/msgs\.2\.dat"):
        move_channel(strict)
    (move,) = plan(store, server, streams=["foo"], on_fault="skip")
    result = move_channel(move)
    served = Served(server, "foo")
    whole = truth("basic_sigterm")["channels"]["foo"]["messages"]
    assert served.rows() == rows_of("foo", [m for m in whole if m["seq"] != 13])
    assert (result["gaps"], result["faults"], served.state.messages, served.state.last_seq) == (1, 1, 36, 37)
    told = {c["name"]: c["pending_gone"] for c in result["consumers"]}
    assert told == {"dur1": [13], "workers": [13]}
    assert served.consumers["dur1"].num_ack_pending == 9


@pytest.mark.parametrize("case", ["msgs_trunc_payload", "idx_missing_all", "server_missing", "subs_missing"])
def test_other_damage_loses_no_message_that_can_be_read(
    case: str, server: NatsServer, golden: Callable[[str], Path]
) -> None:
    (move,) = plan(golden(f"broken/{case}"), server, streams=["foo"], on_fault="skip")
    move_channel(move)
    whole = rows_of("foo", truth("basic_sigterm")["channels"]["foo"]["messages"])
    assert Served(server, "foo").rows() == (whole[:-1] if case == "msgs_trunc_payload" else whole)


def test_gaps_of_the_channel_are_gaps_of_the_stream(server: NatsServer, tmp_path: Path) -> None:
    kept = [5, 6, 9, 20, 21]
    made_channels.add_messages(tmp_path / "store", "gappy", kept)
    (move,) = plan(tmp_path / "store", server)
    result = move_channel(move)
    served = Served(server, "gappy")
    assert list(served.messages) == kept
    assert (served.state.first_seq, served.state.last_seq, served.state.num_deleted) == (5, 21, 12)
    assert [m.data or b"" for m in served.messages.values()] == [made_channels.payload_of(n) for n in kept]
    assert result["gaps"] == 12


def test_a_channel_whose_messages_all_expired_goes_on_behind_its_last_sequence(
    server: NatsServer, golden: Callable[[str], Path]
) -> None:
    (move,) = plan(golden("lim_max_age"), server, options={"max_age": "1s"})
    result = move_channel(move)
    served = Served(server, "lim")
    assert (result["moved"], served.state.messages, served.state.last_seq) == (0, 0, 33)
    assert publish(server, "lim", b"new") == 34


def publish(server: NatsServer, subject: str, payload: bytes) -> int:
    async def run() -> int:
        import nats

        connection = await nats.connect(server.url)
        acknowledged = await connection.jetstream().publish(subject, payload)
        await connection.close()
        return int(acknowledged.seq)

    return asyncio.run(run())


def test_limits_are_read_and_kept(server: NatsServer, golden: Callable[[str], Path]) -> None:
    (move,) = plan(golden("lim_default_slice"), server, options={"max_msgs": "20"}, keep_limits=True)
    move_channel(move)
    served = Served(server, "lim")
    assert list(served.messages) == list(range(31, 51))
    assert served.info.config.max_msgs == 20


def test_subjects_are_mapped_and_the_channel_is_told(server: NatsServer, golden: Callable[[str], Path]) -> None:
    mappings = (SubjectMapping.parse("orders.*.new=shop.*.orders"),)
    (move,) = plan(
        golden("basic_sigterm"),
        server,
        streams=["orders.*"],
        mappings=mappings,
        stream_prefix="st-",
        subject_prefix="x.",
    )
    move_channel(move)
    served = Served(server, "st-orders_eu_new")
    assert {m.subject for m in served.messages.values()} == {"x.shop.eu.orders"}
    assert {m.headers["Everlog-Channel"] for m in served.messages.values()} == {"orders.eu.new"}
    assert publish(server, "x.shop.eu.orders", b"new") == 25


def test_run_again_it_does_nothing_and_then_moves_what_came(server: NatsServer, tmp_path: Path) -> None:
    store = tmp_path / "store"
    made_channels.add_messages(store, "more", range(1, 101))
    made_channels.add_durable(store, "more", "me", "mine", 10, [1, 2, 5])
    (open_,) = plan(store, server, settings=StreamSettings(finish=False))
    assert move_channel(open_)["outcome"] == "open"
    with pytest.raises(Exception, match="no response from stream"):
        publish(server, "more", b"too early")
    made_channels.add_messages(store, "more", range(101, 151), 2)
    (move,) = plan(store, server)
    assert [row["moved"] for row in rehearse([move])] == [50]
    rest = move_channel(move)
    assert (rest["outcome"], rest["moved"]) == ("moved", 50)
    again = move_channel(move)
    assert (again["outcome"], again["moved"], again["messages"]) == ("up to date", 0, 150)
    made_channels.add_messages(store, "more", range(151, 161), 3)
    (later,) = plan(store, server)
    assert move_channel(later)["moved"] == 10
    served = Served(server, "more")
    assert list(served.messages) == list(range(1, 161))
    assert served.consumers["mine"].num_ack_pending == 7
    assert publish(server, "more", b"new") == 161
    assert move_channel(later)["outcome"] == "up to date"
    made_channels.add_messages(store, "more", range(161, 171), 4)
    (too_late,) = plan(store, server)
    with pytest.raises(UsageError, match=r"where channel .* continues: the migration ended at 160"):
        move_channel(too_late)


def test_a_consumer_that_was_used_stays_where_it_is(server: NatsServer, tmp_path: Path) -> None:
    store = tmp_path / "store"
    made_channels.add_messages(store, "used", range(1, 21))
    made_channels.add_durable(store, "used", "me", "mine", 5, [1, 2, 3, 4, 5])
    (move,) = plan(store, server)
    move_channel(move)
    assert asyncio.run(fetch(server, "used", "mine", 1)) == [6]
    made_channels.add_messages(store, "used", range(21, 31), 2)
    (later,) = plan(store, server)
    assert move_channel(later)["consumers"][0]["outcome"] == "kept: it was used"
    assert Served(server, "used").consumers["mine"].delivered.stream_seq == 6


def test_streams_of_others_are_left_alone(server: NatsServer, golden: Callable[[str], Path], tmp_path: Path) -> None:
    async def make() -> None:
        import nats

        connection = await nats.connect(server.url)
        await connection.jetstream().add_stream(name="foo", subjects=["elsewhere"])
        await connection.close()

    asyncio.run(make())
    (move,) = plan(golden("basic_sigterm"), server, streams=["foo"])
    with pytest.raises(UsageError, match=r"stream foo exists already and no migration made it"):
        move_channel(move)
    assert rehearse([move])[0]["outcome"] == "would fail"
    assert asyncio.run(state_of(server, "foo")) == (0, 0)
    (other,) = plan(golden("basic_sigterm"), server, streams=["one"])
    move_channel(other)
    made_channels.add_messages(tmp_path / "s", "one", range(1, 9))
    (stranger,) = plan(tmp_path / "s", server)
    with pytest.raises(UsageError, match="exists already and has cluster 'gold-cluster'"):
        move_channel(stranger)


def test_another_store_of_the_same_name_does_not_go_on_where_the_first_stopped(
    server: NatsServer, tmp_path: Path
) -> None:
    made_channels.add_messages(tmp_path / "a", "c", range(1, 9))
    made_channels.add_messages(tmp_path / "b", "c", range(1, 20))
    file = tmp_path / "b" / "c" / "msgs.1.dat"
    data = file.read_bytes()
    old = made_channels.record(
        made_channels.number(1, 8)
        + made_channels.text(2, b"c")
        + made_channels.text(4, made_channels.payload_of(8))
        + made_channels.number(5, made_channels.TIME_NS + 8000)
    )
    new = made_channels.record(old[8:].replace(b"message", b"massage"))
    assert old in data
    file.write_bytes(data.replace(old, new))
    (first,) = plan(tmp_path / "a", server, settings=StreamSettings(finish=False))
    move_channel(first)
    (second,) = plan(tmp_path / "b", server)
    with pytest.raises(UsageError, match="message 8 of stream c differs"):
        move_channel(second)


def test_a_dry_run_makes_nothing(server: NatsServer, golden: Callable[[str], Path]) -> None:
    rows = rehearse(plan(golden("basic_sigterm"), server))
    assert sum(row["moved"] for row in rows) == 109
    assert {row["outcome"] for row in rows} == {"would move"}

    async def streams() -> list[Any]:
        import nats

        connection = await nats.connect(server.url)
        found = await connection.jetstream().streams_info()
        await connection.close()
        return found

    assert asyncio.run(streams()) == []


def test_a_message_over_the_servers_limit_is_told(server: NatsServer, tmp_path: Path) -> None:
    small = tmp_path / "small.conf"
    small.write_text("max_payload: 1KB\n")
    made_channels.add_messages(tmp_path / "store", "c", [100])
    with NatsServer(tmp_path / "other", "-c", str(small)) as limited:
        (move,) = plan(tmp_path / "store", limited)
        assert len(made_channels.payload_of(100)) == 24
        assert move_channel(move)["moved"] == 1
        made_channels.payload_of = lambda sequence: bytes(2000)  # type: ignore[assignment]
        try:
            made_channels.add_messages(tmp_path / "store", "c", [101], 2)
        finally:
            import importlib

            importlib.reload(made_channels)
        (larger,) = plan(tmp_path / "store", limited)
        assert "2000 bytes" in (move_one(larger)["error"] or "")


def test_wrong_wishes_are_told_before_anything_is_done(golden: Callable[[str], Path], tmp_path: Path) -> None:
    store = FoundStore(str(golden("basic_sigterm")), "nats-streaming")
    target = JetStreamTarget(connection=Connection(servers=("nats://127.0.0.1:1",)))
    with pytest.raises(UnknownStream, match="nothing"):
        plan_channels(store, target, streams=["nothing"])
    with pytest.raises(UsageError, match="in plain text"):
        plan_channels(store, target, options={"encryption_key": "secret"})
    with pytest.raises(UsageError, match="a user or a token") as refused:
        Connection(servers=("nats://me:secret@host:4222",))
    assert "secret" not in str(refused.value)
    both = JetStreamTarget(connection=target.connection, mappings=(SubjectMapping.parse("one=foo"),))
    with pytest.raises(UsageError, match="subject foo"):
        plan_channels(store, both)
    made_channels.add_messages(tmp_path, "far", [1, 1 << 40])
    with pytest.raises(LimitExceeded, match="far"):
        plan_channels(FoundStore(str(tmp_path), "nats-streaming"), target)


# Kills


PROGRAM = """
import json, sys
from everlog.discovery import FoundStore
from everlog.pipelines.migrate.connection import Connection
from everlog.spark.jobs.jetstream import JetStreamTarget, move_one, plan_channels
target = JetStreamTarget(connection=Connection(servers=(sys.argv[2],), patience_s=30))
(move,) = plan_channels(FoundStore(sys.argv[1], "nats-streaming"), target)
print(json.dumps(move_one(move)))
"""


async def state_of(server: NatsServer, stream: str) -> tuple[int, int]:
    """Messages and last sequence; zeros without a stream, or without a server that answers."""
    import nats
    from nats.errors import Error

    try:
        connection = await nats.connect(server.url, allow_reconnect=False, connect_timeout=1)
    except (Error, OSError):
        return 0, 0
    try:
        state = (await connection.jetstream().stream_info(stream)).state
    except (Error, OSError):
        return 0, 0
    finally:
        await connection.close()
    return state.messages, state.last_seq


def test_each_message_is_there_once_however_often_either_side_is_killed(server: NatsServer, tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    store = tmp_path / "store"
    last = 3_000 + 2_000 * KILLS
    kept = [n for n in range(3, last + 1) if n % 97 > 2]
    made_channels.add_messages(store, "killed", kept)
    made_channels.add_durable(store, "killed", "me", "mine", 400, [n for n in range(1, 401) if n % 3])
    command = [sys.executable, "-c", PROGRAM, str(store), server.url]
    victims = ["mover"] * KILLS + ["server"] * KILLS
    chance.shuffle(victims)
    mover = subprocess.Popen(command, stdout=subprocess.PIPE)
    hits = 0
    for at, victim in zip(sorted(chance.sample(range(1, last), 2 * KILLS)), victims, strict=True):
        while mover.poll() is None and asyncio.run(state_of(server, "killed"))[1] < at:
            time.sleep(0.002)
        hits += mover.poll() is None
        if victim == "mover":
            mover.send_signal(signal.SIGKILL)
            mover.wait()
            mover = subprocess.Popen(command, stdout=subprocess.PIPE)
        else:
            server.kill()
            time.sleep(chance.random() * 0.3)
            server.start()
    said = mover.communicate(timeout=120)[0]
    assert hits > KILLS, f"{hits} kills in the middle, seed {seed}"
    assert b'"error": null' in said, (seed, said)
    # What a killed server had not written yet comes again; nothing else does.
    (move,) = plan(store, server)
    assert move_channel(move)["outcome"] in ("up to date", "moved"), seed
    check_killed(server, "killed", kept, [n for n in range(3, 401) if n % 3 == 0 and n % 97 > 2], seed)


def check_killed(server: NatsServer, stream: str, kept: list[int], pending: list[int], seed: object) -> None:
    served = Served(server, stream)
    assert list(served.messages) == kept, seed
    assert all((m.data or b"") == made_channels.payload_of(n) for n, m in served.messages.items()), seed
    state = served.state
    assert (state.first_seq, state.last_seq, state.messages) == (kept[0], kept[-1], len(kept)), seed
    consumer = served.consumers["mine"]
    assert (consumer.num_ack_pending, consumer.ack_floor.stream_seq) == (len(pending), pending[0] - 1), seed
    assert sorted(asyncio.run(fetch(server, stream, "mine", len(pending)))) == pending, seed


def test_a_migration_that_breaks_off_at_any_request_is_completed_by_the_next_one(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = [n for n in range(5, 61) if n % 10]
    made_channels.add_messages(tmp_path / "store", "c", kept)
    made_channels.add_durable(tmp_path / "store", "c", "me", "mine", 33, [n for n in range(1, 34) if n % 3])
    request = JetStream.api

    class Killed(BaseException):
        pass

    for number in range(100):
        (move,) = plan(tmp_path / "store", server, stream_prefix=f"n{number}-", subject_prefix=f"n{number}.")
        for when in ("before", "after"):
            left = number

            async def broken(js: JetStream, verb: str, asked: Any = None, when: str = when) -> Any:
                nonlocal left
                left -= 1
                if left < 0 and when == "before":
                    raise Killed
                answer = await request(js, verb, asked)
                if left < 0:
                    raise Killed
                return answer

            with monkeypatch.context() as patch:
                patch.setattr(JetStream, "api", broken)
                try:
                    move_channel(move)
                    is_whole = True
                except Killed:
                    is_whole = False
        result = move_channel(move)
        check_killed(server, move.stream, kept, [n for n in range(6, 34) if n % 3 == 0 and n % 10], number)
        assert not is_whole or result["outcome"] == "up to date"
        if is_whole and number > 3:
            assert number > 8
            return
    pytest.fail("it never came to an end")
