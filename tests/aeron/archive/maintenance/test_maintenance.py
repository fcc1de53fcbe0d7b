"""What is decided on recordings: each step, worked out by hand, and each refusal with its code. Terms have 64 KiB,
segments 128 KiB; recording 7 stops at 393856, 640 bytes behind the start of its fourth segment."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from everlog.aeron.archive.maintenance.changes import (
    CutTo,
    Erase,
    LeaveOpen,
    Remove,
    Rename,
    SetStart,
    SetState,
    SetStop,
    Settle,
)
from everlog.aeron.archive.maintenance.maintenance import (
    Extension,
    attach_segments,
    check_extension,
    delete_detached_segments,
    detach_segments,
    purge_position,
    purge_recording,
    purge_segments,
    truncate,
)
from everlog.aeron.archive.maintenance.migration import migrate_segments
from everlog.aeron.archive.maintenance.recording_state import RecordingState, SegmentContent
from everlog.aeron.archive.recording.events import RecordingSignal, SignalEvent
from everlog.aeron.archive.recording.refusals import ArchiveError, ErrorCode
from everlog.aeron.layouts import DataHeader
from everlog.core.report import Fault
from everlog.errors import UsageError
from tests.aeron.archive.maintenance.recording_states import SEGMENT, STOPPED_AT, state

DELETED = (SignalEvent(7, -1, RecordingSignal.DELETE),)


def anywhere(position: int) -> bool:
    return True


def content(base: int, first: int = 0, size: int = SEGMENT, fault: Fault | None = None, **wrong: int) -> SegmentContent:
    """Of a segment file of recording 7 that holds frames from ``first`` on."""
    position = base + first
    fields = {"term_id": -3 + position // 65536, "term_offset": position % 65536, "stream_id": 1001, **wrong}
    header = DataHeader.unpack_from(DataHeader.pack(frame_length=64, type=1, flags=0xC0, **fields))
    return SegmentContent(size, first, header, fault)


def looks(**contents: SegmentContent) -> Callable[[RecordingState, int], SegmentContent]:
    """Looks into files: ``s7_0`` is recording 7 at 0; whole ones where nothing is said."""
    return lambda of, base: contents.get(f"s{of.recording_id}_{base}", content(base))


def nothing(of: RecordingState, base: int) -> SegmentContent:
    raise AssertionError("no file has to be looked at")


def zeros(of: RecordingState, base: int) -> SegmentContent:
    return SegmentContent(SEGMENT)


# Truncating


def test_truncating_moves_the_stop_first_then_removes_from_the_last_file_on_and_erases() -> None:
    change = truncate(state(), 131072 + 4096, anywhere)
    assert change.steps == (
        CutTo(7, 135168),
        Remove("7-393216.rec"),
        Remove("7-262144.rec"),
        Erase("7-131072.rec", 4096, 131072),
        Settle(7, 135168, STOPPED_AT),
    )
    assert (change.count, change.signals, change.ends_replays) == (2, DELETED, (7,))


def test_truncating_to_a_segments_start_removes_its_file_too() -> None:
    change = truncate(state(), 262144, anywhere)
    files = [Remove("7-393216.rec"), Remove("7-262144.rec")]
    assert change.steps == (CutTo(7, 262144), *files, Settle(7, 262144, STOPPED_AT))


def test_truncating_to_the_start_removes_all_files_also_detached_ones() -> None:
    given = state(start=262144, bases=(131072, 262144, 393216), others=("7-5.rec", "7-9.rec.del"))
    change = truncate(given, 262144, anywhere)
    files = [Remove(f"7-{n}") for n in ("393216.rec", "262144.rec", "131072.rec", "5.rec", "9.rec.del")]
    assert change.steps == (CutTo(7, 262144), *files, Settle(7, 262144, STOPPED_AT))
    assert change.count == 5


def test_truncating_to_the_start_in_the_middle_of_a_segment_removes_all_files() -> None:
    change = truncate(state(start=65536 + 96, stop=65536 + 960), 65632, anywhere)
    assert change.steps == (CutTo(7, 65632), Remove("7-65536.rec"), Settle(7, 65632, STOPPED_AT))


def test_truncating_to_the_stop_position_takes_away_what_is_behind_it_and_leaves_the_catalog() -> None:
    change = truncate(state(bases=(0, 131072, 262144, 393216, 524288)), 393856, anywhere)
    assert change.steps == (Remove("7-524288.rec"), Erase("7-393216.rec", 640, 131072))


def test_a_truncation_that_broke_off_is_finished_by_the_same_again() -> None:
    broken = state(stop=135168, stop_timestamp=-1, bases=(0, 131072, 262144))
    assert truncate(broken, 135168, anywhere).steps == (
        Remove("7-262144.rec"),
        Erase("7-131072.rec", 4096, 131072),
        Settle(7, 135168, None),
    )


@pytest.mark.parametrize("position", [-32, 64, 393888, 1 << 62])
def test_a_truncation_outside_of_the_recording_is_refused(position: int) -> None:
    with pytest.raises(ArchiveError) as raised:
        truncate(state(start=131072), position, anywhere)
    assert raised.value.code is ErrorCode.INVALID_POSITION
    assert raised.value.found == f"position {position}"
    assert raised.value.expected == "the end of a frame from 131072 to 393856"


def test_a_truncation_to_no_multiple_of_32_or_into_a_frame_is_refused() -> None:
    for position, is_boundary in ((4097, True), (4096, False)):
        with pytest.raises(ArchiveError, match="can't be truncated to position") as raised:
            truncate(state(), position, lambda _, answer=is_boundary: answer)
        assert raised.value.code is ErrorCode.INVALID_POSITION


# What most operations refuse

OPERATIONS: dict[str, Callable[[RecordingState], Any]] = {
    "truncate": lambda s: truncate(s, 131072, anywhere),
    "purge recording": purge_recording,
    "detach": lambda s: detach_segments(s, 131072),
    "purge segments": lambda s: purge_segments(s, 131072),
    "delete detached": delete_detached_segments,
    "attach": lambda s: attach_segments(s, nothing),
    "migrate from": lambda s: migrate_segments(s, state(8), nothing),
    "migrate to": lambda s: migrate_segments(state(8), s, nothing),
    "extend": lambda s: check_extension(s, Extension(0, 0, 0, 0)),
    "purge position": lambda s: purge_position(s, 0),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("status", ["INVALID", "DELETED"])
def test_a_recording_that_is_not_valid_is_unknown(operation: str, status: str) -> None:
    with pytest.raises(ArchiveError) as raised:
        OPERATIONS[operation](state(status=status, bases=()))
    assert raised.value.code is ErrorCode.UNKNOWN_RECORDING
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        ("truncate", ErrorCode.ACTIVE_RECORDING),
        ("purge recording", ErrorCode.ACTIVE_RECORDING),
        ("extend", ErrorCode.ACTIVE_RECORDING),
        ("migrate from", ErrorCode.GENERIC),
    ],
)
def test_what_needs_a_stopped_recording_refuses_an_active_one(operation: str, code: ErrorCode) -> None:
    with pytest.raises(ArchiveError, match=r"recording 7 is active \(stop it first") as raised:
        OPERATIONS[operation](state(stop=None, recorded=393856))
    assert raised.value.code is code
    with pytest.raises(ArchiveError, match=r"no stop position \(.*opening the archive for writing restores it"):
        OPERATIONS[operation](state(stop=None))


def test_a_refusal_keeps_its_code_between_processes() -> None:
    error = ArchiveError("recording 7", found="a", expected="b", hint="c").coded(ErrorCode.ACTIVE_RECORDING)
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, str(again)) == (ErrorCode.ACTIVE_RECORDING, str(error))


# Purging a recording


def test_a_recording_is_marked_as_deleted_before_its_files_go() -> None:
    change = purge_recording(state(bases=(0, 131072), others=("7-5.rec", "7-0.rec.del")))
    files = ("7-0.rec", "7-131072.rec", "7-5.rec", "7-0.rec.del")
    assert change.steps == (SetState(7, "DELETED"), *map(Remove, files))
    assert (change.count, change.signals) == (4, DELETED)


def test_the_files_of_a_deleted_recording_are_removed_by_the_same_again() -> None:
    assert purge_recording(state(status="DELETED", bases=(131072,))).steps == (Remove("7-131072.rec"),)


def test_a_recording_that_is_replayed_is_not_purged() -> None:
    with pytest.raises(ArchiveError, match=r"recording 7 is being replayed \(stop its replays first") as raised:
        purge_recording(state(replays=(0,)))
    assert raised.value.code is ErrorCode.ACTIVE_RECORDING


# Detaching and purging segments


@pytest.mark.parametrize("new_start", [131072, 262144, 393216])
def test_detaching_only_moves_the_start(new_start: int) -> None:
    change = detach_segments(state(), new_start)
    assert (change.steps, change.count, change.signals) == ((SetStart(7, new_start),), 0, ())


def test_purging_moves_the_start_and_then_removes_the_oldest_first_and_nothing_detached_before() -> None:
    given = state(start=131072, bases=(0, 131072, 262144, 393216))
    change = purge_segments(given, 393216)
    assert change.steps == (SetStart(7, 393216), Remove("7-131072.rec"), Remove("7-262144.rec"))
    assert (change.count, change.signals) == (2, DELETED)


@pytest.mark.parametrize("operation", [detach_segments, purge_segments])
@pytest.mark.parametrize(
    ("given", "new_start", "expected"),
    [
        (state(), 4096, "the beginning of a segment from 131072 to 393216"),
        (state(), 65536, "the beginning of a segment from 131072 to 393216"),
        (state(), 0, "the beginning of a segment from 131072 to 393216"),
        (state(), -131072, "the beginning of a segment from 131072 to 393216"),
        (state(), 524288, "the beginning of a segment from 131072 to 393216"),
        (state(start=65632), 131072, "the beginning of a segment from 196608 to 327680"),
        (state(start=131072), 131072, "the beginning of a segment from 262144 to 393216"),
        (state(stop=640), 131072, "a recording of more than one segment"),
        (state(stop=None, recorded=262144 - 32), 262144, "the beginning of a segment from 131072 to 131072"),
        (state(replays=(300000, 140000)), 262144, "at most 131072"),
    ],
)
def test_a_start_that_can_not_be_is_refused(
    operation: Callable[[RecordingState, int], Any], given: RecordingState, new_start: int, expected: str
) -> None:
    with pytest.raises(ArchiveError) as raised:
        operation(given, new_start)
    assert raised.value.expected == expected
    assert raised.value.code is ErrorCode.GENERIC


def test_a_start_inside_a_segment_is_refused_with_the_beginnings_of_segments() -> None:
    # The recording starts in its second term, and its first segment with this term.
    with pytest.raises(ArchiveError, match=r"\(segments of 131072 bytes begin at 65536, 196608, \.\.\.\)"):
        detach_segments(state(start=65632), 262144)


def test_segments_before_what_is_recorded_and_replayed_may_go() -> None:
    given = state(stop=None, recorded=262144, replays=(262144,))
    assert purge_segments(given, 262144).steps == (SetStart(7, 262144), Remove("7-0.rec"), Remove("7-131072.rec"))


def test_a_purge_that_broke_off_says_what_finishes_it() -> None:
    with pytest.raises(ArchiveError, match="delete-detached-segments deletes the files before it"):
        purge_segments(state(start=131072, bases=(0, 131072)), 131072)


def test_detached_segments_are_deleted_oldest_first_and_no_others() -> None:
    change = delete_detached_segments(state(start=262144, bases=(0, 131072, 262144), others=("7-5.rec",)))
    assert change.steps == (Remove("7-0.rec"), Remove("7-131072.rec"))
    assert (change.count, change.signals) == (2, DELETED)
    assert delete_detached_segments(state()).steps == ()


@pytest.mark.parametrize(
    ("given", "before", "keep", "expected"),
    [
        (state(), 0, None, 0),
        (state(), 131071, None, 0),
        (state(), 131072, None, 131072),
        (state(), 300000, None, 262144),
        (state(), 1 << 62, None, 393216),
        (state(stop=393216), 1 << 62, None, 393216),
        (state(), None, 0, 393216),
        (state(), None, 640, 393216),
        (state(), None, 641, 262144),
        (state(), None, 1 << 62, 0),
        (state(), 300000, 200000, 131072),
        (state(), 200000, 0, 131072),
        (state(replays=(140000, 400000)), 1 << 62, None, 131072),
        (state(stop=None, recorded=262144), None, 0, 262144),
        (state(start=65632), 1 << 62, None, 327680),
        (state(start=131072), 200000, None, 131072),
    ],
)
def test_a_purge_goes_as_far_as_it_may(
    given: RecordingState, before: int | None, keep: int | None, expected: int
) -> None:
    assert purge_position(given, before, keep) == expected


def test_a_purge_needs_a_limit() -> None:
    for before, keep in ((None, None), (-1, None), (5, -1)):
        with pytest.raises(UsageError, match="0 or more"):
            purge_position(state(), before, keep)


# Attaching


def test_whole_segments_before_the_start_are_attached_down_to_a_gap() -> None:
    given = state(start=524288, stop=524288 + 640, bases=(0, 262144, 393216, 524288))
    change = attach_segments(given, looks())
    assert (change.steps, change.count, change.signals) == ((SetStart(7, 262144),), 2, ())


def test_attaching_ends_with_the_segment_in_which_the_recording_began() -> None:
    given = state(start=262144, bases=(0, 131072, 262144))
    change = attach_segments(given, looks(s7_131072=content(131072, first=4096)))
    assert (change.steps, change.count) == ((SetStart(7, 135168),), 1)


def test_where_nothing_lies_before_the_start_nothing_is_attached() -> None:
    assert attach_segments(state(start=131072, bases=(131072,)), nothing).steps == ()
    assert attach_segments(state(start=131072 + 96, bases=(0, 131072)), nothing).steps == ()


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (content(131072, size=131040), "has 131040 bytes; segments of recording 7 have 131072"),
        (SegmentContent(131072), "no frame in the first term"),
        (content(131072, stream_id=1002), "stream id 1002 in its first frame; recording 7 has 1001"),
        (content(131072, term_id=-2), "term id -2 in its first frame; recording 7 has -1"),
        (content(131072, term_offset=32), "term offset 32 in its first frame; recording 7 has 0"),
        (
            content(131072, fault=Fault("unset-frame", "7-131072.rec", 640, "no frame (zeros)", "a frame")),
            "damaged at offset 640: no frame (zeros); expected a frame (unset-frame",
        ),
    ],
)
def test_a_foreign_segment_is_not_attached_nor_are_those_before_it(found: SegmentContent, why: str) -> None:
    given = state(start=262144, bases=(0, 131072, 262144))
    with pytest.raises(ArchiveError) as raised:
        attach_segments(given, looks(s7_131072=found))
    assert raised.value.where == "7-131072.rec"
    assert why in str(raised.value)


def test_a_foreign_segment_further_down_keeps_the_nearer_ones_from_being_attached() -> None:
    given = state(start=262144, bases=(0, 131072, 262144))
    with pytest.raises(ArchiveError, match="stream id 5"):
        attach_segments(given, looks(s7_0=content(0, stream_id=5)))


# Migrating


def test_segments_of_an_earlier_recording_go_before_those_of_a_later_one_from_the_last_on() -> None:
    source = state(7, stop=262144, bases=(0, 131072, 262144))
    target = state(8, start=262144)
    change = migrate_segments(source, target, zeros)
    assert change.steps == (
        LeaveOpen(7, 262144),
        Remove("7-262144.rec"),
        Rename("7-131072.rec", "8-131072.rec", ((7, 131072),)),
        Rename("7-0.rec", "8-0.rec", ((7, 0),)),
        SetStart(8, 0),
        SetStop(7, 0),
    )
    assert (change.count, change.signals, change.in_order) == (2, DELETED, True)


_EARLIER = state(7, stop=131072, bases=(0,), others=("7-131072.rec.del", "7-262144.rec.del"))
_LATER = state(7, start=262144, stop=393216, bases=(262144,), others=("7-393216.rec.del",))


@pytest.mark.parametrize(
    ("source", "target", "file"),
    [
        (_EARLIER, state(8, start=131072), "7-131072.rec.del"),
        (_LATER, state(8, stop=262144, bases=(0, 131072)), "7-393216.rec.del"),
    ],
)
def test_the_file_after_a_migrated_recording_goes_too_if_it_waits_to_be_deleted(
    source: RecordingState, target: RecordingState, file: str
) -> None:
    change = migrate_segments(source, target, looks())
    assert [step for step in change.steps if isinstance(step, Remove)] == [Remove(file)]
    assert change.count == 1


def test_the_later_recording_may_be_active_and_the_earlier_one_begin_inside_of_a_segment() -> None:
    source = state(7, start=65632, stop=196608, bases=(65536,))
    target = state(8, start=196608, stop=None, recorded=200000)
    assert migrate_segments(source, target, nothing).steps == (
        LeaveOpen(7, 196608),
        Rename("7-65536.rec", "8-65536.rec", ((7, 65632),)),
        SetStart(8, 65632),
        SetStop(7, 65632),
    )


def test_segments_of_a_later_recording_go_behind_those_of_an_earlier_one_from_the_first_on() -> None:
    source = state(7, start=262144, stop=393216 + 640)
    target = state(8, stop=262144, bases=(0, 131072, 262144))
    change = migrate_segments(source, target, zeros)
    assert change.steps == (
        LeaveOpen(8, 262144),
        LeaveOpen(7, 393856),
        SetStart(7, 393216),
        Rename("7-262144.rec", "8-262144.rec", ((8, 393216),)),
        Rename("7-393216.rec", "8-393216.rec", ((8, 393856), (7, None))),
        SetStop(8, 393856),
        SetStart(7, 262144),
        SetStop(7, 262144),
    )
    assert (change.count, change.signals) == (2, DELETED)


def test_a_migration_that_broke_off_is_finished_whichever_recording_is_the_later_one() -> None:
    source, target = state(7, stop=131072), state(8, start=262144, bases=(131072, 262144, 393216))
    assert migrate_segments(source, target, looks()).steps == (
        SetStart(8, 131072),
        LeaveOpen(7, 131072),
        Rename("7-0.rec", "8-0.rec", ((7, 0),)),
        SetStart(8, 0),
        SetStop(7, 0),
    )
    source, target = state(7, start=393216, bases=(262144, 393216)), state(8, stop=262144)
    steps = migrate_segments(source, target, looks()).steps
    assert steps[:3] == (SetStart(7, 262144), LeaveOpen(8, 262144), LeaveOpen(7, 393856))
    assert steps[-1] == SetStop(7, 262144)
    emptied = state(7, stop=0, bases=())
    steps = migrate_segments(emptied, state(8, start=131072, bases=(0, 131072, 262144)), looks()).steps
    assert steps == (SetStart(8, 0),)


def test_an_empty_recording_has_nothing_to_migrate() -> None:
    change = migrate_segments(state(7, start=262144, stop=262144, bases=()), state(8, start=262144), nothing)
    assert (change.steps, change.count, change.signals) == ((), 0, ())


@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        (state(7), state(7), "recording 7 can't be migrated to itself"),
        (state(7, stop=262144), state(8, start=393216), "don't adjoin: recording 7 from 0 to 262144"),
        (state(7, start=393216), state(8, stop=262144, bases=(0, 131072)), "the recordings don't adjoin: "),
        (state(7, stop=262144 - 32), state(8, start=262144 - 32), "inside a segment"),
        (state(7, stop=65536), state(8, start=65536), "inside a segment of recording 7"),
        (state(7, stop=262144, stop_timestamp=-1), state(8, start=262144), "truncate it to 262144 again"),
        (
            state(7, start=262144),
            state(8, stop=262144, stop_timestamp=-1),
            "the truncation of recording 8 was interrupted",
        ),
        (state(7, stop=262144, replays=(0,)), state(8, start=262144), "recording 7 is being replayed"),
        (state(7, stop=262144, bases=(131072,)), state(8, start=262144), "7-0.rec is missing"),
        (state(7, stop=262144), state(8, start=262144, bases=(0, 262144)), "8-0.rec is in the way"),
        (state(7, stop=262144, bases=(0, 131072, 262144)), state(8, start=262144), "frames after the stop position"),
        (state(7, start=262144), state(8, stop=262144, bases=(0, 131072, 262144)), "8-262144.rec is in the way"),
        (state(7, stop=262144), state(8, start=262144, mtu_length=1024), "an MTU of 1408 bytes"),
        (
            state(7, stop=262144),
            state(8, start=262144, stream_id=3),
            "has stream id 1001, recording 8 stream id 3",
        ),
        (state(7, stop=262144), state(8, start=262144, initial_term_id=0), "initial term id -3"),
        (state(7, stop=262144), state(8, start=262144, term_buffer_length=131072), "terms of 65536 bytes"),
        (state(7, stop=262144), state(8, start=262144, segment_file_length=262144), "segments of 131072 bytes"),
    ],
)
def test_what_does_not_fit_is_not_migrated(source: RecordingState, target: RecordingState, why: str) -> None:
    with pytest.raises(ArchiveError) as raised:
        migrate_segments(source, target, looks())
    assert why in str(raised.value)


# Extending


def test_a_stream_that_goes_on_may_extend_the_recording() -> None:
    assert check_extension(state(), Extension(393856, -3, 65536, 1408)) == 393856


@pytest.mark.parametrize(
    ("extension", "why"),
    [
        (Extension(393824, -3, 65536, 1408), "join position 393824, the recording 393856"),
        (Extension(393856, -2, 65536, 1408), "initial term id -2, the recording -3"),
        (Extension(393856, -3, 131072, 1408), "term length 131072, the recording 65536"),
        (Extension(393856, -3, 65536, 1376), "MTU 1376, the recording 1408"),
    ],
)
def test_a_stream_that_does_not_fit_may_not(extension: Extension, why: str) -> None:
    with pytest.raises(ArchiveError, match=why) as raised:
        check_extension(state(), extension)
    assert raised.value.code is ErrorCode.INVALID_EXTENSION


def test_a_recording_whose_truncation_broke_off_is_not_extended_over_what_is_left() -> None:
    with pytest.raises(ArchiveError, match="truncate it to 135168 again") as raised:
        check_extension(state(stop=135168, stop_timestamp=-1), Extension(135168, -3, 65536, 1408))
    assert raised.value.code is ErrorCode.INVALID_EXTENSION


def test_each_step_says_what_it_does() -> None:
    change = truncate(state(), 135168, anywhere)
    assert change.lines == [
        "recording 7: stops at 135168; everything after it will be removed",
        "7-393216.rec: deleted",
        "7-262144.rec: deleted",
        "7-131072.rec: zeroed from offset 4096 on",
        "recording 7: nothing is left after 135168",
    ]


def test_a_state_knows_the_files_of_its_recording_by_their_names() -> None:
    names = ["7-0.rec", "7-131072.rec", "7-5.rec", "7-0.rec.del", "70-0.rec", "7-x.rec", "archive.catalog", "8-0.rec"]
    found = RecordingState.of(state().recording, names)
    assert found.bases == (0, 131072)
    assert found.others == ("7-0.rec.del", "7-5.rec")
