"""The real Aeron Archive, and a node of the real Aeron Cluster, with their clients on our media driver."""

from __future__ import annotations

import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

from tools import aeron_java

from everlog.aeron.transport.driver.media_driver import MediaDriver
from tests.interop.archive.java_archive import FLAGS, MIXED, SMALL, ArchiveOptions, JavaArchive, Messages, digest
from tests.interop.transport.our_transport import free_port

NODE = Path(__file__).with_name("ClusterNodePeer.java")
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


def test_a_real_cluster_node_serves_its_client_through_our_driver(
    tmp_path: Path, aeron_jar: Path, start_our_driver: Callable[..., MediaDriver]
) -> None:
    driver = start_our_driver(spies_simulate_connection=True)
    count, ports = 5000, [free_port() for _ in range(5)]
    command = aeron_java.command(
        aeron_jar, "ClusterNodePeer", driver.dir, tmp_path, count, 64, *ports, source=NODE, flags=FLAGS
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)
    crc = zlib.crc32(b"".join(struct.pack("<i96x", index) for index in range(count)))
    assert done.stdout.splitlines() == [f"echoed {count} {crc}", "snapshot true"], done.stderr
    assert driver.is_running
