"""A recording service over a real folder, with a driver's client and images made by hand."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from everlog.aeron.archive.protocol.requests import SourceLocation
from everlog.aeron.archive.service.context import ServiceContext
from everlog.aeron.archive.service.recording.service import RecordingService
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.archive.service.transfers import Transfers
from everlog.core.files.writable import WritableStorage
from everlog.errors import EverlogError
from everlog.testing.storage.crashing import CrashingStorage
from tests.aeron.archive.recorded import opened
from tests.aeron.frames.framed_messages import INITIAL_TERM, MTU, SESSION, STREAM, TERM

ARCHIVE_ID = 5
CHANNEL = "aeron:udp?endpoint=localhost:4000"
LOCAL, REMOTE = SourceLocation.LOCAL, SourceLocation.REMOTE
MUCH = 1 << 40


class Asker:
    """A control session; ``sent`` has what it was told, ``room`` is how many messages its stream takes."""

    def __init__(self, session_id: int = 77) -> None:
        self.session_id = session_id
        self.is_done = False
        self.room = 1 << 30
        self.sent: list[Any] = []

    def send_ok(self, correlation_id: int, relevant_id: int = 0) -> None:
        self.sent.append(("ok", correlation_id, relevant_id))

    def send_error(self, correlation_id: int, code: Any, text: str) -> None:
        self.sent.append(("error", correlation_id, int(code), text))

    def send_unknown_recording(self, correlation_id: int, recording_id: int) -> None:
        self.sent.append(("unknown recording", correlation_id, recording_id))

    def send_unknown_subscription(self, correlation_id: int) -> None:
        self.sent.append(("unknown subscription", correlation_id))

    def send_signal(
        self, correlation_id: int, recording_id: int, subscription_id: int, position: int, signal: Any
    ) -> None:
        self.sent.append((signal.name, correlation_id, recording_id, subscription_id, position))

    def try_send(self, message: Any) -> bool:
        if self.is_done or not self.room:
            return False
        self.room -= 1
        self.sent.append(message)
        return True


class Subscribed:
    """A subscription of the driver's client."""

    def __init__(self, registration_id: int, channel: str, stream_id: int, on_image: Callable[[Any], object]) -> None:
        self.registration_id, self.channel, self.stream_id = registration_id, channel, stream_id
        self.on_image = on_image
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Counted:
    """A counter of the driver's client."""

    def __init__(self, type_id: int, label: str, key: bytes) -> None:
        self.type_id, self.label, self.key = type_id, label, key
        self.value = 0
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Client:
    """A client of a driver that answers at once; ``refusal`` is what it answers."""

    def __init__(self) -> None:
        self.is_closed = False
        self.refusal: EverlogError | None = None
        self.subscriptions: list[Subscribed] = []
        self.counters: list[Counted] = []
        self.publication: Any = None

    def add_subscription(self, channel: str, stream_id: int, on_image: Callable[[Any], object]) -> Subscribed:
        self._answer()
        self.subscriptions.append(Subscribed(100 + len(self.subscriptions), channel, stream_id, on_image))
        return self.subscriptions[-1]

    def add_counter(self, type_id: int, label: str, key: bytes) -> Counted:
        self._answer()
        self.counters.append(Counted(type_id, label, key))
        return self.counters[-1]

    def add_exclusive_publication(self, channel: str, stream_id: int) -> Any:
        self.publication.channel, self.publication.stream_id = channel, stream_id
        return self.publication

    def _answer(self) -> None:
        if self.refusal is not None:
            raise self.refusal


class Received:
    """An image; each poll hands over the next of its ``blocks``."""

    def __init__(self, **other: Any) -> None:
        self.session_id, self.stream_id, self.initial_term_id = SESSION, STREAM, INITIAL_TERM
        self.term_buffer_length, self.mtu_length, self.join_position = TERM, MTU, 0
        self.source_identity = "10.0.0.1:5000"
        self.is_closed = self.is_end_of_stream = False
        self.log = self.scan = None
        self.blocks: deque[bytes] = deque()
        self.limits: list[int] = []
        for name, value in other.items():
            setattr(self, name, value)

    def block_poll_into(self, sink: object, most: int) -> int:
        return 0  # compiled loops read real images only

    def block_poll(self, handler: Callable[[memoryview, int, int], object], limit: int) -> int:
        self.limits.append(limit)
        if self.is_closed or not self.blocks:
            return 0
        block = self.blocks.popleft()
        handler(memoryview(block), self.session_id, 0)
        return len(block)


class World:
    """A service and its surroundings."""

    def __init__(
        self,
        storage: WritableStorage | None = None,
        *,
        publication: Any = None,
        transfers: Transfers | None = None,
        **settings: Any,
    ) -> None:
        self.storage: WritableStorage = storage or CrashingStorage()
        self.options = {name: settings.pop(name) for name in ("segment_length", "durability") if name in settings}
        self.archive = opened(self.storage, **self.options)
        client: Any = Client()
        self.client = client
        self.client.publication = publication
        self.usable_space = MUCH
        self.errors: list[BaseException] = []
        self.asker = Asker()
        context = ServiceContext(
            aeron=client,
            archive=self.archive,
            archive_id=ARCHIVE_ID,
            settings=ArchiveSettings(**settings),
            on_error=self.errors.append,
            now_ms=lambda: 0,
        )
        self.service = RecordingService(context, usable_space=lambda: self.usable_space, transfers=transfers)

    def start(
        self, correlation_id: int = 1, stream_id: int = STREAM, channel: str = CHANNEL, *, auto_stop: bool = False
    ) -> int:
        return self.service.start(self.asker, correlation_id, stream_id, channel, LOCAL, auto_stop)

    def extend(
        self,
        recording_id: int = 0,
        correlation_id: int = 2,
        stream_id: int = STREAM,
        channel: str = CHANNEL,
        *,
        auto_stop: bool = False,
    ) -> int:
        return self.service.extend(self.asker, correlation_id, recording_id, stream_id, channel, LOCAL, auto_stop)

    def arrive(self, index: int = -1, **other: Any) -> Received:
        """Hand an image to a subscription; the service has not run since."""
        image = Received(**other)
        self.client.subscriptions[index].on_image(image)
        return image

    def run(self, cycles: int = 1) -> int:
        return sum(self.service.do_work(0) for _ in range(cycles))

    def received(self) -> list[Any]:
        """What the client has received since the last call."""
        sent, self.asker.sent = self.asker.sent, []
        return sent
