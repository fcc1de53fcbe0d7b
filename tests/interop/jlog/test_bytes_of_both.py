"""What one side writes, the other reads: the same bytes, the same segments, the same addresses."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import everlog
from everlog.jlog import Address, Writer, alter, create
from tests.interop.jlog.c_library import MAGIC, Peer, PeerError, payload

Start = Callable[..., Peer]


def mixed_messages(seed: int, count: int) -> list[tuple[int, bytes]]:
    """Times in microseconds and payloads: empty ones, small, some larger than a segment of 4 KiB, some like headers."""
    dice = random.Random(seed)
    messages = []
    for _ in range(count):
        size = dice.choice([0, 1, 15, 16, 17, dice.randrange(300), dice.randrange(300), 4080, 4096, 9000])
        body = MAGIC * (size // 4) if dice.random() < 0.2 else dice.randbytes(size)
        messages.append((dice.randrange(1 << 32) * 1_000_000 + dice.randrange(1_000_000), body))
    return messages


def put(peer: Peer, time_us: int, body: bytes) -> None:
    peer.ask(f"put {time_us // 1_000_000} {time_us % 1_000_000} {body.hex()}")


def segments(journal: Path) -> dict[str, bytes]:
    return {name: (journal / name).read_bytes() for name in sorted(os.listdir(journal)) if len(name) == 8}


def offsets_of(segment: bytes) -> list[int]:
    """Where its messages begin, by their headers of 16 bytes."""
    at, offsets = 0, []
    while at < len(segment):
        offsets.append(at)
        at += 16 + struct.unpack_from("<I", segment, at + 12)[0]
    assert at == len(segment)
    return offsets


@pytest.mark.smoke
@pytest.mark.parametrize("limit", [1, 4096, 65536])
def test_both_write_the_same_files_for_the_same_messages(start: Start, tmp_path: Path, limit: int) -> None:
    messages = mixed_messages(limit, 400)
    peer = start(tmp_path / "theirs")
    peer.ask(f"init {limit}")
    peer.ask("writer")
    create(tmp_path / "ours", segment_bytes=limit)
    create(tmp_path / "ours at once", segment_bytes=limit)
    with Writer(tmp_path / "ours") as writer:
        for time_us, body in messages:
            put(peer, time_us, body)
            writer.append(body, time_us * 1000)
    with Writer(tmp_path / "ours at once") as writer:
        writer.append_many([body for _, body in messages], [time_us * 1000 for time_us, _ in messages])
    theirs = segments(tmp_path / "theirs")
    assert len(theirs) > 3
    for folder in ("ours", "ours at once"):
        assert segments(tmp_path / folder) == theirs
        assert (tmp_path / folder / "metastore").read_bytes() == (tmp_path / "theirs" / "metastore").read_bytes()


def test_a_journal_of_ours_is_theirs_down_to_modes(start: Start, tmp_path: Path) -> None:
    start(tmp_path / "theirs").ask("init 65536")
    create(tmp_path / "ours", segment_bytes=65536)
    for name in ("", "metastore"):
        assert (tmp_path / "ours" / name).stat().st_mode == (tmp_path / "theirs" / name).stat().st_mode
    peer = start(tmp_path / "ours")
    peer.ask(f"add {b'a'.hex()} begin")
    peer.ask("writer")
    put(peer, 1_700_000_000_000_001, b"first")
    with Writer(tmp_path / "ours") as writer:
        assert writer.append(b"second", 1_700_000_000_000_002_000) == Address.of(0, 2)
    read = peer.read_all("a", 2)
    assert [(m.address, m.time_us - 1_700_000_000_000_000, m.payload) for m in read] == [
        ("00000000:00000001", 1, b"first"),
        ("00000000:00000002", 2, b"second"),
    ]


def test_they_read_each_message_that_we_write_and_make_right_indexes(start: Start, tmp_path: Path) -> None:
    journal = tmp_path / "j"
    create(journal, segment_bytes=4096)
    peer = start(journal)
    peer.ask(f"add {b'a'.hex()} begin")
    peer.ask(f"add {b'holds all'.hex()} begin")
    messages = mixed_messages(1, 500)
    with Writer(journal) as writer:
        addresses = [writer.append(body, time_us * 1000) for time_us, body in messages]
    read = peer.read_all("a", len(messages))
    assert [(m.address, m.time_us, m.payload) for m in read] == [
        (str(address), time_us, body) for address, (time_us, body) in zip(addresses, messages, strict=True)
    ]
    current = max(segments(journal))
    for name, data in segments(journal).items():
        index = (journal / f"{name}.idx").read_bytes() if (journal / f"{name}.idx").exists() else b""
        closing = [0] if name != current else []
        assert list(struct.unpack(f"<{len(index) // 8}Q", index)) == (offsets_of(data) + closing if data else [])


def test_we_read_each_message_that_they_write(start: Start, tmp_path: Path) -> None:
    peer = start(tmp_path / "j")
    peer.ask("init 4096")
    peer.ask("writer")
    messages = mixed_messages(2, 300)
    for time_us, body in messages:
        put(peer, time_us, body)
    with everlog.open_store(tmp_path / "j") as store:
        read = [(record.timestamp_ns, record.payload) for record in store.read("journal")]
        assert read == [(time_us * 1000, body) for time_us, body in messages]
        assert {fault.code for fault in store.verify().faults} == {"index-missing"}  # writers make none


def test_writers_in_turn_write_one_row_of_segments(start: Start, tmp_path: Path) -> None:
    journal = tmp_path / "j"
    create(journal, segment_bytes=4096)
    peer = start(journal)
    peer.ask("writer")
    peer.ask(f"add {b'a'.hex()} begin")
    messages = mixed_messages(3, 300)
    dice = random.Random(3)
    with Writer(journal) as one, Writer(journal) as another:
        for time_us, body in messages:
            who = dice.randrange(3)
            if who == 2:
                put(peer, time_us, body)
            else:
                (one, another)[who].append(body, time_us * 1000)
    assert [(m.time_us, m.payload) for m in peer.read_all("a", 300)] == messages
    # Alone, the C library ends segments at the same places.
    alone = start(tmp_path / "alone")
    alone.ask("init 4096")
    alone.ask("writer")
    for time_us, body in messages:
        put(alone, time_us, body)
    assert segments(tmp_path / "j").keys() <= segments(tmp_path / "alone").keys()
    for name, data in segments(tmp_path / "j").items():
        assert data == segments(tmp_path / "alone")[name]


def test_a_segment_limit_altered_by_either_side_counts_for_both(start: Start, tmp_path: Path) -> None:
    journal = tmp_path / "j"
    create(journal, segment_bytes=1 << 20)
    peer = start(journal)
    peer.ask("writer")
    with Writer(journal) as writer:
        writer.append(b"x" * 1000)
        put(peer, 1, b"x" * 1000)
        alter(journal, segment_bytes=2000)
        put(peer, 1, b"behind the limit")
        assert writer.append(b"in the next segment") == Address.of(1, 2)
        peer.ask("size 3000")
        assert writer.append(b"x" * 2950) == Address.of(1, 3)
        put(peer, 1, b"y")
        assert writer.append(b"z") == Address.of(2, 2)


def test_a_writer_goes_on_with_them_after_the_limit_was_lowered(start: Start, tmp_path: Path) -> None:
    """They roll without writing to the old segment: nothing there tells our writer, which wrote to it last."""
    journal = tmp_path / "j"
    create(journal, segment_bytes=1 << 20)
    peer = start(journal)
    peer.ask("writer")
    peer.ask(f"add {b'a'.hex()} begin")
    with Writer(journal) as writer:
        writer.append(b"first")
        peer.ask("size 10")
        put(peer, 1, b"second, in the next segment")
        assert [m.payload for m in peer.read_all("a", 2)] == [b"first", b"second, in the next segment"]
        assert writer.append(b"third") == Address.of(2, 1)
    assert [m.payload for m in peer.read_all("a", 1)] == [b"third"]


def test_a_null_compressed_journal_goes_both_ways(start_2_6: Start, tmp_path: Path) -> None:
    compressed_goes_both_ways(start_2_6, tmp_path, "null")


def test_an_lz4_journal_goes_both_ways(start_2_6: Start, tmp_path: Path) -> None:
    compressed_goes_both_ways(start_2_6, tmp_path, "lz4")


def compressed_goes_both_ways(start: Start, tmp_path: Path, compression: str) -> None:
    messages = [(time_us, body) for time_us, body in mixed_messages(4, 300) if body or compression == "lz4"]
    for maker in ("theirs", "ours"):
        journal = tmp_path / maker
        peer = start(journal)
        if maker == "theirs":
            peer.ask(f"init 4096 {compression}")
        else:
            create(journal, segment_bytes=4096, compression=compression)
        peer.ask(f"add {b'a'.hex()} begin")
        peer.ask("writer")
        with Writer(journal) as writer:
            for at, (time_us, body) in enumerate(messages):
                if at % 2:
                    put(peer, time_us, body)
                else:
                    writer.append(body, time_us * 1000)
        with everlog.open_store(journal) as store:
            assert [(record.timestamp_ns // 1000, record.payload) for record in store.read("journal")] == messages
        assert [(m.time_us, m.payload) for m in peer.read_all("a", len(messages))] == messages


def test_empty_messages_of_ours_in_a_null_compressed_journal_are_empty_to_them(
    start_2_6: Start, tmp_path: Path
) -> None:
    create(tmp_path / "j", compression="null")
    peer = start_2_6(tmp_path / "j")
    peer.ask(f"add {b'a'.hex()} begin")
    peer.ask("writer")
    with Writer(tmp_path / "j") as writer:
        writer.append(b"")
        writer.append(b"behind")
        put(peer, 0, b"")  # they store 16,384 zeros
        writer.append(b"last")
    assert [m.payload for m in peer.read_all("a", 4)] == [b"", b"behind", b"", b"last"]
    with everlog.open_store(tmp_path / "j") as store:
        assert [record.payload for record in store.read("journal")] == [b"", b"behind", b"", b"last"]


def test_the_peer_writes_what_the_tests_take_it_to_write(start: Start, tmp_path: Path) -> None:
    peer = start(tmp_path / "j")
    peer.ask("init 4096")
    with pytest.raises(PeerError, match="CREATE_EXISTS"):
        peer.ask("init 4096")
    peer.ask("writer")
    assert peer.ask("many 7 0 40 200") == ["40"]
    with everlog.open_store(tmp_path / "j") as store:
        assert [record.payload for record in store.read("journal")] == [payload(7, i, 200) for i in range(40)]
