"""The driver's own counters: ids and labels of the real driver's (AeronStat on the golden folder), and what they
count."""

from __future__ import annotations

import re
from pathlib import Path

from conducted_driver import MS, SECOND, ConductedDriver

from everlog.aeron.transport.driver.configuration import ThreadingMode
from everlog.aeron.transport.driver.system_counters import SystemCounter, duration_text

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "aeron" / "transport" / "AeronStat.txt"
ROW = re.compile(r" *([0-9]+): +[0-9,]+ - (.*)")
VERSION = re.compile(r"version=.*")


def test_ids_and_labels_are_the_real_drivers() -> None:
    rows = [ROW.fullmatch(line) for line in GOLDEN.read_text().splitlines()]
    expected = {int(row[1]): VERSION.sub("version", row[2]) for row in rows if row and int(row[1]) < 46}
    driver = ConductedDriver(threading_mode=ThreadingMode.SHARED)
    counters = driver.counters().values()
    assert {c.counter_id: VERSION.sub("version", c.label) for c in counters} == expected
    assert [(c.type_id, c.registration_id, c.owner_id) for c in counters] == [(0, i, -1) for i in range(46)]
    assert [c.key_fields["system_counter_id"] for c in counters] == list(range(46))


def test_versions_are_told() -> None:
    driver = ConductedDriver()
    assert driver.system(SystemCounter.AERON_VERSION) == 1 << 16 | 51 << 8
    assert driver.system(SystemCounter.CONTROL_PROTOCOL_VERSION) == 1 << 16


def test_a_cycle_that_was_long_is_told() -> None:
    driver = ConductedDriver()
    driver.work()
    for duration_ns in (MS, 150 * MS, 20 * MS):
        driver.now_ns += duration_ns
        driver.work()
    for agent in ("CONDUCTOR", "SENDER", "RECEIVER"):
        assert driver.system(SystemCounter[f"{agent}_MAX_CYCLE_TIME"]) == 150 * MS
        assert driver.system(SystemCounter[f"{agent}_CYCLE_TIME_THRESHOLD_EXCEEDED"]) == 1


def test_durations_are_as_short_as_they_can_be() -> None:
    texts = {SECOND: "1s", 100 * MS: "100ms", 1500 * MS: "1500ms", 2_000: "2us", 1: "1ns", 3600 * SECOND: "3600s"}
    assert {duration: duration_text(duration) for duration in texts} == texts
