"""The distinct error log and the loss report that the driver writes, compared with their readers and a Java
driver's."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from pathlib import Path

from everlog.aeron.error_log import read_errors
from everlog.aeron.java_exception import AeronEvent
from everlog.aeron.transport.driver.distinct_errors import DistinctErrorRecorder
from everlog.aeron.transport.format.loss_report import read_losses
from everlog.aeron.transport.media.context import ChannelFailed
from everlog.aeron.transport.memory.counters_memory import Counters
from everlog.aeron.transport.memory.error_log_writer import DistinctErrorLog
from everlog.aeron.transport.memory.loss_report_writer import LossReport
from everlog.errors import WriteFailed
from everlog.kernel.memory import Memory


def fail(text: str, cause: BaseException | None = None) -> BaseException:
    try:
        raise ValueError(text) from cause
    except ValueError as error:
        return error


def test_an_error_is_one_entry_with_how_often_and_when_it_was_seen() -> None:
    memory = Memory.allocate(4096)
    log = DistinctErrorLog(memory)
    assert log.record("first", 1000)
    assert log.record("zwölf", 2000)
    assert log.record("first", 3000)
    assert memory.read(0, 29) == struct.pack("<iiqq", 29, 2, 3000, 1000) + b"first"
    assert memory.read(32, 30) == struct.pack("<iiqq", 30, 1, 2000, 2000) + "zwölf".encode()
    found = read_errors(memory.view())
    assert [(e.observation_count, e.first_observation_timestamp, e.last_observation_timestamp) for e in found] == [
        (2, 1000, 3000),
        (1, 2000, 2000),
    ]
    assert [e.text for e in found] == ["first", "zwölf"]


def test_exceptions_are_one_when_type_text_place_and_causes_are() -> None:
    memory = Memory.allocate(65536)
    log = DistinctErrorLog(memory)
    for error in (fail("a"), fail("a"), fail("b"), fail("a", fail("c")), fail("a", fail("c")), ValueError("a")):
        assert log.record(error, 5)
    found = read_errors(memory.view())
    assert [e.observation_count for e in found] == [2, 1, 2, 1]
    assert found[0].text.startswith("ValueError: a\nTraceback")
    assert "in fail" in found[0].text
    assert "ValueError: c" in found[2].text


def test_what_java_has_a_word_for_begins_with_it() -> None:
    memory = Memory.allocate(65536)
    counters = Counters(Memory.allocate(512), Memory.allocate(128))
    errors = DistinctErrorRecorder(DistinctErrorLog(memory), counters.allocate(0, b"", "errors", now_ms=0), 5)
    for _ in range(2):
        errors.record(AeronEvent("could not re-resolve: endpoint=nowhere:1"))
    errors.record(fail("ours"))
    errors.record(WriteFailed("/dev/shm/x.logbuffer", found="No space left on device"))
    errors.record(ChannelFailed("channel error - Address already in use: aeron:udp?endpoint=localhost:1"))
    texts = [entry.text for entry in read_errors(memory.view())]
    assert texts[0] == "io.aeron.exceptions.AeronEvent: WARN - could not re-resolve: endpoint=nowhere:1"
    assert texts[1].startswith("ValueError: ours\n")
    name = "io.aeron.exceptions.StorageSpaceException"
    assert texts[2] == f"{name}: ERROR - /dev/shm/x.logbuffer: No space left on device"
    said = "ERROR - channel error - Address already in use: aeron:udp?endpoint=localhost:1"
    assert texts[3] == f"io.aeron.exceptions.AeronException: {said}"


def test_a_full_log_takes_known_errors_only() -> None:
    memory = Memory.allocate(64)
    log = DistinctErrorLog(memory)
    assert log.record("x" * 16, 1)  # 40 bytes
    assert not log.record("y", 2)
    assert log.record("x" * 16, 3)
    assert [e.observation_count for e in read_errors(memory.view())] == [2]
    exact = DistinctErrorLog(Memory.allocate(32))
    assert exact.record("12345678", 1)
    assert not DistinctErrorLog(Memory.allocate(32)).record("123456789", 1)
    assert not DistinctErrorLog(Memory.allocate(0)).record("", 1)


def test_threads_that_see_the_same_errors_lose_none() -> None:
    memory = Memory.allocate(65536)
    log = DistinctErrorLog(memory)

    def run() -> None:
        for number in range(2_000):
            log.record(f"error {number % 20}", 1 + number)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = read_errors(memory.view())
    assert sorted(e.text for e in found) == sorted(f"error {n}" for n in range(20))
    assert [e.observation_count for e in found] == [400] * 20


def test_an_image_that_loses_something_is_one_entry() -> None:
    memory = Memory.allocate(512)
    report = LossReport(memory)
    entry = report.create_entry(32, 1000, -77, 5, "aeron:udp?endpoint=a:1", "10.0.0.1:4")
    assert entry is not None
    entry.record(64, 3000)
    other = report.create_entry(8, 2000, 78, 6, "", "")
    assert other is not None
    head = struct.pack("<qqqqii", 2, 96, 1000, 3000, -77, 5)
    texts = struct.pack("<i22s2xi10s", 22, b"aeron:udp?endpoint=a:1", 10, b"10.0.0.1:4")
    assert memory.read(0, 82) == head + texts
    assert memory.read(128, 48) == struct.pack("<qqqqiiii", 1, 8, 2000, 2000, 78, 6, 0, 0)
    losses, problem = read_losses(memory.view())
    assert problem is None
    assert [(loss.offset, loss.channel, loss.source) for loss in losses] == [
        (0, "aeron:udp?endpoint=a:1", "10.0.0.1:4"),
        (128, "", ""),
    ]


def test_a_full_report_takes_no_more_images() -> None:
    report = LossReport(Memory.allocate(64 + 48))
    assert report.create_entry(1, 1, 1, 1, "ab", "cd") is not None
    assert report.create_entry(1, 1, 1, 1, "a", "") is None
    assert report.create_entry(1, 1, 1, 1, "", "") is not None
    assert report.create_entry(1, 1, 1, 1, "", "") is None


def test_a_java_drivers_loss_report_comes_out_as_it_is(golden_archive: Callable[[str], Path]) -> None:
    path = next(golden_archive("transport/aeron-dir").rglob("loss-report.dat"))
    data = path.read_bytes()
    losses, _ = read_losses(data)
    assert len(losses) == 3
    memory = Memory.allocate(len(data))
    report = LossReport(memory)
    for loss in losses:
        texts = loss.channel, loss.source
        entry = report.create_entry(1, loss.first_observation, loss.session_id, loss.stream_id, *texts)
        assert entry is not None
        for _ in range(loss.observation_count - 2):
            entry.record(1, loss.last_observation)
        entry.record(loss.total_bytes_lost - loss.observation_count + 1, loss.last_observation)
    assert memory.read(0, len(data)) == data
