"""What a writer of the C library leaves when it is killed, or fails, in the middle of a message."""

from __future__ import annotations

import contextlib
import os
import resource
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import everlog
from everlog.errors import WriteFailed
from everlog.jlog import Address, Writer, create
from tests.interop.jlog.c_library import MAGIC, Peer, PeerError

Start = Callable[..., Peer]


def frame(payload: bytes) -> bytes:
    return MAGIC + struct.pack("<III", 1_700_000_000, 0, len(payload)) + payload


TORN = {
    "text": b"t" * 3000,
    "headers": MAGIC * 750,
    "empty messages": frame(b"") * 200,
    "messages": frame(b"no message of this journal") * 80,
    "zeros": bytes(3000),
}
QUOTES = ("empty messages", "messages")
"""Whole messages in a torn one can't be told from those that a writer put behind it."""


def break_off(peer: Peer, torn: bytes, file: Path, size: int) -> None:
    """Let it write until the file has ``size`` bytes and it can't go on; then it is dead, or has said that it failed.
    2.6 tries for ever: it is killed."""
    peer.tell(f"put 1700000000 0 {torn.hex()}")
    with contextlib.suppress(EOFError, PeerError):
        for _ in range(600):  # a tenth of a second each
            if peer.answer(0.1) is not None:
                return
            if file.stat().st_size == size:
                peer.kill()
                return


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    create(tmp_path / "j", segment_bytes=8192)
    return tmp_path / "j"


def read(journal: Path) -> list[bytes]:
    with everlog.open_store(journal) as store:
        return [record.payload for record in store.read("journal")]


def checked(start: Start, journal: Path, expected: list[bytes]) -> None:
    """Both sides read exactly that, and go on with it."""
    peer = start(journal)
    assert [m.payload for m in peer.read_all("a", len(expected))] == expected
    assert read(journal) == expected
    peer.ask("writer")
    peer.ask(f"put 1 0 {b'their last'.hex()}")
    with Writer(journal) as writer:
        writer.append_many([b"x" * 9000, b"our last"])
    assert [m.payload for m in peer.read_all("a", 3)] == [b"their last", b"x" * 9000, b"our last"]
    peer.ask(f"reader {b'a'.hex()}")
    assert peer.ask("interval")[0] == "0"


@pytest.mark.parametrize("kind", TORN)
@pytest.mark.parametrize("reader_before", [False, True])
@pytest.mark.parametrize("cut", [5, 16, 17, 1501])
def test_what_a_killed_writer_left_is_cut_before_we_write_behind_it(
    start: Start, journal: Path, kind: str, reader_before: bool, cut: int
) -> None:
    peer = start(journal)
    peer.ask(f"add {b'a'.hex()} begin")
    peer.ask(f"add {b'b'.hex()} begin")
    with Writer(journal) as writer:
        writer.append_many([b"first", b"second"])
        whole = 2 * 16 + 5 + 6
        killed = start(journal, file_bytes=whole + cut)  # the kernel kills it when it writes beyond that
        killed.ask("writer")
        break_off(killed, TORN[kind], journal / "00000000", whole + cut)
        assert (journal / "00000000").stat().st_size == whole + cut
        if reader_before:
            assert len(peer.read_all("b", 2)) == 2
        address = writer.append(b"third")
    if kind in QUOTES and cut > 32:
        with everlog.open_store(journal) as store:
            there = [record.payload for record in store.read("journal", on_fault=lambda fault: None)]
        assert (there[:2], there[-1]) == ([b"first", b"second"], b"third")
    else:
        assert address == Address.of(0, 3)
        checked(start, journal, [b"first", b"second", b"third"])


@pytest.mark.parametrize("kind", sorted(TORN.keys() - QUOTES))
def test_what_a_failed_writer_left_is_cut_by_our_next_writer(start: Start, journal: Path, kind: str) -> None:
    peer = start(journal, file_bytes=1000, ignores_the_signal=True)
    peer.ask(f"add {b'a'.hex()} begin")
    peer.ask("writer")
    peer.ask(f"put 1700000000 0 {b'first'.hex()}")
    break_off(peer, TORN[kind], journal / "00000000", 1000)
    assert (journal / "00000000").stat().st_size == 1000
    with Writer(journal) as writer:
        assert writer.append(b"second") == Address.of(0, 2)
    checked(start, journal, [b"first", b"second"])


