"""Repair: nothing intact is lost, nobody skips a message, and the original's best repair saves no more."""

from __future__ import annotations

import re
import struct
from collections import Counter

import pytest

import tests
from everlog.errors import FileChanged, StoreUnavailable, UsageError
from everlog.jlog.repair.planning import PARTS, plan_repair
from everlog.jlog.store import JlogStore
from everlog.testing.storage.crashing import CrashingFile, CrashingStorage

GOLDEN = tests.GOLDEN / "jlog"
DAMAGED = sorted(path.name for path in GOLDEN.iterdir() if path.name.startswith("e_"))
INTACT = sorted(
    path.name for path in GOLDEN.iterdir() if path.is_dir() and not path.name.startswith(("e_", "precommit_big"))
)
GONE = {"e_seg_empty_closed": ["missing-segments"]}
"""What no repair brings back."""
APPENDED = {(40, "d6f769ef"), (40, "df1aa33c"), (40, "347eccb9")}
"""What the original wrote behind a torn message, as it read it after its repair; a merged message is none of these."""
LINE = re.compile(r"([0-9a-f]{8}):([0-9a-f]{8}) len (\d+) crc ([0-9a-f]{8}) ts (\d+)\.(\d{6})")


def records(storage):
    """Everything that reading gives, damage passed over."""
    return list(JlogStore.open(storage, {}).read("journal", on_fault=lambda fault: None))


def contents(storage):
    return [(record.timestamp_ns, record.payload) for record in records(storage)]


def checkpoint(storage, file):
    return struct.unpack("<II", storage.read_all(file))


def left_for(storage, place):
    """What a subscriber at a checkpoint has still to get."""
    return [(r.timestamp_ns, r.payload) for r in records(storage) if (r.fields["log"], r.fields["marker"]) > place]


def is_within(part, whole):
    """Whether ``part`` is left of ``whole`` when some of it is taken away: same order."""
    rest = iter(whole)
    return all(any(item == other for other in rest) for item in part)


def faults(storage):
    return [f.code for f in JlogStore.open(storage, {}).verify().faults if f.severity.value == "fault"]


def files_of(storage):
    return {name: storage.read_all(name) for name in storage.names()}


@pytest.fixture
def writable(golden):
    """A golden journal in a folder in memory that can be written."""
    return lambda case: CrashingStorage(golden(case).files)


def repaired(storage):
    plan = plan_repair(storage)
    done = plan.apply()
    assert len(done) == len(plan.steps)
    return plan


# Golden journals


@pytest.mark.parametrize("case", DAMAGED)
def test_a_repaired_journal_has_no_fault_and_needs_no_second_repair(writable, case):
    storage = writable(case)
    repaired(storage)
    assert faults(storage) == GONE.get(case, [])
    assert plan_repair(storage).is_empty


@pytest.mark.parametrize("case", DAMAGED)
def test_every_record_that_could_be_read_is_there_in_the_same_order(writable, case):
    storage = writable(case)
    before = contents(storage)
    repaired(storage)
    assert contents(storage) == before
    assert before


@pytest.mark.parametrize("case", [case for case in DAMAGED if case != "e_trunc_bogus_noidx"])
def test_what_the_best_repair_of_the_original_saves_is_saved(writable, truth, case):
    storage = writable(case)
    repaired(storage)
    saved = Counter((len(r.payload), f"{_crc(r.payload):08x}") for r in records(storage))
    told = truth(case)
    written = {(row[3], row[4]) for row in told["messages_originally_written"]} | APPENDED
    for repair in told["repairs"].values():
        theirs = Counter((row[3], row[4]) for row in repair["after"]["messages"])
        assert not Counter({message: count for message, count in theirs.items() if message in written}) - saved


