"""Journals as Prometheus metrics."""

from __future__ import annotations

import os
import threading

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from everlog.core.monitoring.collector import label_text
from everlog.errors import StoreUnavailable
from everlog.jlog.format.names import checkpoint_name
from everlog.jlog.metrics import METRICS, JournalCollector
from everlog.jlog.monitoring.health import WARNINGS, HealthLimits
from everlog.testing.storage.memory import MemoryStorage
from everlog.time_units import NS_PER_S as NS

NOW = 2000
PREFIX = JournalCollector.prefix


@pytest.fixture
def clock(monkeypatch):
    """A clock that is moved by hand."""
    now = [NOW]
    monkeypatch.setattr("time.time_ns", lambda: now[0] * NS)
    return now


def samples(collector):
    """What Prometheus would read: (name without prefix, labels) to value."""
    registry = CollectorRegistry()
    registry.register(collector)
    found = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        assert family.type == "gauge"
        for sample in family.samples:
            key = (sample.name.removeprefix(PREFIX), *sample.labels.values())
            assert key not in found
            found[key] = sample.value
    return found


@pytest.fixture
def journals(make, clock):
    """``one``: 10 and 20 bytes at 0 and 26, then 30 in a second segment: 62 + 46 bytes; ``two``: empty."""
    one = {
        "00000000": make.message(b"x" * 10, 1000) + make.message(b"x" * 20, 1001),
        "00000001": make.message(b"x" * 30, 1002),
        checkpoint_name("a"): bytes([0, 0, 0, 0, 1, 0, 0, 0]),
        checkpoint_name("b"): bytes([1, 0, 0, 0, 1, 0, 0, 0]),
        "metastore": make.metastore(log=1),
    }
    return {"one": make.folder(one), "two": make.folder({"00000000": b"", "pre_commit": bytes(4)})}


def collector_of(journals, paths=None, **options):
    def open_storage(path):
        if path not in journals:
            raise StoreUnavailable(path, found="no such folder")
        return journals[path]

    return JournalCollector(paths or list(journals), open_storage=open_storage, **options)


def test_the_metrics_are_what_is_worked_out_by_hand(journals):
    found = samples(collector_of(journals))
    warnings = {key: value for key, value in found.items() if key[0] == "warnings"}
    assert {key: value for key, value in found.items() if key not in warnings} == {
        ("up", "one"): 1,
        ("segments", "one"): 2,
        ("segment_bytes", "one"): 108,
        ("pre_commit_bytes", "one"): 0,
        ("subscribers", "one"): 2,
        ("subscriber_lag_messages", "one", "a"): 2,
        ("subscriber_lag_bytes", "one", "a"): 82,
        ("subscriber_lag_seconds", "one", "a"): 999,
        ("subscriber_lag_messages", "one", "b"): 0,
        ("subscriber_lag_bytes", "one", "b"): 0,
        ("subscriber_lag_seconds", "one", "b"): 0,
        ("up", "two"): 1,
        ("segments", "two"): 1,
        ("segment_bytes", "two"): 0,
        ("pre_commit_bytes", "two"): 0,
        ("subscribers", "two"): 0,
    }
    assert warnings == {("warnings", code, name): 0 for code in WARNINGS for name in journals}


def test_a_folder_tells_when_it_was_written_and_what_is_free(tmp_path, journals):
    for name, data in journals["one"].files.items():
        (tmp_path / name).write_bytes(data)
    os.utime(tmp_path / "00000000", (1500, 1500))
    os.utime(tmp_path / "00000001", (1600.5, 1600.5))
    found = samples(JournalCollector([tmp_path]))
    assert found["last_write_timestamp_seconds", str(tmp_path)] == 1600.5
    state = os.statvfs(tmp_path)
    assert abs(found["free_bytes", str(tmp_path)] - state.f_bavail * state.f_frsize) < 1 << 30


def test_each_metric_is_told_with_its_meaning_before_any_journal_is_looked_at():
    collector = JournalCollector(["/no/such/folder"])
    assert [(f.name, f.documentation) for f in collector.describe()] == [
        (PREFIX + name, text) for name, (_, text) in METRICS.items()
    ]


def test_a_journal_that_can_not_be_read_is_down_and_the_others_are_told(journals):
    errors = []
    journals["empty"] = MemoryStorage({})
    collector = collector_of(journals, ["gone", "one", "empty"], on_error=lambda *what: errors.append(what))
    found = samples(collector)
    ups = {key[1]: value for key, value in found.items() if key[0] == "up"}
    assert ups == {"gone": 0, "one": 1, "empty": 0}
    assert found["subscriber_lag_messages", "one", "a"] == 2
    assert {key for key in found if "gone" in key or "empty" in key} == {("up", "gone"), ("up", "empty")}
    assert [path for path, _ in errors] == ["gone", "empty"]


