"""The live archive beside the real one. The same client, in Java, publishes, records and subscribes: to the real
archive with its driver, and to ours with ours, which are in a process of their own.

Recordings and replays of 1 KiB and 32 bytes over IPC, recordings of 1 KiB over UDP; latencies as medians of some
requests.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.archive_peer import SEGMENT_BYTES, TERM_BYTES, ArchivePeer, Run
from benchmarks.lines import Line, paired_rates, where
from everlog.aeron.archive.service.server import ArchiveServer
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.transport.driver.settings.configuration import Configuration

REQUESTS = {"start": 50, "first": 50, "list": 20}
NAMES = {"start": "start-recording to OK", "first": "replay to first message", "list": "list of 1,000"}
SMALL_SEGMENT_BYTES = 64 << 10


class Both:
    """Both archives, and a client of each."""

    def __init__(self, folder: Path, opened: ExitStack, segment_bytes: int) -> None:
        driver_folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="everlog-", dir="/dev/shm")))
        driver = Configuration(
            dir=str(driver_folder / "driver"),
            ipc_term_buffer_length=TERM_BYTES,
            publication_term_buffer_length=TERM_BYTES,
            ipc_mtu_length=8 << 10,
        )
        settings = ArchiveSettings(segment_file_length=segment_bytes, low_storage_space_threshold=0)
        opened.enter_context(ArchiveServer.launch(folder / "ours", settings, driver=driver))
        self.ours = opened.enter_context(
            ArchivePeer(folder, segment_bytes=segment_bytes, served_by=driver_folder / "driver")
        )
        self.theirs = opened.enter_context(ArchivePeer(folder, segment_bytes=segment_bytes))


def lines() -> Iterator[Line | str]:
    """The figures."""
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="everlog-bench-")))
        yield f"archives on {where(folder)}; the real one with one thread each for driver and archive"
        both = Both(folder, opened, SEGMENT_BYTES)
        for verb in ("record", "replay"):
            for payload_bytes in (1024, 32):
                ours, theirs = _rates(both, verb, payload_bytes)
                rate, ratio = paired_rates(ours, theirs)
                yield Line(f"{verb} live {payload_bytes} B", rate / 1e6, "MB/s", ">=1.0", ratio)
        rate, ratio = paired_rates(*_rates(both, "udp", 1024))
        yield Line("record over UDP 1024 B", rate / 1e6, "MB/s", ">=1.0", ratio)
        for verb in ("start", "first"):
            yield _latency(both, verb)
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="everlog-bench-")))
        yield _latency(Both(folder, opened, SMALL_SEGMENT_BYTES), "list")


def _rates(both: Both, verb: str, payload_bytes: int) -> tuple[Callable[[], float], Callable[[], float]]:
    def rate(peer: ArchivePeer) -> Callable[[], float]:
        run: Callable[[int], Run] = {"record": peer.record, "udp": peer.record_udp, "replay": peer.replay}[verb]
        return lambda: run(payload_bytes).bytes_per_second

    return rate(both.ours), rate(both.theirs)


def _latency(both: Both, verb: str) -> Line:
    """Our median, and how many times the peer's it is."""
    count = REQUESTS[verb]
    found = []

    def ours() -> float:
        found.append(both.ours.latency(verb, count))
        return 1 / found[-1]

    rate, ratio = paired_rates(ours, lambda: 1 / both.theirs.latency(verb, count))
    return Line(NAMES[verb], 1e3 / rate, "ms", "<=1.5", 1 / ratio)
