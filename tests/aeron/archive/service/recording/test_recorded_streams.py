"""Streams of real publications on our own driver, recorded, stopped, extended, and read back from the folder."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from everlog import open_store
from everlog.aeron import Aeron
from everlog.aeron import archive as archives
from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.protocol.codec import decode
from everlog.aeron.archive.protocol.recording_events import RecordingProgressMessage, RecordingStoppedMessage
from everlog.aeron.archive.service.context import ServiceContext
from everlog.aeron.archive.service.counters import RECORDING_POSITION_TYPE_ID
from everlog.aeron.archive.service.recording.service import RecordingService
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.transport.driver.media_driver import MediaDriver
from everlog.aeron.transport.driver.running_driver import RunningDriver
from tests.aeron.archive.service.recording.recording_world import LOCAL, REMOTE, Asker

TERM, SEGMENT = 64 << 10, 128 << 10
IPC = "aeron:ipc?term-length=64k"
SECONDS = 20.0
EVENTS = "aeron:ipc?alias=events"
STREAMS = itertools.count(1001)
"""One for each test: a publication that was closed may linger for a while."""


@pytest.fixture(scope="module")
def driver() -> Iterator[RunningDriver]:
    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    parent = tempfile.mkdtemp(prefix="everlog-recording-", dir=shared)
    lengths: Any = {"ipc_term_buffer_length": TERM, "publication_term_buffer_length": TERM}
    with MediaDriver.launch(
        dir=f"{parent}/driver", in_process=True, counter_values_buffer_length=1 << 20, **lengths
    ) as running:
        yield running
    shutil.rmtree(parent, ignore_errors=True)


class Service:
    """The recording part of a service with its own client of the driver, and a publisher's client."""

    def __init__(self, driver: RunningDriver, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.stream_id = next(STREAMS)
        self.archive: Archive = archives.create(folder, segment_length=SEGMENT)
        self.aeron = Aeron.connect(driver.dir, use_invoker=True)
        self.publisher = Aeron.connect(driver.dir)
        self.errors: list[BaseException] = []
        context = ServiceContext(
            aeron=self.aeron,
            archive=self.archive,
            archive_id=5,
            settings=ArchiveSettings(low_storage_space_threshold=0, **settings),
            on_error=self.errors.append,
            now_ms=lambda: 0,
        )
        self.recordings = RecordingService(context)
        self.asker = Asker()
        self.readers: list[Reader] = []

    def work(self) -> int:
        return self.aeron.do_work() + self.recordings.do_work(0) + sum(reader.poll() for reader in self.readers)

    def until(self, is_done: Callable[[], bool]) -> None:
        end = time.monotonic() + SECONDS
        while not is_done():
            assert time.monotonic() < end, "waited too long"
            if not self.work():
                time.sleep(0.001)

    def publish(self, publication: Any, messages: list[bytes]) -> list[bytes]:
        """Send messages while the service records them."""
        self.until(lambda: bool(publication.is_connected))
        for message in messages:
            self.until(lambda message=message: publication.offer(message) > 0)  # type: ignore[misc]
        return messages

    def signals(self) -> list[tuple[str, int, int]]:
        """Name, recording id and position."""
        return [(sent[0], sent[2], sent[4]) for sent in self.asker.sent]

    def close(self) -> None:
        self.recordings.close()
        self.archive.close()
        self.aeron.close()
        self.publisher.close()

    def read(self) -> dict[int, list[bytes]]:
        with open_store(self.folder) as store:
            return {int(info.name): [record.payload for record in store.read(info.name)] for info in store.streams()}


@pytest.fixture
def service(driver: RunningDriver, tmp_path: Path) -> Iterator[Service]:
    running = Service(driver, tmp_path / "archive")
    yield running
    running.close()


def messages_of(seed: int, count: int) -> list[bytes]:
    """Of lengths from 0 to several fragments, so that terms end in padding of many lengths."""
    random = Random(seed)
    return [random.randbytes(random.choice((0, 7, 100, 1000, 1377, 5000))) for _ in range(count)]


class Reader:
    """Another subscriber, with the stream's bytes as they are to be stored: of padding the header."""

    def __init__(self, service: Service, channel: str) -> None:
        self.subscription = service.publisher.add_subscription(channel, service.stream_id)
        self.found = bytearray()
        service.readers.append(self)

    def poll(self) -> int:
        return self.subscription.block_poll(self._take, TERM)

    def _take(self, block: memoryview, session_id: int, term_id: int) -> None:
        is_padding = bytes(block[6:8]) == b"\0\0"
        self.found += bytes(block[:32]).ljust(len(block), b"\0") if is_padding else block


def test_a_recording_over_many_terms_has_the_published_bytes(service: Service) -> None:
    service.recordings.start(service.asker, 1, service.stream_id, IPC, LOCAL, False)
    reader = Reader(service, IPC)
    publication = service.publisher.add_exclusive_publication(IPC, service.stream_id)
    sent = service.publish(publication, messages_of(1, 500))
    end = publication.position
    assert end > 4 * SEGMENT
    service.until(lambda: service.recordings.recording_position(0) == len(reader.found) == end)
    counter_id = service.publisher.counters.find_by_key(RECORDING_POSITION_TYPE_ID, bytes(8))
    assert counter_id is not None
    assert service.publisher.counters.value(counter_id) == end
    publication.close()
    service.until(lambda: not service.recordings.is_active(0))
    assert service.signals() == [("START", 0, 0), ("STOP", 0, end)]
    names = [f"0-{base}.rec" for base in range(0, end, SEGMENT)]
    stored = b"".join((service.folder / name).read_bytes() for name in names)
    assert stored[:end] == reader.found
    assert not any(stored[end:])
    assert service.read() == {0: sent}
    assert not service.errors


def test_a_stopped_recording_is_extended_by_a_publication_that_continues_it(service: Service) -> None:
    channel = "aeron:udp?endpoint=localhost:24325|term-length=64k"
    service.recordings.start(service.asker, 1, service.stream_id, channel, LOCAL, False)
    publication = service.publisher.add_exclusive_publication(channel, service.stream_id)
    reader = Reader(service, "aeron:udp?endpoint=localhost:24325")  # a spy alone lets nothing flow
    first = service.publish(publication, messages_of(1, 60))
    stop = publication.position
    service.until(lambda: service.recordings.recording_position(0) == stop)
    assert service.recordings.stop_by_channel(service.asker, 2, service.stream_id, channel) == 0
    service.until(lambda: not service.recordings.is_active(0))
    publication.close()
    recording = service.archive.recording(0)
    assert recording.stop_position == stop
    initial = recording.initial_term_id
    place = f"init-term-id={initial}|term-id={initial + stop // TERM}|term-offset={stop % TERM}"
    service.recordings.extend(service.asker, 3, 0, service.stream_id, channel, LOCAL, True)
    continued = service.publisher.add_exclusive_publication(f"{channel}|{place}", service.stream_id)
    second = service.publish(continued, messages_of(2, 60))
    end = continued.position
    service.until(lambda: service.recordings.recording_position(0) == end)
    continued.close()
    service.until(lambda: not service.recordings.is_active(0))
    assert service.signals() == [("START", 0, 0), ("STOP", 0, stop), ("EXTEND", 0, stop), ("STOP", 0, end)]
    assert service.archive.recording(0).session_id == continued.session_id
    assert service.read() == {0: first + second}
    assert (service.folder / "0-0.rec").read_bytes()[:stop] == reader.found[:stop]
    assert not service.errors


def test_a_publication_that_begins_elsewhere_does_not_extend(service: Service) -> None:
    service.recordings.start(service.asker, 1, service.stream_id, IPC, LOCAL, True)
    publication = service.publisher.add_exclusive_publication(IPC, service.stream_id)
    sent = service.publish(publication, [b"one", b"two"])
    publication.close()
    service.until(lambda: len(service.asker.sent) == 2)
    service.recordings.extend(service.asker, 3, 0, service.stream_id, IPC, LOCAL, True)
    service.publisher.add_exclusive_publication(IPC, service.stream_id)
    service.until(lambda: len(service.asker.sent) == 3)
    text = "cannot extend recording 0 image.joinPosition=0 != rec.stopPosition=128"
    assert service.asker.sent[2] == ("error", 3, 9, text)
    assert service.read() == {0: sent}


def test_a_stream_is_recorded_from_where_the_subscription_joins(service: Service) -> None:
    with service.publisher.add_subscription(IPC, service.stream_id) as reader:
        publication = service.publisher.add_exclusive_publication(IPC, service.stream_id)
        earlier = service.publish(publication, messages_of(3, 5))
        join = publication.position

        def has_read() -> bool:
            reader.poll(lambda payload, header: None, 100)
            return any(image.position == join for image in reader.images)

        service.until(has_read)
    service.recordings.start(service.asker, 1, service.stream_id, IPC, REMOTE, False)
    service.until(lambda: service.recordings.is_active(0))
    sent = service.publish(publication, messages_of(4, 40))
    end = publication.position
    service.until(lambda: service.recordings.recording_position(0) == end)
    service.recordings.stop_by_identity(service.asker, 2, 0)
    service.work()
    # The driver may not have looked at the first reader's position before that reader left.
    start = service.archive.start_position(0)
    assert start in (0, join)
    assert service.signals() == [("START", 0, start), ("STOP", 0, end)]
    assert service.read() == {0: sent if start else [*earlier, *sent]}


def test_events_are_published_to_whoever_listens(driver: RunningDriver, tmp_path: Path) -> None:
    service = Service(driver, tmp_path / "archive", recording_events_channel=EVENTS)
    try:
        found: list[Any] = []
        listener = service.publisher.add_subscription(EVENTS, 30)
        service.recordings.start(service.asker, 1, service.stream_id, IPC, LOCAL, False)
        publication = service.publisher.add_exclusive_publication(IPC, service.stream_id)
        service.publish(publication, [b"one"])
        service.until(lambda: service.recordings.recording_position(0) == 64)
        publication.close()

        def heard() -> bool:
            listener.poll(lambda payload, header: found.append(decode(payload)))
            return bool(found) and isinstance(found[-1], RecordingStoppedMessage)

        service.until(heard)
        assert found[0].channel == IPC
        assert found[1:] == [RecordingProgressMessage(0, 0, 64), RecordingStoppedMessage(0, 0, 64)]
    finally:
        service.close()


def test_the_end_of_a_driver_leaves_recordings_to_be_recovered(tmp_path: Path) -> None:
    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="everlog-recording-", dir=shared) as parent:
        driver = MediaDriver.launch(dir=f"{parent}/driver", in_process=True, ipc_term_buffer_length=TERM)
        service = Service(driver, tmp_path / "archive")
        service.recordings.start(service.asker, 1, service.stream_id, IPC, LOCAL, False)
        publication = service.publisher.add_exclusive_publication(IPC, service.stream_id)
        sent = service.publish(publication, [b"one", b"two"])
        service.until(lambda: service.recordings.recording_position(0) == 128)
        driver.close()
        end = time.monotonic() + SECONDS
        while not service.aeron.is_closed and time.monotonic() < end:
            service.work()
        assert service.work() == 0
        service.recordings.abort()
        service.close()
    with archives.open_archive(tmp_path / "archive") as again:
        assert again.recovered
        assert again.stop_position(0) == 128
    assert service.read() == {0: sent}
