"""Opening journals with very many segments and subscribers, and reading far behind their beginning.

The journal is made from the format description, not by everlog. A subscriber that has done nothing keeps all segments
there.
"""

from __future__ import annotations

import shutil
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from benchmarks.generate import jlog_segment
from benchmarks.lines import Line, median_rate, paired_rates
from everlog.jlog.subscribing.subscriber import Subscriber
from everlog.jlog.subscribing.subscriptions import remove_subscriber
from everlog.jlog.writing.writer import Writer

MAGIC = 0x663A7318
SEGMENTS, SUBSCRIBERS = 10_000, 100
PAYLOAD_BYTES = 100
RECORD_BYTES = 16 + PAYLOAD_BYTES
MESSAGES_A_SEGMENT = 100
READ = 1_000
NEAR, FAR = 10, 5_000


def many_segments(folder: Path, first: int, last: int, subscribers: int) -> Path:
    """A journal of finished segments, the last one empty; ``subscribers`` at its beginning, without indexes."""
    folder.mkdir()
    data = jlog_segment(PAYLOAD_BYTES, MESSAGES_A_SEGMENT * RECORD_BYTES).tobytes()
    for log in range(first, last):
        (folder / f"{log:08x}").write_bytes(data)
    (folder / f"{last:08x}").touch()
    (folder / "metastore").write_bytes(struct.pack("<IIII", last, len(data), 1, MAGIC))
    for number in range(subscribers):
        set_checkpoint(folder, f"subscriber-{number}", first)
    return folder


def set_checkpoint(journal: Path, subscriber: str, log: int) -> None:
    """At the beginning of a segment."""
    (journal / f"cp.{subscriber.encode().hex()}").write_bytes(struct.pack("<II", log, 0))


def open_and_read(journal: Path, log: int) -> float:
    """Seconds from opening a subscriber at a segment's beginning to the last of 1,000 messages and a checkpoint."""
    set_checkpoint(journal, "reader", log)
    begin = time.perf_counter()
    with Subscriber(journal, "reader") as subscriber:
        found = sum(1 for _ in islice(subscriber, READ))
        subscriber.checkpoint()
        took = time.perf_counter() - begin
    if found != READ:
        raise SystemExit(f"{found} messages from segment {log}")
    remove_subscriber(journal, "reader")
    return took


def open_subscriber(journal: Path) -> float:
    """Seconds until a subscriber is open and has its first message."""
    begin = time.perf_counter()
    with Subscriber(journal, "subscriber-7") as subscriber:
        next(iter(subscriber))
        return time.perf_counter() - begin


def open_writer(journal: Path) -> float:
    """Seconds until a writer is open and has appended its first message."""
    begin = time.perf_counter()
    with Writer(journal, durability="written") as writer:
        writer.append(b"x")
        return time.perf_counter() - begin


def median_ms(work: Callable[[Path], float], journal: Path) -> float:
    """After a call that does not count."""
    return median_rate(lambda: work(journal)) * 1000


def lines() -> Iterator[Line | str]:
    """Reading near the beginning against far from it; opening."""
    with tempfile.TemporaryDirectory(prefix="everlog-bench-") as temporary:
        folder = Path(temporary)
        journal = many_segments(folder / "all", 0, SEGMENTS, SUBSCRIBERS)
        yield f"{SEGMENTS:,} segments, {SUBSCRIBERS} subscribers; the ratios are of times, far to near"
        value, ratio = paired_rates(lambda: open_and_read(journal, FAR), lambda: open_and_read(journal, NEAR))
        yield Line(f"jlog-read-1000-at-segment-{FAR}", value * 1000, "ms", "<=1.5", ratio)
        yield Line("jlog-open-subscriber-10k-segments", median_ms(open_subscriber, journal), "ms", "<=50")
        yield Line("jlog-open-writer-10k-segments", median_ms(open_writer, journal), "ms", "<=50")
        shutil.rmtree(journal)
        removed = many_segments(folder / "removed", FAR, FAR + 100, 1)
        young = many_segments(folder / "young", 0, 100, 1)
        value, ratio = paired_rates(
            lambda: open_and_read(removed, FAR + NEAR),
            lambda: open_and_read(young, NEAR),
        )
        yield Line(f"jlog-read-1000-after-{FAR}-removed", value * 1000, "ms", "<=1.5", ratio)
