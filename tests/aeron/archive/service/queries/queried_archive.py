"""An archive that is asked about its recordings.

| id | stream | session | positions | state | channel |
| --- | --- | --- | --- | --- | --- |
| 0 | 10 | 42 | 0 to 1024 | valid | aeron:ipc?alias=one |
| 1 | 11 | 42 | 64 to 64 | invalid | aeron:ipc?alias=one |
| 2 | 10 | 43 | 128 to 1024 | valid | aeron:udp?endpoint=h:1 |
| 3 | 10 | 42 | 0 on | valid, active | aeron:ipc?alias=two |
| 4 | 10 | 42 | 0 to 0 | deleted | aeron:ipc?alias=one |
"""

from __future__ import annotations

from typing import Any

from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.protocol.codec import CODEC
from everlog.aeron.archive.service.context import ServiceContext
from everlog.aeron.archive.service.queries.queries import Queries
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.messages import Message
from everlog.testing.storage.crashing import CrashingStorage
from tests.aeron.archive.recorded import opened
from tests.aeron.archive.service.recording.recording_world import Asker

CID = 9
STREAMS = ((10, 42, 0), (11, 42, 64), (10, 43, 128), (10, 42, 0), (10, 42, 0))
CHANNELS = (
    "aeron:ipc?alias=one",
    "aeron:ipc?alias=one",
    "aeron:udp?endpoint=h:1",
    "aeron:ipc?alias=two",
    "aeron:ipc?alias=one",
)


class Active:
    """Recordings that are active, with their recorded positions."""

    def __init__(self) -> None:
        self.positions: dict[int, int] = {}

    def recorded_position(self, recording_id: int) -> int | None:
        return self.positions.get(recording_id)


def context_of(archive: Archive, errors: list[BaseException]) -> ServiceContext:
    no_client: Any = None  # none of the parts under test uses the driver
    return ServiceContext(
        aeron=no_client,
        archive=archive,
        archive_id=5,
        settings=ArchiveSettings(),
        on_error=errors.append,
        now_ms=lambda: 0,
    )


class Queried:
    """The archive, and a client's session."""

    def __init__(self) -> None:
        self.archive = opened(CrashingStorage())
        for number, ((stream_id, session_id, position), channel) in enumerate(zip(STREAMS, CHANNELS, strict=True)):
            parameters: dict[str, Any] = {"session_id": session_id, "initial_term_id": 7, "term_length": 64 << 10}
            recorder = self.archive.start_recording(channel, stream_id, position=position, **parameters)
            if number in (0, 2):
                recorder.append(bytes(1024 - position - 32))
            if number != 3:
                recorder.stop()
        self.archive.catalog.set_state(1, "INVALID")
        self.archive.catalog.set_state(4, "DELETED")
        self.active = Active()
        self.asker = Asker()
        self.queries = Queries(context_of(self.archive, []), self.active)

    def received(self) -> list[Any]:
        """What the client was told since the last call; descriptors decoded."""
        sent, self.asker.sent = self.asker.sent, []
        return [decoded(message) if isinstance(message, bytes) else message for message in sent]


def decoded(message: bytes) -> Message:
    return CODEC.decode(message)
