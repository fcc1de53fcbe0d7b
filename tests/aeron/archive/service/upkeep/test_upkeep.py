"""Maintenance for clients that succeeds: answers, files that go one a cycle, signals, crashes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from everlog.aeron.archive.recording.refusals import ArchiveError, ErrorCode
from everlog.aeron.archive.service.upkeep.upkeep import Upkeep
from everlog.errors import UsageError, WriteFailed
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.faulty_writes import FaultyWrites, WriteFaults
from tests.aeron.archive.maintenance.upkeep_folder import FRAME, SEGMENT, files, messages, positions
from tests.aeron.archive.recorded import opened
from tests.aeron.archive.service.upkeep.upkeep_world import CID, Maintained, OpenReplay, deleted


@pytest.fixture
def world() -> Iterator[Maintained]:
    maintained = Maintained()
    yield maintained
    maintained.archive.close()


def ok(count: int) -> tuple[str, int, int]:
    return ("ok", CID, count)


# Truncating


def test_a_truncation_answers_the_count_then_one_file_goes_a_cycle_then_the_signal(world: Maintained) -> None:
    assert world.ask(Upkeep.truncate, 2, FRAME * 10) is None
    assert world.received() == [ok(3)]
    assert world.span(2) == (0, 0)
    left = []
    while world.running:
        assert world.received() == []
        assert world.cycle() == 1
        left.append(world.segments(2))
    assert left == [[0, 1, 2], [0, 1], [0], [0], [0]]  # then the kept file's end is zeroed, and the time set
    assert world.received() == [deleted(2)]
    assert messages(world.storage, 2) == list(range(10))


@pytest.mark.parametrize("operation", [Upkeep.truncate, Upkeep.purge_recording])
def test_no_further_file_goes_when_the_folder_has_another_owner(
    world: Maintained, operation: Callable[..., int | None]
) -> None:
    world.ask(operation, 2, *([FRAME] if operation is Upkeep.truncate else []))
    world.cycle()
    left = world.segments(2)
    assert len(left) == 3
    world.received()
    world.archive._ownership.leave()
    while world.running:
        world.cycle()
    assert world.segments(2) == left
    ((kind, correlation_id, code, text),) = world.received()
    assert (kind, correlation_id, code) == ("error", CID, ErrorCode.GENERIC)
    assert "is open in the parent of this process" in text
    assert len(world.errors) == 1
    assert not world.upkeep.is_deleting(2, 0)


def test_a_truncation_at_the_start_leaves_the_entry(world: Maintained) -> None:
    world.ask(Upkeep.truncate, 1, 3 * SEGMENT)
    assert world.received() == [ok(3)]
    while world.running:
        world.cycle()
    assert world.segments(1) == []
    assert world.span(1) == (3, 3)
    assert world.received() == [deleted(1)]


def test_a_truncation_at_the_stop_deletes_nothing_and_signals_at_once(world: Maintained) -> None:
    world.ask(Upkeep.truncate, 2, 224 * FRAME)
    while world.running:
        world.cycle()
    assert world.received() == [ok(0), deleted(2)]
    assert messages(world.storage, 2) == list(range(224))


def test_a_truncation_inside_the_last_segment_deletes_no_file(world: Maintained) -> None:
    world.ask(Upkeep.truncate, 2, 200 * FRAME)
    assert world.running == []
    assert world.received() == [ok(0), deleted(2)]
    assert messages(world.storage, 2) == list(range(200))


def test_files_stay_until_the_replays_of_a_truncated_recording_have_ended(world: Maintained) -> None:
    world.replays.open.append(OpenReplay(2, SEGMENT))
    world.ask(Upkeep.truncate, 2, SEGMENT)
    assert world.replays.told_to_end == [2]
    assert world.received() == [ok(3)]
    assert world.cycle() == 0
    assert world.segments(2) == [0, 1, 2, 3]
    world.replays.open.clear()
    while world.running:
        assert world.cycle() == 1
    assert world.segments(2) == [0]
    assert world.received() == [deleted(2)]


def test_an_empty_recording_in_the_middle_of_a_file_that_goes_is_being_deleted(world: Maintained) -> None:
    recorder = world.archive.start_recording("aeron:ipc", 10, position=3 * FRAME)
    recorder.stop()
    world.ask(Upkeep.truncate, recorder.recording_id, 3 * FRAME)
    assert world.upkeep.is_deleting(recorder.recording_id, 3 * FRAME)
    while world.cycle():
        pass
    assert world.segments(recorder.recording_id) == []
    assert not world.upkeep.is_deleting(recorder.recording_id, 3 * FRAME)


def test_a_truncation_does_not_wait_for_replays_that_begin_after_it(world: Maintained) -> None:
    world.replays.open.append(OpenReplay(2, SEGMENT))
    assert world.ask(Upkeep.truncate, 2, SEGMENT) is None
    world.replays.open[:] = [OpenReplay(2, 0)]
    while world.cycle():
        pass
    assert world.running == []
    assert world.received()[-1] == deleted(2)


def test_a_kept_file_is_not_zeroed_under_a_replay(world: Maintained) -> None:
    world.replays.open.append(OpenReplay(2, SEGMENT))
    world.ask(Upkeep.truncate, 2, 200 * FRAME)
    before = world.storage.read_all(f"2-{3 * SEGMENT}.rec")
    assert world.received() == [ok(0)]
    assert world.cycle() == 0
    assert world.upkeep.is_deleting(2, 200 * FRAME)
    assert world.storage.read_all(f"2-{3 * SEGMENT}.rec") == before
    world.replays.open.clear()
    while world.running:
        world.cycle()
    assert world.received() == [deleted(2)]
    assert not world.upkeep.is_deleting(2, 200 * FRAME)
    assert world.storage.read_all(f"2-{3 * SEGMENT}.rec") == before[: 8 * FRAME].ljust(SEGMENT, b"\0")


# Purging


def test_a_purged_recording_is_unknown_at_once_and_its_files_go_one_a_cycle(world: Maintained) -> None:
    assert world.ask(Upkeep.purge_recording, 2) is None
    assert world.received() == [ok(4)]
    assert positions(world.storage)[2] == "DELETED"
    for left in (3, 2, 1, 0):
        assert world.received() == []
        assert world.cycle() == 1
        assert len(world.segments(2)) == left
    assert world.running == []
    assert world.received() == [deleted(2)]


def test_purging_a_recording_without_files_signals_at_once(world: Maintained) -> None:
    for number in range(4):
        world.storage.remove(f"2-{number * SEGMENT}.rec")
    world.ask(Upkeep.purge_recording, 2)
    assert world.running == []
    assert world.received() == [ok(0), deleted(2)]


def test_purged_segments_go_one_a_cycle_behind_the_new_start(world: Maintained) -> None:
    assert world.ask(Upkeep.purge_segments, 2, 2 * SEGMENT) is None
    assert world.received() == [ok(2)]
    assert world.span(2) == (2, 3)
    assert world.cycle() == 1
    assert world.segments(2) == [1, 2, 3]
    assert world.cycle() == 1
    assert world.segments(2) == [2, 3]
    assert world.received() == [deleted(2)]
    assert messages(world.storage, 2) == list(range(128, 224))


# Detaching and attaching


def test_detached_segments_stay_and_are_attached_again(world: Maintained) -> None:
    assert world.ask(Upkeep.detach_segments, 2, 2 * SEGMENT) == 0
    assert world.span(2) == (2, 3)
    assert world.segments(2) == [0, 1, 2, 3]
    assert world.ask(Upkeep.attach_segments, 2) == 2
    assert world.span(2) == (0, 3)
    assert world.ask(Upkeep.attach_segments, 2) == 0
    assert world.received() == []  # the answers are given by who asked
    assert messages(world.storage, 2) == list(range(224))


def test_detached_segments_are_deleted(world: Maintained) -> None:
    world.ask(Upkeep.detach_segments, 2, 2 * SEGMENT)
    assert world.ask(Upkeep.delete_detached_segments, 2) is None
    assert world.received() == [ok(2)]
    left = []
    while world.running:
        world.cycle()
        left.append(world.segments(2))
    assert left == [[1, 2, 3], [2, 3]]
    assert world.received() == [deleted(2)]


def test_without_detached_segments_the_signal_comes_at_once(world: Maintained) -> None:
    world.ask(Upkeep.delete_detached_segments, 2)
    assert world.running == []
    assert world.received() == [ok(0), deleted(2)]


def test_an_active_recording_can_be_detached_up_to_its_recorded_position(world: Maintained) -> None:
    recorder = world.archive.extend_recording(2)
    world.active.positions[2] = 224 * FRAME
    assert world.ask(Upkeep.detach_segments, 2, 3 * SEGMENT) == 0
    recorder.stop()
    assert world.span(2) == (3, 3)


def test_a_replay_behind_the_new_start_is_no_hindrance(world: Maintained) -> None:
    world.replays.open += [OpenReplay(2, 2 * SEGMENT), OpenReplay(0, 0)]
    assert world.ask(Upkeep.detach_segments, 2, 2 * SEGMENT) == 0


# Migrating


def test_migrated_segments_are_those_of_the_other_recording(world: Maintained) -> None:
    assert world.ask(Upkeep.migrate_segments, 0, 1) is None
    assert world.received() == [ok(3), deleted(0)]
    assert (world.span(0), world.span(1)) == ((0, 0), (0, 5))
    assert (world.segments(0), world.segments(1)) == ([], [0, 1, 2, 3, 4, 5])
    assert messages(world.storage, 1) == list(range(352))


def test_segments_migrate_to_the_end_of_a_recording_too(world: Maintained) -> None:
    world.ask(Upkeep.migrate_segments, 1, 0)
    assert world.received() == [ok(3), deleted(1)]
    assert (world.span(0), world.span(1)) == ((0, 5), (3, 3))
    assert messages(world.storage, 0) == list(range(352))


def test_migrating_an_empty_recording_without_files_signals_nothing(world: Maintained) -> None:
    world.ask(Upkeep.truncate, 1, 3 * SEGMENT)
    while world.running:
        world.cycle()
    world.received()
    world.ask(Upkeep.migrate_segments, 1, 0)
    assert world.received() == [ok(0)]
    assert (world.span(0), world.span(1)) == ((0, 3), (3, 3))


# Channels


def test_an_updated_channel_is_kept_as_it_is_and_stripped(world: Maintained) -> None:
    channel = "aeron:udp?term-length=128k|endpoint=localhost:4000|alias=new"
    assert world.ask(Upkeep.update_channel, 1, channel) == 0
    texts = world.archive.catalog.entry(1).texts
    assert texts["original_channel"] == channel
    assert texts["stripped_channel"] == "aeron:udp?endpoint=localhost:4000|alias=new"
    assert messages(world.storage, 2) == list(range(224))


@pytest.mark.parametrize("recording_id", [-1, 3])
def test_the_channel_of_an_unknown_recording_is_answered_with_unknown(world: Maintained, recording_id: int) -> None:
    assert world.ask(Upkeep.update_channel, recording_id, "aeron:ipc") is None
    assert world.received() == [("unknown recording", CID, recording_id)]


def test_a_channel_that_is_none_is_refused(world: Maintained) -> None:
    with pytest.raises(UsageError):
        world.ask(Upkeep.update_channel, 1, "nothing")
    assert world.archive.catalog.entry(1).texts["original_channel"] == "aeron:ipc?term-length=64k"


# Deletions under way


@pytest.mark.parametrize(
    ("operation", "values"),
    [
        (Upkeep.truncate, (2, 3 * SEGMENT)),
        (Upkeep.purge_recording, (2,)),
        (Upkeep.delete_detached_segments, (2,)),
        (Upkeep.purge_segments, (2, 3 * SEGMENT)),
        (Upkeep.attach_segments, (2,)),
    ],
)
def test_a_recording_has_one_deletion_at_a_time(
    world: Maintained, operation: Callable[..., int | None], values: tuple[Any, ...]
) -> None:
    world.ask(Upkeep.purge_segments, 2, 2 * SEGMENT)
    world.received()
    text = "another delete operation in progress for recording id: 2"
    assert world.refused(operation, *values) == (ErrorCode.GENERIC, text)
    world.ask(Upkeep.delete_detached_segments, 0)  # that of another recording is none
    while world.running:
        world.cycle()
    world.received()
    world.ask(Upkeep.delete_detached_segments, 2)
    assert world.received() == [ok(0), deleted(2)]


@pytest.mark.parametrize(("source", "target"), [(0, 1), (1, 0)])
def test_segments_do_not_migrate_while_those_of_one_recording_are_deleted(
    world: Maintained, source: int, target: int
) -> None:
    world.ask(Upkeep.detach_segments, 0, SEGMENT)
    world.ask(Upkeep.delete_detached_segments, 0)
    world.received()
    refused = world.refused(Upkeep.migrate_segments, source, target)
    assert refused == (ErrorCode.GENERIC, "another delete operation in progress for recording id: 0")


def test_others_are_told_from_which_position_on_files_go(world: Maintained) -> None:
    assert not world.upkeep.is_deleting(2, 0)
    world.ask(Upkeep.purge_segments, 2, 2 * SEGMENT)
    assert world.upkeep.is_deleting(2, 2 * SEGMENT - 32)
    assert not world.upkeep.is_deleting(2, 2 * SEGMENT)
    assert not world.upkeep.is_deleting(0, 0)
    while world.running:
        world.cycle()
    assert not world.upkeep.is_deleting(2, 0)


def test_a_deletion_can_not_be_aborted_and_its_end_signals_once(world: Maintained) -> None:
    world.ask(Upkeep.purge_recording, 2)
    (session,) = world.running
    session.abort("no more")
    assert not session.is_done
    session.close()
    session.close()
    assert world.received() == [ok(4), deleted(2)]
    assert session.do_work(0) == 0
    assert world.segments(2) == [0, 1, 2, 3]


def test_a_file_that_can_not_be_deleted_is_an_error_for_the_client_and_ends_the_deletion() -> None:
    storage = FaultyWrites(CrashingStorage(files()))
    world = Maintained(storage)
    world.ask(Upkeep.purge_segments, 2, 3 * SEGMENT)
    world.cycle()
    storage.operation_count = 0
    storage.faults = WriteFaults(fail_at=0, operations=frozenset({"remove"}))
    world.cycle()
    assert world.running == []
    answered, failed, signal = world.received()
    assert (answered, signal) == (ok(3), deleted(2))
    file = f"{world.archive.path}/2-{SEGMENT}.rec"
    assert failed == ("error", CID, 0, f"unable to delete segment file: {file}")
    assert isinstance(world.errors[0], WriteFailed)
    storage.faults = WriteFaults()
    world.ask(Upkeep.delete_detached_segments, 2)  # the rest is detached
    assert world.received() == [ok(2)]
    world.archive.close()


def test_a_segment_that_can_not_be_moved_is_reported_and_repeating_the_request_moves_it() -> None:
    storage = FaultyWrites(CrashingStorage(files()))
    world = Maintained(storage)
    storage.operation_count = 0
    storage.faults = WriteFaults(fail_at=1, operations=frozenset({"rename"}))
    with pytest.raises(ArchiveError) as refused:
        world.ask(Upkeep.migrate_segments, 0, 1)
    folder = world.archive.path
    moved = [f"{folder}/{number}-{SEGMENT}.rec" for number in (0, 1)]
    assert (refused.value.code, refused.value.message) == (
        *(ErrorCode.GENERIC, f"failed to rename {moved[0]} to {moved[1]}"),
    )
    assert isinstance(world.errors[0], WriteFailed)
    storage.faults = WriteFaults()
    world.ask(Upkeep.migrate_segments, 0, 1)
    assert messages(storage, 1) == list(range(352))
    world.archive.close()


OPERATIONS: list[tuple[Callable[..., int | None], tuple[int, ...], list[range]]] = [
    (Upkeep.truncate, (2, 74 * FRAME), [range(224), range(74)]),
    (Upkeep.purge_segments, (2, 2 * SEGMENT), [range(224), range(128, 224)]),
]


@pytest.mark.parametrize(("operation", "values", "allowed"), OPERATIONS)
def test_a_crash_after_any_step_leaves_the_old_recording_or_the_new_one(
    operation: Callable[..., int | None], values: tuple[int, ...], allowed: list[range]
) -> None:
    storage = CrashingStorage(files())
    world = Maintained(storage)
    left: list[CrashingStorage] = []
    storage.after_each = lambda _: left.append(storage.kill())
    world.ask(operation, *values)
    while world.running:
        world.cycle()
    storage.after_each = None
    world.archive.close()
    assert len(left) >= 5
    for step, killed in enumerate(left):
        for folder in (killed, *(killed.crash(seed, ordered_names=seed % 2 == 0) for seed in range(4))):
            opened(folder).close()
            assert messages(folder, 2) in [list(one) for one in allowed], f"step {step}"
