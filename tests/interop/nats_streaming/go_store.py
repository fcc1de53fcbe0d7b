"""The original's own store package (nats-streaming-server 0.25.6) with a program of ours (``store_peer/main.go``)
around it, built with Go once. Its modules come from Go's module proxy, which the ``go`` command caches and checks by
``go.sum``; with ``EVERLOG_INTEROP=download`` it may fetch them."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tools import aeron_java

SOURCE = Path(__file__).with_name("store_peer")
SECONDS_TO_BUILD = 900.0
SECONDS_TO_ANSWER = 60.0


class Missing(Exception):
    """The program can't be had here; the text says why."""


@cache
def program(*, download: bool) -> Path:
    """Build the program, or take the one that was built. Raises :class:`Missing`."""
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(SOURCE.iterdir()))).hexdigest()
    built = aeron_java.cache_folder() / f"nats-streaming-store-{digest[:16]}"
    if built.exists():
        return built
    if (go := shutil.which("go")) is None:
        raise Missing("Go is not installed, so nats-streaming-server's store can't be built")
    environment = os.environ | ({} if download else {"GOPROXY": "off"})
    draft = built.with_suffix(".draft")
    command = [go, "build", "-trimpath", "-o", str(draft), "."]
    done = subprocess.run(
        command, cwd=SOURCE, env=environment, capture_output=True, text=True, timeout=SECONDS_TO_BUILD, check=False
    )
    if done.returncode:
        raise Missing(f"nats-streaming-server's store can't be built: {done.stderr.strip()[:500]}")
    draft.replace(built)
    return built


class GoStore:
    """Opens stores with the original's package. Each method runs one process."""

    def __init__(self, built: Path) -> None:
        self._built = built

    def run(self, *arguments: str | Path) -> list[str]:
        """Return the lines of the program's output. Raises :class:`AssertionError` with its errors if it fails."""
        command = [self._built, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_TO_ANSWER, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Start the program; it ends when its input is closed."""
        command = [self._built, *map(str, arguments)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read(self, store: Path, channel: str, *flags: str) -> ReadChannel:
        """Read a channel as the server does on its start."""
        return ReadChannel(self.run(*flags, "read", store, channel))


class ReadChannel:
    """What the original finds in a channel: cluster ID, first and last sequence, count, bytes, payloads by sequence."""

    def __init__(self, lines: list[str]) -> None:
        words = [line.split(" ") for line in lines]
        self.cluster_id = next(w[1] for w in words if w[0] == "cluster")
        self.first, self.last, self.count, self.byte_count = next(map(int, w[1:5]) for w in words if w[0] == "state")
        found = [w for w in words if w[0] == "message"]
        self.messages = {int(w[1]): bytes.fromhex(w[3].split(":")[1]) for w in found}
        self.times_ns = [int(w[2]) for w in found]
        self.subjects = {w[3].split(":")[0] for w in found}
