"""The driver's system counters: ids and labels like the real driver's (AeronStat on the golden folder), and what
they count."""

from __future__ import annotations

import re

import pytest

import tests
from everlog.aeron.transport.driver.log_factory import DriverLog
from everlog.aeron.transport.driver.settings.settings import ThreadingMode
from everlog.aeron.transport.driver.system_counters import SystemCounter, duration_text
from everlog.aeron.transport.memory.log_memory import LogMemory
from everlog.aeron.transport.protocol import commands
from everlog.kernel.udp import SocketAddress
from tests.aeron.transport.driver.conducted_driver import MS, SECOND, ConductedDriver
from tests.aeron.transport.driver.receiver.receiving import INITIAL, TERM, data_frame, heartbeat, setup
from tests.aeron.transport.driver.receiver.receiving_driver import ReceivingDriver, Source

GOLDEN = tests.GOLDEN / "aeron" / "transport" / "AeronStat.txt"
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


def test_what_was_read_and_comes_again_is_an_under_run() -> None:
    driver = ReceivingDriver()
    driver.connect(setup(active=INITIAL + 2, offset=128))
    driver.source.send(data_frame(2 * TERM, b"late"), data_frame(2 * TERM + 128, b"new"), heartbeat(0))
    driver.step()
    assert driver.count(SystemCounter.FLOW_CONTROL_UNDER_RUNS) == 2
    assert driver.count(SystemCounter.INVALID_PACKETS) == 0


def test_a_group_whose_sender_reaches_further_than_the_receiver_is_told() -> None:
    driver = ReceivingDriver("aeron:udp?endpoint=224.20.30.39:4000|interface=10.0.0.2|ttl=2")
    driver.source = Source(driver.source_machine, 40124, SocketAddress("224.20.30.39", 4000))
    near, far = setup(session=1)[:-4] + b"\2\0\0\0", setup(session=2)[:-4] + b"\3\0\0\0"
    driver.connect(near)
    assert driver.count(SystemCounter.POSSIBLE_TTL_ASYMMETRY) == 0
    driver.source.send(far)
    for _ in range(3):
        driver.step()
    assert len(driver.images) == 2
    assert driver.count(SystemCounter.POSSIBLE_TTL_ASYMMETRY) == 1


class Stubborn:
    """A log whose third deletion succeeds."""

    def __init__(self, log: DriverLog) -> None:
        self._log = log
        self.name = log.name
        self.tries = 0

    @property
    def memory(self) -> LogMemory:
        return self._log.memory

    def free(self) -> bool:
        self.tries += 1
        return self.tries == 3 and self._log.free()


def test_logs_that_could_not_be_freed_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = ConductedDriver(publication_linger_timeout_ns=0)
    new = driver.logs.new_publication
    monkeypatch.setattr(driver.logs, "new_publication", lambda *given, **more: Stubborn(new(*given, **more)))
    ready = driver.add_publication("aeron:ipc")
    driver.ask(commands.RemovePublication(1, driver.next_id(), ready.registration_id))
    driver.alive = (1,)
    driver.advance(3 * SECOND)
    assert driver.logs.logs == {}
    assert driver.system(SystemCounter.FREE_FAILS) == 2