@pytest.mark.parametrize("case", [case for case in DAMAGED if case != "e_trunc_bogus_noidx"])
def test_a_subscriber_gets_at_least_what_the_originals_repairs_give_it(writable, truth, case):
    storage = writable(case)
    repaired(storage)
    for repair in truth(case)["repairs"].values():
        for name, read in repair["reads_after"].items():
            bogus = {tuple(row) if isinstance(row, list) else row for row in read["bogus_messages"]}
            assert not bogus
            given = [
                (int(time) * 10**9 + int(usec) * 1000, int(size), crc)
                for _, _, size, crc, time, usec in LINE.findall(read["stdout"])
            ]
            left = [
                (time, len(payload), f"{_crc(payload):08x}")
                for time, payload in left_for(storage, checkpoint(storage, f"cp.{name.encode().hex()}"))
            ]
            assert is_within(given, left), (name, len(given), len(left))


@pytest.mark.parametrize("case", DAMAGED)
def test_no_subscriber_skips_a_message(writable, case):
    storage = writable(case)
    before = {
        name: left_for(storage, checkpoint(storage, name))
        for name in storage.names()
        if name.startswith("cp.") and storage.size(name) == 8
    }
    repaired(storage)
    for name, left in before.items():
        assert is_within(left, left_for(storage, checkpoint(storage, name))), name


@pytest.mark.parametrize("case", INTACT)
def test_an_intact_journal_is_left_alone(writable, case):
    storage = writable(case)
    before = files_of(storage)
    plan = plan_repair(storage)
    assert (plan.is_empty, plan.unrepaired, plan.loses) == (True, (), [])
    assert plan.apply() == []
    assert files_of(storage) == before


def test_an_intact_compressed_journal_is_left_alone(writable):
    """The original's aggressive repair empties it."""
    assert plan_repair(writable("e_lz4_intact_repair")).is_empty


@pytest.mark.parametrize("case", DAMAGED)
def test_planning_changes_nothing_and_tells_each_step(writable, case):
    storage = writable(case)
    before = files_of(storage)
    plan = plan_repair(storage)
    assert files_of(storage) == before
    for step, told in zip(plan.steps, plan.to_dict()["steps"], strict=True):
        assert all(told[name] for name in ("file", "before", "after", "loses"))
        assert told["before"] != told["after"]
        assert (f"{step.file}: {step.loses}" in plan.loses) == (step.loses != "nothing")


def test_messages_that_a_large_one_overwrote_are_put_back(writable, truth):
    """The original lost three of four; the buffer still has them."""
    storage = writable("precommit_big_message_loses_data")
    before = contents(storage)
    repaired(storage)
    assert faults(storage) == []
    waiting = list(JlogStore.open(storage, {"pre_commit": True}).read("journal"))
    assert [(r.timestamp_ns, r.payload) for r in waiting][: len(before)] == before
    assert len(waiting) == len(before) + 3
    assert plan_repair(storage).is_empty


# Journals made by hand


@pytest.fixture
def frames(make):
    return [make.message(bytes([i]) * (20 + i), 100 + i) for i in range(12)]


def journal(make, files, **fields):
    return CrashingStorage({"metastore": make.metastore(**fields)} | files)


def cp(log, marker):
    return struct.pack("<II", log, marker)


def test_checkpoints_behind_a_torn_message_go_on_with_the_same_message(make, frames):
    torn = frames[0] + frames[1] + frames[2][:25] + b"".join(frames[3:6])
    names = {f"cp.{n:02x}": cp(0, n) for n in range(7)}
    storage = journal(make, {"00000000": torn} | names)
    lefts = {name: left_for(storage, checkpoint(storage, name)) for name in names}
    plan = repaired(storage)
    # message 3 is torn: 1 and 2 stay what they are, 4, 5 and 6 become 3, 4 and 5
    assert [checkpoint(storage, name)[1] for name in sorted(names)] == [0, 1, 2, 2, 3, 4, 5]
    assert {name: left_for(storage, checkpoint(storage, name)) for name in names} == lefts
    assert all("nothing" in step.loses or step.file == "00000000" for step in plan.steps)
    assert storage.read_all("00000000") == b"".join(frames[:2] + frames[3:6])


