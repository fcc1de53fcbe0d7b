"""Runs everlog's archive or the real one, and its driver, in two processes, to measure each of them."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Literal, Self

from tools import aeron_java

from benchmarks.archive_peer import ArchivePeer
from everlog.aeron.archive.service.server import ArchiveServer
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.transport.driver.media_driver import MediaDriver

CONTROL = "aeron:ipc?term-length=64k"
START_SECONDS = 30.0
FLAGS = ("-Xmx512m", "-XX:+UseSerialGC", "-Dagrona.disable.bounds.checks=true")
Kind = Literal["ours", "java"]


def cpu_seconds(pid: int) -> float:
    """The processor time of a process: that of all threads that still run."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def private_bytes(pid: int) -> int:
    """A process's own memory, without mapped files such as log buffers."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = next(line for line in lines if line.startswith("RssAnon:"))
    return int(found.split()[1]) << 10


class ArchiveProcesses:
    """A media driver and an archive, one process each, on a new folder below ``folder``; both with one thread
    (``SHARED``) and their default idle strategy, at most ``recordings`` at a time in segments of ``segment_bytes``. Use
    as a context manager."""

    def __init__(self, kind: Kind, folder: Path, *, segment_bytes: int, recordings: int) -> None:
        self.archive_folder = Path(tempfile.mkdtemp(prefix=f"{kind}-archive-", dir=folder))
        self._memory = Path(tempfile.mkdtemp(prefix="everlog-aeron-", dir="/dev/shm"))
        self.driver_folder = self._memory / "driver"
        self._java: list[subprocess.Popen[bytes]] = []
        self._servers: list[MediaDriver | ArchiveServer] = []
        try:
            if kind == "ours":
                self._start_ours(segment_bytes, recordings)
            else:
                self._start_java(segment_bytes, recordings)
        except BaseException:
            self.close()
            raise

    def _start_ours(self, segment_bytes: int, recordings: int) -> None:
        driver = MediaDriver.launch(dir=str(self.driver_folder))
        self._servers.append(driver)
        settings = ArchiveSettings(
            segment_file_length=segment_bytes, max_concurrent_recordings=recordings, low_storage_space_threshold=0
        )
        archive = ArchiveServer.launch(self.archive_folder, settings, driver_folder=self.driver_folder)
        self._servers.append(archive)
        self.driver_pid, self.archive_pid = driver.pid, archive.pid

    def _start_java(self, segment_bytes: int, recordings: int) -> None:
        try:
            jar = aeron_java.jar(download=True)
        except aeron_java.Missing as missing:
            raise SystemExit(f"the peer, Aeron's archive in Java, can't be had: {missing}") from missing
        driver = {"aeron.dir": self.driver_folder, "aeron.threading.mode": "SHARED"}
        archive = {
            "aeron.dir": self.driver_folder,
            "aeron.archive.dir": self.archive_folder,
            "aeron.archive.threading.mode": "SHARED",
            "aeron.archive.control.channel.enabled": "false",
            "aeron.archive.local.control.channel": CONTROL,
            "aeron.archive.control.response.channel": CONTROL,
            "aeron.archive.replication.channel": "aeron:udp?endpoint=localhost:0",
            "aeron.archive.recording.events.enabled": "false",
            "aeron.archive.max.concurrent.recordings": recordings,
            "aeron.archive.segment.file.length": segment_bytes,
        }
        for main, properties in (("io.aeron.driver.MediaDriver", driver), ("io.aeron.archive.Archive", archive)):
            flags = (*FLAGS, *(f"-D{name}={value}" for name, value in properties.items()))
            self._java.append(subprocess.Popen(aeron_java.command(jar, main, flags=flags), stdout=subprocess.DEVNULL))
            ready = self.driver_folder / "cnc.dat" if main.endswith("Driver") else self.archive_folder
            _await(lambda ready=ready: any(ready.parent.glob(ready.name)))  # type: ignore[misc]
            time.sleep(1.0)
        _await(lambda: (self.archive_folder / "archive-mark.dat").exists())
        self.driver_pid, self.archive_pid = (process.pid for process in self._java)

    def client(self) -> ArchivePeer:
        """A client of this archive, in Java."""
        return ArchivePeer(self.archive_folder.parent, served_by=self.driver_folder)

    def cpu_seconds(self) -> tuple[float, float]:
        """The processor time of archive and driver."""
        return cpu_seconds(self.archive_pid), cpu_seconds(self.driver_pid)

    def close(self) -> None:
        """Ends both and removes their folders."""
        for server in reversed(self._servers):
            server.close()
        for process in reversed(self._java):
            process.send_signal(signal.SIGTERM)
            process.wait()
        for folder in (self.archive_folder, self._memory):
            shutil.rmtree(folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _await(is_done: object) -> None:
    assert callable(is_done)
    end = time.monotonic() + START_SECONDS
    while not is_done():
        if time.monotonic() > end:
            raise SystemExit("Aeron's archive in Java did not start")
        time.sleep(0.05)
