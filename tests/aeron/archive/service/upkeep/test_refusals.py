"""Maintenance that is refused: the original's order of checks, its codes and its texts, and nothing has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from everlog.aeron.archive.format.catalog_bytes import Descriptor
from everlog.aeron.archive.recording.refusals import ErrorCode
from everlog.aeron.archive.service.upkeep.upkeep import Upkeep
from everlog.aeron.layouts import DataHeader
from everlog.errors import StoreUnavailable
from tests.aeron.archive.maintenance.upkeep_folder import FRAME, SEGMENT
from tests.aeron.archive.service.upkeep.upkeep_world import Maintained, OpenReplay

Operation = Callable[..., int | None]
STOP = 224 * FRAME
"""Where recording 2 stops: in its fourth segment."""
ON_ONE: list[tuple[Operation, tuple[int, ...]]] = [
    (Upkeep.truncate, (0,)),
    (Upkeep.purge_recording, ()),
    (Upkeep.detach_segments, (SEGMENT,)),
    (Upkeep.delete_detached_segments, ()),
    (Upkeep.purge_segments, (SEGMENT,)),
    (Upkeep.attach_segments, ()),
]
MOVING_THE_START = [Upkeep.detach_segments, Upkeep.purge_segments]
GENERIC = ErrorCode.GENERIC


@pytest.fixture
def world() -> Iterator[Maintained]:
    maintained = Maintained()
    yield maintained
    maintained.archive.close()


def make_active(world: Maintained, recording_id: int) -> None:
    recorder = world.archive.extend_recording(recording_id)
    world.active.positions[recording_id] = recorder.recorded_position


def write(world: Maintained, name: str, offset: int, data: bytes) -> None:
    with world.storage.open_writable(name) as file:
        file.write_at(offset, data)


# All operations


@pytest.mark.parametrize("recording_id", [-1, 3, 0])
@pytest.mark.parametrize(("operation", "values"), ON_ONE)
def test_only_valid_recordings_are_known(
    world: Maintained, operation: Operation, values: tuple[int, ...], recording_id: int
) -> None:
    world.archive.catalog.set_state(0, "DELETED")
    refused = world.refused(operation, recording_id, *values)
    assert refused == (ErrorCode.UNKNOWN_RECORDING, f"unknown recording id: {recording_id}")


@pytest.mark.parametrize(("source", "target", "unknown"), [(3, 4, 3), (3, 0, 3), (0, 4, 4)])
def test_both_recordings_of_a_migration_must_be_known(
    world: Maintained, source: int, target: int, unknown: int
) -> None:
    refused = world.refused(Upkeep.migrate_segments, source, target)
    assert refused == (ErrorCode.UNKNOWN_RECORDING, f"unknown recording id: {unknown}")


@pytest.mark.parametrize(
    ("operation", "values"),
    [*((operation, (2, *rest)) for operation, rest in ON_ONE), (Upkeep.migrate_segments, (0, 1))],
)
def test_a_folder_that_another_archive_has_taken_is_not_changed(
    world: Maintained, monkeypatch: pytest.MonkeyPatch, operation: Operation, values: tuple[int, ...]
) -> None:
    def taken() -> None:
        raise StoreUnavailable("memory", found="another owner")

    monkeypatch.setattr(world.archive, "check", taken)
    with pytest.raises(StoreUnavailable):
        world.ask(operation, *values)
    with pytest.raises(StoreUnavailable):
        world.ask(Upkeep.update_channel, 2, "aeron:ipc")
    assert world.asker.sent == []


# Truncating, purging


def test_an_active_recording_is_neither_truncated_nor_purged(world: Maintained) -> None:
    make_active(world, 2)
    active = ErrorCode.ACTIVE_RECORDING
    assert world.refused(Upkeep.truncate, 2, 33) == (active, "cannot truncate active recording")
    assert world.refused(Upkeep.purge_recording, 2) == (active, "cannot purge active recording 2")


def test_a_recording_without_a_stop_position_counts_as_active(world: Maintained) -> None:
    world.archive.catalog.set_stop(2, -1)
    active = ErrorCode.ACTIVE_RECORDING
    assert world.refused(Upkeep.truncate, 2, 0) == (active, "cannot truncate active recording")
    assert world.refused(Upkeep.purge_recording, 2) == (active, "cannot purge active recording 2")
    for operation in MOVING_THE_START:
        assert world.refused(operation, 2, SEGMENT) == (GENERIC, "recording 2 is still active")


@pytest.mark.parametrize("position", [-32, STOP + 32, 33, STOP - 1])
def test_a_truncation_to_no_position_of_the_recording_is_refused(world: Maintained, position: int) -> None:
    text = f"invalid position {position}: start=0 stop=229376 alignment=32"
    assert world.refused(Upkeep.truncate, 2, position) == (ErrorCode.INVALID_POSITION, text)


def test_a_truncation_before_the_start_is_refused(world: Maintained) -> None:
    text = f"invalid position {2 * SEGMENT}: start=196608 stop=360448 alignment=32"
    assert world.refused(Upkeep.truncate, 1, 2 * SEGMENT) == (ErrorCode.INVALID_POSITION, text)


def test_a_truncation_in_a_file_that_is_not_there_is_refused(world: Maintained) -> None:
    world.storage.remove(f"2-{SEGMENT}.rec")
    text = f"{world.archive.path}/2-{SEGMENT}.rec"
    assert world.refused(Upkeep.truncate, 2, SEGMENT + FRAME) == (GENERIC, text)


def test_a_truncation_after_the_end_of_a_file_is_refused(world: Maintained) -> None:
    with world.storage.open_writable(f"2-{SEGMENT}.rec") as file:
        file.truncate(FRAME + 31)
    assert world.refused(Upkeep.truncate, 2, SEGMENT + 2 * FRAME) == (GENERIC, "failed to read fragment header")


@pytest.mark.parametrize("position", [FRAME + 32, 2 * SEGMENT - 64, STOP - 32])
def test_a_truncation_inside_a_frame_is_refused_before_anything_is_written(world: Maintained, position: int) -> None:
    text = f"{position} position not aligned to a data header"
    assert world.refused(Upkeep.truncate, 2, position) == (GENERIC, text)


def test_a_replayed_recording_is_not_purged_whatever_else_it_is(world: Maintained) -> None:
    world.replays.open.append(OpenReplay(2, 0))
    refusal = (ErrorCode.ACTIVE_RECORDING, "cannot purge recording with active replay 2")
    assert world.refused(Upkeep.purge_recording, 2) == refusal
    make_active(world, 2)
    assert world.refused(Upkeep.purge_recording, 2) == refusal


# Moving the start


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (100, "invalid segment start: newStartPosition=100"),
        (-1, "invalid segment start: newStartPosition=-1"),
        (STOP, "invalid segment start: newStartPosition=229376"),
        (0, "invalid detach: newStartPosition=0 lowerBound=65536"),
        (-SEGMENT, "invalid detach: newStartPosition=-65536 lowerBound=65536"),
        (4 * SEGMENT, "invalid detach: in use, newStartPosition=262144 upperBound=196608"),
    ],
)
@pytest.mark.parametrize("operation", MOVING_THE_START)
def test_a_start_is_moved_to_a_later_segment_of_the_recording_only(
    world: Maintained, operation: Operation, position: int, text: str
) -> None:
    assert world.refused(operation, 2, position) == (GENERIC, text)


@pytest.mark.parametrize("operation", MOVING_THE_START)
def test_a_start_is_not_moved_past_the_end_of_an_active_recording(world: Maintained, operation: Operation) -> None:
    make_active(world, 2)
    text = "invalid detach: in use, newStartPosition=262144 upperBound=196608"
    assert world.refused(operation, 2, 4 * SEGMENT) == (GENERIC, text)


@pytest.mark.parametrize("operation", MOVING_THE_START)
def test_a_start_is_not_moved_past_the_replay_that_is_behind_all_others(
    world: Maintained, operation: Operation
) -> None:
    world.replays.open += [
        OpenReplay(2, 2 * SEGMENT),
        OpenReplay(2, SEGMENT, session_id=-7, stream_id=31, channel="aeron:udp?endpoint=h:1", state_name="INIT"),
        OpenReplay(0, 0),
    ]
    text = (
        "invalid detach: replay in progress -  state=INIT newStartPosition=196608 upperBound=65536 sessionId=-7 "
        "streamId=31 channel=aeron:udp?endpoint=h:1"
    )
    assert world.refused(operation, 2, 3 * SEGMENT) == (GENERIC, text)


# Attaching


def detach(world: Maintained, position: int = 2 * SEGMENT) -> None:
    world.ask(Upkeep.detach_segments, 2, position)


def test_a_file_of_another_length_is_not_attached(world: Maintained) -> None:
    detach(world)
    with world.storage.open_writable("2-65536.rec") as file:
        file.truncate(4096)
    text = "fileLength=4096 not equal to segmentLength=65536"
    assert world.refused(Upkeep.attach_segments, 2) == (GENERIC, text)


def test_a_file_without_frames_is_not_attached(world: Maintained) -> None:
    detach(world)
    write(world, "2-65536.rec", 0, bytes(SEGMENT))
    text = "fragment not found in first term of segment memory/2-65536.rec"
    assert world.refused(Upkeep.attach_segments, 2) == (GENERIC, text)


def test_a_file_of_another_term_is_not_attached_and_neither_are_those_behind_it(world: Maintained) -> None:
    detach(world)
    offset = DataHeader.field("term_id").offset
    write(world, "2-0.rec", offset, (12).to_bytes(4, "little"))
    text = "term id does not match: actual=12 expected=-1"
    assert world.refused(Upkeep.attach_segments, 2) == (GENERIC, text)
    assert world.span(2) == (2, 3)


def test_a_file_of_another_stream_is_not_attached(world: Maintained) -> None:
    detach(world)
    write(world, "2-65536.rec", DataHeader.field("stream_id").offset, (12).to_bytes(4, "little"))
    text = "stream id does not match: actual=12 expected=11"
    assert world.refused(Upkeep.attach_segments, 2) == (GENERIC, text)


def test_a_file_that_is_damaged_behind_its_first_frame_is_not_attached(world: Maintained) -> None:
    detach(world)
    write(world, "2-65536.rec", 5 * FRAME + DataHeader.field("stream_id").offset, (12).to_bytes(4, "little"))
    write(world, "2-0.rec", 0, bytes(SEGMENT))
    code, text = world.refused(Upkeep.attach_segments, 2)
    assert code == GENERIC
    assert text is not None
    assert text.startswith("2-65536.rec is damaged at offset 5120: ")


# Migrating


def test_an_active_recording_is_not_migrated(world: Maintained) -> None:
    make_active(world, 1)
    assert world.refused(Upkeep.migrate_segments, 1, 0) == (GENERIC, "recording 1 is still active")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"segment_file_length": 131072}, "invalid migrate: srcSegmentFileLength=65536 dstSegmentFileLength=131072"),
        (
            {"segment_file_length": 131072, "term_buffer_length": 131072},
            "invalid migrate: srcSegmentFileLength=65536 dstSegmentFileLength=131072",
        ),
        ({"initial_term_id": 5}, "invalid migrate: srcInitialTermId=-1 dstInitialTermId=5"),
        ({"initial_term_id": 5, "stream_id": 12}, "invalid migrate: srcInitialTermId=-1 dstInitialTermId=5"),
        ({"stream_id": 12}, "invalid migrate: srcStreamId=10 dstStreamId=12"),
        ({"stream_id": 12, "mtu_length": 4096}, "invalid migrate: srcStreamId=10 dstStreamId=12"),
        ({"mtu_length": 4096}, "invalid migrate: srcMtuLength=1408 dstMtuLength=4096"),
    ],
)
def test_recordings_of_other_parameters_are_not_joined(world: Maintained, changes: dict[str, Any], text: str) -> None:
    catalog = world.archive.catalog
    target = catalog.add(replace(Descriptor.of(catalog.entry(1)), **changes))
    assert world.refused(Upkeep.migrate_segments, 0, target) == (GENERIC, text)


def test_recordings_of_other_term_lengths_are_not_joined(world: Maintained) -> None:
    catalog = world.archive.catalog
    long: dict[str, Any] = {"segment_file_length": 131072, "start_position": 131072, "stop_position": 131072}
    source = catalog.add(replace(Descriptor.of(catalog.entry(1)), **long))
    target = catalog.add(replace(Descriptor.of(catalog.entry(1)), **long, term_buffer_length=131072))
    text = "invalid migrate: srcTermBufferLength=65536 dstTermBufferLength=131072"
    assert world.refused(Upkeep.migrate_segments, source, target) == (GENERIC, text)


@pytest.mark.parametrize("target", [0, 3])
def test_recordings_that_do_not_adjoin_are_not_joined(world: Maintained, target: int) -> None:
    catalog = world.archive.catalog
    catalog.add(replace(Descriptor.of(catalog.entry(1)), start_position=4 * SEGMENT, stop_position=-1))
    ends = {0: "dstStartPosition=0 dstStopPosition=196608", 3: "dstStartPosition=262144 dstStopPosition=-1"}[target]
    text = f"invalid migrate: src and dst are not contiguous srcStartPosition=0 srcStopPosition=196608 {ends}"
    assert world.refused(Upkeep.migrate_segments, 0, target) == (GENERIC, text)


def test_recordings_are_not_joined_inside_a_segment(world: Maintained) -> None:
    catalog = world.archive.catalog
    same: dict[str, Any] = {"start_position": 352 * FRAME, "stop_position": 352 * FRAME}
    target = catalog.add(replace(Descriptor.of(catalog.entry(1)), **same))
    text = (
        "invalid migrate: join position is not on segment boundary of src recording seamPosition=360448 "
        "startPosition=196608 stopPosition=360448 termBufferLength=65536 segmentFileLength=65536"
    )
    assert world.refused(Upkeep.migrate_segments, 1, target) == (GENERIC, text)


def test_a_migration_needs_all_files_of_the_source(world: Maintained) -> None:
    world.storage.remove("0-65536.rec")
    text = "missing src segment file memory/0-65536.rec"
    assert world.refused(Upkeep.migrate_segments, 0, 1) == (GENERIC, text)


def test_a_migration_replaces_no_file(world: Maintained) -> None:
    world.storage.publish("1-65536.rec", world.storage.read_all("0-65536.rec"), replace=False)
    text = "preexisting dst segment file memory/1-65536.rec"
    assert world.refused(Upkeep.migrate_segments, 0, 1) == (GENERIC, text)


def test_a_replayed_recording_is_not_migrated(world: Maintained) -> None:
    world.replays.open.append(OpenReplay(0, SEGMENT))
    refusal = (ErrorCode.ACTIVE_RECORDING, "recording 0 is being replayed")
    assert world.refused(Upkeep.migrate_segments, 0, 1) == refusal
