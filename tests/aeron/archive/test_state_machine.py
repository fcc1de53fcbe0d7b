"""An archive against a plain model: any sequence of recordings begun, appended to, stopped, extended, replayed, cut,
purged and removed, of closings, kills and power cuts."""

from __future__ import annotations

import array
import itertools
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.archive.writing.recorder import Recorder
from everlog.errors import EverlogError, UsageError
from everlog.testing.series import Series
from everlog.testing.storage.crashing import CrashingStorage
from tests.aeron.archive.recorded import CHANNEL, SEGMENT, STREAM, TERM, faults, opened, recordings

NUMBERS = st.integers(0, 1 << 16)
SIZES = st.one_of(st.integers(0, 200), st.integers(0, TERM // 8))


@dataclass(frozen=True)
class Message:
    start: int
    end: int
    payload: bytes


@dataclass
class Model:
    """A recording as it is to be. ``offered`` are not in ``messages`` yet; ``detached`` begin before ``start``."""

    start: int
    stop: int | None = None
    end: int = 0
    messages: list[Message] = field(default_factory=list)
    offered: list[Message] = field(default_factory=list)
    detached: list[Message] = field(default_factory=list)
    detached_start: int | None = None
    is_deleted: bool = False
    recorder: Recorder | None = field(default=None, repr=False)

    def record(self, recorder: Recorder, messages: list[Message]) -> None:
        """What was acknowledged, with what was offered before it."""
        self.messages += [*self.offered, *messages]
        self.offered = []
        self.end = recorder.recorded_position
        assert self.end == recorder.position

    def lose(self) -> None:
        """The process has died."""
        self.recorder, self.offered = None, []
        if self.stop is None:
            self.stop = self.end


class ArchiveMachine(RuleBasedStateMachine):
    """``models`` are the recordings by id."""

    options: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.storage = CrashingStorage()
        self.models: dict[int, Model] = {}
        self.count = 0
        self.archive = self.open()

    def open(self) -> Archive:
        return opened(self.storage, flush_interval_s=3600, **self.options)

    # Choosing

    def one(self, number: int, *, active: bool | None = None) -> tuple[int, Model] | None:
        found = [
            (recording_id, model)
            for recording_id, model in self.models.items()
            if not model.is_deleted and active in (None, model.recorder is not None)
        ]
        return found[number % len(found)] if found else None

    def recorder(self, number: int) -> tuple[Recorder, Model] | None:
        found = self.one(number, active=True)
        return None if found is None or found[1].recorder is None else (found[1].recorder, found[1])

    def payloads(self, sizes: list[int]) -> list[bytes]:
        first, self.count = self.count, self.count + len(sizes)
        names = [b"%d." % number for number in range(first, self.count)]
        return [(name + b"." * size)[: TERM // 8] for name, size in zip(names, sizes, strict=True)]

    # Recording

    @initialize(position=st.integers(0, 3 * TERM // 32))
    def start_first(self, position: int) -> None:
        self.start(position)

    @rule(position=st.one_of(st.just(0), st.integers(0, 3 * TERM // 32)))
    @precondition(lambda self: len(self.models) < 5)
    def start(self, position: int) -> None:
        recorder = self.archive.start_recording(CHANNEL, STREAM, position=position * 32)
        assert recorder.recording_id == len(self.models)
        self.models[recorder.recording_id] = Model(position * 32, end=position * 32, recorder=recorder)

    def framed(self, at: int, end: int, payload: bytes) -> Message:
        """A message that was framed behind ``at`` and ends at ``end``: it may begin behind padding."""
        begin = at if at // TERM == (end - 1) // TERM else (end - 1) // TERM * TERM
        return Message(begin, end, payload)

    @rule(number=NUMBERS, size=SIZES)
    def append(self, number: int, size: int) -> None:
        if found := self.recorder(number):
            recorder, model = found
            (payload,) = self.payloads([size])
            at = recorder.position
            end = recorder.append(payload)
            model.record(recorder, [self.framed(at, end, payload)])
            assert model.end == end

    @rule(number=NUMBERS, sizes=st.lists(SIZES, max_size=30), is_column=st.booleans())
    def append_many(self, number: int, sizes: list[int], is_column: bool) -> None:
        if found := self.recorder(number):
            recorder, model = found
            payloads = self.payloads(sizes)
            if is_column:
                offsets = array.array("q", itertools.accumulate(map(len, payloads), initial=0))
                end = recorder.append_column(b"".join(payloads), offsets)
            else:
                end = recorder.append_many(payloads)
            assert end == recorder.recorded_position
            self.learn(model, recorder, payloads)

    def learn(self, model: Model, recorder: Recorder, payloads: list[bytes]) -> None:
        """Where several messages lie: their order and content are the model's, the positions those that are read."""
        known = [*model.messages, *model.offered]
        first = known[-1].end if known else model.start
        with self.archive.replay(
            recorder.recording_id, first if model.messages and not model.offered else None
        ) as read:
            records = list(read)[-len(payloads) :] if payloads else []
        assert [record.payload for record in records] == payloads
        places = [(int(record.address or 0), int(record.fields["end_position"])) for record in records]
        model.record(recorder, [Message(*place, payload) for place, payload in zip(places, payloads, strict=True)])

    @rule(number=NUMBERS, sizes=st.lists(SIZES, max_size=8))
    def offer(self, number: int, sizes: list[int]) -> None:
        if found := self.recorder(number):
            recorder, model = found
            for payload in self.payloads(sizes):
                at = recorder.position
                model.offered.append(self.framed(at, recorder.offer(payload), payload))
            position = recorder.recorded_position
            if position > model.end:  # a segment was full
                done = [message for message in model.offered if message.end <= position]
                model.messages += done
                del model.offered[: len(done)]
                model.end = position

    @rule(number=NUMBERS, way=st.sampled_from(["flush", "sync"]))
    def flush(self, number: int, way: str) -> None:
        if found := self.recorder(number):
            recorder, model = found
            assert getattr(recorder, way)() == recorder.position
            model.record(recorder, [])

    @rule(number=NUMBERS)
    def stop(self, number: int) -> None:
        if found := self.recorder(number):
            recorder, model = found
            end = recorder.position
            assert recorder.stop() == end
            model.record(recorder, [])
            model.stop, model.recorder = end, None

    @rule(number=NUMBERS)
    def extend(self, number: int) -> None:
        if found := self.one(number, active=False):
            recording_id, model = found
            model.recorder, model.stop = self.archive.extend_recording(recording_id), None
            assert model.recorder.position == model.end

    # Replaying

    @rule(number=NUMBERS, first=NUMBERS, count=st.integers(0, 40))
    def replay(self, number: int, first: int, count: int) -> None:
        if found := self.one(number):
            recording_id, model = found
            messages = model.messages[first % (len(model.messages) + 1) :]
            position = messages[0].start if messages else model.end
            wanted = messages[:count]
            length = wanted[-1].end - position if wanted else 0
            with self.archive.replay(recording_id, position, length) as replay:
                assert [record.payload for record in replay] == [message.payload for message in wanted]

    @rule(number=NUMBERS, offset=st.integers(1, 31))
    def replay_from_no_frame(self, number: int, offset: int) -> None:
        if found := self.one(number):
            with pytest.raises(UsageError):
                self.archive.replay(found[0], found[1].start + offset)

    # Cutting

    @rule(number=NUMBERS, at=NUMBERS)
    def truncate(self, number: int, at: int) -> None:
        if found := self.one(number, active=False):
            recording_id, model = found
            keep = at % (len(model.messages) + 1)
            position = model.messages[keep - 1].end if keep else model.start
            self.archive.truncate_recording(recording_id, position)
            del model.messages[keep:]
            model.end = model.stop = position

    @rule(number=NUMBERS, at=st.integers(0, 5), way=st.sampled_from(["purge", "detach"]))
    def purge_segments(self, number: int, at: int, way: str) -> None:
        if found := self.one(number):
            recording_id, model = found
            position = (model.start // SEGMENT + at) * SEGMENT
            call = self.archive.purge_segments if way == "purge" else self.archive.detach_segments
            before = replace(model)
            try:
                call(recording_id, position)
            except UsageError:
                assert (
                    position <= model.start
                    or position > self.archive.recorded_position(recording_id) // SEGMENT * SEGMENT
                )
                return
            gone = [message for message in model.messages if message.start < position]
            model.messages = model.messages[len(gone) :]
            model.start = position
            if way == "purge":
                model.detached, model.detached_start = [], None
            else:
                model.detached += gone
                if model.detached_start is None:
                    model.detached_start = before.start

    @rule(number=NUMBERS)
    def delete_detached(self, number: int) -> None:
        if found := self.one(number):
            self.archive.delete_detached_segments(found[0])
            found[1].detached, found[1].detached_start = [], None

    @rule(number=NUMBERS)
    def attach(self, number: int) -> None:
        if found := self.one(number):
            recording_id, model = found
            self.archive.attach_segments(recording_id)
            model.messages = [*model.detached, *model.messages]
            model.start = model.start if model.detached_start is None else model.detached_start
            model.detached, model.detached_start = [], None

    @rule(number=NUMBERS)
    def purge(self, number: int) -> None:
        if found := self.one(number, active=False):
            self.archive.purge_recording(found[0])
            found[1].is_deleted = True

    # The end, and beginning again

    @rule()
    def close_and_reopen(self) -> None:
        for model in self.models.values():
            if model.recorder is not None:
                end = model.recorder.position
                model.messages += model.offered
                model.end = model.stop = end
                model.recorder, model.offered = None, []
        self.archive.close()
        self.archive = self.open()
        assert self.archive.recovered == []

    @rule()
    def kill(self) -> None:
        self.begin_anew(self.storage.kill())

    @rule(seed=st.integers(0, 1 << 20), ordered_names=st.booleans())
    @precondition(lambda self: self.options.get("durability") == "synced")
    def cut_the_power(self, seed: int, ordered_names: bool) -> None:
        self.begin_anew(self.storage.crash(seed, ordered_names=ordered_names))

    def begin_anew(self, storage: CrashingStorage) -> None:
        with suppress(EverlogError):
            self.archive.close()  # of the folder that is no more: its threads end
        self.storage = storage
        for model in self.models.values():
            model.lose()
        self.archive = self.open()

    # What always holds

    @invariant()
    def the_recordings_are_those_of_the_model(self) -> None:
        found = {
            recording.recording_id: (recording.start_position, recording.stop_position)
            for recording in self.archive.recordings()
        }
        expected = {number: (m.start, m.stop) for number, m in self.models.items() if not m.is_deleted}
        assert found == expected

    @invariant()
    def a_reader_finds_every_message(self) -> None:
        expected = {
            number: [message.payload for message in model.messages]
            for number, model in self.models.items()
            if not model.is_deleted
        }
        assert recordings(self.storage) == expected

    @invariant()
    def verify_has_no_fault(self) -> None:
        assert faults(self.storage) == []

    def teardown(self) -> None:
        with suppress(EverlogError):
            self.archive.close()
        with ArchiveStore.open(self.storage, {}) as store:
            assert store.verify().ok


class SyncedArchiveMachine(ArchiveMachine):
    """With power cuts, too."""

    options: ClassVar[dict[str, Any]] = {"durability": "synced"}


class CheckedArchiveMachine(ArchiveMachine):
    """With checksums over frames and catalog entries."""

    options: ClassVar[dict[str, Any]] = {"durability": "synced", "checksum": "crc32c"}


CALM = settings(
    max_examples=Series.from_environment().rounds(15),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestArchive = ArchiveMachine.TestCase
TestArchive.settings = CALM
TestSyncedArchive = SyncedArchiveMachine.TestCase
TestSyncedArchive.settings = CALM
TestCheckedArchive = CheckedArchiveMachine.TestCase
TestCheckedArchive.settings = CALM
