"""A live archive in this process on our own driver, clients that speak raw bytes, and one that must not notice them."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from everlog.aeron.archive.client import AeronArchive, ArchiveTimeout, SessionLost
from everlog.aeron.archive.protocol.codec import PROTOCOL_VERSION, decode, encode
from everlog.aeron.archive.protocol.requests import AuthConnect, KeepAlive
from everlog.aeron.archive.protocol.responses import ControlResponse, Ping, ResponseCode
from everlog.aeron.archive.service.embedded import EmbeddedArchive
from everlog.aeron.archive.service.security.interfaces import Authenticator
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.messages import Message
from everlog.aeron.transport.client import Aeron
from everlog.aeron.transport.client.images.image_reader import FragmentAssembler
from everlog.aeron.transport.driver.media_driver import MediaDriver
from everlog.core.files.writable import WritableStorage
from everlog.time_units import NS_PER_S

IPC = "aeron:ipc?term-length=64k"
CONTROL_STREAM, GOOD_STREAM = 10, 1001
SECONDS = 10.0
CONNECT_SECONDS = 0.5
"""How long a client has to be known, and to take what it is sent."""
TERM, SEGMENT = 64 << 10, 128 << 10
STREAMS = itertools.count(20_001)
"""A stream for the answers of each client."""
CORRELATIONS = itertools.count(1_000_000)


@contextmanager
def running_driver(**options: Any) -> Iterator[str]:
    """A driver in threads of this process; gives its folder."""
    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    parent = tempfile.mkdtemp(prefix="everlog-live-", dir=shared)
    chosen: dict[str, Any] = {
        "timer_interval_ns": 10_000_000,
        "ipc_term_buffer_length": TERM,
        "publication_linger_timeout_ns": 50_000_000,
        "image_liveness_timeout_ns": 200_000_000,
        "counter_values_buffer_length": 4 << 20,
        **options,
    }
    try:
        with MediaDriver.launch(dir=f"{parent}/driver", in_process=True, **chosen) as driver:
            yield driver.dir
    finally:
        shutil.rmtree(parent, ignore_errors=True)


def launch(
    driver: str,
    folder: Path,
    storage: WritableStorage | None = None,
    authenticator: Authenticator | None = None,
    **settings: Any,
) -> EmbeddedArchive:
    """An archive that cuts off silent clients after half a second."""
    chosen: dict[str, Any] = {
        "segment_file_length": SEGMENT,
        "low_storage_space_threshold": 0,
        "connect_timeout_ns": int(CONNECT_SECONDS * NS_PER_S),
        "session_liveness_check_interval_ns": 50_000_000,
        **settings,
    }
    return EmbeddedArchive(
        folder, ArchiveSettings(**chosen), driver_folder=driver, storage=storage, authenticator=authenticator
    )


class TooLate(AssertionError):
    """Something took too long."""


def until(condition: Callable[[], bool], seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            raise TooLate("waited too long")
        time.sleep(0.001)


class RawClient:
    """Sends bytes to an archive, and keeps the messages that come back. ``channel`` is the one of the answers."""

    def __init__(self, aeron: Aeron, channel: str = IPC, request_channel: str = IPC) -> None:
        self.aeron = aeron
        self.channel, self.stream_id = channel, next(STREAMS)
        self.session_id = -1
        self.received: list[Message] = []
        self.subscription = aeron.add_subscription(channel, self.stream_id)
        self.publication = aeron.add_exclusive_publication(request_channel, CONTROL_STREAM)
        self._assembler = FragmentAssembler(lambda data, _: self.received.append(decode(data)))
        until(lambda: self.publication.is_connected)

    def send(self, data: bytes | Message) -> None:
        self.publication.send(data if isinstance(data, bytes) else encode(data), timeout_s=SECONDS)

    def poll(self) -> None:
        self.subscription.poll(self._assembler, 100)

    def answer(self, correlation_id: int, seconds: float = SECONDS) -> Message:
        """Wait for the answer to a request."""
        found: list[Message] = []

        def is_there() -> bool:
            self.poll()
            found.extend(m for m in self.received if getattr(m, "correlation_id", None) == correlation_id)
            return bool(found)

        until(is_there, seconds)
        return found[0]

    def ask(self, kind: Callable[..., Message], *values: Any, **more: Any) -> Message:
        """Send a request of this client's session and wait for the answer."""
        correlation_id = next(CORRELATIONS)
        self.send(kind(self.session_id, correlation_id, *values, **more))
        return self.answer(correlation_id)

    def request_connect(
        self, channel: str | None = None, version: int = PROTOCOL_VERSION, credentials: bytes = b""
    ) -> int:
        correlation_id = next(CORRELATIONS)
        channel = self.channel if channel is None else channel
        self.send(AuthConnect(correlation_id, self.stream_id, version, channel, credentials))
        return correlation_id

    def ask_connect(self, **options: Any) -> Message:
        """Ask for a session and wait for the answer; ask again, where a busy machine has let the session expire."""
        while True:
            correlation_id = self.request_connect(**options)
            try:
                return self.answer(correlation_id, 2 * CONNECT_SECONDS)
            except TooLate:
                continue

    def connect(self) -> Self:
        """Open a session, as clients do."""
        answer = self.ask_connect()
        assert isinstance(answer, ControlResponse)
        assert answer.code is ResponseCode.OK, answer
        self.session_id = answer.relevant_id
        self.send(KeepAlive(self.session_id, -1))
        return self

    def is_cut_off(self) -> bool:
        """Whether the archive has closed the stream of the answers."""
        return not self.subscription.is_connected

    def pings(self) -> int:
        self.poll()
        return sum(isinstance(message, Ping) for message in self.received)

    def close(self) -> None:
        self.publication.close()
        self.subscription.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connected(aeron: Aeron) -> AeronArchive:
    """A client of the archive; tries again, where a busy machine has let the session expire."""
    for _ in range(5):
        with suppress(ArchiveTimeout, SessionLost):
            return AeronArchive.connect(
                aeron=aeron, control_request_channel=IPC, control_response_channel=IPC, message_timeout_ms=5000
            )
    raise TooLate("no session")


class GoodClient:
    """Records a stream, and asks for this and that: all must go on while others misbehave."""

    def __init__(self, aeron: Aeron) -> None:
        self.aeron = aeron
        self.archive = connected(aeron)
        with self.archive.recording_signals() as signals:
            self.subscription_id = self.archive.start_recording(IPC, GOOD_STREAM)
            self.publication = aeron.add_exclusive_publication(IPC, GOOD_STREAM)
            started = signals.take(SECONDS)
        assert started is not None
        self.recording_id = started.recording_id
        self.published: list[bytes] = []
        self.checks = 0
        self._rng = random.Random(1)

    def check(self) -> None:
        """Everything works: recording, questions, and now and then a replay."""
        for _ in range(5):
            self.published.append(self._rng.randbytes(self._rng.randrange(2000)))
            self.publication.send(self.published[-1], timeout_s=SECONDS)
        until(lambda: self.archive.recording_position(self.recording_id) == self.publication.position)
        found = self.archive.list_recording(self.recording_id)
        assert found is not None
        assert found.stream_id == GOOD_STREAM
        self.checks += 1
        if self.checks % 10 == 0:
            self.check_replay()

    def check_replay(self) -> None:
        with self.archive.replay_messages(self.recording_id, IPC, next(STREAMS)) as replay:
            assert [payload for payload, _ in replay] == self.published

    def close(self) -> None:
        self.publication.close()
        self.archive.close()