def test_behind_damage_of_unknown_extent_messages_are_given_again(make, frames):
    """Two messages are overwritten; without an index nobody knows that there were two."""
    data = frames[0] + b"\xee" * len(frames[1] + frames[2]) + b"".join(frames[3:6])
    storage = journal(make, {"00000000": data, "cp.61": cp(0, 5), "cp.62": cp(0, 1)})
    plan = repaired(storage)
    assert checkpoint(storage, "cp.61") == (0, 1)
    assert checkpoint(storage, "cp.62") == (0, 1)
    assert any("again" in told for told in plan.loses)


def test_an_index_tells_how_many_messages_were_in_the_damage(make, frames):
    data = frames[0] + b"\xee" * len(frames[1] + frames[2]) + b"".join(frames[3:6])
    offsets = [sum(map(len, frames[:n])) for n in range(6)]
    names = {f"cp.{n:02x}": cp(0, n) for n in range(7)}
    storage = journal(make, {"00000000": data, "00000000.idx": make.index(*offsets)} | names)
    repaired(storage)
    # 2 and 3 are lost; 4, 5 and 6 become 2, 3 and 4
    assert [checkpoint(storage, name)[1] for name in sorted(names)] == [0, 1, 1, 1, 2, 3, 4]
    assert "00000000.idx" not in storage.names()


def test_an_index_that_ends_inside_the_damage_still_tells_which_message_a_checkpoint_means(make, frames):
    """Messages 3 to 6 are overwritten, the index ends with 4. Whoever is done with 4 has 7 still to get, though reading
    numbers it 4, for the damage counts as one."""
    data = frames[0] + frames[1] + b"\xee" * sum(map(len, frames[2:6])) + b"".join(frames[6:9])
    offsets = [sum(map(len, frames[:n])) for n in range(4)]
    storage = journal(make, {"00000000": data, "00000000.idx": make.index(*offsets), "cp.61": cp(0, 4)})
    repaired(storage)
    assert checkpoint(storage, "cp.61") == (0, 2)
    assert [payload[0] for _, payload in left_for(storage, (0, 2))] == [6, 7, 8]


def test_a_checkpoint_on_a_torn_last_message_goes_back_before_the_cut(make, frames):
    """Else it would skip the message that is written there next."""
    storage = journal(make, {"00000000": frames[0] + frames[1][:-3], "cp.61": cp(0, 2)})
    plan = repaired(storage)
    assert [step.file for step in plan.steps] == ["cp.61", "00000000"]
    assert checkpoint(storage, "cp.61") == (0, 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"", (4, 0)),
        (b"\5\0\0\0", (4, 0)),
        (b"\5\0\0\0\1\0\0\0\0", (4, 0)),
        (cp(0, 7), (4, 0)),
        (cp(3, 1), (4, 0)),
        (cp(4, 3), (4, 2)),
        (cp(5, 2), (5, 2)),
        (cp(6, 9), (6, 1)),
        (cp(7, 0), (6, 1)),
        (cp(7, 4), (6, 1)),
        (cp(8, 0), (4, 0)),
        (cp(0xFFFF_FFFF, 1), (4, 0)),
    ],
)
def test_each_wrong_checkpoint_goes_to_its_place(make, frames, old, new):
    files = {
        "00000004": frames[0] + frames[1],
        "00000005": frames[2] + frames[3],
        "00000006": frames[4],
        "cp.7e61": old,  # a transient one is no other
    }
    storage = journal(make, files, log=6, limit=40)
    repaired(storage)
    assert checkpoint(storage, "cp.7e61") == new
    assert storage.size("cp.7e61") == 8
    assert faults(storage) == []


def test_a_metastore_ahead_gets_its_segment_and_checkpoints_stay(make, frames):
    storage = journal(make, {"00000001": frames[0], "cp.61": cp(2, 0)}, log=2, limit=20)
    repaired(storage)
    assert storage.read_all("00000002") == b""
    assert checkpoint(storage, "cp.61") == (2, 0)
    assert faults(storage) == []
    assert plan_repair(storage).is_empty


