"""The checks for journals in trouble: each with what sets it off, and with what nearly does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from everlog import open_store
from everlog.core.files.storage import LocalStorage
from everlog.core.report import Severity
from everlog.errors import UsageError
from everlog.jlog.format.checkpoints import Checkpoint
from everlog.jlog.format.faults import fault
from everlog.jlog.format.names import checkpoint_name
from everlog.jlog.monitoring.health import WARNINGS, HealthLimits, check_health, span_text
from everlog.jlog.monitoring.lag import Lag
from everlog.jlog.monitoring.observation import Observation, SegmentSnapshot, SubscriberSnapshot, observe
from everlog.time_units import NS_PER_S as NS

NOW = 1_700_000_000
HOUR = 3600


def subscriber(name="reader", place=(2, 5), waits=0.0, written=10.0, held=None, byte_count=8, error=None):
    """A subscriber whose oldest message has waited, and whose checkpoint was written, so many seconds ago."""
    log, marker = place or (None, None)
    checkpoint = Checkpoint(name, checkpoint_name(name), byte_count, log, marker, error)
    lag = Lag(None, 0, waits, None)
    return SubscriberSnapshot(checkpoint, lag, None if written is None else int((NOW - written) * NS), held)


def segment(log, size=1000, age=0.0):
    return SegmentSnapshot(log, size, int((NOW - age) * NS))


HEALTHY = Observation(
    at_ns=NOW * NS,
    segments=(segment(1, age=200), segment(2)),
    subscribers=(subscriber(),),
    storage_log=2,
    safety=1,
    free_bytes=1 << 40,
)


def seen(*subscribers, **changes):
    return replace(HEALTHY, subscribers=subscribers or HEALTHY.subscribers, **changes)


def earlier(seconds, *subscribers, **changes):
    return replace(seen(*subscribers, **changes), at_ns=(NOW - seconds) * NS)


def codes(now, before=None, **limits):
    return [f.code for f in check_health(now, before, HealthLimits(**limits))]


def test_a_journal_whose_subscribers_keep_up_sets_nothing_off():
    assert codes(HEALTHY) == []


STALLED = subscriber(waits=HOUR + 1, written=HOUR + 1)


def test_a_subscriber_is_stalled_when_its_oldest_message_and_its_checkpoint_are_old():
    (found,) = check_health(seen(STALLED))
    assert (found.code, found.file, found.severity) == ("subscriber-stalled", "cp.726561646572", Severity.FAULT)
    assert "subscriber reader at 00000002:00000005" in found.found
    assert "00000002" in found.loses


@pytest.mark.parametrize(
    "ill",
    [
        subscriber(waits=HOUR, written=HOUR * 9),
        subscriber(waits=HOUR * 9, written=HOUR),
        subscriber(waits=HOUR * 9, written=1),
        subscriber(waits=HOUR * 9, written=None),
        subscriber(waits=None, written=HOUR * 9),
        subscriber(waits=0, written=HOUR * 9),
    ],
    ids=["young message", "young checkpoint", "works off a backlog", "no times", "lag not known", "all done"],
)
def test_a_subscriber_is_not_stalled_when_one_look_does_not_show_it(ill):
    assert codes(seen(ill)) == []


def test_a_second_look_shows_that_a_checkpoint_does_not_move():
    slow = subscriber(waits=HOUR + 1, written=None)
    assert codes(seen(slow), earlier(60, slow)) == ["subscriber-stalled"]
    assert codes(seen(slow), earlier(59, slow)) == []
    assert codes(seen(slow), earlier(5, slow), second_look_s=5) == ["subscriber-stalled"]


def test_a_checkpoint_that_moved_is_not_stalled_however_old_its_file_looks():
    before = subscriber(place=(2, 4), waits=HOUR * 9, written=HOUR * 9)
    assert codes(seen(STALLED), earlier(3, before)) == []
    assert codes(seen(STALLED), earlier(600, before)) == []


def test_a_subscriber_that_was_not_there_before_is_judged_by_its_file():
    assert codes(seen(STALLED), earlier(600, subscriber(name="another"))) == ["subscriber-stalled"]


def test_a_stalled_limit_can_be_chosen():
    assert codes(seen(subscriber(waits=11, written=11)), stalled_s=10) == ["subscriber-stalled"]
    assert codes(seen(STALLED), stalled_s=2 * HOUR) == []


def test_a_transient_subscriber_is_left_behind_when_nobody_moves_it():
    left = subscriber(name="~0000003", waits=601, written=601)
    (found,) = check_health(seen(left))
    assert (found.code, found.file, found.severity) == (
        "transient-left-behind",
        "cp.7e30303030303033",
        Severity.NOTE,
    )
    assert codes(seen(replace(left, is_held=False))) == ["transient-left-behind"]


def test_a_transient_subscriber_that_reads_or_is_held_is_not_left_behind():
    assert codes(seen(subscriber(name="~0000003", waits=601, written=600))) == []
    assert codes(seen(subscriber(name="~0000003", waits=600, written=601))) == []
    assert codes(seen(subscriber(name="~0000003", waits=601, written=601, held=True))) == ["subscriber-stalled"]


@pytest.mark.parametrize(
    ("place", "loses"),
    [((0, 0), "the messages in between"), ((7, 1), "every message, until segment 00000007 exists")],
    ids=["deleted", "not yet written"],
)
def test_a_checkpoint_in_a_segment_that_does_not_exist_is_told(place, loses):
    (found,) = check_health(seen(subscriber(place=place)))
    assert (found.code, found.loses) == ("checkpoint-without-segment", loses)
    assert found.expected == "one of the segments 00000001 to 00000002"


def test_a_checkpoint_in_a_hole_between_segments_is_told():
    hole = {"segments": (segment(1), segment(3))}
    for storage_log in (3, 2):  # the second is too low: a metastore of before
        assert codes(seen(subscriber(place=(2, 0)), **hole, storage_log=storage_log)) == ["checkpoint-without-segment"]


def test_a_checkpoint_in_the_segment_that_is_about_to_be_made_is_right():
    assert codes(seen(subscriber(place=(3, 0)), storage_log=3)) == []
    assert codes(seen(subscriber(place=(0, 0)), segments=(), storage_log=0)) == []
    assert codes(seen(subscriber(place=(0, 0)), segments=(), storage_log=None)) == ["checkpoint-without-segment"]


@pytest.mark.parametrize(
    "ill",
    [
        subscriber(place=None, byte_count=0, written=61),
        subscriber(place=None, byte_count=0, written=None),
        subscriber(place=None, byte_count=5, written=1),
        subscriber(place=None, byte_count=0, written=1, error="permission denied"),
    ],
    ids=["empty for long", "empty, no times", "short", "no permission"],
)
def test_a_checkpoint_that_says_nothing_is_told(ill):
    assert codes(seen(ill)) == ["checkpoint-unreadable"]


def test_a_checkpoint_file_may_be_empty_while_it_is_made():
    assert codes(seen(subscriber(place=None, byte_count=0, written=59))) == []


def test_no_subscribers_is_told_once_there_is_anything_to_read():
    alone = replace(HEALTHY, subscribers=())
    (found,) = check_health(alone)
    assert (found.code, found.severity) == ("no-subscribers", Severity.FAULT)
    (hint,) = check_health(replace(alone, segments=(segment(0),)))
    assert (hint.code, hint.severity) == ("no-subscribers", Severity.NOTE)
    assert codes(replace(alone, segments=(segment(0, size=0),))) == []
    assert codes(replace(alone, segments=())) == []


def pile(count, *, age_each=0.0, size=1000):
    """So many finished segments and the one that is written, from number 0 on."""
    return tuple(segment(log, size, age=(count - log) * age_each) for log in range(count + 1))


def test_more_finished_segments_than_may_wait_are_told_with_who_is_last():
    far, near = subscriber(name="far", place=(0, 1)), subscriber(name="near", place=(11, 1))
    (found,) = check_health(seen(near, far, segments=pile(11), storage_log=11))
    assert (found.code, found.file) == ("segments-waiting", "00000000")
    assert found.found == "11 finished segments, 11000 bytes (far is the slowest subscriber)"


def test_segments_that_do_not_wait_for_anybody_are_not_counted():
    far = subscriber(name="far", place=(0, 1))
    assert codes(seen(far, segments=pile(10), storage_log=10)) == []
    assert codes(seen(subscriber(place=(5, 0)), segments=pile(14), storage_log=14)) == []
    assert codes(seen(far, segments=pile(11), storage_log=11), waiting_segments=11) == []


def test_segments_that_wait_for_nobody_pile_up_too():
    alone = replace(HEALTHY, subscribers=(), segments=pile(11), storage_log=11)
    assert codes(alone) == ["no-subscribers", "segments-waiting"]


# 4 finished segments and a fifth, each of 1000 bytes, one each 100 s: 4000 bytes in 400 s, 864,000 in a day.
GROWING = {"segments": pile(4, age_each=100), "storage_log": 4}


def test_a_disk_that_a_day_of_growth_would_fill_is_told():
    slow = subscriber(place=(0, 1))
    (found,) = check_health(seen(slow, **GROWING, free_bytes=863_999))
    assert found.code == "disk-full-soon"
    assert found.found.startswith("863999 bytes free, shrinking by 10 bytes a second: full in 24.0 h")
    assert codes(seen(slow, **GROWING, free_bytes=864_000)) == []
    assert codes(seen(slow, **GROWING, free_bytes=None)) == []
    assert codes(seen(slow, **GROWING, free_bytes=100_000), full_within_s=HOUR) == []
    assert codes(seen(slow, **GROWING, free_bytes=30_000), full_within_s=HOUR) == ["disk-full-soon"]


def test_a_journal_whose_segments_are_read_and_deleted_does_not_fill_the_disk():
    assert codes(seen(subscriber(place=(2, 1)), **GROWING, free_bytes=1)) == []


def test_a_burst_of_writes_is_no_rate_of_growth():
    burst = {"segments": pile(4, age_each=14), "storage_log": 4}
    assert codes(seen(subscriber(place=(0, 1)), **burst, free_bytes=1)) == []


def test_an_earlier_look_tells_growth_better_than_the_times_of_segments():
    slow = subscriber(place=(0, 1))
    now = seen(slow, **GROWING, free_bytes=800_000)
    assert codes(now, earlier(100, slow, segments=pile(4), storage_log=4)) == []  # it did not grow
    assert codes(now, earlier(2000, slow, segments=pile(0), storage_log=0)) == []  # 2 bytes a second
    assert codes(now, earlier(100, slow, segments=pile(3), storage_log=3)) == ["disk-full-soon"]  # 10
    assert codes(now, earlier(59, slow, segments=pile(4), storage_log=4)) == ["disk-full-soon"]  # too near: by times


def test_messages_that_wait_long_in_the_buffer_are_told():
    waiting = replace(HEALTHY, buffered_bytes=812, buffered_since_ns=(NOW - 301) * NS)
    (found,) = check_health(waiting)
    assert (found.code, found.file, found.severity) == ("pre-commit-waiting", "pre_commit", Severity.NOTE)
    assert "812 bytes" in found.found
    assert codes(replace(waiting, buffered_since_ns=(NOW - 300) * NS)) == []
    assert codes(replace(waiting, buffered_bytes=0)) == []
    assert codes(replace(waiting, buffered_since_ns=None)) == []
    assert codes(waiting, buffered_s=400) == []


def test_a_metastore_that_writers_can_not_open_is_told():
    ill = fault("metastore-missing", "metastore", None, "no file", "16 bytes")
    (found,) = check_health(replace(HEALTHY, metastore_faults=(ill,)))
    assert (found.code, found.found, found.expected) == ("metastore-damaged", "no file", "16 bytes")


@pytest.mark.parametrize(("safety", "expected"), [(0, ["safety-unsafe"]), (1, []), (2, []), (None, [])])
def test_a_journal_that_is_written_without_syncs_is_told(safety, expected):
    assert codes(replace(HEALTHY, safety=safety)) == expected


def test_limits_are_checked():
    for name in ("stalled_s", "waiting_segments", "full_within_s"):
        with pytest.raises(UsageError, match=name):
            HealthLimits(**{name: -1})
    with pytest.raises(UsageError):
        HealthLimits(buffered_s=float("nan"))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2.0 h"), (172_800, "2.0 days")],
)
def test_spans_of_time_are_told_in_their_unit(seconds, text):
    assert span_text(seconds) == text


# On real folders


@pytest.fixture
def journal(tmp_path, make) -> Path:
    """Twelve segments, one each minute, all messages of long ago; a subscriber in the first, one that is done."""
    path = tmp_path / "log"
    path.mkdir()
    for log in range(12):
        (path / f"{log:08x}").write_bytes(make.message(b"x", 1_600_000_000 + 60 * log))
        os.utime(path / f"{log:08x}", (1_600_000_000 + 60 * log,) * 2)
    (path / "metastore").write_bytes(make.metastore(log=11))
    for name, place, written in [("slow", (0, 0), 1_600_000_000), ("fast", (11, 1), 1_600_000_700)]:
        file = path / checkpoint_name(name)
        file.write_bytes(place[0].to_bytes(4, "little") + place[1].to_bytes(4, "little"))
        os.utime(file, (written, written))
    return path


def test_what_is_observed_in_a_folder_is_what_is_there(journal):
    found = observe(LocalStorage(journal))
    assert [s.log for s in found.segments] == list(range(12))
    assert {s.byte_count for s in found.segments} == {17}
    assert found.segments[3].modified_ns == 1_600_000_180 * NS
    assert (found.storage_log, found.last_log, found.safety, found.metastore_faults) == (11, 11, 1, ())
    fast, slow = found.subscribers
    assert (fast.checkpoint.name, fast.place, fast.modified_ns) == ("fast", (11, 1), 1_600_000_700 * NS)
    assert (slow.checkpoint.name, slow.place, slow.lag.oldest_ns) == ("slow", (0, 0), 1_600_000_000 * NS)
    assert fast.lag.seconds == 0
    assert (found.buffered_bytes, found.buffered_since_ns) == (0, None)
    state = os.statvfs(journal)
    assert abs(found.free_bytes - state.f_bavail * state.f_frsize) < 1 << 30
    assert abs(found.at_ns - time.time_ns()) < 60 * NS


def test_a_store_warns_of_what_is_in_its_folder(journal):
    with open_store(journal) as store:
        assert [w.code for w in store.warnings()] == ["subscriber-stalled", "segments-waiting"]
        later = store.observe()
        assert [w.code for w in store.warnings(before=later, limits=HealthLimits(waiting_segments=11))] == [
            "subscriber-stalled"
        ]


def test_the_times_of_buffered_messages_are_seen(golden, truth):
    found = observe(golden("precommit_unflushed"))
    first = truth("precommit_unflushed")["pre_commit"]["messages"][0]["ts"]
    assert (found.buffered_bytes, found.buffered_since_ns) == (812, first[0] * NS + first[1] * 1000)


def test_a_storage_that_knows_no_times_and_no_space_leaves_them_open(golden):
    found = observe(golden("basic"))
    assert {s.modified_ns for s in found.segments} == {None}
    assert {s.modified_ns for s in found.subscribers} == {None}
    assert found.free_bytes is None


HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.flock(file, fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="the system does not list locks")
def test_a_transient_subscriber_that_is_open_in_a_process_is_seen_to_be_held(journal):
    file = journal / checkpoint_name("~live")
    file.write_bytes(bytes(8))

    def held():
        return {s.checkpoint.name: s.is_held for s in observe(LocalStorage(journal)).subscribers}

    with subprocess.Popen([sys.executable, "-c", HOLD, str(file)], stdin=-1, stdout=-1) as process:
        process.stdout.readline()
        assert held() == {"~live": True, "slow": None, "fast": None}
        process.stdin.close()
        process.wait(20)
    assert held() == {"~live": False, "slow": None, "fast": None}


def test_every_warning_can_be_set_off():
    ill = Path(__file__).read_text(encoding="utf-8")
    assert [code for code in WARNINGS if f'"{code}"' not in ill] == []
