"""Log buffers made and mapped: metadata beside those of a Java driver, raw tails by hand, and files that are none."""

from __future__ import annotations

import gc
import os
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron.transport.format.layouts import LogMetaData
from everlog.aeron.transport.format.log_buffers import read_log_buffer
from everlog.aeron.transport.memory import log_memory as lm
from everlog.aeron.transport.memory.log_memory import LogMemory, LogParameters
from everlog.core.files.storage import LocalStorage
from everlog.errors import CorruptData, StoreExists, StoreUnavailable, UsageError, WriteFailed
from everlog.kernel.memory import Memory

TERM = 65536
PARAMETERS = LogParameters(
    correlation_id=9, session_id=-77, stream_id=5, initial_term_id=7, term_length=TERM, mtu_length=1408
)


def tails(log: LogMemory) -> list[tuple[int, int]]:
    found = [lm.raw_tail(log.metadata, i) for i in range(3)]
    return [(lm.tail_term_id(tail), lm.tail_offset(tail, TERM)) for tail in found]


def test_a_new_publication_begins_with_its_first_term(tmp_path: Path) -> None:
    log = LogMemory.create(tmp_path / "9.logbuffer", PARAMETERS)
    assert tails(log) == [(7, 0), (5, 0), (6, 0)]
    assert lm.active_term_count(log.metadata) == 0
    assert lm.active_tail(log.metadata) == 7 << 32
    assert lm.end_of_stream_position(log.metadata) == (1 << 63) - 1
    assert not lm.is_connected(log.metadata)
    header = struct.pack("<iBBHiiiiq", 0, 0, 0xC0, 1, 0, -77, 5, 7, 0)
    assert log.default_header == header == log.metadata.read(320, 32)
    assert [len(term) for term in log.terms] == [TERM] * 3
    assert log.file_length == 3 * TERM + 4096 == os.stat(tmp_path / "9.logbuffer").st_size
    assert os.stat(tmp_path / "9.logbuffer").st_blocks * 512 >= log.file_length
    assert (log.position_bits_to_shift, log.page_size, log.mtu_length) == (16, 4096, 1408)


def test_a_publication_may_begin_in_the_middle(tmp_path: Path) -> None:
    log = LogMemory.allocate(replace(PARAMETERS, term_id=11, term_offset=96))
    assert lm.active_term_count(log.metadata) == 4
    assert tails(log) == [(10, 0), (11, 96), (9, 0)]
    assert lm.compute_position(11, 96, 16, 7) == 4 * TERM + 96
    assert lm.index_by_term(7, 11) == 1 == lm.index_by_position(4 * TERM, 16)


def test_ids_of_terms_wrap(tmp_path: Path) -> None:
    last = (1 << 31) - 1
    log = LogMemory.allocate(replace(PARAMETERS, initial_term_id=last, term_id=-(1 << 31)))
    assert lm.active_term_count(log.metadata) == 1
    assert tails(log) == [(last, 0), (-(1 << 31), 0), (last - 1, 0)]
    assert lm.compute_position(-(1 << 31), 32, 16, last) == TERM + 32
    log = LogMemory.allocate(replace(PARAMETERS, initial_term_id=-(1 << 31)))
    assert tails(log) == [(-(1 << 31), 0), (last - 1, 0), (last, 0)]


def test_an_image_has_no_tails() -> None:
    log = LogMemory.allocate(replace(PARAMETERS, log_type=lm.IMAGE, term_offset=64))
    assert [lm.raw_tail(log.metadata, i) for i in range(3)] == [0, 0, 0]
    assert log.default_header[8:12] == struct.pack("<i", 64)


def test_what_changes_in_the_metadata_is_where_others_look_for_it() -> None:
    log = LogMemory.allocate(PARAMETERS)
    metadata = log.metadata
    lm.set_is_connected(metadata, True)
    lm.set_active_transport_count(metadata, 2)
    lm.set_end_of_stream_position(metadata, 4096)
    lm.set_is_publication_revoked(metadata, True)
    lm.set_active_term_count(metadata, 3)
    lm.set_raw_tail(metadata, 0, lm.pack_tail(-10, 128))
    assert lm.compare_and_set_raw_tail(metadata, 0, lm.pack_tail(-10, 128), lm.pack_tail(-10, TERM + 64))
    assert not lm.compare_and_set_raw_tail(metadata, 0, 5, 6)
    found = LogMetaData.unpack_from(metadata.read(0, 4096))
    assert (found.is_connected, found.active_transport_count, found.end_of_stream_position) == (1, 2, 4096)
    assert (found.is_publication_revoked, found.active_term_count, found.tail_0) == (1, 3, (-10 << 32) + TERM + 64)
    assert lm.is_connected(metadata)
    assert lm.active_transport_count(metadata) == 2
    assert lm.is_publication_revoked(metadata)
    assert tails(log)[0] == (-10, TERM)
    assert lm.active_tail(metadata) == (-10 << 32) + TERM + 64


