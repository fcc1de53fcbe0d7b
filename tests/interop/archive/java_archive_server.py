"""The real Aeron Archive as a server for clients in other processes (``ArchiveServerPeer.java``)."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tools import aeron_java

from tests.aeron.archive.protocol.requests.table import DRIVER_PROPERTIES, Script
from tests.interop.archive.java_archive import FLAGS
from tests.interop.line_process import LineProcess

PROGRAM = Path(__file__).with_name("ArchiveServerPeer.java")


class JavaArchiveServer(LineProcess):
    """A running archive with a media driver. Use as a context manager, or end it with :meth:`close` or :meth:`kill`."""

    def __init__(
        self, jar: Path, folder: Path, control_channel: str, script: Script, properties: Mapping[str, str] | None = None
    ) -> None:
        """Starts it and waits until it serves."""
        memory = Path("/dev/shm")
        self._parent = Path(tempfile.mkdtemp(prefix="everlog-aeron-", dir=memory if memory.is_dir() else None))
        self.folder, self.driver_folder, self.control_channel = folder, self._parent / "driver", control_channel
        chosen = DRIVER_PROPERTIES | script.archive_properties(control_channel) | dict(properties or {})
        chosen |= {"aeron.dir": str(self.driver_folder), "aeron.archive.dir": str(folder)}
        words = [f"{name}={value}" for name, value in chosen.items()]
        words.append(f"secured={str(script.is_secured).lower()}")
        super().__init__(aeron_java.command(jar, "ArchiveServerPeer", *words, source=PROGRAM, flags=FLAGS))

    def errors(self) -> list[str]:
        """What archive and driver gave to their error handlers so far."""
        return self.ask("errors")[1]

    def kill(self) -> None:
        """As ``kill -9`` does. Idempotent."""
        super().kill()
        shutil.rmtree(self._parent, ignore_errors=True)
