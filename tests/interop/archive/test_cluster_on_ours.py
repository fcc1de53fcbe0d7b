"""A cluster node of the real Aeron on our archive and our media driver: it leaves what it leaves on Java's archive, and
recovers from it."""

from __future__ import annotations

import re
import struct
import subprocess
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tools import aeron_java

import everlog
from everlog.aeron.archive.service.server import ArchiveServer
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.cluster.format.recording_log import RECORDING_LOG_NAME, read_recording_log
from everlog.aeron.error_log import DistinctError
from everlog.aeron.mark_file import read_archive_mark
from everlog.aeron.transport.driver.media_driver import MediaDriver
from everlog.aeron.transport.driver.settings.configuration import Configuration
from tests.interop.archive.java_archive import FLAGS, MARK_NAME
from tests.interop.transport.our_transport import free_port

pytestmark = pytest.mark.peer

NODE = Path(__file__).with_name("ClusterOnArchivePeer.java")
ARCHIVE_ID = 77
SEGMENT = 128 << 10
LIVES = ((1_500, 1_000), (500, 200))
"""Of the node: how many messages before its snapshot, and how many after it."""
DETAILS = (
    *("state", "start_position", "stop_position", "segment_file_length", "term_buffer_length"),
    *("mtu_length", "stream_id", "original_channel", "stripped_channel", "source_identity"),
)
COLUMNS = ["kind", "position", "end_position", "length", "leadership_term_id"]


class Node:
    """A node of a cluster of one, in ``folder``, whose lives are on our archive or on Java's."""

    def __init__(self, jar: Path, folder: Path, driver_folder: Path, *, on_ours: bool, ports: list[int]) -> None:
        self.jar, self.folder, self.driver_folder, self.ports, self.on_ours = jar, folder, driver_folder, ports, on_ours
        folder.mkdir()

    def live(self, first: int, before: int, after: int) -> list[str]:
        """Runs driver, archive and node, then ends all of them in good order; the lines that the node printed."""
        with ExitStack() as running:
            if self.on_ours:
                running.enter_context(self.archive())
            else:
                running.enter_context(MediaDriver.launch(self.driver))
            done = subprocess.run(
                self.command(first, before, after), capture_output=True, text=True, check=False, timeout=60
            )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def live_until_killed(self, first: int, before: int) -> list[str]:
        """The same on our archive, without a snapshot. Archive, driver and node are killed when the client has all its
        answers."""
        lines = []
        with (
            self.archive() as archive,
            subprocess.Popen(self.command(first, before, -1), stdout=subprocess.PIPE) as node,
        ):
            assert node.stdout is not None
            for line in node.stdout:
                lines.append(line.decode().strip())
                if line.startswith(b"state"):
                    break
            archive.kill()
            node.kill()
        for mark in (self.folder / "cluster").glob("cluster-mark*.dat"):
            mark.unlink()  # a module would wait ten seconds for an owner that seems to live
        self.driver_folder = self.driver_folder.with_name(self.driver_folder.name + "-next")
        return lines

    def archive(self) -> ArchiveServer:
        """Ours, with its driver."""
        chosen = settings(self.ports[4])
        return ArchiveServer.launch(self.folder / "archive", chosen, driver=self.driver, liveness_timeout_s=0.1)

    @property
    def driver(self) -> Configuration:
        """Of the driver of this life."""
        return Configuration(
            dir=str(self.driver_folder),
            spies_simulate_connection=True,
            dir_delete_on_start=True,
            dir_delete_on_shutdown=True,
            publication_term_buffer_length=64 << 10,
            ipc_term_buffer_length=64 << 10,
        )

    def command(self, first: int, before: int, after: int) -> list[str]:
        """Runs the node."""
        words = [self.driver.dir, self.folder, "served" if self.on_ours else "own", first, before, after, *self.ports]
        return aeron_java.command(self.jar, "ClusterOnArchivePeer", *words, source=NODE, flags=FLAGS)

    def recording_log(self) -> list[dict[str, Any]]:
        """The entries, without the time of writing."""
        log = read_recording_log((self.folder / "cluster" / RECORDING_LOG_NAME).read_bytes())
        assert log.faults == []
        return [{key: value for key, value in entry.to_dict().items() if key != "timestamp"} for entry in log.entries]

    def recordings(self) -> dict[str, tuple[object, ...]]:
        """Positions, parameters and channels of what is in the archive, by id."""
        with everlog.open_store(self.folder / "archive") as store:
            assert store.verify().faults == []
            return {
                info.name: (
                    *(masked(info.details[name]) for name in DETAILS),
                    *(info.details[name] != 0 for name in ("control_session_id", "correlation_id")),
                )
                for info in store.streams()
            }

    def active(self) -> list[str]:
        """Ids of the recordings that have no end."""
        with everlog.open_store(self.folder / "archive") as store:
            return [info.name for info in store.streams() if info.details["active"]]

    def errors(self) -> list[DistinctError]:
        """What the archive had to log."""
        return read_archive_mark((self.folder / "archive" / MARK_NAME).read_bytes()).errors

    def messages(self) -> dict[str, list[tuple[object, ...]]]:
        """Kinds, positions and lengths of all cluster messages of the log and of each snapshot."""
        with everlog.open_store(self.folder / "cluster") as store:
            assert store.verify().faults == []
            return {
                info.name: [row for batch in store.scan(info.name, columns=COLUMNS) for row in batch.rows()]
                for info in store.streams()
            }


