"""Soak test that kills writers and subscribers of one journal: ``python -m everlog.testing.soak.jlog``.

Three writers (``written``, ``synced``, ``buffered``) and three subscribers are separate processes. Each reports to the
parent over a pipe which messages it got acknowledged or received. The parent kills one with SIGKILL, restarts it, and
repeats that. At the end it checks that every subscriber received every acknowledged message, whole and in its writer's
order, that no message is in the journal twice, and that ``verify`` finds no fault. The same seed gives the same victims
and pauses; the system's scheduling decides what a victim is doing when it is killed.
"""

from __future__ import annotations

import argparse
import os
import random
import selectors
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from everlog.core.files.writable import LocalWritableStorage
from everlog.jlog import Subscriber, Writer, add_subscriber, create, list_subscribers
from everlog.jlog.options import DurabilityName
from everlog.jlog.store import JlogStore

DURABILITIES: tuple[DurabilityName, ...] = ("written", "synced", "buffered")
SUBSCRIBERS = ("one", "two", "three")
MAX_PAUSE_S = 0.06
SECONDS_WITHOUT_NEWS = 1.0
MOST_AT_ONCE = 8
"""The most messages appended with one call, and so the most that can be there without an acknowledgement."""

Key = tuple[int, int, int]
"""Identifies a message: writer, how often the writer was started before, number of the message since then."""


def payload_of(key: Key) -> bytes:
    """Return a message's content, which follows from its key."""
    text = b"%d.%d.%d." % key
    return text + bytes((key[2] * 7 + i) & 255 for i in range(key[2] * 31 % 400))


@dataclass(slots=True)
class Result:
    """Counts of a run. ``complaints`` are the errors found."""

    kills: int = 0
    acknowledged: int = 0
    given: int = 0
    given_again: int = 0
    segments: int = 0
    complaints: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.acknowledged} messages acknowledged, {self.given} given to "
            f"{len(SUBSCRIBERS)} subscribers, {self.given_again} of them again; {self.segments} segments were written"
        )


# In the children


def write_messages(journal: str, number: int, start: int, news: int) -> NoReturn:
    """Append until killed, and report each message that was acknowledged."""
    rng = random.Random(f"{number}.{start}")
    durability = DURABILITIES[number]
    writer = Writer(journal, durability=durability, buffer_bytes=4000 if durability == "buffered" else None)
    sequence = 0
    while True:
        keys = [(number, start, sequence + i) for i in range(rng.choice((1, 1, 1, 2, MOST_AT_ONCE)))]
        if len(keys) == 1:
            writer.append(payload_of(keys[0]))
        else:
            writer.append_many([payload_of(key) for key in keys])
        sequence += len(keys)
        os.write(news, b"%d %d %d\n" % keys[-1])
        if rng.random() < 0.02:
            writer.flush()
        time.sleep(rng.random() * 0.002)


def read_messages(journal: str, number: int, start: int, news: int, timeout_s: float | None = None) -> None:
    """Read, report each message, and write a checkpoint now and then."""
    rng = random.Random(f"{number}.{start}")
    every = (None, 1, 10)[number]
    with Subscriber(journal, SUBSCRIBERS[number], checkpoint_every=every) as subscriber:
        for message in subscriber.follow(timeout_s):
            key = message.payload.split(b".", 3)[:3]
            is_whole = len(key) == 3 and message.payload == payload_of((int(key[0]), int(key[1]), int(key[2])))
            report = b" ".join(key) if is_whole else b"-1 -1 -1"
            os.write(news, report + b" %d\n" % message.address)
            if every is None and rng.random() < 0.05:
                subscriber.checkpoint()


# In the parent


class Worker:
    """A child process that is restarted after each kill. ``on_report`` gets the numbers of each line that it writes."""

    def __init__(self, work: Callable[[int, int], None], on_report: Callable[[list[int]], None]) -> None:
        self.starts = 0
        self.pid = 0
        self.news = -1
        self._work = work
        self._on_report = on_report
        self._rest = b""

    def start(self, selector: selectors.BaseSelector) -> None:
        """Fork the child."""
        self.news, write_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.close(self.news)
                self._work(self.starts, write_end)
                code = 0
            except BaseException as error:
                print(f"worker ended by {error!r}", file=sys.stderr, flush=True)
            finally:
                os._exit(code)
        os.close(write_end)
        self.starts += 1
        selector.register(self.news, selectors.EVENT_READ, self)

    def listen(self) -> bool:
        """Read the child's reports; ``False`` at their end."""
        data = os.read(self.news, 1 << 16)
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            self._on_report([int(word) for word in line.split()])
        return bool(data)

    def end(self, selector: selectors.BaseSelector, signal_number: int | None) -> int:
        """Kill the child, or wait for its end if ``signal_number`` is ``None``; return its wait status."""
        if signal_number is not None:
            os.kill(self.pid, signal_number)
        while self.listen():
            pass
        self._rest = b""
        selector.unregister(self.news)
        os.close(self.news)
        return os.waitpid(self.pid, 0)[1]


