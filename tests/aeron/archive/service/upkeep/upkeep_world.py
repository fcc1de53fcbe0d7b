"""The folder of :mod:`tests.aeron.archive.maintenance.upkeep_folder`, maintained for clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from everlog.aeron.archive.recording.refusals import ArchiveError, ErrorCode
from everlog.aeron.archive.service.requester import Session
from everlog.aeron.archive.service.upkeep.upkeep import Upkeep
from everlog.core.files.writable import WritableStorage
from everlog.testing.storage.crashing import CrashingStorage
from tests.aeron.archive.maintenance.upkeep_folder import SEGMENT, files, segment_files
from tests.aeron.archive.recorded import opened
from tests.aeron.archive.service.queries.queried_archive import Active, context_of
from tests.aeron.archive.service.recording.recording_world import Asker

CID = 9


@dataclass
class OpenReplay:
    """A replay of a recording."""

    recording_id: int
    segment_base: int
    session_id: int = -5
    stream_id: int = 300
    channel: str = "aeron:ipc?session-id=-5"
    state_name: str = "REPLAY"


class Replaying:
    """Open replays; those that are told to end do so when the test says."""

    def __init__(self) -> None:
        self.open: list[OpenReplay] = []
        self.told_to_end: list[int] = []

    def replays_of(self, recording_id: int) -> list[OpenReplay]:
        return [replay for replay in self.open if replay.recording_id == recording_id]

    def end_replays_of(self, recording_id: int) -> None:
        self.told_to_end.append(recording_id)


class Maintained:
    """The archive, a client's session, and the sessions of the service that run."""

    def __init__(self, storage: WritableStorage | None = None) -> None:
        self.storage: WritableStorage = storage or CrashingStorage(files())
        self.archive = opened(self.storage)
        self.active = Active()
        self.replays = Replaying()
        self.asker = Asker()
        self.errors: list[BaseException] = []
        self.running: list[Session] = []
        context = context_of(self.archive, self.errors)
        self.upkeep = Upkeep(context, self.active, self.replays, self.running.append)

    def ask(self, operation: Callable[..., int | None], *values: Any) -> int | None:
        return operation(self.upkeep, self.asker, CID, *values)

    def refused(self, operation: Callable[..., int | None], *values: Any) -> tuple[ErrorCode, str | None]:
        """Ask for what is refused. Nothing has changed, and nothing was sent: the refusal is the answer."""
        before = {name: self.storage.read_all(name) for name in self.storage.names() if "-mark" not in name}
        with pytest.raises(ArchiveError) as caught:
            self.ask(operation, *values)
        assert {name: self.storage.read_all(name) for name in before} == before
        assert self.asker.sent == []
        assert self.replays.told_to_end == []
        return caught.value.code, caught.value.message

    def cycle(self) -> int:
        """One cycle of the service, which closes sessions that are done."""
        done = 0
        for session in self.running[:]:
            done += session.do_work(0)
            if session.is_done:
                self.running.remove(session)
                session.close()
        return done

    def received(self) -> list[Any]:
        sent, self.asker.sent = self.asker.sent, []
        return sent

    def segments(self, recording_id: int) -> list[int]:
        """The numbers of its segment files."""
        names = [name.split("-") for name in segment_files(self.storage)]
        return [int(number) for recording, number in names if recording == str(recording_id)]

    def span(self, recording_id: int) -> tuple[int, int | None]:
        """Start and stop in segments."""
        recording = self.archive.catalog.recording(recording_id)
        stop = recording.stop_position
        assert recording.start_position % SEGMENT == 0
        return recording.start_position // SEGMENT, None if stop is None else stop // SEGMENT


def deleted(recording_id: int) -> tuple[str, int, int, int, int]:
    """The signal."""
    return ("DELETE", CID, recording_id, -1, -1)