def test_a_metastore_far_ahead_is_not_believed(make, frames):
    files = {"00000001": frames[0], "00000001.idx": make.index(0, 0), "cp.61": cp(0x8000_0001, 5)}
    storage = journal(make, files, log=0x8000_0001, limit=20)
    repaired(storage)
    assert struct.unpack_from("<I", storage.read_all("metastore")) == (1,)
    assert checkpoint(storage, "cp.61") == (1, 0)
    assert faults(storage) == []
    assert plan_repair(storage).is_empty


def test_a_checkpoint_in_a_lost_segment_goes_to_the_beginning_of_the_one_that_is_created_for_it(make, frames):
    files = {"00000001": frames[0], "cp.61": cp(2, 5), "cp.62": cp(2, 0), "cp.63": cp(3, 0)}
    storage = journal(make, files, log=2, limit=20)
    plan = repaired(storage)
    assert [checkpoint(storage, f"cp.6{n}") for n in (1, 2, 3)] == [(2, 0)] * 3
    assert plan.unrepaired == ()
    assert faults(storage) == []


def test_a_finished_segment_with_a_torn_header_is_deleted_whatever_the_metastore_says(make, frames):
    """Its own framing counts, not the one that the metastore is to have."""
    old = [make.message(bytes([i]) * 30, 100 + i, magic=0) for i in range(8)]
    files = {"00000000": b"".join(old), "00000001": bytes(4) + b"\1\0\0\0", "00000002": b"".join(old)}
    storage = journal(make, {"metastore": make.metastore(2, 10)[:12]} | files)
    before = contents(storage)
    repaired(storage)
    assert "00000001" not in storage.names()
    assert contents(storage) == before


def test_a_compressed_journal_that_lost_its_metastore_stays_compressed(writable):
    """The original makes it a plain one, of which it then can't read a message."""
    storage = writable("lz4")
    old = storage.read_all("metastore")
    before = contents(storage)
    storage.remove("metastore")
    repaired(storage)
    assert storage.read_all("metastore")[12:] == old[12:]
    assert contents(storage) == before
    assert faults(storage) == []


def test_a_metastore_that_says_plain_is_set_to_the_messages_compression(writable):
    storage = writable("lz4")
    old = storage.read_all("metastore")
    with storage.open_writable("metastore") as file:
        file.write_at(12, struct.pack("<I", 0x663A7318))
    repaired(storage)
    assert storage.read_all("metastore") == old
    assert faults(storage) == []


@pytest.mark.parametrize("field", [{"limit": 0}, {"safety": 3}, {"magic": 5}])
def test_valid_fields_of_the_metastore_are_kept(make, frames, field):
    wrong = make.metastore(**({"log": 0, "limit": 77, "safety": 2} | field))
    storage = journal(make, {"metastore": wrong, "00000000": frames[0]})
    repaired(storage)
    expected = {"log": 0, "limit": 77, "safety": 2}
    expected |= {"limit": {"limit": 4 << 20}, "safety": {"safety": 1}, "magic": {}}[next(iter(field))]
    assert storage.read_all("metastore") == make.metastore(**expected)


def test_a_journal_of_version_1_to_which_version_2_wrote_on_becomes_one_of_version_2(make):
    old = [make.message(bytes([i]) * 30, 100 + i, magic=0) for i in range(8)]
    new = [make.message(bytes([i]) * 30, 200 + i) for i in range(3)]
    storage = journal(make, {"00000000": b"".join(old + new), "cp.61": cp(0, 9)})
    before = contents(storage)
    assert len(before) == 11
    repaired(storage)
    assert contents(storage) == before
    assert storage.read_all("00000000")[: 46 * 8] == b"".join(make.PLAIN.to_bytes(4, "little") + m[4:] for m in old)
    assert checkpoint(storage, "cp.61") == (0, 9)
    assert plan_repair(storage).is_empty