class Soak:
    """One run in ``journal``, a path that does not exist yet."""

    def __init__(self, journal: str, *, kills: int, seed: int, segment_bytes: int = 20_000) -> None:
        self._journal = journal
        self._kills = kills
        self._rng = random.Random(seed)
        self._result = Result()
        self._acknowledged: dict[int, list[Key]] = {number: [] for number in range(len(DURABILITIES))}
        self._given: list[dict[Key, int]] = [{} for _ in SUBSCRIBERS]
        self._selector = selectors.DefaultSelector()
        self._writers = [Worker(self._writer(n), self._note_acknowledged) for n in range(len(DURABILITIES))]
        self._subscribers = [Worker(self._subscriber(n), self._noter(n)) for n in range(len(SUBSCRIBERS))]
        create(journal, segment_bytes=segment_bytes)
        for name in SUBSCRIBERS:
            add_subscriber(journal, name)

    def _writer(self, number: int) -> Callable[[int, int], None]:
        return lambda start, news: write_messages(self._journal, number, start, news)

    def _subscriber(self, number: int) -> Callable[[int, int], None]:
        return lambda start, news: read_messages(self._journal, number, start, news)

    def _note_acknowledged(self, report: list[int]) -> None:
        number, start, last = report
        keys = self._acknowledged[number]
        first = keys[-1][2] + 1 if keys and keys[-1][1] == start else 0
        keys.extend((number, start, sequence) for sequence in range(first, last + 1))

    def _noter(self, subscriber: int) -> Callable[[list[int]], None]:
        given = self._given[subscriber]

        def note(report: list[int]) -> None:
            *words, address = report
            key = (words[0], words[1], words[2])
            self._result.given += 1
            if key not in given:
                given[key] = address
                return
            self._result.given_again += 1
            if given[key] != address:
                self._complain(f"{key} is at {given[key]:#x} and at {address:#x}")

        return note

    def _complain(self, text: str) -> None:
        self._result.complaints.append(text)

    def run(self) -> Result:
        """Kill and restart workers, then check the journal. Return the counts."""
        workers = [*self._writers, *self._subscribers]
        try:
            for worker in workers:
                worker.start(self._selector)
            for _ in range(self._kills):
                self._listen(self._rng.random() * MAX_PAUSE_S)
                victim = self._rng.choice(workers)
                self._kill(victim)
                victim.start(self._selector)
                self._result.kills += 1
            self._listen(MAX_PAUSE_S)
        finally:
            for worker in workers:
                self._kill(worker)
        self._write_the_last()
        self._read_to_the_end()
        self._check()
        return self._result

    def _listen(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            for found, _ in self._selector.select(left):
                worker: Worker = found.data
                worker.listen()

    def _kill(self, worker: Worker) -> None:
        status = worker.end(self._selector, signal.SIGKILL) if worker.pid else signal.SIGKILL
        if status != signal.SIGKILL:
            self._complain(f"a worker ended by itself, with status {status:#x}: see its error")
        worker.pid = 0

    def _write_the_last(self) -> None:
        """Append a last message, which also writes out what the buffered writer left and cuts off a torn message."""
        key = (0, self._writers[0].starts, 0)
        with Writer(self._journal) as writer:
            writer.append(payload_of(key))
        self._acknowledged[0].append(key)

    def _read_to_the_end(self) -> None:
        readers = [Worker(self._last_reader(n), self._noter(n)) for n in range(len(SUBSCRIBERS))]
        for reader in readers:
            reader.start(self._selector)
        for reader in readers:
            if reader.end(self._selector, None):
                self._complain("a subscriber ended by an error")

    def _last_reader(self, number: int) -> Callable[[int, int], None]:
        return lambda start, news: read_messages(self._journal, number, start, news, SECONDS_WITHOUT_NEWS)

    def _check(self) -> None:
        acknowledged = {key for keys in self._acknowledged.values() for key in keys}
        self._result.acknowledged = len(acknowledged)
        most = Counter({(n, s): 0 for n in self._acknowledged for s in range(self._writers[n].starts + 1)})
        for number, start, sequence in acknowledged:
            most[number, start] = max(most[number, start], sequence + 1)
        for name, given in zip(SUBSCRIBERS, self._given, strict=True):
            lost = sorted(acknowledged - given.keys())
            if lost:
                self._complain(f"{name} did not get {len(lost)} messages, such as {lost[0]}")
            for number in range(len(DURABILITIES)):
                order = [key for key in given if key[0] == number]
                if order != sorted(order):
                    self._complain(f"{name} got messages of writer {number} in the wrong order")
            invented = [key for key in given if key[2] >= most.get(key[:2], -1) + MOST_AT_ONCE]
            if invented:
                self._complain(f"{name} got {len(invented)} messages that nobody wrote, such as {invented[0]}")
            if list(given.values()) != sorted(given.values()):
                self._complain(f"{name} got new messages after later ones")
        with JlogStore.open(LocalWritableStorage(self._journal), {}) as store:
            for fault in store.verify().faults:
                if fault.severity.value == "fault":
                    self._complain(str(fault))
        self._result.segments = 1 + max(found.log or 0 for found in list_subscribers(self._journal))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 if there are complaints."""
    parser = argparse.ArgumentParser(prog="python -m everlog.testing.soak.jlog", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--segment-bytes", type=int, default=20_000)
    parser.add_argument("folder", nargs="?", type=Path, help="where to work; default: a temporary folder")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=chosen.folder, prefix="everlog-soak-") as folder:
        journal = os.path.join(folder, "journal")
        result = Soak(journal, kills=chosen.kills, seed=chosen.seed, segment_bytes=chosen.segment_bytes).run()
    print(result)
    for complaint in result.complaints:
        print(complaint)
    return 1 if result.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
