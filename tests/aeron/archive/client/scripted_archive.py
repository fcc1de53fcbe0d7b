"""An archive that answers as a test says, on a media driver in this process: what no real archive does on purpose."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from everlog.aeron.archive.protocol.codec import PROTOCOL_VERSION, decode, encode
from everlog.aeron.archive.protocol.requests import ArchiveId, AuthConnect, KeepAlive, SessionRequest
from everlog.aeron.archive.protocol.responses import ControlResponse, ResponseCode
from everlog.aeron.messages import Message
from everlog.aeron.transport.client import Aeron, ExclusivePublication
from everlog.aeron.transport.driver.media_driver import MediaDriver
from everlog.aeron.transport.driver.running_driver import RunningDriver

CONTROL = "aeron:ipc?term-length=64k"
STREAM = 10
Script = Callable[["ScriptedArchive", Message], None]


def ok(archive: ScriptedArchive, message: Message) -> None:
    """Answer OK with the recording's id, or with 0."""
    if isinstance(message, SessionRequest):
        archive.answer(message, getattr(message, "recording_id", 0))


class ScriptedArchive:
    """Connects every client, then calls ``script(archive, message)`` in its own thread for each request."""

    def __init__(self, folder: str, script: Script = ok, version: int = PROTOCOL_VERSION) -> None:
        self.script = script
        self.version = version
        self.received: list[Message] = []
        self.aeron = Aeron.connect(folder, idle_sleep_ns=1_000_000)
        self._requests = self.aeron.add_subscription(CONTROL, STREAM)
        self._responses: dict[int, ExclusivePublication] = {}
        self._next_session = 1
        self._commands: list[Callable[[], object]] = []
        self._is_reading = True
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            while self._commands:
                self._commands.pop(0)()
            if not self._is_reading or not self._requests.poll(lambda data, _: self._take(decode(data))):
                time.sleep(0.0005)

    def _take(self, message: Message) -> None:
        self.received.append(message)
        if isinstance(message, AuthConnect):
            session_id, self._next_session = self._next_session, self._next_session + 1
            stream = self.aeron.add_exclusive_publication(message.response_channel, message.response_stream_id)
            self.aeron.wait_until(lambda: stream.is_connected)
            self._responses[session_id] = stream
            self.send(ControlResponse(session_id, message.correlation_id, session_id, ResponseCode.OK, self.version))
        elif isinstance(message, ArchiveId):
            self.answer(message, 4711)
        elif not isinstance(message, KeepAlive):
            self.script(self, message)

    def do(self, command: Callable[[], object]) -> None:
        """Run a command in the archive's thread, and wait for it."""
        done = threading.Event()
        self._commands += [command, done.set]
        assert done.wait(10)

    def send(self, message: Any, session_id: int | None = None) -> None:
        """Send a message to a session; to the one that it names by default."""
        self._responses[message.control_session_id if session_id is None else session_id].send(encode(message))

    def answer(
        self, request: SessionRequest, relevant_id: int = 0, code: ResponseCode = ResponseCode.OK, text: str = ""
    ) -> None:
        """Answer a request."""
        ids = (request.control_session_id, request.correlation_id)
        self.send(ControlResponse(*ids, relevant_id, code, self.version, text))

    def drop_sessions(self) -> None:
        """End all response streams."""
        for stream in self._responses.values():
            stream.revoke()
        self._responses.clear()

    def stop_reading(self) -> None:
        """Read no more requests, until :meth:`read_again`."""
        self._is_reading = False

    def read_again(self) -> None:
        """Read requests again."""
        self._is_reading = True

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        # One by one: what a closed client leaves to its driver stays joined until the driver's next look at clients.
        for stream in (*self._responses.values(), self._requests):
            stream.close()
        self.aeron.close()


@contextmanager
def in_process_driver() -> Iterator[RunningDriver]:
    """A media driver in threads of this process."""
    memory = Path("/dev/shm")
    parent = tempfile.mkdtemp(prefix="everlog-driver-", dir=memory if memory.is_dir() else None)
    lengths = {"ipc_term_buffer_length": 64 << 10, "publication_term_buffer_length": 64 << 10}
    with MediaDriver.launch(dir=f"{parent}/driver", in_process=True, **lengths) as driver:
        yield driver
    shutil.rmtree(parent, ignore_errors=True)