def settings(port: int) -> ArchiveSettings:
    """Of our archive: those that the peer gives to Java's."""
    return ArchiveSettings(
        archive_id=ARCHIVE_ID,
        control_channel=f"aeron:udp?endpoint=localhost:{port}",
        segment_file_length=SEGMENT,
        low_storage_space_threshold=0,
    )


def masked(value: object) -> object:
    """A channel without its publication's random session id, and its tag, which is a correlation id."""
    return re.sub(r"(session-id|tags)=-?\d+", r"\1=N", value) if isinstance(value, str) else value


def state_after(count: int) -> str:
    """Of the service: how many messages came, and their digest."""
    digest = 0
    for index in range(count):
        digest = zlib.crc32(struct.pack("<qi96x", digest, index))
    return f"{count} {digest}"


def test_a_node_recovers_and_leaves_what_it_leaves_on_javas_archive(
    aeron_jar: Path, tmp_path: Path, driver_folder: Path
) -> None:
    ports = [free_port() for _ in range(5)]
    nodes = [
        Node(aeron_jar, tmp_path / name, driver_folder.with_name(name), on_ours=name == "ours", ports=ports)
        for name in ("ours", "java")
    ]
    for node in nodes:
        (first, after), (second, more) = LIVES
        lines = node.live(0, first, after)
        assert lines == [f"archive {ARCHIVE_ID}", "snapshot true", f"state {state_after(first + after)}"]
        lines = node.live(first + after, second, more)
        assert lines == [
            f"archive {ARCHIVE_ID}",
            f"loaded {state_after(first)}",
            "snapshot true",
            f"state {state_after(first + after + second + more)}",
        ]
    ours, java = nodes
    services = [(entry["type"], entry["leadership_term_id"], entry["service_id"]) for entry in ours.recording_log()]
    assert services == [
        *(("TERM", 0, -1), ("SNAPSHOT", 0, 0), ("SNAPSHOT", 0, -1)),
        *(("TERM", 1, -1), ("SNAPSHOT", 1, 0), ("SNAPSHOT", 1, -1)),
    ]
    assert ours.recording_log() == java.recording_log()
    assert ours.recordings() == java.recordings()
    assert ours.messages() == java.messages()
    assert (ours.errors(), java.errors()) == ([], [])


def test_a_node_recovers_all_that_was_answered_when_everything_was_killed(
    aeron_jar: Path, tmp_path: Path, driver_folder: Path
) -> None:
    ports = [free_port() for _ in range(5)]
    node = Node(aeron_jar, tmp_path / "ours", driver_folder, on_ours=True, ports=ports)
    known = f"archive {ARCHIVE_ID}"
    assert node.live(0, 600, 100) == [known, "snapshot true", f"state {state_after(700)}"]
    assert node.live_until_killed(700, 1_000) == [known, f"loaded {state_after(600)}", f"state {state_after(1_700)}"]
    assert node.active() == ["0"]
    assert node.live(1_700, 300, 0) == [
        known,
        f"loaded {state_after(600)}",
        "snapshot true",
        f"state {state_after(2_000)}",
    ]
    assert sum(row[0] == "session-message" for row in node.messages()["log"]) == 2_000
    assert (node.active(), len(node.recordings()), node.errors()) == ([], 5, [])
