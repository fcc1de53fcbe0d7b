"""The real Aeron Archive and its client on our media driver: recorded, replayed, extended, over many terms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from java_archive import MIXED, SMALL, ArchiveOptions, JavaArchive, Messages, digest

from everlog.aeron.transport.driver.media_driver import MediaDriver

CHANNEL = "aeron:ipc?term-length=64k"


def test_a_real_archive_records_and_replays_through_our_driver(
    tmp_path: Path,
    start_our_driver: Callable[..., MediaDriver],
    start_archive: Callable[[Path, ArchiveOptions], JavaArchive],
) -> None:
    driver = start_our_driver(spies_simulate_connection=True)
    options = ArchiveOptions(checksum="crc32", driver_folder=Path(driver.dir))
    with start_archive(tmp_path / "archive", options) as archive:
        first = Messages(seed=1, sizes=SMALL, count=2000)
        recorded = archive.record(CHANNEL, 10, first)
        replay = archive.replay(recorded.recording_id)
        assert (replay.count, replay.rows()) == (2000, first.rows())
        more = Messages(seed=1, sizes=SMALL, first=2000, count=3000)
        archive.extend(recorded.recording_id, more)
        replay = archive.replay(recorded.recording_id, keeps_messages=False)
        assert (replay.count, replay.digest) == (5000, digest([*first.rows(), *more.rows()]))
        mixed = Messages(seed=2, sizes=MIXED, count=1000)
        other = archive.record(CHANNEL, 11, mixed)
        assert archive.replay(other.recording_id).rows() == mixed.rows()
        assert archive.errors() == []
