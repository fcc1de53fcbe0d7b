"""A live archive with 100,000 recordings: how long its start takes, and a list of one.

Each recording is stopped and has one segment file of 64 KiB with one frame in it, as an archive with many short streams
leaves them. The oldest tenth was purged, which leaves the entries alone.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.archive_peer import ArchivePeer
from benchmarks.lines import Line, Spread, median_rate, where
from everlog.aeron.archive.format.catalog import CATALOG_NAME
from everlog.aeron.archive.format.catalog_bytes import Descriptor, encode_entry, encode_header
from everlog.aeron.archive.format.segments import segment_name
from everlog.aeron.archive.service.server import ArchiveServer
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.frames.framing import Framer
from everlog.aeron.transport.driver.media_driver import MediaDriver

RECORDINGS = 100_000
SEGMENT_BYTES = 64 << 10
CHANNEL = "aeron:ipc?term-length=64k|session-id={}"
REQUESTS = 200
START_RUNS = 7


def make_archive(folder: Path, count: int = RECORDINGS) -> None:
    """An archive of ``count`` recordings of one message; the oldest tenth was purged."""
    folder.mkdir()
    parts = [encode_header(count)]
    for number in range(count):
        is_purged = number < count // 10
        frame = _frame(number)
        descriptor = Descriptor(
            recording_id=number,
            start_timestamp=1_700_000_000_000 + number,
            stop_timestamp=1_700_000_001_000 + number,
            stop_position=len(frame),
            initial_term_id=number,
            segment_file_length=SEGMENT_BYTES,
            term_buffer_length=SEGMENT_BYTES,
            mtu_length=1408,
            session_id=number,
            stream_id=1001,
            stripped_channel=CHANNEL.format(number),
            original_channel=CHANNEL.format(number),
            source_identity="aeron:ipc",
        )
        parts.append(encode_entry(descriptor, "DELETED" if is_purged else "VALID"))
        if not is_purged:
            with open(folder / segment_name(number, 0), "xb") as file:
                file.write(frame)
                file.truncate(SEGMENT_BYTES)
    (folder / CATALOG_NAME).write_bytes(b"".join(parts))


def _frame(number: int) -> bytes:
    framer = Framer(
        initial_term_id=number, term_length=SEGMENT_BYTES, mtu_length=1408, session_id=number, stream_id=1001
    )
    framer.begin(0, SEGMENT_BYTES)
    framer.frame(b"message", 0)
    return bytes(framer.view())


def lines() -> Iterator[Line | str]:
    """The figures."""
    with (
        tempfile.TemporaryDirectory(prefix="everlog-bench-") as temporary,
        tempfile.TemporaryDirectory(prefix="everlog-aeron-", dir="/dev/shm") as memory,
    ):
        folder = Path(temporary) / "archive"
        make_archive(folder)
        yield f"{RECORDINGS} recordings on {where(folder)}"
        settings = ArchiveSettings(segment_file_length=SEGMENT_BYTES, low_storage_space_threshold=0)
        with MediaDriver.launch(dir=f"{memory}/driver") as driver:
            times = []
            for _ in range(START_RUNS):
                begin = time.perf_counter()
                with ArchiveServer.launch(folder, settings, driver_folder=driver.dir):
                    times.append(time.perf_counter() - begin)
            yield Line("archive start, 100k recordings", Spread(times), "s", "<=3")
            with (
                ArchiveServer.launch(folder, settings, driver_folder=driver.dir),
                ArchivePeer(Path(temporary), served_by=Path(driver.dir)) as client,
            ):
                yield Line("list one of 100k", _list_one(client), "ms", "<=2")


def _list_one(client: ArchivePeer) -> Spread:
    return 1e3 * median_rate(lambda: client.list_one(REQUESTS, RECORDINGS))
