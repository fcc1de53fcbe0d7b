"""Questions about recordings: positions, and the last one that matches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from everlog.aeron.archive.recording.refusals import ArchiveError, ErrorCode
from everlog.aeron.archive.service.queries.queries import Queries
from tests.aeron.archive.service.queries.queried_archive import Queried


@pytest.fixture
def world() -> Iterator[Queried]:
    queried = Queried()
    yield queried
    queried.archive.close()


QUESTIONS = (Queries.start_position, Queries.stop_position, Queries.recording_position, Queries.max_recorded_position)


@pytest.mark.parametrize("recording_id", [-1, 1, 4, 5])
@pytest.mark.parametrize("question", QUESTIONS)
def test_only_valid_recordings_are_known(world: Queried, question: object, recording_id: int) -> None:
    assert callable(question)
    with pytest.raises(ArchiveError) as caught:
        question(world.queries, recording_id)
    assert (caught.value.code, caught.value.message) == (
        ErrorCode.UNKNOWN_RECORDING,
        f"unknown recording id: {recording_id}",
    )


def test_the_start_is_where_the_recording_began(world: Queried) -> None:
    assert [world.queries.start_position(number) for number in (0, 2, 3)] == [0, 128, 0]


def test_an_active_recording_has_no_stop_position(world: Queried) -> None:
    assert [world.queries.stop_position(number) for number in (0, 2, 3)] == [1024, 1024, -1]


def test_only_an_active_recording_has_a_recorded_position(world: Queried) -> None:
    world.active.positions[3] = 4096
    assert [world.queries.recording_position(number) for number in (0, 3)] == [-1, 4096]


def test_the_highest_recorded_position_is_that_of_the_recorder_or_the_stop(world: Queried) -> None:
    world.active.positions[3] = 4096
    assert [world.queries.max_recorded_position(number) for number in (0, 3)] == [1024, 4096]
    world.active.positions.clear()
    assert world.queries.max_recorded_position(3) == -1


@pytest.mark.parametrize(
    ("least", "session_id", "stream_id", "fragment", "found"),
    [
        (0, 42, 10, "ipc", 3),
        (0, 42, 10, "alias=one", 0),
        (1, 42, 10, "alias=one", -1),
        (0, 43, 10, "", 2),
        (2, 43, 10, "endpoint=h:1", 2),
        (0, 42, 11, "", -1),
        (0, 44, 10, "", -1),
        (5, 42, 10, "", -1),
    ],
)
def test_the_last_match_is_the_valid_recording_with_the_highest_id(
    world: Queried, least: int, session_id: int, stream_id: int, fragment: str, found: int
) -> None:
    assert world.queries.find_last_matching(least, session_id, stream_id, fragment) == found


def test_a_negative_least_id_is_refused(world: Queried) -> None:
    with pytest.raises(ArchiveError) as caught:
        world.queries.find_last_matching(-1, 42, 10, "")
    assert (caught.value.code, caught.value.message) == (ErrorCode.UNKNOWN_RECORDING, "minRecordingId=-1 < 0")
