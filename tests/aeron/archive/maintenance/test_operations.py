"""Maintenance of an archive's folder: what it leaves, and what a crash, a power cut or a fault leaves at any point.

The folder is told in ``upkeep_folder``; positions are counted in messages, files in segments of 64 messages."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

import tests
from everlog.aeron import archive
from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.format.catalog import CATALOG_NAME
from everlog.aeron.archive.recording.events import Event, RecordingSignal, SignalEvent
from everlog.aeron.archive.recording.options import ArchiveOptions
from everlog.aeron.archive.recording.refusals import ArchiveError, ErrorCode
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.frames.framing import Framer
from everlog.core.files.storage import Storage
from everlog.core.report import Severity
from everlog.errors import UnknownStream, WriteFailed
from everlog.testing.series import Series
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.faulty_writes import FaultyWrites, WriteFaults
from everlog.testing.storage.memory import MemoryStorage
from tests.aeron.archive.maintenance.upkeep_folder import (
    FRAME,
    SEGMENT,
    Folder,
    files,
    messages,
    payload,
    positions,
    segment_files,
)

GOLDEN = tests.GOLDEN / "aeron"
MANY = 1 << 30
SEEDS = range(3)


@dataclass(frozen=True)
class Case:
    """``before`` and ``run`` on a folder; ``again`` finishes what broke off. Then: how many files it says were changed,
    positions of the recordings that changed, the files that went and came, and what is kept of recordings."""

    run: Callable[[Folder], int | None]
    count: int | None
    positions: dict[int, Any]
    gone: set[str] = field(default_factory=set)
    new: set[str] = field(default_factory=set)
    keeps: dict[int, range] = field(default_factory=dict)
    signals: tuple[int, ...] = ()
    before: Callable[[Folder], Any] = lambda folder: None
    again: Callable[[Folder], Any] | None = None
    moves_start: bool = False


CASES = {
    "truncate": Case(
        lambda f: f.truncate_recording(2, 100 * FRAME),
        2,
        {2: (0, 100)},
        gone={"2-2", "2-3"},
        keeps={2: range(100)},
        signals=(2,),
    ),
    "truncate to a segment's start": Case(
        lambda f: f.truncate_recording(2, 2 * SEGMENT),
        2,
        {2: (0, 128)},
        gone={"2-2", "2-3"},
        keeps={2: range(128)},
        signals=(2,),
    ),
    "truncate within the last segment": Case(
        lambda f: f.truncate_recording(2, 200 * FRAME), 0, {2: (0, 200)}, keeps={2: range(200)}, signals=(2,)
    ),
    "truncate to the start": Case(
        lambda f: f.truncate_recording(2, 0), 4, {2: (0, 0)}, gone={"2-0", "2-1", "2-2", "2-3"}, signals=(2,)
    ),
    "purge a recording": Case(
        lambda f: f.purge_recording(2),
        4,
        {2: "DELETED"},
        gone={"2-0", "2-1", "2-2", "2-3"},
        signals=(2,),
    ),
    "detach": Case(lambda f: f.detach_segments(2, 2 * SEGMENT), None, {2: (128, 224)}, keeps={2: range(128, 224)}),
    "purge segments": Case(
        lambda f: f.purge_segments(2, 2 * SEGMENT),
        2,
        {2: (128, 224)},
        gone={"2-0", "2-1"},
        keeps={2: range(128, 224)},
        signals=(2,),
        again=lambda f: f.delete_detached_segments(2),
    ),
    "delete detached": Case(
        lambda f: f.delete_detached_segments(2),
        2,
        {2: (128, 224)},
        gone={"2-0", "2-1"},
        keeps={2: range(128, 224)},
        signals=(2,),
        before=lambda f: f.detach_segments(2, 2 * SEGMENT),
    ),
    "attach": Case(
        lambda f: f.attach_segments(2),
        2,
        {2: (0, 224)},
        keeps={2: range(224)},
        before=lambda f: f.detach_segments(2, 2 * SEGMENT),
    ),
    "migrate before": Case(
        lambda f: f.migrate_segments(0, 1),
        3,
        {0: (0, 0), 1: (0, 352)},
        gone={"0-0", "0-1", "0-2", "0-3"},
        new={"1-0", "1-1", "1-2"},
        keeps={1: range(352)},
        signals=(0,),
    ),
    "migrate behind": Case(
        lambda f: f.migrate_segments(1, 0),
        3,
        {1: (192, 192), 0: (0, 352)},
        gone={"1-3", "1-4", "1-5"},
        new={"0-4", "0-5"},
        keeps={0: range(352)},
        signals=(1,),
        moves_start=True,
    ),
}
MIGRATIONS = [name for name in CASES if name.startswith("migrate")]


def prepared(case: Case) -> dict[str, bytes]:
    storage = CrashingStorage(files())
    case.before(Folder(storage))
    return {name: storage.read_all(name) for name in storage.names()}


def check(storage: Storage, case: Case) -> None:
    """That all is as it should be in the end. Where a recording is that lost all its messages depends on how far the
    first attempt came."""
    expected = {0: (0, 192), 1: (192, 352), 2: (0, 224), **case.positions}
    found = positions(storage)
    if case.moves_start and found[1] != expected[1]:
        assert found[1] in ((256, 256), (320, 320))
        found[1] = expected[1]
    assert found == expected
    before = {"0-0", "0-1", "0-2", "0-3", "1-3", "1-4", "1-5", "2-0", "2-1", "2-2", "2-3"}
    assert set(segment_files(storage)) == before - case.gone | case.new
    others = {0: range(192), 1: range(192, 352), 2: range(224)}
    for recording_id in range(3):
        if recording_id not in case.positions:
            assert messages(storage, recording_id) == list(others[recording_id])
        elif case.positions[recording_id] != "DELETED":
            assert messages(storage, recording_id) == list(case.keeps.get(recording_id, ()))
    assert all(storage.size(name) == SEGMENT for name in storage.names() if name.endswith(".rec"))
    report = ArchiveStore.open(storage, {}).verify()
    assert {fault.code for fault in report.faults} <= {"segment-detached"}


def check_between(storage: Storage, case: Case) -> None:
    """That nothing is wrong, and that nothing of what stays is missing: it is in the recordings, or in segments that
    are detached."""
    report = ArchiveStore.open(storage, {}).verify()
    assert [fault for fault in report.faults if fault.severity is Severity.FAULT] == []
    recordings = ArchiveStore.open(storage, {}).folder.recordings()
    found: dict[int, list[int]] = {10: [], 11: []}
    for recording_id, recording in recordings.items():
        if recording.state == "VALID":
            found[recording.stream_id] += messages(storage, recording_id)
    for numbers in case.keeps.values():
        stream_id = 11 if 2 in case.keeps else 10
        names = [name.split("-") for name in segment_files(storage)]
        detached = {int(number) for recording_id, number in names if (recording_id == "2") == (stream_id == 11)}
        missing = set(numbers) - set(found[stream_id])
        assert all(number // 64 in detached for number in missing)
        assert len(found[stream_id]) == len(set(found[stream_id]))


def finish(storage: Any, case: Case, sync_level: int) -> None:
    """Open the folder anew, and do it again, unless it was done."""
    do_again(Folder(storage, sync_level), case)


def do_again(folder: Folder, case: Case) -> None:
    """It may be done already: then the start is where it should be, or there is nothing to delete or to join."""
    for step in (case.run, case.again):
        if step is not None:
            with contextlib.suppress(ArchiveError):
                step(folder)


@pytest.mark.parametrize("name", CASES)
def test_an_operation_leaves_what_it_should(name: str) -> None:
    case = CASES[name]
    storage = CrashingStorage(prepared(case))
    folder = Folder(storage)
    assert case.run(folder) == case.count
    check(storage, case)
    assert folder.signals == [(recording_id, RecordingSignal.DELETE) for recording_id in case.signals]


@pytest.mark.parametrize("sync_level", [0, 1])
@pytest.mark.parametrize("name", CASES)
def test_a_process_that_is_killed_at_any_point_leaves_sound_recordings_and_the_same_again_finishes(
    name: str, sync_level: int, series: Series
) -> None:
    case = CASES[name]
    storage = CrashingStorage(prepared(case))
    killed: list[CrashingStorage] = []
    folder = Folder(storage, sync_level)
    storage.after_each = lambda what: killed.append(storage.kill())
    case.run(folder)
    storage.after_each = None
    assert killed
    for left in series.points(killed):
        check_between(left, case)
        finish(left, case, sync_level)
        check(left, case)


POWER_CUTS = [(name, True) for name in CASES] + [(name, False) for name in CASES if name not in MIGRATIONS]
"""Where names come and go each by itself, a rename may lose both, which no file system does."""


@pytest.mark.parametrize("sync_level", [0, 1])
@pytest.mark.parametrize(("name", "ordered_names"), POWER_CUTS)
def test_after_a_power_cut_at_any_point_the_same_again_finishes(
    name: str, ordered_names: bool, sync_level: int, series: Series
) -> None:
    case = CASES[name]
    storage = CrashingStorage(prepared(case))
    cut: list[CrashingStorage] = []
    folder = Folder(storage, sync_level)
    storage.sync_folder()
    with storage.open_writable(CATALOG_NAME) as catalog:
        catalog.sync()
    storage.after_each = lambda what: cut.extend(storage.crash(seed, ordered_names=ordered_names) for seed in SEEDS)
    case.run(folder)
    storage.after_each = None
    for left in series.points(cut):
        finish(left, case, sync_level)
        check(left, case)


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("truncate")])
def test_after_a_power_cut_at_any_point_recordings_are_sound(name: str, series: Series) -> None:
    """But for a truncation, whose file is cut and lengthened: there that is so once the archive was opened."""
    case = CASES[name]
    storage = CrashingStorage(prepared(case))
    folder = Folder(storage)
    cut: list[CrashingStorage] = []
    storage.after_each = lambda what: cut.extend(storage.crash(seed, ordered_names=True) for seed in SEEDS)
    case.run(folder)
    for left in series.points(cut):
        check_between(left, case)


@pytest.mark.parametrize("count", [1, MANY], ids=["once", "for good"])
@pytest.mark.parametrize("name", CASES)
def test_whatever_fails_the_folder_is_sound_and_the_same_again_finishes(name: str, count: int, series: Series) -> None:
    case = CASES[name]
    for number in series.numbers():
        inner = CrashingStorage(prepared(case))
        storage = FaultyWrites(inner)
        folder = Folder(storage, 1)
        storage.faults = WriteFaults(fail_at=storage.operation_count + number, count=count)
        try:
            case.run(folder)
        except WriteFailed:
            assert storage.failed
        else:
            assert not storage.failed
            break
        check_between(inner, case)
        storage.faults = WriteFaults()
        finish(inner, case, 1)
        check(inner, case)
    assert number >= 3


@pytest.mark.parametrize("name", CASES)
def test_after_one_failure_the_open_archive_can_do_it_again(name: str, series: Series) -> None:
    case = CASES[name]
    for number in series.numbers():
        storage = FaultyWrites(CrashingStorage(prepared(case)))
        folder = Folder(storage, 1)
        storage.faults = WriteFaults(fail_at=storage.operation_count + number)
        try:
            case.run(folder)
            break
        except WriteFailed:
            do_again(folder, case)
            check(storage, case)


# What is not to be


def test_a_position_inside_of_a_frame_is_refused_and_changes_nothing() -> None:
    storage = CrashingStorage(files())
    folder = Folder(storage)
    for position in (100 * FRAME + 32, 100 * FRAME - 32, 2 * SEGMENT + 992):
        with pytest.raises(ArchiveError, match="inside a frame") as raised:
            folder.truncate_recording(2, position)
        assert raised.value.code is ErrorCode.INVALID_POSITION
    assert {name: storage.read_all(name) for name in storage.names()} == files()


def test_an_unknown_recording_is_none() -> None:
    with pytest.raises(UnknownStream):
        Folder(CrashingStorage(files())).purge_recording(9)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda data: data[:-32], "65504 bytes"),
        (lambda data: bytes(SEGMENT), "no frame in the first term"),
        (lambda data: data[:2048] + bytes(1024) + data[3072:], "damaged at offset 2048: no frame (zeros)"),
        (lambda data: data[:2048] + bytes(SEGMENT - 2048), "no frame"),
        (lambda data: files()["2-65536.rec"], "term id 0 in its first frame; recording 2 has -1"),
        (lambda data: files()["0-0.rec"], "stream id 10 in its first frame; recording 2 has 11"),
        (lambda data: data[:8] + b"\x20" + data[9:], "term offset 32"),
    ],
)
def test_a_damaged_or_foreign_file_is_not_attached(damage: Callable[[bytes], bytes], why: str) -> None:
    storage = CrashingStorage(files())
    Folder(storage).detach_segments(2, 2 * SEGMENT)
    changed = {name: storage.read_all(name) for name in storage.names()}
    changed["2-0.rec"] = damage(changed["2-0.rec"])
    storage = CrashingStorage(changed)
    with pytest.raises(ArchiveError) as raised:
        Folder(storage).attach_segments(2)
    assert raised.value.where == "2-0.rec"
    assert why in str(raised.value)
    assert positions(storage)[2] == (128, 224)


def test_the_segments_of_another_publisher_are_attached() -> None:
    """Session ids differ where a recording was extended, and hold checksums where there are any."""
    storage = CrashingStorage(files())
    Folder(storage).detach_segments(2, SEGMENT)
    changed = {name: storage.read_all(name) for name in storage.names()}
    changed["2-0.rec"] = b"".join(
        frame[:12] + b"\x07\x00\x00\x00" + frame[16:]
        for frame in (changed["2-0.rec"][at : at + FRAME] for at in range(0, SEGMENT, FRAME))
    )
    storage = CrashingStorage(changed)
    assert Folder(storage).attach_segments(2) == 1
    assert messages(storage, 2) == list(range(224))


def test_a_frame_of_zeros_at_the_end_stays_when_a_migration_is_killed() -> None:
    """It looks like one that a crash tore, but its recording was stopped."""
    storage = CrashingStorage()
    options = archive.ArchiveOptions(segment_length=SEGMENT, catalog_capacity=4096)
    with archive.Archive.create(storage, options) as store:
        same: dict[str, Any] = {"session_id": 42, "initial_term_id": -1, "mtu_length": 8192}
        for position in (0, SEGMENT):
            framer = Framer(term_length=SEGMENT, stream_id=10, **same)
            framer.begin(position, position + SEGMENT)
            framer.frame_many([bytes(8192 - 32)] * 8, 0)
            with store.start_recording("aeron:ipc?term-length=64k", 10, position=position, **same) as recorder:
                recorder.append_block(framer.view())
    folder = Folder(storage)
    left: list[CrashingStorage] = []
    storage.after_each = lambda what: left.append(storage.kill())
    folder.migrate_segments(1, 0)
    for killed in left:
        again = Folder(killed)
        if positions(killed)[0] != (0, 2 * SEGMENT // FRAME):
            again.migrate_segments(1, 0)
        assert len(list(ArchiveStore.open(killed, {}).read("0"))) == 16


# An archive that is open


def test_an_open_archive_keeps_what_is_recorded_and_replayed(tmp_path: Path) -> None:
    with archive.create(tmp_path / "a", segment_length=SEGMENT) as store:
        events = store.events()
        recorder = store.start_recording("aeron:ipc?term-length=64k", 11)
        recorder.append_many([payload(n) for n in range(200)])
        with pytest.raises(ArchiveError, match="recording 0 is active") as raised:
            store.truncate_recording(0, FRAME)
        assert raised.value.code is ErrorCode.ACTIVE_RECORDING
        with pytest.raises(ArchiveError, match="from 65536 to 196608"):
            store.purge_segments(0, 4 * SEGMENT)
        replay = store.replay(0, SEGMENT)
        assert store.purge_position(0, keep_bytes=0) == SEGMENT
        with pytest.raises(ArchiveError, match="the segment at 65536 is being replayed"):
            store.purge_segments(0, 2 * SEGMENT)
        assert store.purge_segments(0, SEGMENT) == 1
        assert [int(record.payload[:6]) for record in replay] == list(range(64, 200))
        recorder.append(payload(200))
        assert store.purge_segments(0, store.purge_position(0, keep_bytes=9 * FRAME)) == 2
        recorder.stop()
        assert [int(record.payload[:6]) for record in store.replay(0)] == list(range(192, 201))
        replay = store.replay(0)
        store.truncate_recording(0, 195 * FRAME)
        assert list(replay) == []
        with store.extend_recording(0) as recorder:
            recorder.append(payload(7))
        store.purge_recording(0)
        assert [event.signal.name for event in _taken(events)] == [
            *("START", "DELETE", "DELETE", "STOP", "DELETE", "EXTEND", "STOP", "DELETE")
        ]


def test_replays_close_in_other_threads_while_a_recording_is_cut(tmp_path: Path) -> None:
    """Each replay that is looked at has another one closed, as a thread may do at any moment."""
    with archive.create(tmp_path / "a", segment_length=SEGMENT) as store:
        with store.start_recording("aeron:ipc?term-length=64k", 11) as recorder:
            recorder.append_many([payload(n) for n in range(10)])
        replays = [store.replay(0) for _ in range(20)]

        class Closing(archive.Replay):
            @property
            def segment_base(self) -> int:
                replays.pop().close()
                return super().segment_base

        for replay in replays:
            replay.__class__ = Closing
        assert store.purge_position(0, before_position=1) == 0
        assert not replays


@pytest.mark.parametrize("operation", ["truncate_recording", "purge_recording", "purge_segments", "migrate_segments"])
def test_who_listens_may_wait_for_a_thread_that_changes_the_archive(tmp_path: Path, operation: str) -> None:
    with archive.create(tmp_path / "a", segment_length=SEGMENT) as store:
        with store.start_recording("aeron:ipc?term-length=64k|init-term-id=1", 11) as recorder:
            recorder.append_many([payload(n) for n in range(128)])
        with store.start_recording("aeron:ipc?term-length=64k|init-term-id=1", 11, position=2 * SEGMENT) as recorder:
            recorder.append(payload(0))
        others: list[int] = []

        def listen(event: Event) -> None:
            if isinstance(event, SignalEvent) and event.signal is RecordingSignal.DELETE:
                asking = threading.Thread(target=lambda: others.append(len(store.recordings())), daemon=True)
                asking.start()
                asking.join(5)

        store.listen(listen)
        arguments = {"truncate_recording": (FRAME,), "purge_segments": (SEGMENT,), "migrate_segments": (1,)}
        getattr(store, operation)(0, *arguments.get(operation, ()))
        assert len(others) == 1


def _taken(events: archive.EventStream) -> list[archive.SignalEvent]:
    found = []
    while (event := events.take(0.01)) is not None:
        if isinstance(event, archive.SignalEvent):
            found.append(event)
    return found


def test_a_recording_is_not_extended_over_what_a_truncation_left_that_failed() -> None:
    storage = FaultyWrites(CrashingStorage(files()))
    options = archive.ArchiveOptions(segment_length=SEGMENT)
    with archive.Archive.open(storage, options) as store:
        storage.faults = WriteFaults(operations=frozenset({"remove"}), fail_at=storage.operation_count)
        with pytest.raises(WriteFailed):
            store.truncate_recording(2, 100 * FRAME)
        with pytest.raises(ArchiveError, match="truncate it to 102400 again") as raised:
            store.extend_recording(2)
        assert raised.value.code is ErrorCode.INVALID_EXTENSION
        assert store.truncate_recording(2, 100 * FRAME) == 2
        with store.extend_recording(2) as recorder:
            recorder.append_many([payload(n) for n in range(100, 200)])
    assert messages(storage, 2) == list(range(200))


def test_opening_an_archive_finishes_a_truncation_and_says_so(tmp_path: Path) -> None:
    storage = CrashingStorage(files())
    folder = Folder(storage)
    left: list[CrashingStorage] = []
    storage.after_each = lambda what: left.append(storage.kill())
    folder.truncate_recording(2, 100 * FRAME)
    cut = next(one for one in left if positions(one)[2] == (0, 100))
    report = ArchiveStore.open(cut, {}).verify()
    codes = [(fault.code, fault.severity) for fault in report.faults]
    beyond = ("segment-beyond-stop", Severity.NOTE)
    assert codes == [beyond, beyond, ("stop-position", Severity.NOTE)]
    options = archive.ArchiveOptions(segment_length=SEGMENT, liveness_timeout_s=0)
    with archive.Archive.open(cut, options) as store:
        assert store.recovered == ["recording 2: finished its truncation to 102400"]
    assert messages(cut, 2) == list(range(100))
    assert ArchiveStore.open(cut, {}).verify().ok


# As the real archive did


def test_a_real_archives_recordings_change_as_the_real_archive_changed_others(
    golden_truth: Callable[[str], dict[str, Any]],
) -> None:
    """Each recording has segments of 128 KiB. The real archive cut recording 5 from 271168 to 164192, with one file
    deleted, and recordings 7 and 8 had the same messages; it purged two segments of recording 6, three with 8."""
    storage = CrashingStorage(MemoryStorage.of_tar(GOLDEN / "archive-basic" / "archive.tar.gz").files)
    notes = golden_truth("archive-basic/truth")["allNotes"]
    folder = Folder(storage)
    assert folder.attach_segments(7) == 1
    assert _lengths(storage, 7) == _sizes(notes["7"], notes["7"]["messageCount"])
    assert folder.truncate_recording(7, notes["5"]["truncatePosition"]) == notes["5"]["truncateResult"]
    assert _lengths(storage, 7) == _lengths(storage, 5)
    assert folder.purge_segments(0, 262144) == notes["6"]["purgeSegmentsResult"]
    assert _lengths(storage, 0) == _sizes(notes["0"], notes["0"]["messageCount"])[-len(_lengths(storage, 0)) :]
    assert folder.purge_recording(5) == 2
    assert ArchiveStore.open(storage, {}).verify().faults == []


def _lengths(storage: Storage, recording_id: int) -> list[int]:
    return [len(record.payload) for record in ArchiveStore.open(storage, {}).read(str(recording_id))]


def _sizes(note: dict[str, Any], count: int) -> list[int]:
    return [note["sizes"][i % len(note["sizes"])] for i in range(count)]


@pytest.mark.parametrize("checksum", ["crc32", "none"])
@pytest.mark.parametrize("change", ["purge", "truncate", "extend"])
def test_a_kill_at_any_point_of_a_change_leaves_no_wrong_checksum_of_an_entry(
    change: str, checksum: str, series: Series
) -> None:
    storage = CrashingStorage()
    options = ArchiveOptions(segment_length=SEGMENT, catalog_capacity=4096, liveness_timeout_s=0, checksum="crc32")
    with Archive.create(storage, options) as owner, owner.start_recording("aeron:ipc?term-length=64k", 1) as recorder:
        recorder.append_many([payload(number) for number in range(200)])
    left: list[CrashingStorage] = []
    with Archive.open(storage, replace(options, checksum=checksum)) as owner:
        storage.after_each = lambda _: left.append(storage.kill())
        if change == "purge":
            owner.purge_segments(0, 2 * SEGMENT)
        elif change == "truncate":
            owner.truncate_recording(0, SEGMENT)
        else:
            owner.extend_recording(0).stop()
        storage.after_each = None
    assert len(left) > 3
    for folder in series.points(left):
        assert not [
            fault for fault in ArchiveStore.open(folder, {}).verify().faults if fault.code == "catalog-checksum"
        ]
    entry = ArchiveStore.open(storage, {}).folder.recordings()[0].entry
    assert entry is not None
    assert entry.checksum != 0
