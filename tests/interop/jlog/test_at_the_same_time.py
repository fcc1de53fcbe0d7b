"""Processes and threads of both sides write and read one journal at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import everlog
import tests
from everlog.core.report import Fault
from everlog.jlog import Address, Subscriber, Writer, add_subscriber, alter, create
from tests.interop.jlog.c_library import Peer, payload

Start = Callable[..., Peer]
MOST = 300
COUNT = 1500
LEFT_BEHIND = {"segment-short", "empty-closed-segment"}
"""What two writers of theirs leave that finish segments at the same time. After going on to the next segment a writer
asks the metastore, without its lock, which one it is in: where another has gone on by then, it takes itself to be in
that one, and finishes it before it is full. The other goes on in it while it has messages; it may have none."""
SCRIPT = f"""
import sys
sys.path.insert(0, {str(tests.ROOT)!r})
from tests.interop.jlog.c_library import payload
from everlog.jlog import Writer
with Writer(sys.argv[1]) as writer:
    for i in range(0, {COUNT}, 10):
        writer.append(payload(int(sys.argv[2]), i, {MOST}))
        writer.append_many([payload(int(sys.argv[2]), i + more, {MOST}) for more in range(1, 10)])
"""


class Gathered:
    """Messages as a reader got them: each must be the next one of its writer."""

    def __init__(self) -> None:
        self.next: Counter[int] = Counter()
        self.wrong: list[tuple[str, bytes]] = []
        self.places: list[str] = []

    def take(self, address: str, body: bytes) -> None:
        number, _, _ = body.partition(b":")
        writer = int(number) if number.isdigit() else -1
        if body == payload(writer, self.next[writer], MOST):
            self.next[writer] += 1
        else:
            self.wrong.append((address, body[:40]))
        self.places.append(address)

    def check(self, writers: int) -> None:
        assert not self.wrong
        assert self.next == dict.fromkeys(range(writers), COUNT)
        assert self.places == sorted(set(self.places))


def test_processes_and_threads_of_both_write_while_both_read(start: Start, tmp_path: Path) -> None:
    """Writers: a process of theirs; three threads of another; two processes of ours; two threads with one writer, and
    one with its own."""
    journal = tmp_path / "j"
    create(journal, segment_bytes=16384)
    for name in ("during", "behind", "holds all"):
        add_subscriber(journal, name)
    total = 9 * COUNT
    faults: list[Fault] = []
    ours, theirs = Gathered(), Gathered()

    def read() -> None:
        with Subscriber(journal, "during", checkpoint_every=50, on_fault=faults.append) as subscriber:
            for message in subscriber.follow(timeout_s=20):
                ours.take(str(message.address), message.payload)
                if len(ours.places) == total:
                    return

    def write(writer: Writer, number: int) -> None:
        for i in range(COUNT):
            writer.append(payload(number, i, MOST))

    reading = threading.Thread(target=read)
    reading.start()
    one, many = start(journal), start(journal)
    one.ask("writer")
    one.tell(f"many 0 0 {COUNT} {MOST}")
    many.tell(f"threads 3 1 0 {COUNT} {MOST}")
    processes = [subprocess.Popen([sys.executable, "-c", SCRIPT, str(journal), str(i)]) for i in (4, 5)]
    with Writer(journal) as shared, Writer(journal) as own:
        threads = [threading.Thread(target=write, args=(shared, i)) for i in (6, 7)]
        threads.append(threading.Thread(target=write, args=(own, 8)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [process.wait() for process in processes] == [0, 0]
    assert one.answer() == [str(COUNT)]
    assert many.answer() == [str(3 * COUNT)]
    one.ask("close")  # open, it may go on in a segment below the last one: a reader there waits for it
    reading.join()
    assert not [fault for fault in faults if fault.code != "empty-closed-segment"]
    ours.check(9)

    for message in start(journal).read_all("behind", total):
        theirs.take(message.address, message.payload)
    theirs.check(9)
    assert theirs.places == ours.places
    with everlog.open_store(journal) as store:
        assert not [fault for fault in store.verify().faults if fault.code not in LEFT_BEHIND]


def test_their_reader_follows_our_writers(start: Start, tmp_path: Path) -> None:
    """In one segment: the reader of 2.0 may take a segment for finished before its last messages."""
    journal = tmp_path / "j"
    create(journal, segment_bytes=1 << 30)
    peer = start(journal)
    peer.ask(f"add {b'a'.hex()} begin")
    peer.ask(f"reader {b'a'.hex()}")
    peer.messages = []
    peer.tell(f"follow {3 * COUNT} 10000")
    processes = [subprocess.Popen([sys.executable, "-c", SCRIPT, str(journal), str(i)]) for i in (0, 1)]
    with Writer(journal) as writer:
        for i in range(COUNT):
            writer.append(payload(2, i, MOST))
    assert [process.wait() for process in processes] == [0, 0]
    assert peer.answer() == [str(3 * COUNT)]
    gathered = Gathered()
    for message in peer.messages:
        gathered.take(message.address, message.payload)
    gathered.check(3)


def test_altering_while_both_are_open_loses_nothing(start: Start, tmp_path: Path) -> None:
    """Only downwards: a writer of theirs goes on in a finished segment that is not full any more."""
    journal = tmp_path / "j"
    create(journal, segment_bytes=1 << 20)
    peers = [start(journal) for _ in range(2)]
    add_subscriber(journal, "a")
    count = 200
    with Writer(journal) as writer:
        for peer in peers:
            peer.ask("writer")
        for step, limit in enumerate([200_000, 20_000, 3_000, 900]):
            for number, peer in enumerate(peers):
                peer.tell(f"many {number} {step * count} {count} {MOST}")
            for i in range(count):
                if i == count // 2:
                    alter(journal, segment_bytes=limit)
                writer.append(payload(2, step * count + i, MOST))
            assert [peer.answer() for peer in peers] == [[str(count)]] * 2
    by_writer = defaultdict(list)
    for message in peers[0].read_all("a", 3 * 4 * count):
        by_writer[int(message.payload.split(b":")[0])].append(message.payload)
    assert by_writer == {w: [payload(w, i, MOST) for i in range(4 * count)] for w in range(3)}
    finished = sorted(name for name in os.listdir(journal) if len(name) == 8)[:-1]
    assert all((journal / name).stat().st_size >= 900 for name in finished)


def test_readers_of_both_remove_segments_behind_themselves_while_writers_go_on(start: Start, tmp_path: Path) -> None:
    journal = tmp_path / "j"
    create(journal, segment_bytes=8192)
    add_subscriber(journal, "ours")
    add_subscriber(journal, "theirs")
    writing, reading = start(journal), start(journal)
    writing.ask("writer")
    reading.ask(f"reader {b'theirs'.hex()}")
    gathered, theirs = Gathered(), Gathered()
    with Subscriber(journal, "ours", checkpoint_every=10) as subscriber:
        for step in range(5):
            writing.ask(f"many 0 {step * COUNT // 5} {COUNT // 5} {MOST}")
            reading.tell(f"follow {COUNT // 5} 5000")
            for message in subscriber.follow(timeout_s=0.02):
                gathered.take(str(message.address), message.payload)
            assert reading.answer() == [str(COUNT // 5)]
            for read in reading.messages:
                theirs.take(read.address, read.payload)
            reading.messages = []
    gathered.check(1)
    theirs.check(1)
    assert gathered.places == theirs.places
    left = sorted(name for name in os.listdir(journal) if len(name) == 8)
    assert int(left[0], 16) >= Address.parse(gathered.places[-1]).log - 1
    assert left == [f"{log:08x}" for log in range(int(left[0], 16), int(left[-1], 16) + 1)]
