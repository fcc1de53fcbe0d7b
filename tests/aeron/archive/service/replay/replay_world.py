"""The replay part of a service on our own driver, over a folder that tests record into."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from everlog.aeron import Aeron
from everlog.aeron import archive as archives
from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.service.context import ServiceContext
from everlog.aeron.archive.service.replay.service import ReplayService
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.archive.writing.recorder import Recorder
from everlog.aeron.transport.driver.running_driver import RunningDriver
from everlog.time_units import NS_PER_S
from tests.aeron.archive.service.recording.recording_world import Asker

TERM, SEGMENT = 64 << 10, 128 << 10
INITIAL_TERM, STREAM = -7, 1001
SECONDS = 20.0
IPC = "aeron:ipc"
STREAMS = itertools.count(3001)
"""One for each replay."""


def messages_of(seed: int, count: int) -> list[bytes]:
    """Of lengths from 0 to several fragments, so that terms end in padding of many lengths."""
    random = Random(seed)
    return [random.randbytes(random.choice((0, 7, 32, 100, 1000, 1377, 5000))) for _ in range(count)]


class Recorders:
    """The recordings that a test records; each is active until it is stopped."""

    def __init__(self) -> None:
        self.active: dict[int, Recorder] = {}

    def recorded_position(self, recording_id: int) -> int | None:
        recorder = self.active.get(recording_id)
        return None if recorder is None else recorder.recorded_position


class Player:
    """A subscriber to a replay: messages and the positions after them."""

    def __init__(self, world: World, stream_id: int, channel: str = IPC) -> None:
        self.subscription = world.client.add_subscription(
            channel, stream_id, on_unavailable_image=lambda image: self.ends.append(image.is_publication_revoked)
        )
        self.found: list[tuple[bytes, int]] = []
        self.ends: list[bool] = []
        """Of each image that has gone, whether it was revoked."""
        self._handler = self._assembled()

    def _assembled(self) -> Any:
        from everlog.aeron.transport.client.images.image_reader import FragmentAssembler

        return FragmentAssembler(lambda data, header: self.found.append((bytes(data), header.position)))

    def poll(self) -> int:
        return self.subscription.poll(self._handler, 50)


class World:
    """A replay service, the client of a driver that it uses, and the one of subscribers."""

    def __init__(self, driver: RunningDriver, folder: Path, *, checksum: Any = None, **settings: Any) -> None:
        self.folder = folder
        self.archive: Archive = archives.create(folder, segment_length=SEGMENT, checksum=checksum)
        self.aeron = Aeron.connect(driver.dir, use_invoker=True)
        self.client = Aeron.connect(driver.dir)
        self.errors: list[BaseException] = []
        context = ServiceContext(
            aeron=self.aeron,
            archive=self.archive,
            archive_id=5,
            settings=ArchiveSettings(**settings),
            on_error=self.errors.append,
            now_ms=lambda: 0,
        )
        self.recorders = Recorders()
        self.service = ReplayService(context, self.recorders)
        self.asker = Asker()
        self.players: list[Player] = []
        self.now_ns = 0

    # Recordings

    def start(self, messages: list[bytes], **options: Any) -> list[tuple[bytes, int]]:
        """Begin a recording. Returns its messages and the positions after them."""
        given: dict[str, Any] = {"term_length": TERM, "initial_term_id": INITIAL_TERM, "mtu_length": 1408} | options
        recorder = self.archive.start_recording(IPC, STREAM, **given)
        self.recorders.active[recorder.recording_id] = recorder
        return self.append(recorder.recording_id, messages)

    def append(self, recording_id: int, messages: list[bytes]) -> list[tuple[bytes, int]]:
        recorder = self.recorders.active[recording_id]
        return [(message, recorder.append(message)) for message in messages]

    def end(self, recording_id: int = 0) -> int:
        """Stop a recording; returns its stop position."""
        recorder = self.recorders.active[recording_id]
        stop = recorder.stop()
        del self.recorders.active[recording_id]
        return stop

    def record(self, messages: list[bytes], **options: Any) -> list[tuple[bytes, int]]:
        """A stopped recording."""
        made = self.start(messages, **options)
        self.end(max(self.recorders.active))
        return made

    # Replays

    def replay(
        self,
        recording_id: int = 0,
        position: int = -1,
        length: int = -1,
        *,
        correlation_id: int = 1,
        channel: str = IPC,
        file_io_max_length: int = -1,
        **options: Any,
    ) -> Player:
        """Subscribe, and ask for a replay."""
        player = Player(self, next(STREAMS), channel)
        self.players.append(player)
        self.ask(recording_id, position, length, correlation_id, channel, file_io_max_length, player, **options)
        return player

    def ask(
        self,
        recording_id: int = 0,
        position: int = -1,
        length: int = -1,
        correlation_id: int = 1,
        channel: str = IPC,
        file_io_max_length: int = -1,
        player: Player | None = None,
        **options: Any,
    ) -> int:
        """Ask for a replay; returns its stream."""
        stream_id = next(STREAMS) if player is None else player.subscription.stream_id
        self.service.start(
            self.asker,
            correlation_id,
            recording_id,
            position,
            length,
            file_io_max_length,
            stream_id,
            channel,
            **options,
        )
        return stream_id

    def work(self) -> int:
        done = self.aeron.do_work() + self.service.do_work(self.now_ns)
        return done + sum(player.poll() for player in self.players)

    def until(self, is_done: Callable[[], bool]) -> None:
        end = time.monotonic() + SECONDS
        while not is_done():
            assert time.monotonic() < end, "waited too long"
            if not self.work():
                time.sleep(0.0005)

    def late(self) -> None:
        """Let the time to connect pass."""
        self.now_ns += 6 * NS_PER_S

    def received(self) -> list[Any]:
        """What the client has received since the last call."""
        sent, self.asker.sent = self.asker.sent, []
        return sent

    def close(self) -> None:
        self.service.close()
        self.archive.close()
        self.aeron.close()
        self.client.close()