def test_damage_in_a_journal_of_version_1_is_cut_while_its_headers_are_rewritten(make):
    old = [make.message(bytes([i]) * 30, 100 + i, magic=0) for i in range(14)]
    data = b"".join(old[:6]) + b"\xdd" * 46 + b"".join(old[7:])
    storage = journal(make, {"metastore": make.metastore()[:12], "00000000": data})
    before = contents(storage)
    assert len(before) == 13
    repaired(storage)
    assert contents(storage) == before
    assert faults(storage) == []
    assert len(storage.read_all("metastore")) == 16


def test_a_finished_segment_of_which_nothing_is_left_is_deleted_and_its_subscriber_goes_on_behind_it(make, frames):
    files = {"00000000": frames[0], "00000001": frames[1][:30], "00000002": frames[2], "cp.61": cp(1, 1)}
    storage = journal(make, files, log=2, limit=10)
    plan = repaired(storage)
    assert "00000001" not in storage.names()
    assert checkpoint(storage, "cp.61") == (2, 0)
    assert "30 bytes" in " ".join(plan.loses)
    assert faults(storage) == ["missing-segments"]


def test_emptied_first_segments_leave_no_hole(make, frames):
    files = {"00000000": b"", "00000001": b"", "00000002": frames[2], "cp.61": cp(0, 4), "cp.62": cp(1, 0)}
    storage = journal(make, files, log=2, limit=10)
    repaired(storage)
    assert [checkpoint(storage, name) for name in ("cp.61", "cp.62")] == [(2, 0), (2, 0)]
    assert faults(storage) == []


def test_a_segment_without_any_message_that_is_known_is_left_alone(make, frames):
    strange = b"no journal wrote this, but it may be somebody's" * 20
    storage = journal(make, {"00000000": strange, "00000001": frames[0]}, log=1, limit=10)
    plan = repaired(storage)
    assert storage.read_all("00000000") == strange
    assert [fault.code for fault in plan.unrepaired] == ["damaged-bytes"]


def test_plain_messages_in_a_compressed_journal_are_not_cut_out(make, frames):
    """The original's repair takes it for a plain one, and its writers write on so."""
    data = make.stored(b"one", 3, magic=make.NULL) + frames[0] + frames[1]
    storage = journal(make, {"00000000": data}, magic=make.NULL)
    plan = repaired(storage)
    assert plan.is_empty
    assert [fault.code for fault in plan.unrepaired] == ["damaged-bytes"]
    assert storage.read_all("00000000") == data


def test_an_undecodable_payload_is_cut_out(make):
    lz4 = pytest.importorskip("lz4.block")
    good = [make.stored(lz4.compress(bytes([i]) * 50, store_size=False), 50, 100 + i, make.LZ4) for i in range(4)]
    bad = make.stored(b"\xf0\xff\xff", 50, 101, make.LZ4)
    storage = journal(make, {"00000000": good[0] + bad + good[2] + good[3], "cp.61": cp(0, 3)}, magic=make.LZ4)
    assert faults(storage) == ["undecodable-payload"]
    repaired(storage)
    assert storage.read_all("00000000") == good[0] + good[2] + good[3]
    assert checkpoint(storage, "cp.61") == (0, 2)


def test_files_that_nobody_needs_go(make, frames):
    files = {"00000000": frames[0], "00000007.idx": make.index(0), "cp.6": cp(0, 0), "notes.txt": b"mine"}
    storage = journal(make, files)
    repaired(storage)
    assert storage.names() == ["00000000", "metastore", "notes.txt"]


def pre_commit(used, content, capacity=300):
    return used.to_bytes(4, "little") + content.ljust(capacity, b"\0")


