"""Reading a journal as a subscriber in Python beside the C library, both from the first message to the last.

The journal is the C library's own, one segment with its index made; opening is outside the time. The C library hands
out pointers into the mapped file, everlog objects: a ``Message`` with its bytes, or columns that hold them.
"""

from __future__ import annotations

import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import jlog_peer as peer
from benchmarks.lines import Line, paired_rates, where
from everlog.jlog.subscribing.subscriber import Subscriber

SEGMENT_BYTES = 1 << 30
SMALL, SMALL_MESSAGES = 100, 400_000
LARGE, LARGE_MESSAGES = 1024, 250_000
EVERY = 100


def journal_of(folder: Path, payload_bytes: int, messages: int) -> Path:
    """A journal with an index, and three subscribers at its beginning: one never moves, so that all stays there."""
    journal = peer.create(folder, SEGMENT_BYTES, "keeper", "peer", "ours")
    peer.append(journal, payload_bytes, messages)
    peer.make_index(journal, "keeper")
    return journal


def rewind(journal: Path, subscriber: str) -> None:
    """Back to the beginning."""
    (journal / f"cp.{subscriber.encode().hex()}").write_bytes(struct.pack("<II", 0, 0))


def one_by_one(subscriber: Subscriber) -> int:
    """Payload bytes of all messages."""
    total = 0
    for message in subscriber:
        total += len(message.payload)
    return total


def in_batches(subscriber: Subscriber) -> int:
    """Payload bytes of all messages, read as columns."""
    total = 0
    while (batch := subscriber.read_batch()) is not None:
        column = batch.column("payload")
        assert column.offsets is not None
        total += column.offsets[batch.row_count]
    return total


def rate(journal: Path, work: Callable[[Subscriber], int], expected: int, every: int | None = None) -> float:
    """Payload bytes per second."""
    rewind(journal, "ours")
    with Subscriber(journal, "ours", checkpoint_every=every) as subscriber:
        begin = time.perf_counter()
        found = work(subscriber)
        took = time.perf_counter() - begin
    if found != expected:
        raise SystemExit(f"{found} bytes of {expected}")
    return expected / took


def peer_rate(journal: Path, every: int = 0) -> float:
    """The C library's messages of 100 bytes per second."""
    rewind(journal, "peer")
    return peer.read(journal, "peer", SMALL_MESSAGES, every)


def bulk_peer_rate(journal: Path) -> float:
    """JLog 2.6's messages of 1 KiB per second."""
    rewind(journal, "peer")
    return peer.read_in_bulk(journal, "peer", LARGE_MESSAGES)


def walk_rate(journal: Path) -> float:
    """A plain walk's messages of 1 KiB per second."""
    return peer.walk(journal / f"{0:08x}", LARGE_MESSAGES)


def lines() -> Iterator[Line | str]:
    """One by one, with checkpoints, and in bulk."""
    with tempfile.TemporaryDirectory(prefix="everlog-bench-") as temporary:
        journal = journal_of(Path(temporary) / "small", SMALL, SMALL_MESSAGES)
        expected = SMALL * SMALL_MESSAGES
        yield f"journals on {where(journal)}, {SMALL} bytes a message; the peer is JLog 2.0 in C, its index made"
        for name, every in (("one", 0), (f"checkpoint-{EVERY}", EVERY)):
            value, ratio = paired_rates(
                lambda every=every: rate(journal, one_by_one, expected, every or None) / SMALL,
                lambda every=every: peer_rate(journal, every),
            )
            yield f"the peer: {value / ratio / 1e3:.0f} k/s"
            yield Line(f"jlog-read-{name}", value / 1e3, "k/s", ">=1", ratio)
        journal = journal_of(Path(temporary) / "large", LARGE, LARGE_MESSAGES)
        if peer.has_2_6():
            yield "the peer of the next line: bulk reads of JLog 2.6 in C, which touch no payload"
            target, beside = ">=1", bulk_peer_rate
        else:
            yield (
                "the peer of the next line: a loop in C over the mapped segment, which touches each page; "
                "EVERLOG_JLOG_SOURCE may name JLog 2.6"
            )
            target, beside = ">=0.9", walk_rate
        value, ratio = paired_rates(
            lambda: rate(journal, in_batches, LARGE * LARGE_MESSAGES), lambda: beside(journal) * LARGE
        )
        yield Line("jlog-read-batch-1KiB", value / 1e9, "GB/s", target, ratio)