def test_a_journal_of_a_big_endian_machine_is_down(journals, make):
    swapped = b"".join(make.metastore()[at : at + 4][::-1] for at in range(0, 16, 4))
    journals["one"].files["metastore"] = swapped
    assert samples(collector_of(journals))["up", "one"] == 0


def test_a_journal_comes_back_and_is_looked_at_anew_each_time(journals, make):
    gone = journals.pop("one")
    collector = collector_of(journals, ["one"])
    assert samples(collector) == {("up", "one"): 0}
    journals["one"] = gone
    assert samples(collector)["subscriber_lag_messages", "one", "a"] == 2
    gone.files["00000001"] += make.message(b"", 1003)
    found = samples(collector)
    assert found["subscriber_lag_messages", "one", "a"] == 3
    assert found["subscriber_lag_bytes", "one", "b"] == 16
    assert found["subscriber_lag_seconds", "one", "b"] == 997


def test_a_segment_that_was_counted_is_not_read_again(journals, make):
    class Recording(MemoryStorage):
        def open(self, name):
            opened.append(name)
            return super().open(name)

    opened = []
    journals["one"] = Recording(journals["one"].files)
    collector = collector_of(journals, ["one"])
    samples(collector)
    assert "00000000" in opened
    opened.clear()
    assert samples(collector)["subscriber_lag_messages", "one", "a"] == 2
    assert [name for name in opened if name.startswith("0")] == []


def test_a_subscriber_that_does_not_move_between_scrapes_is_a_warning(journals, clock):
    stalled = ("warnings", "subscriber-stalled", "one")
    collector = collector_of(journals, ["one"], limits=HealthLimits(stalled_s=900))
    values = []
    for seconds in (0, 20, 20, 20, 20, 20, 20):
        clock[0] += seconds
        values.append(samples(collector)[stalled])
    assert values[:3] == [0, 0, 0]
    assert values[-1] == 1
    journals["one"].files[checkpoint_name("a")] = bytes([0, 0, 0, 0, 2, 0, 0, 0])
    clock[0] += 20
    assert samples(collector)[stalled] == 0


def test_lags_that_are_not_known_are_left_out(journals, make):
    journals["one"].files |= {checkpoint_name("c"): b"", "00000001": make.message(bytes(9 << 20), 1002)}
    found = samples(collector_of(journals, ["one"]))
    assert {key[2] for key in found if key[0].startswith("subscriber_lag")} == {"a", "b"}
    assert ("subscriber_lag_messages", "one", "a") not in found
    assert found["subscriber_lag_bytes", "one", "a"] == 36 + 16 + (9 << 20)
    assert found["warnings", "checkpoint-unreadable", "one"] == 1


@pytest.mark.parametrize(
    ("name", "label"),
    [
        (b"plain", "plain"),
        ("grün".encode(), "grün"),
        (b"\xff\xfe", "\\xff\\xfe"),
        (b"\\xff", "\\\\xff"),
        (b'a"b\n{c="1"} 5', 'a"b\\x0a{c="1"} 5'),
        (b"\x1b[2J", "\\x1b[2J"),
        ("\u202e".encode(), "\\xe2\\x80\\xae"),
        (b"\0", "\\x00"),
    ],
)
def test_names_of_any_bytes_are_labels_that_prometheus_reads_back(journals, name, label):
    assert label_text(name) == label
    subscriber = name.decode("utf-8", "surrogateescape")
    journals["one"].files[checkpoint_name(subscriber)] = bytes(8)
    assert samples(collector_of(journals, ["one"]))["subscriber_lag_messages", "one", label] == 3


def test_different_names_never_share_a_label():
    names = [b"\xff", b"\\xff", b"\\\xff", b"\\\\xff", b"\xc3\xbf", b"\x0a", b"\\n", b"\\x0a", b" ", b"\xc2\xa0"]
    assert len({label_text(name) for name in names}) == len(names)


def test_a_path_given_twice_is_told_once(journals):
    assert samples(collector_of(journals, ["one", "one"]))["up", "one"] == 1


def test_scrapes_at_the_same_time_do_not_disturb_each_other(journals):
    collector = collector_of(journals)
    expected = samples(collector)
    found = []
    threads = [threading.Thread(target=lambda: found.append(samples(collector))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8
