"""The commit of a batch without Spark: it is killed, loses its power or fails at every single operation, and the retry
leaves each message once."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from everlog.aeron.archive.appending import RecordingAppending, RecordingOptions, RecordingTarget
from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.recording.options import ArchiveOptions
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.archive.writing import heartbeat
from everlog.core.appending.target import Target, Uncertain
from everlog.core.appending.target_name import TargetName
from everlog.core.files.storage import Storage
from everlog.core.files.writable import WritableStorage
from everlog.core.report import Fault
from everlog.errors import CorruptData, EverlogError, StoreUnavailable, UsageError, WriteFailed
from everlog.jlog import Writer
from everlog.jlog.appending import JournalTarget
from everlog.jlog.store import JlogStore
from everlog.pipelines.append import commits, messages, notes
from everlog.pipelines.append.commits import Committer, OnUncertain, Transaction
from everlog.pipelines.append.staging import Part, part_name, stage
from everlog.testing.series import Series
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.faulty_writes import FaultyWrites, WriteFaults

QUERY = "1738ea29-450b-4b9a-ad39-a41da0a1b08e"
NAMES = RecordingAppending()
THE_TARGET = TargetName("the target", "the target")
TERM = 64 << 10
ROWS = 9
SEEDS = 2
"""Power cuts at each moment."""
FOREIGN = b"of another writer"


@pytest.fixture(autouse=True)
def _small_and_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "CHUNK_BYTES", 900)
    monkeypatch.setattr(heartbeat, "INTERVAL_S", 3600.0)


@dataclass(frozen=True)
class Kind:
    """A kind of target: how it begins, is opened, is read, and how somebody else appends to it."""

    fresh: Callable[[], CrashingStorage]
    open: Callable[[WritableStorage], Target]
    read: Callable[[Storage], list[bytes]]
    append_foreign: Callable[[WritableStorage], None]


def journal() -> CrashingStorage:
    return CrashingStorage({"metastore": struct.pack("<IIII", 0, 2048, 1, 0x663A7318)}, root="journal")


def read_journal(storage: Storage) -> list[bytes]:
    with JlogStore.open(storage, {}) as store:
        faults: list[Fault] = []
        found = [record.payload for record in store.read("journal", on_fault=faults.append)]
        assert {fault.code for fault in faults} <= {"missing-segments"}
        return found


def append_to_journal(storage: WritableStorage) -> None:
    with Writer(storage) as writer:
        writer.append_many([FOREIGN] * 2)


ARCHIVE = ArchiveOptions(durability="synced", segment_length=TERM, catalog_capacity=4096, liveness_timeout_s=0)
CHANNEL = "aeron:ipc?term-length=64k|init-term-id=7|session-id=-99"


def archive() -> CrashingStorage:
    # A process that is killed in a write leaves whole pages of it.
    storage = CrashingStorage(root="archive", edge_bytes=4096)
    with Archive.create(storage, ARCHIVE) as made, made.start_recording(CHANNEL, 7) as recorder:
        # Close to the segment's end, so that batches go over it.
        recorder.append_many([b"before"] + [bytes(1000)] * 55)
    return storage


def open_recording(storage: WritableStorage) -> RecordingTarget:
    options = RecordingOptions(channel=CHANNEL, stream_id=7, wait_s=0, archive=ARCHIVE)
    return RecordingTarget(storage, options)


def read_recording(storage: Storage) -> list[bytes]:
    with ArchiveStore.open(storage, {}) as store:
        assert [fault for fault in store.verify().faults if fault.severity.value == "fault"] == []
        return [r.payload for r in store.read("0") if r.payload not in (b"before", bytes(1000))]


def append_to_recording(storage: WritableStorage) -> None:
    with Archive.open(storage, ARCHIVE) as opened, opened.extend_recording(0) as recorder:
        recorder.append_many([FOREIGN] * 2)


KINDS = {
    "journal": Kind(journal, JournalTarget, read_journal, append_to_journal),
    "recording": Kind(archive, open_recording, read_recording, append_to_recording),
}


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


def payloads(batch: int, count: int = ROWS) -> list[bytes]:
    """Some of them fragments of two frames."""
    return [b"%d/%d." % (batch, n) + b"abcdefghij"[n % 10 :][:1] * (60, 300, 1800)[n % 3] for n in range(count)]


def staged(storage: WritableStorage, batch: int, parts: list[list[bytes]], attempt: str) -> list[Part]:
    """Each list is what one task stages."""
    found = []
    for partition, listed in enumerate(parts):
        columns = [pa.array(listed, pa.binary()), pa.nulls(len(listed), pa.int64())]
        batches = [pa.RecordBatch.from_arrays(columns, names=["payload", "number"])]
        part = stage(
            storage,
            part_name(notes.batch_key(QUERY, batch), partition, attempt + os.urandom(4).hex()),
            partition,
            batches,
        )
        if part is not None:
            found.append(part)
    return found


def committer(kind: Kind, staging_storage: WritableStorage, target: WritableStorage) -> Committer:
    return Committer(staging_storage, THE_TARGET, lambda: kind.open(target), wait_s=0)


def first_try(kind: Kind, folder: WritableStorage, target: WritableStorage, batch: int) -> None:
    listed = payloads(batch)
    parts = staged(folder, batch, [listed[:5], [], listed[5:]], "first")
    committer(kind, folder, target).commit(parts, Transaction(QUERY, batch))


def second_try(kind: Kind, folder: WritableStorage, target: WritableStorage, batch: int) -> None:
    """The same rows, in another order: of a shuffle, nobody promises one."""
    listed = payloads(batch)[::-1]
    parts = staged(folder, batch, [listed[:4], listed[4:]], "second")
    committer(kind, folder, target).commit(parts, Transaction(QUERY, batch))


def staged_names(folder: Storage) -> list[str]:
    return [name for name in folder.names() if name.endswith(".staged")]


Moment = tuple[str, CrashingStorage, CrashingStorage]


def moments(kind: Kind, *, cut: int | None = None) -> list[Moment]:
    """Both folders as they are when the process is killed after each operation of batch 1's commit, or, with ``cut``,
    the power is cut there."""
    folder, target = CrashingStorage(root="staging"), kind.fresh()
    first_try(kind, folder, target, 0)
    found: list[Moment] = []

    def note(what: str) -> None:
        number = len(found)
        if cut is None:
            found.append((f"{number}: {what}", folder.kill(), target.kill()))
        else:
            seed = number * SEEDS + cut
            ordered = bool(seed % 2)
            found.append((f"{number}: {what}", *(s.crash(seed, ordered_names=ordered) for s in (folder, target))))

    folder.after_each = target.after_each = note
    first_try(kind, folder, target, 1)
    folder.after_each = target.after_each = None
    note("end")
    return found


def check_each_once(
    kind: Kind, moment: str, folder: CrashingStorage, target: CrashingStorage, *, is_cut: bool = False
) -> None:
    """Batch 0 and 1 are there whole, batch 1 in the order of one of the tries; and nothing staged is left. A power cut
    may leave zeros in a copy of a journal's message that was not synced, for the format has no checksums; ours have
    none."""
    found = kind.read(target)
    if is_cut and kind is KINDS["journal"]:
        found = [p for p in found if b"\0" not in p]
    assert found[:ROWS] == payloads(0), moment
    assert found[ROWS:] in (payloads(1), payloads(1)[::-1]), moment
    assert staged_names(folder) == [], moment
    assert notes.read_note(folder, QUERY) == notes.Note(QUERY, "the target", 1), moment


def test_a_commit_killed_after_any_operation_and_done_again_leaves_each_message_once(
    kind: Kind, series: Series
) -> None:
    killed = moments(kind)
    assert len(killed) > 50
    for moment, folder, target in series.points(killed):
        second_try(kind, folder, target, 1)
        check_each_once(kind, moment, folder, target)


@pytest.mark.parametrize("cut", range(SEEDS))
def test_a_power_cut_after_any_operation_and_a_retry_leave_each_message_once(
    kind: Kind, cut: int, series: Series
) -> None:
    for moment, folder, target in series.points(moments(kind, cut=cut)):
        second_try(kind, folder, target, 1)
        check_each_once(kind, moment, folder, target, is_cut=True)


def test_a_retry_that_is_killed_too_is_taken_up_by_a_third(kind: Kind, series: Series) -> None:
    half_done = [m for m in moments(kind) if (note := notes.read_note(m[1], QUERY)) and note.plan is not None]
    assert len(half_done) > 20
    for moment, folder, target in half_done[:: max(1, len(half_done) // 4)]:
        found: list[Moment] = []
        folder.after_each = target.after_each = lambda what, m=moment, f=folder, t=target, found=found: found.append(
            (f"{m}, {len(found)}: {what}", f.kill(), t.kill())
        )
        second_try(kind, folder, target, 1)
        for third in series.points(found[::4]):
            second_try(kind, *third[1:], 1)
            check_each_once(kind, *third)


def test_what_others_append_between_a_kill_and_the_retry_stays_and_takes_no_messages_place(
    kind: Kind, series: Series
) -> None:
    for moment, folder, target in series.points(moments(kind)):
        kind.append_foreign(target)
        second_try(kind, folder, target, 1)
        found = kind.read(target)
        assert found.count(FOREIGN) == 2, moment
        own = [p for p in found if p != FOREIGN]
        assert own[:ROWS] == payloads(0), moment
        assert own[ROWS:] in (payloads(1), payloads(1)[::-1]), moment


def test_the_next_commit_of_any_query_finishes_what_a_dead_one_began(kind: Kind, series: Series) -> None:
    other = Transaction("another-query", 0)
    for moment, folder, target in series.points(moments(kind)):
        was_begun = (note := notes.read_note(folder, QUERY)) is not None and note.plan is not None
        name = part_name(notes.batch_key(other.query, 0), 0, "x")
        batch = pa.RecordBatch.from_arrays([pa.array([b"other"]), pa.nulls(1, pa.int64())], names=["payload", "number"])
        part = stage(folder, name, 0, [batch])
        assert part is not None
        committer(kind, folder, target).commit([part], other)
        if was_begun:
            assert kind.read(target) == [*payloads(0), *payloads(1), b"other"], moment
        second_try(kind, folder, target, 1)
        found = kind.read(target)
        assert found.count(b"other") == 1, moment
        assert sorted(p for p in found if p != b"other") == sorted(payloads(0) + payloads(1)), moment


BY_CHANNEL = NAMES.target_name("archive", {"channel": CHANNEL, "stream_id": 7})
BY_ID = NAMES.target_name("archive", {"recording_id": 0})


def open_by_id(storage: WritableStorage) -> RecordingTarget:
    return RecordingTarget(storage, RecordingOptions(recording_id=0, wait_s=0, archive=ARCHIVE))


@pytest.mark.parametrize(
    ("noted", "name", "opened"),
    [
        (BY_CHANNEL.text, BY_ID, open_by_id),
        (BY_ID.text, BY_CHANNEL, open_recording),
        # As earlier versions named the target of a write without options.
        ("archive", NAMES.target_name("archive", {}), open_recording),
        ("archive", BY_ID, open_by_id),
    ],
)
def test_a_batch_begun_under_another_spelling_of_the_recording_is_finished_before_equal_messages_come(
    noted: str, name: TargetName, opened: Callable[[WritableStorage], Target], series: Series
) -> None:
    kind = KINDS["recording"]
    half_done = [(*m, note) for m in moments(kind) if (note := notes.read_note(m[1], QUERY)) and note.plan is not None]
    assert len(half_done) > 20
    for moment, folder, target, note in series.points(half_done):
        notes.publish(folder, replace(note, target=noted))
        other = [replace(part, partition=0) for part in staged(folder, 1, [payloads(1)], "other")]
        Committer(folder, name, lambda target=target: opened(target), wait_s=0).commit(other, Transaction("other", 0))
        assert kind.read(target) == payloads(0) + payloads(1) * 2, moment
        assert notes.read_note(folder, QUERY) == notes.Note(QUERY, noted, 1), moment


def test_a_query_goes_on_from_its_note_under_the_name_that_an_earlier_version_gave_its_target(series: Series) -> None:
    kind = KINDS["recording"]
    name = NAMES.target_name("archive", {"channel": "aeron:ipc", "stream_id": 7})
    for moment, folder, target in series.points(moments(kind)):
        note = notes.read_note(folder, QUERY)
        assert note is not None
        notes.publish(folder, replace(note, target="archive?streamId=7"))
        parts = staged(folder, 1, [payloads(1)], "second")
        Committer(folder, name, lambda target=target: kind.open(target)).commit(parts, Transaction(QUERY, 1))
        assert kind.read(target) == payloads(0) + payloads(1), moment


def test_a_batch_begun_in_another_recording_stays_that_querys() -> None:
    kind = KINDS["recording"]
    _, folder, target = next(m for m in moments(kind) if (n := notes.read_note(m[1], QUERY)) and n.plan is not None)
    note = notes.read_note(folder, QUERY)
    assert note is not None
    notes.publish(folder, replace(note, target="archive?recording=0"))
    options = RecordingOptions(channel="aeron:ipc?term-length=64k", stream_id=8, wait_s=0, archive=ARCHIVE)
    other = Committer(folder, NAMES.target_name("archive", {"stream_id": 8}), lambda: RecordingTarget(target, options))
    other.commit(staged(folder, 1, [[b"other"]], "other"), Transaction("other", 0))
    assert notes.read_note(folder, QUERY) == replace(note, target="archive?recording=0")
    with ArchiveStore.open(target, {}) as store:
        assert [r.payload for r in store.read("1")] == [b"other"]


@pytest.mark.parametrize("where", ["staging", "target"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_write_that_fails_at_any_operation_fails_the_commit_and_its_retry_leaves_each_message_once(
    kind: Kind, where: str, error: int, series: Series
) -> None:
    failures = 0
    for number in series.numbers():
        folder, target = CrashingStorage(root="staging"), kind.fresh()
        first_try(kind, folder, target, 0)
        faults = WriteFaults(fail_at=number, error=error)
        faulty = FaultyWrites(folder if where == "staging" else target, faults)
        both = (faulty, target) if where == "staging" else (folder, faulty)
        try:
            first_try(kind, *both, 1)
        except EverlogError:
            failures += 1
        faulty.faults = WriteFaults()
        second_try(kind, *both, 1)
        check_each_once(kind, f"{number}: {faulty.failed}", folder, target)
        if not faulty.failed:
            break
    assert failures > 10 * series.effort


def test_a_commit_that_was_taken_for_dead_does_no_harm_when_it_goes_on(kind: Kind) -> None:
    folder, target = CrashingStorage(root="staging"), kind.fresh()
    old = staged(folder, 0, [payloads(0)], "first")
    second_try(kind, folder, target, 0)
    assert committer(kind, folder, target).commit(old, Transaction(QUERY, 0)) == 0
    assert kind.read(target) == payloads(0)[::-1]


def test_an_abort_deletes_its_own_parts_but_for_those_that_a_note_needs(kind: Kind, series: Series) -> None:
    for moment, folder, target in series.points(moments(kind)):
        note = notes.read_note(folder, QUERY)
        if note is None or note.plan is None:
            continue
        fresh = staged(folder, 1, [payloads(1)[::-1]], "second")
        committer(kind, folder, target).abort([*note.plan.parts], Transaction(QUERY, 1))
        kept = {part.name for part in (*note.plan.parts, *fresh)}
        assert set(staged_names(folder)) == kept, moment
        committer(kind, folder, target).abort(fresh, Transaction(QUERY, 1))
        assert set(staged_names(folder)) == {part.name for part in note.plan.parts}, moment
        second_try(kind, folder, target, 1)
        assert kind.read(target) == payloads(0) + payloads(1), moment
        return
    raise AssertionError("no such moment")


# What is refused


def test_a_message_that_is_too_long_fails_the_commit_before_anything_is_appended(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everlog.jlog.appending.MAX_MESSAGE_BYTES", 8000)
    folder, target = CrashingStorage(root="staging"), kind.fresh()
    # A term of 64 KiB takes messages of an eighth of it.
    parts = staged(folder, 0, [payloads(0), [bytes(8193)]], "first")
    with pytest.raises(UsageError, match="8193 bytes"):
        committer(kind, folder, target).commit(parts, Transaction(QUERY, 0))
    assert kind.read(target) == []
    assert notes.read_note(folder, QUERY) is None
    committer(kind, folder, target).abort(parts, Transaction(QUERY, 0))
    assert staged_names(folder) == []


def test_an_archive_that_somebody_else_owns_is_told_and_nothing_is_appended() -> None:
    kind, folder, target = KINDS["recording"], CrashingStorage(root="staging"), archive()
    parts = staged(folder, 0, [payloads(0)], "first")
    with Archive.open(target, ARCHIVE), pytest.raises(StoreUnavailable, match="already open in another everlog"):
        committer(kind, folder, target).commit(parts, Transaction(QUERY, 0))
    assert kind.read(target) == []
    committer(kind, folder, target).commit(parts, Transaction(QUERY, 0))
    assert kind.read(target) == payloads(0)


def test_a_commit_waits_for_the_one_that_is_at_work_and_tells_when_it_takes_too_long(kind: Kind) -> None:
    folder, target = CrashingStorage(root="staging"), kind.fresh()
    parts = staged(folder, 0, [payloads(0)], "first")
    with folder.open_writable(commits.LOCK, create=True) as lock:
        assert lock.hold()
        with pytest.raises(StoreUnavailable, match="another query's commit held"):
            committer(kind, folder, target).commit(parts, Transaction(QUERY, 0))
    assert kind.read(target) == []


@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_a_staged_part_that_is_gone_or_changed_fails_the_commit_before_anything_is_appended(
    kind: Kind, damage: str
) -> None:
    folder, target = CrashingStorage(root="staging"), kind.fresh()
    parts = staged(folder, 0, [payloads(0), payloads(1)], "first")
    if damage == "gone":
        folder.remove(parts[1].name)
    else:
        with folder.open_writable(parts[1].name) as file:
            file.write_at(parts[1].byte_count // 2, b"\xff\x00")
    with pytest.raises(StoreUnavailable if damage == "gone" else CorruptData, match=parts[1].name):
        committer(kind, folder, target).commit(parts, Transaction(QUERY, 0))
    assert kind.read(target) == []


def test_a_query_that_goes_on_to_another_target_is_refused(kind: Kind) -> None:
    folder, target = CrashingStorage(root="staging"), kind.fresh()
    first_try(kind, folder, target, 0)
    other = Committer(folder, TargetName("another target", "another target"), lambda: kind.open(kind.fresh()))
    with pytest.raises(UsageError, match="another target needs a new checkpoint"):
        other.commit(staged(folder, 1, [payloads(1)], "first"), Transaction(QUERY, 1))


@pytest.mark.parametrize("query", [QUERY, "dead-query"])
@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "Expecting value"),
        (b'{"version": 1, "query": "%s"}', "no field 'target'"),
        (b'{"version": 2}', "version 2"),
        (b'{"version": 1, "query": "copied"}', "the note of query copied"),
    ],
)
def test_a_note_that_can_not_be_read_fails_every_commit_and_tells_its_path_and_what_to_do(
    kind: Kind, query: str, data: bytes, found: str
) -> None:
    folder, target = CrashingStorage(root="staging"), kind.fresh()
    name = query + notes.NOTE_SUFFIX
    folder.publish(name, data.replace(b"%s", query.encode()), replace=True)
    told = f"staging/{name}: {found}.*; expected a note of version 1 of query {query} .*move it away"
    with pytest.raises(CorruptData, match=told):
        first_try(kind, folder, target, 0)
    assert kind.read(target) == []
    folder.remove(name)
    folder.publish("shopping list.note", b"milk", replace=True)
    second_try(kind, folder, target, 0)
    assert kind.read(target) == payloads(0)[::-1]


def cut_off_segment() -> tuple[CrashingStorage, CrashingStorage]:
    """A batch half appended to a segment that subscribers were done with before the retry came."""
    kind = KINDS["journal"]
    for _, folder, target in moments(kind):
        note = notes.read_note(folder, QUERY)
        if note is not None and note.plan is not None and note.plan.place is not None and note.plan.appended:
            name = f"{note.plan.place['log']:08x}"
            with Writer(target) as writer:
                while name == max(n for n in target.names() if len(n) == 8):
                    writer.append(FOREIGN)
            target.remove(name)
            return folder, target
    raise AssertionError("no such moment")


def test_a_retry_that_cannot_tell_what_is_there_fails_unless_an_option_says_what_to_do() -> None:
    folder, target = cut_off_segment()
    kind, parts = KINDS["journal"], []
    with pytest.raises(Uncertain, match="onUncertain=repeat"):
        committer(kind, folder, target).commit(parts, Transaction(QUERY, 1))
    note = notes.read_note(folder, QUERY)
    assert note is not None
    plan = note.plan
    assert plan is not None
    for choice, behind in ((OnUncertain.REPEAT, plan.appended), (OnUncertain.SKIP, plan.appended + plan.most)):
        own, where = folder.kill(), target.kill()
        before = kind.read(where)
        chosen = Committer(own, THE_TARGET, lambda where=where: kind.open(where), on_uncertain=choice)
        chosen.commit(parts, Transaction(QUERY, 1))
        assert kind.read(where) == before + payloads(1)[behind:]


def test_an_empty_batch_is_noted_and_those_below_it_append_nothing(kind: Kind) -> None:
    folder, target = CrashingStorage(root="staging"), kind.fresh()
    assert committer(kind, folder, target).commit([], Transaction(QUERY, 7)) == 0
    assert notes.read_note(folder, QUERY) == notes.Note(QUERY, "the target", 7)
    first_try(kind, folder, target, 6)
    assert kind.read(target) == []
    assert staged_names(folder) == []
    first_try(kind, folder, target, 8)
    assert kind.read(target) == payloads(8)


# Without a transaction


def test_without_a_transaction_a_second_commit_appends_again_and_parts_are_deleted(kind: Kind) -> None:
    folder, target = CrashingStorage(root="staging"), kind.fresh()
    for _ in range(2):
        assert committer(kind, folder, target).commit(staged(folder, 0, [payloads(0)], "x")) == ROWS
    assert kind.read(target) == payloads(0) * 2
    assert staged_names(folder) == []


def test_a_write_without_a_transaction_that_fails_says_how_much_is_there(kind: Kind) -> None:
    folder, target = CrashingStorage(root="staging"), kind.fresh()
    parts = staged(folder, 0, [payloads(0)], "x")
    faulty = FaultyWrites(target, WriteFaults(operations=frozenset({"write"})))
    committer(kind, folder, faulty).commit(staged(folder, 1, [payloads(1)], "y"))
    faulty.faults = replace(faulty.faults, fail_at=faulty.operation_count + 4, count=1000)
    with pytest.raises(WriteFailed) as failed:
        committer(kind, folder, faulty).commit(parts)
    faulty.faults = WriteFaults()
    found = kind.read(target) if kind is KINDS["journal"] else None
    if found is not None:
        assert found[ROWS : ROWS + failed.value.appended] == payloads(0)[: failed.value.appended]


def test_the_order_of_a_batch_is_by_partition_or_by_the_column_that_was_asked_for() -> None:
    folder = CrashingStorage(root="staging")
    keys = [[1, 4, 4, 9], [2, 4, 8]]
    parts = []
    for partition, listed in enumerate(keys):
        names = [b"%d of %d" % (key, partition) for key in listed]
        columns = [pa.array(names), pa.nulls(len(listed), pa.int64()), pa.array(listed)]
        batch = pa.RecordBatch.from_arrays(columns, names=["payload", "number", "order"])
        part = stage(folder, part_name("q.0", partition, "x"), partition, [batch])
        assert part is not None
        parts.append(part)
    merged = [p for chunk in messages.chunks(folder, parts[::-1], 0) for p in chunk.payloads]
    assert merged == [b"1 of 0", b"2 of 1", b"4 of 0", b"4 of 0", b"4 of 1", b"8 of 1", b"9 of 0"]
    unordered = [replace(part, is_ordered=False) for part in parts]
    plain = [p for chunk in messages.chunks(folder, unordered[::-1], 2) for p in chunk.payloads]
    assert plain == [b"4 of 0", b"9 of 0", b"2 of 1", b"4 of 1", b"8 of 1"]