def test_a_pre_commit_buffer_keeps_whole_messages_that_are_not_in_the_journal(make, frames):
    a, b, c, d = (make.message(letter * 20, 900 + i) for i, letter in enumerate([b"a", b"b", b"c", b"d"]))
    written = frames[0] + a
    cases = [
        (b"\1\2", b""),
        (pre_commit(36, a), b""),
        (pre_commit(72, a + b), b),
        (pre_commit(0x7FFF_FFFF, b + c + a), b + c),
        (pre_commit(36 + 16, b + c[:16]), b),
        (pre_commit(36 * 3 + 5, b + b"\xee" * 5 + c + d), b + c + d),
    ]
    for data, left in cases:
        storage = journal(make, {"00000000": written, "pre_commit": data})
        repaired(storage)
        after = storage.read_all("pre_commit")
        assert after[4 : 4 + len(left)] == left, data[:80]
        assert int.from_bytes(after[:4], "little") == len(left), data[:80]
        assert len(after) == max(4, len(data))
        assert faults(storage) == []
        assert plan_repair(storage).is_empty


def test_two_equal_messages_that_wait_are_dropped_only_as_often_as_they_are_written(make, frames):
    twin = make.message(b"twin" * 5, 900)
    storage = journal(make, {"00000000": frames[0] + twin, "pre_commit": pre_commit(72, twin * 2)})
    repaired(storage)
    assert int.from_bytes(storage.read_all("pre_commit")[:4], "little") == 36


# What stops a repair


def test_a_file_that_changed_since_the_plan_is_not_touched(make, frames):
    cases = [
        ("00000000", lambda file: file.write_at(file.size(), frames[3])),
        ("00000000", lambda file: file.write_at(len(frames[0]), b"\xee" * 20)),
        ("cp.61", lambda file: file.write_at(0, cp(0, 1))),
        ("metastore", lambda file: file.write_at(8, b"\2")),
        ("pre_commit", lambda file: file.write_at(0, (36).to_bytes(4, "little"))),
        ("00000001.idx", lambda file: file.truncate(8)),
    ]
    for name, change in cases:
        torn = frames[0] + frames[1][:25] + frames[2]
        waiting = make.message(b"w" * 20, 999)
        storage = journal(
            make,
            {
                "00000000": torn,
                "00000001": frames[4],
                "00000001.idx": make.index(0, 77),
                "cp.61": cp(9, 9),
                "pre_commit": pre_commit(52, waiting),
            },
            log=0,
            limit=10,
        )
        plan = plan_repair(storage)
        assert {step.file for step in plan.steps} >= {name}
        with storage.open_writable(name) as file:
            change(file)
        before = files_of(storage)
        (step,) = [step for step in plan.steps if step.file == name]
        with pytest.raises(FileChanged):
            step.apply(None)
        assert files_of(storage) == before, name


def test_nothing_is_changed_while_a_process_has_a_file_open_that_must_not(make, frames):
    torn = frames[0] + frames[1][:25] + frames[2]
    files = {"00000000": torn, "cp.61": cp(9, 9), "pre_commit": pre_commit(52, frames[3]), "00000001": frames[4]}
    for name in ("00000000", "cp.61", "metastore", "pre_commit"):
        storage = journal(make, files, log=0, limit=10)
        plan = plan_repair(storage)
        before = files_of(storage)
        with storage.open(name), pytest.raises(StoreUnavailable, match="stop the journal's writers"):
            plan.apply()
        assert files_of(storage) == before
        plan.apply()
        assert faults(storage) == []


@pytest.mark.parametrize("is_emptied", [False, True], ids=["rewritten", "deleted"])
def test_repair_locks_an_index_before_its_segment_as_readers_and_writers_do(make, frames, monkeypatch, is_emptied):
    """Who has the index waits for the segment: what repair did to them in the other order would wait for ever."""
    damaged = frames[1][:30] if is_emptied else frames[1] + b"\xee" * 20 + frames[3]
    files = {"00000000": frames[0], "00000001": damaged, "00000001.idx": make.index(0, 50), "00000002": frames[2]}
    storage = journal(make, files, log=2, limit=10)
    plan = plan_repair(storage)
    (step,) = [step for step in plan.steps if step.file == "00000001"]
    assert type(step).__name__ == ("DeleteSegment" if is_emptied else "RewriteSegment")
    other = storage.open_writable("00000001.idx")
    other.lock()
    lock = CrashingFile.lock

    def lock_when_the_other_is_done(file, *, wait=True):
        if file.name == other.name:
            with storage.open_writable("00000001") as segment:
                assert lock(segment, wait=False), "the other one, which has the index, waits for the segment"
            other.unlock()
        return lock(file, wait=wait)

    monkeypatch.setattr(CrashingFile, "lock", lock_when_the_other_is_done)
    step.apply(None)
    assert "00000001.idx" not in storage.names()