def test_a_writer_killed_in_the_middle_of_a_large_message_stops_nobody(start: Start, tmp_path: Path) -> None:
    journal = tmp_path / "j"
    create(journal, segment_bytes=1 << 30)
    peer = start(journal)
    peer.ask(f"add {b'a'.hex()} begin")
    torn = 0
    expected = []
    with Writer(journal) as writer:
        for i in range(6):
            expected.append(b"%d" % i)
            writer.append(expected[-1])
            before = (journal / "00000000").stat().st_size
            killed = start(journal)
            killed.ask("writer")
            killed.tell(f"fill {20 << 20}")
            while (journal / "00000000").stat().st_size <= before + 16:
                time.sleep(0.0002)
            killed.kill()
            whole = (journal / "00000000").stat().st_size == before + 16 + (20 << 20)
            torn += not whole
            if whole:
                expected.append(b"x" * (20 << 20))
    assert torn
    with Writer(journal) as writer:
        expected.append(b"last")
        assert writer.append(b"last") == Address.of(0, len(expected))
    assert read(journal) == expected
    peer.ask(f"reader {b'a'.hex()}")
    assert peer.ask("interval")[0] == str(len(expected))


def test_a_failed_append_of_ours_leaves_nothing_for_them_to_stumble_on(start: Start, journal: Path) -> None:
    script = (
        "import signal, sys\n"
        "from everlog.jlog import Writer\n"
        "from everlog.errors import WriteFailed\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "writer = Writer(sys.argv[1])\n"
        "writer.append(b'first')\n"
        "for message in ([b'x' * 3000], [b'y', b'x' * 3000]):\n"
        "    try:\n"
        "        writer.append_many(message) if len(message) > 1 else writer.append(message[0])\n"
        "    except WriteFailed as error:\n"
        "        print(error.found)\n"
        "writer.append(b'second')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, str(journal)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == "file too large\n" * 2
    peer = start(journal)
    peer.ask(f"add {b'a'.hex()} begin")
    checked(start, journal, [b"first", b"y", b"second"])  # a whole message of a batch stays: they may have read it


def test_a_killed_writer_of_ours_stops_none_of_theirs(start: Start, tmp_path: Path) -> None:
    """Killed in the middle of a write of many messages, of which some are there then."""
    journal = tmp_path / "j"
    create(journal, segment_bytes=1 << 30)
    script = (
        "import sys\n"
        "from everlog.jlog import Writer\n"
        "writer = Writer(sys.argv[1])\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    writer.append_many([b'%d:' % i + b'o' * 100_000 for i in range(100)])\n"
    )
    for _ in range(4):
        process = subprocess.Popen([sys.executable, "-c", script, str(journal)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        before = os.path.getsize(journal / "00000000") if (journal / "00000000").exists() else 0
        while not (journal / "00000000").exists() or os.path.getsize(journal / "00000000") <= before + 300_000:
            time.sleep(0.0002)
        process.kill()
        process.wait()
        process.stdout.close()
        with Writer(journal) as writer:
            writer.append(b"between")
    peer = start(journal)
    peer.ask(f"add {b'a'.hex()} begin")
    read_by_them = [m.payload for m in peer.read_all("a", 10**6)]
    assert read_by_them == read(journal)
    assert read_by_them.count(b"between") == 4
    numbers = [payload.partition(b":") for payload in read_by_them if payload != b"between"]
    assert all(body == b"o" * 100_000 for _, _, body in numbers)


def test_our_writer_tells_what_kept_it_from_writing(journal: Path) -> None:
    (journal / "00000000").mkdir()
    with Writer(journal) as writer, pytest.raises(WriteFailed):
        writer.append(b"x")