def test_who_maps_the_file_sees_the_same_bytes_and_keeps_them_when_it_is_deleted(tmp_path: Path) -> None:
    path = tmp_path / "9.logbuffer"
    log = LogMemory.create(path, PARAMETERS, page_size=8192)
    assert log.file_length == 204800 == os.stat(path).st_size
    other = LogMemory.map(path)
    log.terms[2].put_i32_release(TERM - 4, 5)
    assert other.terms[2].get_i32_acquire(TERM - 4) == 5
    path.unlink()
    log.close()
    gc.collect()
    assert other.terms[2].get_i32(TERM - 4) == 5
    assert (other.session_id, other.stream_id, other.initial_term_id, other.page_size) == (-77, 5, 7, 8192)


def test_a_file_that_is_there_and_a_full_file_system_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "9.logbuffer"
    LogMemory.create(path, PARAMETERS, sparse=True)
    assert os.stat(path).st_blocks * 512 < 65536
    with pytest.raises(StoreExists):
        LogMemory.create(path, PARAMETERS)

    def full(fd: int, offset: int, length: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(WriteFailed, match="No space left"):
        LogMemory.create(tmp_path / "10.logbuffer", PARAMETERS)
    assert not (tmp_path / "10.logbuffer").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"term_length": 65535},
        {"term_length": 32768},
        {"term_length": 1 << 31},
        {"term_offset": 31},
        {"term_offset": TERM + 32},
        {"term_offset": -32},
    ],
)
def test_parameters_that_no_log_has_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="log buffer"):
        replace(PARAMETERS, **change)


def test_a_term_before_the_first_is_refused() -> None:
    with pytest.raises(UsageError, match=r"term id of a log buffer must be .*, not 6"):
        LogMemory.allocate(replace(PARAMETERS, term_id=6))


@pytest.mark.parametrize(
    ("field", "value"),
    [("term_length", 0), ("term_length", -65536), ("term_length", TERM * 2), ("term_length", 65537)]
    + [("mtu_length", value) for value in (0, 32, -64, 1409, 1 << 30, 65568)],
)
def test_metadata_that_do_not_fit_are_refused(tmp_path: Path, field: str, value: int) -> None:
    path = tmp_path / "9.logbuffer"
    log = LogMemory.create(path, PARAMETERS)
    log.metadata.put_i32(LogMetaData.field(field).offset, value)
    with pytest.raises(CorruptData, match="logbuffer"):
        LogMemory.map(path)


def test_files_that_are_no_logs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "9.logbuffer"
    with pytest.raises(StoreUnavailable, match="no such file"):
        LogMemory.map(path)
    for length in (0, 4095, 3 * TERM + 4095):
        path.write_bytes(bytes(length))
        with pytest.raises(CorruptData, match=f"{length} bytes"):
            LogMemory.map(path)
    log = LogMemory.allocate(PARAMETERS)
    for size in (0, 100, 4096, 3 * TERM):
        memory = Memory.allocate(size)
        if size >= 4096:
            memory.write(size - 4096, log.metadata.read(0, 4096))
        with pytest.raises(CorruptData):
            LogMemory(memory, "x")
    path.write_bytes(bytes(17) + bytes(3 * TERM) + log.metadata.read(0, 4096))
    with pytest.raises(CorruptData):
        LogMemory.map(path)


def golden_logs(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.logbuffer"))


def parameters_of(header: LogMetaData, frame: LogMemory) -> LogParameters:
    """What a log's metadata tell, taken back."""
    flags = (
        "group",
        "is_response",
        "rejoin",
        "reliable",
        "sparse",
        "signal_eos",
        "spies_simulate_connection",
        "tether",
    )
    own = {"session_id", "stream_id", "term_id", "term_offset"}
    names = [name for name in LogParameters.__dataclass_fields__ if name not in own]
    values = {name: bool(getattr(header, name)) if name in flags else getattr(header, name) for name in names}
    return LogParameters(session_id=frame.session_id, stream_id=frame.stream_id, **values)


def test_the_metadata_of_a_java_drivers_logs_come_out_as_they_are(golden_archive: Callable[[str], Path]) -> None:
    folder = golden_archive("transport/aeron-dir")
    paths = golden_logs(folder)
    assert len(paths) == 8
    for path in paths:
        log = LogMemory.map(path, writable=False)
        mine = bytearray(parameters_of(log.header, log).metadata(log.page_size))
        theirs = bytearray(log.metadata.read(0, 4096))
        # What changes while a log is in use: tails, term count, end of stream, connections, revocation.
        for start, end in ((0, 28), (128, 144), (496, 497)):
            mine[start:end] = theirs[start:end]
        # An image's default header has the offset at which it was joined.
        mine[328:332] = theirs[328:332]
        assert bytes(mine) == bytes(theirs), path.name
        assert log.correlation_id == int(path.stem)
        read = read_log_buffer(LocalStorage(path.parent).open(path.name), f"{path.parent.name}/{path.stem}")
        assert read.term_length == log.term_length