@pytest.mark.parametrize("is_emptied", [False, True], ids=["rewritten", "deleted"])
def test_an_index_that_a_reader_makes_while_its_segment_is_repaired_stops_the_repair(
    make, frames, monkeypatch, is_emptied
):
    damaged = frames[1][:30] if is_emptied else frames[1] + b"\xee" * 20 + frames[3]
    storage = journal(make, {"00000000": frames[0], "00000001": damaged, "00000002": frames[2]}, log=2, limit=10)
    plan = plan_repair(storage)
    (step,) = [step for step in plan.steps if step.file == "00000001"]
    lock = CrashingFile.lock

    def lock_and_let_a_reader_in(file, *, wait=True):
        if file.name == "00000001":
            storage.open_writable("00000001.idx", create=True).close()
        return lock(file, wait=wait)

    with monkeypatch.context() as patch:
        patch.setattr(CrashingFile, "lock", lock_and_let_a_reader_in)
        with pytest.raises(FileChanged):
            step.apply(None)
    assert storage.read_all("00000001") == damaged
    repaired(storage)
    assert storage.read_all("00000000") == frames[0]
    assert set(faults(storage)) <= {"missing-segments"}


def test_a_torn_end_and_a_wrong_index_are_repaired_while_writers_are_at_work(make, frames):
    files = {"00000000": frames[0] + frames[1][:25], "00000000.idx": make.index(0, len(frames[0]), 999)}
    storage = journal(make, files)
    with storage.open("metastore"), storage.open_writable("00000000") as writer, storage.open("00000000.idx"):
        repaired(storage)
        writer.write_at(writer.size(), frames[2])
    assert storage.read_all("00000000") == frames[0] + frames[2]
    assert faults(storage) == []


def test_parts_limit_a_repair_and_what_is_left_is_told(make, frames):
    files = {"00000000": frames[0] + frames[1][:25], "cp.61": b"", "cp.62": cp(0, 2)}
    storage = journal(make, files, safety=7)
    plan = plan_repair(storage, parts={"segments"})
    assert [step.file for step in plan.steps] == ["cp.62", "00000000"]
    assert {fault.code for fault in plan.unrepaired} == {"checkpoint-empty", "metastore-field"}
    plan.apply()
    assert storage.size("cp.61") == 0
    with pytest.raises(UsageError):
        plan_repair(storage, parts={"everything"})
    assert "segments" in PARTS


def test_what_is_cut_out_or_written_over_goes_to_the_backup_first(make, frames):
    class Kept(dict):
        def save(self, name, pieces):
            self[name] = b"".join(pieces)

    torn = frames[0] + frames[1][:25] + frames[2]
    old = {"00000000": torn, "00000000.idx": make.index(0), "cp.61": cp(9, 9), "metastore": make.metastore(safety=9)}
    storage = CrashingStorage(old)
    kept = Kept()
    plan_repair(storage).apply(backup=kept)
    assert kept.pop("plan.json").startswith(b"{")
    assert kept == {
        "metastore": old["metastore"],
        "cp.61": old["cp.61"],
        f"00000000@{len(frames[0])}": frames[1][:25],
    }
    now = storage.read_all("00000000")
    at = len(frames[0])
    assert now[:at] + kept[f"00000000@{at}"] + now[at:] == torn


def _crc(payload):
    import zlib

    return zlib.crc32(payload)
