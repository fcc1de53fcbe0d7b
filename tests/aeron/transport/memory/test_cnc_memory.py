"""``cnc.dat`` made and mapped: against the reader of driver folders, and the golden file of a Java driver."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from everlog.aeron.transport.format.cnc_file import CncFile
from everlog.aeron.transport.memory.broadcast import BroadcastTransmitter
from everlog.aeron.transport.memory.cnc_memory import CncMemory, CncSettings, is_driver_active
from everlog.aeron.transport.memory.counters_memory import Counters
from everlog.aeron.transport.memory.ring_buffer import ManyToOneRingBuffer
from everlog.core.files.storage import LocalStorage
from everlog.errors import CorruptData, StoreExists, StoreUnavailable, UnsupportedVersion, UsageError, WriteFailed

SMALL = CncSettings(
    to_driver_buffer_length=4096 + 768,
    to_clients_buffer_length=4096 + 128,
    counters_values_buffer_length=128 * 32,
    error_log_buffer_length=8192,
    client_liveness_timeout_ns=5_000_000_000,
    pid=4711,
)
NOW = 1_700_000_000_000


def test_a_new_file_is_what_the_reader_of_driver_folders_expects(tmp_path: Path) -> None:
    cnc = CncMemory.create(tmp_path, SMALL, NOW)
    assert not cnc.is_ready
    counters = Counters(cnc.counters_metadata, cnc.counters_values)
    counters.allocate(1000, b"k", "ours", value=5, now_ms=NOW)
    ring = ManyToOneRingBuffer(cnc.to_driver)
    ring.consumer_heartbeat = NOW
    BroadcastTransmitter(cnc.to_clients).transmit(1, b"x")
    cnc.signal_ready()
    assert cnc.is_ready
    with CncFile.open(LocalStorage(tmp_path)) as file:
        assert file.problem is None
        assert file.version == "0.2.0"
        assert file.size % 4096 == 0
        assert file.header.pid == 4711
        assert file.header.start_timestamp_ms == NOW == file.heartbeat_ms()
        assert [(c.type_id, c.label, c.value) for c in file.counters()] == [(1000, "ours", 5)]
        trailer = file.to_clients_trailer()
        assert trailer is not None
        assert trailer.tail_counter == 16
    assert os.stat(tmp_path / "cnc.dat").st_blocks * 512 >= file.size, "no page of it may be missing later"


def test_a_client_maps_what_a_driver_made_and_both_see_the_same_bytes(tmp_path: Path) -> None:
    driver = CncMemory.create(tmp_path, SMALL, NOW)
    driver.signal_ready()
    client = CncMemory.map(tmp_path)
    assert ManyToOneRingBuffer(client.to_driver).write(6, b"hello")
    found: list[tuple[int, bytes]] = []
    ManyToOneRingBuffer(driver.to_driver).read(lambda *record: found.append(record))
    assert found == [(6, b"hello")]
    lengths = [4096 + 768, 4096 + 128, 512 * 32, 128 * 32, 8192]
    parts = client.to_driver, client.to_clients, client.counters_metadata, client.counters_values, client.error_log
    assert [len(part) for part in parts] == lengths
    for part, other in zip(parts, (driver.to_driver, driver.to_clients), strict=False):
        assert part.read(0, len(part)) == other.read(0, len(other))
    client.close()
    driver.close()


def test_nobody_sees_the_file_before_it_is_ready(tmp_path: Path) -> None:
    driver = CncMemory.create(tmp_path, SMALL, NOW)
    assert not (tmp_path / "cnc.dat").exists()
    with pytest.raises(StoreUnavailable, match="no such file"):
        CncMemory.map(tmp_path)
    driver.signal_ready()
    assert [path.name for path in tmp_path.iterdir()] == ["cnc.dat"]
    assert CncMemory.map(tmp_path).is_ready


def test_nothing_is_left_of_a_driver_that_was_never_ready(tmp_path: Path) -> None:
    CncMemory.create(tmp_path, SMALL, NOW).close()
    assert list(tmp_path.iterdir()) == []


def test_a_second_file_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    driver = CncMemory.create(tmp_path, SMALL, NOW)
    with pytest.raises(StoreExists):
        CncMemory.create(tmp_path, SMALL, NOW)
    driver.signal_ready()
    with pytest.raises(StoreExists):
        CncMemory.create(tmp_path, SMALL, NOW)


def test_a_folder_that_is_deleted_meanwhile_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "driver").mkdir()
    driver = CncMemory.create(tmp_path / "driver", SMALL, NOW)
    shutil.rmtree(tmp_path / "driver")
    with pytest.raises(WriteFailed, match="No such file"):
        driver.signal_ready()


def test_no_file_a_short_one_and_another_version_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="no such file"):
        CncMemory.map(tmp_path)
    path = tmp_path / "cnc.dat"
    path.write_bytes(bytes(100))
    with pytest.raises(StoreUnavailable, match="starting"):
        CncMemory.map(tmp_path)
    path.write_bytes(bytes(1 << 20))  # as a driver in Java makes it
    with pytest.raises(StoreUnavailable, match="starting"):
        CncMemory.map(tmp_path)
    path.unlink()
    cnc = CncMemory.create(tmp_path, SMALL, NOW)
    cnc.signal_ready()
    data = bytearray(path.read_bytes())
    data[:4] = struct.pack("<i", 3 << 8)
    path.write_bytes(data)
    with pytest.raises(UnsupportedVersion, match=r"0\.3\.0"):
        CncMemory.map(tmp_path)


@pytest.mark.parametrize(
    ("offset", "value"), [(4, -1), (8, (1 << 31) - 1), (12, 512 * 32 + 4), (20, 20000), (16, 1 << 30)]
)
def test_lengths_that_do_not_fit_the_file_are_refused(tmp_path: Path, offset: int, value: int) -> None:
    CncMemory.create(tmp_path, SMALL, NOW).signal_ready()
    path = tmp_path / "cnc.dat"
    data = bytearray(path.read_bytes())
    data[offset : offset + 4] = struct.pack("<i", value)
    path.write_bytes(data)
    with pytest.raises(CorruptData, match=r"cnc\.dat"):
        CncMemory.map(tmp_path)


def test_lengths_that_no_driver_may_ask_for_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at most"):
        CncMemory.create(tmp_path, CncSettings(counters_values_buffer_length=1 << 29), NOW)
    with pytest.raises(UsageError, match="a multiple of 8"):
        CncMemory.create(tmp_path, CncSettings(error_log_buffer_length=4097), NOW)
    assert list(tmp_path.iterdir()) == []


def test_a_full_file_system_is_an_error_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, offset: int, length: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(WriteFailed, match="No space left on device") as caught:
        CncMemory.create(tmp_path, SMALL, NOW)
    assert "shorter buffers" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_driver_is_active_while_its_heartbeat_is_young(tmp_path: Path) -> None:
    assert not is_driver_active(tmp_path, NOW, 10_000)
    cnc = CncMemory.create(tmp_path, SMALL, NOW)
    ManyToOneRingBuffer(cnc.to_driver).consumer_heartbeat = NOW
    assert not is_driver_active(tmp_path, NOW, 10_000), "not ready"
    cnc.signal_ready()
    assert is_driver_active(tmp_path, NOW + 10_000, 10_000)
    assert not is_driver_active(tmp_path, NOW + 10_001, 10_000)


def test_the_parts_of_a_java_drivers_file_are_found(golden_archive: Callable[[str], Path]) -> None:
    folder = golden_archive("transport/aeron-dir")
    folder = next(folder.rglob("cnc.dat")).parent
    cnc = CncMemory.map(folder, writable=False)
    assert cnc.header.pid == 17613
    settings = CncSettings(
        counters_values_buffer_length=8388608,
        error_log_buffer_length=4194304,
        pid=17613,
        file_page_size=cnc.header.file_page_size,
    )
    assert settings.header(1795242078759)[4:] == (folder / "cnc.dat").read_bytes()[4:128]
    assert settings.file_length() == os.stat(folder / "cnc.dat").st_size
    assert len(cnc.counters_values) == 8388608
    ring = ManyToOneRingBuffer(cnc.to_driver)
    with CncFile.open(LocalStorage(folder)) as file:
        trailer = file.to_driver_trailer()
        assert trailer is not None
        assert (ring.producer_position, ring.consumer_heartbeat) == (trailer.tail_position, trailer.consumer_heartbeat)
    counters = Counters(cnc.counters_metadata, cnc.counters_values)
    assert counters.label(0) == "Bytes sent"
    assert counters.value(0) == 508512
    assert (counters.registration_id(1), counters.owner_id(1)) == (1, -1)
