"""Log buffers in files: their place, their size, and the refusal on a full file system."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from everlog.aeron.transport.driver.commands.command_errors import CommandRefused
from everlog.aeron.transport.driver.log_factory import FileLogFactory, FreedLogs
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.format.error_codes import ErrorCode
from everlog.aeron.transport.memory.counters_memory import AtomicCounter, Counters
from everlog.aeron.transport.memory.log_memory import LogMemory, LogParameters
from everlog.aeron.transport.protocol import commands
from everlog.errors import WriteFailed
from everlog.kernel.memory import Memory
from everlog.runtime.tasks import InlineTasks
from tests.aeron.transport.driver.conducted_driver import ConductedDriver
from tests.aeron.transport.memory.mounted_memory import mounted

TERM = 65_536
LENGTH = 3 * TERM + 4096


def counter() -> AtomicCounter:
    return Counters(Memory.allocate(4096), Memory.allocate(1024)).allocate(1, b"", "counter", now_ms=0)


def parameters(correlation_id: int, term_length: int = TERM) -> LogParameters:
    return LogParameters(
        correlation_id=correlation_id,
        session_id=1,
        stream_id=2,
        initial_term_id=3,
        term_length=term_length,
        mtu_length=1408,
    )


def factory(folder: Path, mapped: AtomicCounter, warnings: list[str], threshold: int = 0) -> FileLogFactory:
    configuration = Configuration(dir=str(folder), low_storage_warning_threshold=threshold)
    return FileLogFactory(configuration, mapped, warnings.append)


def test_logs_are_named_by_their_ids_and_counted_while_they_are_there(tmp_path: Path) -> None:
    mapped = counter()
    logs = factory(tmp_path, mapped, [])
    publication = logs.new_publication(parameters(7), is_sparse=False)
    image = logs.new_image(parameters(8), is_sparse=True)
    assert publication.name == str(tmp_path / "publications" / "7.logbuffer")
    assert image.name == str(tmp_path / "images" / "8.logbuffer")
    assert (os.path.getsize(publication.name), mapped.get()) == (LENGTH, 2 * LENGTH)
    assert os.stat(publication.name).st_blocks * 512 >= LENGTH
    assert LogMemory.map(Path(image.name)).correlation_id == 8
    assert publication.free()
    assert image.free()
    assert publication.free()
    assert mapped.get() == 0
    assert list(tmp_path.rglob("*.logbuffer")) == []


def test_who_has_a_log_mapped_keeps_it_when_it_is_freed(tmp_path: Path) -> None:
    log = factory(tmp_path, counter(), []).new_publication(parameters(7), is_sparse=True)
    client = LogMemory.map(Path(log.name))
    log.memory.terms[0].put_i32(0, 42)
    log.free()
    assert client.terms[0].get_i32(0) == 42


def test_low_space_is_told(tmp_path: Path) -> None:
    warnings: list[str] = []
    factory(tmp_path, counter(), warnings, threshold=1 << 62).new_publication(parameters(7), is_sparse=True)
    assert len(warnings) == 1
    said = "io.aeron.exceptions.AeronException: WARN - space is running low: threshold=4611686018427387904 usable="
    assert warnings[0].startswith(said)


@pytest.fixture
def small_memory(tmp_path: Path) -> Iterator[Path]:
    """A file system in memory of 2 MiB."""
    with mounted(tmp_path, "2m") as folder:
        yield folder


def test_sparse_logs_are_refused_before_they_could_fill_what_is_left(small_memory: Path) -> None:
    logs = factory(small_memory, counter(), [])
    made = [logs.new_publication(parameters(number), is_sparse=True) for number in range((2 << 20) // LENGTH)]
    with pytest.raises(CommandRefused) as refused:
        logs.new_publication(parameters(99), is_sparse=True)
    assert refused.value.code is ErrorCode.STORAGE_SPACE
    assert refused.value.text.startswith(f"ERROR - insufficient usable storage for new log of length={LENGTH} usable=")
    for log in made:
        for index in range(3):
            log.memory.terms[index].write(0, b"\xff" * TERM)
    log.free()
    logs.new_publication(parameters(100), is_sparse=False)


def test_a_log_that_a_stranger_left_no_room_for_is_an_error(small_memory: Path) -> None:
    logs = factory(small_memory, counter(), [])
    (small_memory / "stranger").write_bytes(bytes((2 << 20) - LENGTH + 4096))
    with pytest.raises((CommandRefused, WriteFailed)):
        logs.new_publication(parameters(1), is_sparse=False)
    assert list(small_memory.rglob("*.logbuffer")) == []


def test_a_client_is_told_that_there_is_no_room() -> None:
    driver = ConductedDriver()

    class Full:
        def new_publication(self, parameters: LogParameters, *, is_sparse: bool) -> None:
            raise WriteFailed("publications/7.logbuffer", found="No space left on device", expected="room")

    driver.parts.context.log_factory = Full()  # type: ignore[assignment]
    error = driver.error(commands.AddPublication(1, driver.next_id(), 10, "aeron:ipc"))
    assert error.error_code == ErrorCode.STORAGE_SPACE
    assert error.message.startswith("ERROR - publications/7.logbuffer: No space left on device")
    assert driver.labels() == {}


class Stubborn:
    """A log whose third deletion succeeds."""

    name = "stubborn"

    def __init__(self) -> None:
        self.tries = 0

    @property
    def memory(self) -> LogMemory:
        raise AssertionError("nobody needs it")

    def free(self) -> bool:
        self.tries += 1
        return self.tries == 3


def test_a_log_that_can_not_be_freed_is_tried_again_and_counted() -> None:
    failures = counter()
    freed = FreedLogs(InlineTasks(), failures)
    log = Stubborn()
    freed.add(log)
    assert sum(freed.do_work() for _ in range(10)) == 1
    assert (log.tries, failures.get()) == (3, 2)
