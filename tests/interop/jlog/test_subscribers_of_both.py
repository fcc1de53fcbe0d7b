"""Subscribers of either side on one journal: names, checkpoints, removal of segments, locks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from everlog.core.files.writable import LocalWritableStorage
from everlog.errors import StoreUnavailable, SubscriberExists, UnknownSubscriber
from everlog.jlog import (
    Address,
    Subscriber,
    Writer,
    add_subscriber,
    clean,
    create,
    list_subscribers,
    remove_subscriber,
)
from everlog.jlog.subscribing.subscriptions import read_checkpoint, write_checkpoint
from tests.interop.jlog.c_library import Peer, PeerError, payload

Start = Callable[..., Peer]
NAMES = [b"a", b"with space", "Ärger".encode(), b"\xff\xfe", b"../up", b"line\nfeed", b"~session", b".", b"0" * 126]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    create(tmp_path / "j", segment_bytes=4096)
    return tmp_path / "j"


def logs(journal: Path) -> list[str]:
    return sorted(name for name in os.listdir(journal) if len(name) == 8)


def where(peer: Peer, name: bytes) -> str:
    return peer.ask(f"where {name.hex()}")[0]


@pytest.mark.parametrize("name", NAMES)
def test_both_know_the_same_subscribers(start: Start, journal: Path, name: bytes) -> None:
    peer = start(journal)
    text = name.decode("utf-8", "surrogateescape")
    with Writer(journal) as writer:
        writer.append_many([b"first", b"second"])
    assert add_subscriber(journal, name, at="00000000:00000001") == Address.of(0, 1)
    assert peer.ask("list") == [name.hex()]
    assert where(peer, name) == "00000000:00000001"
    with pytest.raises(PeerError, match="SUBSCRIBER_EXISTS"):
        peer.ask(f"add {name.hex()} begin")
    assert peer.ask(f"remove {name.hex()}") == ["1"]
    assert list_subscribers(journal) == []
    peer.ask(f"add {name.hex()} end")
    assert [found.subscriber for found in list_subscribers(journal)] == [text]
    assert read_checkpoint(journal, name) == Address.of(0, 2)
    with pytest.raises(SubscriberExists):
        add_subscriber(journal, name)
    assert remove_subscriber(journal, name)
    with pytest.raises(PeerError, match="INVALID_SUBSCRIBER"):
        peer.ask(f"reader {name.hex()}")
    with pytest.raises(UnknownSubscriber):
        read_checkpoint(journal, name)


def test_the_beginning_and_the_end_are_the_same_places(start: Start, journal: Path) -> None:
    peer = start(journal)
    add_subscriber(journal, "keeper")
    for more in (0, 1, 30, 40):
        with Writer(journal) as writer:
            writer.append_many([b"x" * 100] * more)
        for at, whence in (("beginning", "begin"), ("end", "end")):
            ours = add_subscriber(journal, f"ours {more} {at}", at=at)
            name = f"theirs {more} {at}".encode()
            peer.ask(f"add {name.hex()} {whence}")
            assert where(peer, name) == str(ours)


def test_a_checkpoint_of_one_side_is_the_other_ones(start: Start, journal: Path) -> None:
    peer = start(journal)
    messages = [payload(0, i, 300) for i in range(100)]
    add_subscriber(journal, "a")
    with Writer(journal) as writer:
        addresses = [writer.append(message) for message in messages]
    at = 0
    while at < 100:
        with Subscriber(journal, "a") as subscriber:
            for message in subscriber:
                assert (message.payload, message.address) == (messages[at], addresses[at])
                at += 1
                if at % 7 == 0:
                    break
            subscriber.checkpoint()
        if at == 100:
            break
        peer.ask(f"reader {b'a'.hex()}")
        peer.ask("read")
        first = peer.messages[0]
        assert (first.payload, first.address) == (messages[at], str(addresses[at]))
        peer.ask(f"done {first.address}")
        peer.ask("close")
        at += 1


def test_an_open_subscriber_of_ours_and_an_open_reader_of_theirs_share_one_place(start: Start, journal: Path) -> None:
    peer = start(journal)
    with Writer(journal) as writer, Subscriber(journal, "a", create="beginning") as subscriber:
        writer.append_many([b"1", b"2", b"3"])
        peer.ask(f"reader {b'a'.hex()}")
        next(iter(subscriber))
        subscriber.checkpoint()
        assert peer.ask("interval") == ["2", "00000000:00000002", "00000000:00000003"]
        peer.ask("done 0:3")
        assert read_checkpoint(journal, "a") == Address.of(0, 3)
        subscriber.checkpoint("0:1")
        assert peer.ask("interval") == ["2", "00000000:00000002", "00000000:00000003"]


def test_segments_go_when_the_last_of_both_sides_has_crossed(start: Start, journal: Path) -> None:
    peer = start(journal)
    add_subscriber(journal, "ours")
    peer.ask(f"add {b'theirs'.hex()} begin")
    with Writer(journal) as writer:
        writer.append_many([b"x" * 1000] * 40)
    assert logs(journal)[-1] == "00000008"  # five in each but the last, which is empty
    with Subscriber(journal, "ours") as subscriber:
        for message in subscriber:
            if message.address == Address.of(6, 2):
                break
        subscriber.checkpoint()
    assert logs(journal)[0] == "00000000"  # theirs is in it
    assert len(peer.read_all("theirs", 20)) == 20
    assert where(peer, b"theirs") == "00000003:00000005"
    assert logs(journal)[0] == "00000003"
    assert len(peer.read_all("theirs", 20)) == 20
    assert where(peer, b"theirs") == "00000007:00000005"
    assert logs(journal)[0] == "00000006"  # ours is in it
    with Subscriber(journal, "ours") as subscriber:
        assert len(list(subscriber)) == 8
        subscriber.checkpoint()
    assert read_checkpoint(journal, "ours") == Address.of(8, 0)
    assert logs(journal) == ["00000007", "00000008"]
    assert [name for name in os.listdir(journal) if name.endswith(".idx")] == ["00000007.idx"]


def test_clean_of_either_side_removes_the_same(start: Start, tmp_path: Path) -> None:
    left = []
    for side in ("ours", "theirs"):
        journal = tmp_path / side
        create(journal, segment_bytes=4096)
        peer = start(journal)
        with Writer(journal) as writer:
            writer.append_many([b"x" * 1000] * 40)
        add_subscriber(journal, "low", at="3:1")
        add_subscriber(journal, "high", at="5:0")
        removed = len(clean(journal)) if side == "ours" else int(peer.ask("clean")[0])
        left.append((removed, sorted(set(os.listdir(journal)) - {"pre_commit"})))
    assert left[0] == left[1]
    assert left[0][0] == 3


def test_their_reader_goes_on_where_we_removed_segments_it_was_done_with(start: Start, journal: Path) -> None:
    peer = start(journal)
    peer.ask(f"add {b'a'.hex()} begin")
    with Writer(journal) as writer:
        writer.append_many([b"%d" % i + b"x" * 1000 for i in range(20)])
        peer.ask(f"reader {b'a'.hex()}")
        peer.ask("follow 20 300")
        clean(journal)
        writer.append_many([b"more %d" % i + b"x" * 1000 for i in range(20)])
        clean(journal)
        peer.ask("follow 20 300")
        assert [m.payload[:7] for m in peer.messages] == [b"more %d" % i + b"x" * (2 - len(str(i))) for i in range(20)]


def test_a_session_of_theirs_that_is_open_holds_its_segments(start: Start, journal: Path) -> None:
    peer = start(journal)
    peer.ask(f"add {b'~tail'.hex()} begin")
    add_subscriber(journal, "a")
    peer.ask(f"reader {b'~tail'.hex()}")
    peer.ask("interval")
    with Writer(journal) as writer:
        writer.append_many([b"x" * 1000] * 20)
    write_checkpoint(journal, "a", "4:0")
    assert clean(journal) == []
    peer.ask("close")
    assert clean(journal) == [0, 1, 2, 3]
    assert [found.subscriber for found in list_subscribers(journal)] == ["a"]


def test_their_write_waits_for_our_lock(start: Start, journal: Path) -> None:
    peer = start(journal)
    peer.ask("writer")
    peer.ask("put 1 0 61")
    with LocalWritableStorage(journal).open_writable("00000000") as file:
        file.lock()
        peer.tell("put 1 0 62")
        assert peer.answer(0.2) is None
        assert file.size() == 17
        file.unlock()
        assert peer.answer() == []
        assert file.size() == 34


def test_our_append_waits_for_their_lock(start: Start, journal: Path) -> None:
    peer = start(journal)
    with Writer(journal) as writer:
        writer.append(b"a")
        for name in ("00000000", "metastore"):
            peer.ask(f"lock {name}")
            # Another segment is begun under the metastore's lock.
            size = 5000 if name == "metastore" else 1
            appending = threading.Thread(target=lambda size=size: writer.append(b"b" * size))
            appending.start()
            time.sleep(0.2)
            assert appending.is_alive()
            peer.ask("unlock")
            appending.join(10)
            assert not appending.is_alive()
        assert writer.append(b"c") == Address.of(1, 1)


def test_our_checkpoint_waits_for_their_lock_and_theirs_for_ours(start: Start, journal: Path) -> None:
    peer = start(journal)
    cp = f"cp.{b'a'.hex()}"
    add_subscriber(journal, "a")
    with Writer(journal) as writer:
        writer.append_many([b"1", b"2"])
    other = start(journal)
    other.ask(f"lock {cp}")
    setting = threading.Thread(target=lambda: write_checkpoint(journal, "a", "0:1"))
    setting.start()
    time.sleep(0.2)
    assert setting.is_alive()
    other.ask("unlock")
    setting.join(10)
    assert not setting.is_alive()
    peer.ask(f"reader {b'a'.hex()}")
    with LocalWritableStorage(journal).open_writable(cp) as file:
        file.lock()
        peer.tell("done 0:2")
        assert peer.answer(0.2) is None
        file.unlock()
        assert peer.answer() == []
    assert read_checkpoint(journal, "a") == Address.of(0, 2)


def test_what_a_killed_writer_of_theirs_left_in_its_buffer_is_written_out(start_2_6: Start, journal: Path) -> None:
    peer = start_2_6(journal)
    peer.ask("writer 65536")
    assert peer.ask("many 1 0 50 100") == ["50"]
    assert not (journal / "00000000").exists() or not (journal / "00000000").stat().st_size
    with Writer(journal) as writer:  # it lives: its buffer is its own
        writer.append(b"ours")
    peer.kill()
    with Writer(journal) as writer:
        writer.append(b"last")
    with Subscriber(journal, "a", create="beginning") as subscriber:
        expected = [b"ours", *(payload(1, i, 100) for i in range(50)), b"last"]
        assert [message.payload for message in subscriber] == expected
    reader = start_2_6(journal)
    reader.ask(f"add {b'b'.hex()} begin")
    assert [m.payload for m in reader.read_all("b", 52)] == expected


def test_a_writer_of_theirs_waits_while_ours_has_the_buffer(start_2_6: Start, journal: Path) -> None:
    peer = start_2_6(journal)
    with Writer(journal, durability="buffered") as writer:
        writer.append_many([b"1", b"2"])
        peer.tell("writer")
        assert peer.answer(0.2) is None
        writer.append(b"3")
    assert peer.answer() == []
    peer.ask("put 1 0 34")
    peer.ask("close")
    with Subscriber(journal, "a", create="beginning") as subscriber:
        assert [message.payload for message in subscriber] == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("buffer_bytes", [0, 65536])
def test_our_buffer_is_not_had_while_their_writer_is_open(start_2_6: Start, journal: Path, buffer_bytes: int) -> None:
    """The library holds no lock on it then; even a writer without a buffer sets the number of waiting bytes to 0."""
    peer = start_2_6(journal)
    peer.ask(f"writer {buffer_bytes}")
    peer.ask("put 1 0 31")
    with pytest.raises(StoreUnavailable):
        Writer(journal, durability="buffered")
    peer.ask("put 1 0 32")
    peer.ask("close")
    with Subscriber(journal, "a", create="beginning") as subscriber:
        assert [message.payload for message in subscriber] == [b"1", b"2"]


def test_their_writer_writes_out_what_a_killed_one_of_ours_left_in_the_buffer(start_2_6: Start, journal: Path) -> None:
    child = os.fork()
    if child == 0:
        writer = Writer(journal, durability="buffered", buffer_bytes=4096)
        writer.append_many([b"1", b"2"])
        os._exit(0)
    os.waitpid(child, 0)
    peer = start_2_6(journal)
    peer.ask("writer")
    peer.ask("put 1 0 33")
    peer.ask("close")
    with Subscriber(journal, "a", create="beginning") as subscriber:
        assert sorted(message.payload for message in subscriber) == [b"1", b"2", b"3"]
