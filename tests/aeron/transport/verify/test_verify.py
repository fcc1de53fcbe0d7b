"""What verify finds in a driver's folder, one fault at a time, and what it leaves alone."""

from __future__ import annotations

import time

import pytest

from everlog.aeron.transport.folder.faults import CODES
from everlog.core.report import Severity
from everlog.stores import open_store
from everlog.testing.storage.memory import MemoryStorage
from tests.aeron.transport.folder.driver_folder import (
    INITIAL,
    TERM,
    cnc,
    folder,
    frame,
    image,
    log_buffer,
    publication,
    tail,
)

Files = dict[str, bytes]
CNC, LOSS = "cnc.dat", "loss-report.dat"
PUB, IMG = "publications/9.logbuffer", "images/11.logbuffer"
META = 3 * TERM
FIRST_COUNTER = 128 + 256 + 768 + 256 + 128
ERRORS = FIRST_COUNTER + 8 * 512 + 8 * 128


def found(files: Files) -> list[tuple[str, str, int | None, str]]:
    """Severity, file, offset and code of what verify finds, but for the two notes of the folder as it was made."""
    with open_store(MemoryStorage(files), family="aeron-driver") as store:
        faults = store.verify().faults
    every = [(f.severity.value, f.file, f.offset, f.code) for f in faults]
    return [item for item in every if item[3] != "driver-gone" and item != ("note", IMG, 64, "frame-gap")]


def put(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def number(value: int, width: int = 4) -> bytes:
    return value.to_bytes(width, "little", signed=True)


def changed(name: str, at: int, new: bytes) -> Files:
    files = folder()
    return files | {name: put(files[name], at, new)}


def without(name: str) -> Files:
    return {key: data for key, data in folder().items() if key != name}


def test_nothing_is_wrong_with_the_folder() -> None:
    assert found(folder()) == []


CASES: list[tuple[Files, tuple[str, str, int | None, str]]] = [
    (without(CNC), ("fault", CNC, None, "cnc-missing")),
    (changed(CNC, 0, number(0)), ("note", CNC, 0, "cnc-not-ready")),
    (changed(CNC, 0, number(0x010000)), ("fault", CNC, 0, "cnc-version")),
    (changed(CNC, 4, number(-5)), ("fault", CNC, 4, "cnc-field")),
    (changed(CNC, 24, number(0, 8)), ("fault", CNC, 24, "cnc-field")),
    (changed(CNC, 48, number(4095)), ("fault", CNC, 48, "cnc-field")),
    (folder() | {CNC: cnc()[:4000]}, ("fault", CNC, 4000, "cnc-short")),
    (folder() | {CNC: cnc()[:100]}, ("fault", CNC, 0, "cnc-short")),
    (changed(CNC, FIRST_COUNTER, bytes(512)), ("fault", CNC, FIRST_COUNTER, "counters-missing")),
    (changed(CNC, FIRST_COUNTER + 512, number(2)), ("fault", CNC, FIRST_COUNTER + 512, "counter-state")),
    (changed(CNC, FIRST_COUNTER + 128, number(381)), ("fault", CNC, FIRST_COUNTER + 128, "counter-label")),
    (changed(CNC, FIRST_COUNTER + 512 + 32, number(93)), ("fault", CNC, FIRST_COUNTER + 528, "counter-key")),
    (changed(CNC, FIRST_COUNTER + 512, number(0)), ("fault", CNC, FIRST_COUNTER + 1024, "counter-hidden")),
    (changed(CNC, ERRORS, number(3)), ("fault", CNC, ERRORS, "error-entry")),
    (without(LOSS), ("note", LOSS, None, "loss-report-missing")),
    (changed(LOSS, 0, number(-1, 8)), ("fault", LOSS, 0, "loss-entry")),
    (changed(LOSS, 40, number(1 << 20)), ("fault", LOSS, 40, "loss-entry")),
    (folder() | {LOSS: folder()[LOSS][: 128 + 39]}, ("fault", LOSS, 128, "loss-entry")),
    (folder() | {"images/x.logbuffer": b""}, ("fault", "images/x.logbuffer", None, "log-buffer-name")),
    (changed(PUB, META + 256, number(8, 8)), ("fault", PUB, META + 256, "log-buffer-name")),
    (folder() | {PUB: publication() + bytes(4096)}, ("fault", PUB, META + 4096 + 276, "log-buffer-field")),
    (folder() | {PUB: b"short"}, ("fault", PUB, 0, "log-buffer-size")),
    (folder() | {PUB: bytes(4096) + publication()}, ("fault", PUB, None, "log-buffer-size")),
    (changed(PUB, META + 272, number(0)), ("fault", PUB, META + 272, "log-buffer-field")),
    (changed(PUB, META + 280, number(1)), ("fault", PUB, META + 280, "log-buffer-field")),
    (changed(PUB, META + 497, b"\7"), ("fault", PUB, META + 497, "log-buffer-field")),
    (changed(PUB, META + 320 + 20, number(8)), ("fault", PUB, META + 340, "log-buffer-header")),
    (changed(PUB, META + 4, number(INITIAL + 1)), ("fault", PUB, META, "log-buffer-tail")),
    (without(PUB), ("fault", PUB, None, "log-buffer-missing")),
    (without(IMG), ("fault", IMG, None, "log-buffer-missing")),
    (
        folder() | {"images/12.logbuffer": log_buffer({}, 12)},
        ("note", "images/12.logbuffer", None, "log-buffer-unknown"),
    ),
    (changed(PUB, META + 8, number(128)), ("fault", PUB, META, "position-beyond-tail")),
    (changed(PUB, TERM + 64, number(0)), ("fault", PUB, TERM + 64, "frame-length")),
    (changed(PUB, TERM + 64, number(-62)), ("note", PUB, TERM + 64, "frame-uncommitted")),
    (changed(PUB, TERM + 64, bytes(64)), ("note", PUB, TERM + 64, "frame-uncommitted")),
    (changed(PUB, TERM + 70, b"\7"), ("fault", PUB, TERM + 64, "frame-type")),
    (changed(PUB, TERM + 72, number(1)), ("fault", PUB, TERM + 64, "frame-term-offset")),
    (changed(PUB, TERM + 84, number(1)), ("fault", PUB, TERM + 64, "frame-term-id")),
    (changed(PUB, TERM + 80, number(1)), ("fault", PUB, TERM + 64, "frame-stream-id")),
    (changed(PUB, TERM + 70, b"\0"), ("fault", PUB, TERM + 64, "padding-data")),
    (changed(PUB, TERM + 69, b"\x80"), ("fault", PUB, TERM + 64, "incomplete-message")),
    (changed(PUB, TERM + 133, b"\x80"), ("note", PUB, TERM + 128, "incomplete-message")),
    ({**without(IMG), "images/11.logbuffer/x": b""}, ("fault", IMG, None, "unreadable")),
]


@pytest.mark.parametrize(("files", "expected"), CASES, ids=[f"{n}-{case[1][3]}" for n, case in enumerate(CASES)])
def test_a_fault_is_found_where_it_is(files: Files, expected: tuple[str, str, int | None, str]) -> None:
    assert expected in found(files)


def test_every_code_has_its_case() -> None:
    elsewhere = {"driver-gone", "frame-gap", "log-buffer-changed", "message-too-long"}
    assert {case[1][3] for case in CASES} | elsewhere == set(CODES)


def test_a_driver_that_runs_is_no_note() -> None:
    now_ms = time.time_ns() // 1_000_000
    for heartbeat, codes in ((now_ms, set()), (now_ms - 60_000, {"driver-gone"})):
        files = changed(CNC, 128 + 256 + 640, number(heartbeat, 8))
        with open_store(MemoryStorage(files)) as store:
            assert {f.code for f in store.verify().faults} - {"frame-gap"} == codes
            assert store.info()["live"] == (not codes)


def test_log_buffers_that_a_driver_deleted_when_it_closed_are_not_missed() -> None:
    files = changed(CNC, 128 + 256 + 640, number(-1, 8))
    del files[PUB], files[IMG]
    with open_store(MemoryStorage(files)) as store:
        report = store.verify()
    assert [(f.code, f.severity) for f in report.faults] == [("driver-gone", Severity.NOTE)]


def test_a_log_buffer_that_is_being_made_is_none_yet() -> None:
    assert found(folder() | {"images/.everlog-12.logbuffer": bytes(4096)}) == found(folder())


def test_a_tail_beyond_its_term_and_an_unused_term_are_right() -> None:
    data = publication()
    assert int.from_bytes(data[META : META + 4], "little") > TERM
    assert found(folder() | {PUB: data}) == []


def test_a_message_whose_end_has_not_come_is_a_note_and_is_not_given() -> None:
    data = b"".join(frame(1408 * i, b"x" * 1376, flags=0x80 if i == 0 else 0) for i in range(TERM // 1408))
    files = folder() | {IMG: log_buffer({0: data}, 11)}
    files[CNC] = put(files[CNC], FIRST_COUNTER + 8 * 512 + 4 * 128, number(len(data), 8))
    with open_store(MemoryStorage(files)) as store:
        assert list(store.read("images/11")) == []
    assert found(files) == [("note", IMG, 0, "incomplete-message")]


def test_the_frame_before_a_hole_is_given_whatever_its_length() -> None:
    """A length with one more bit would lead behind the hole: in a recording that is damage, here it is loss."""
    for payload, hole in ((b"a" * 5, 64), (b"b" * 32, 64), (b"c" * 500, 512), (b"d" * 480, 1024)):
        first = frame(0, payload)
        second = frame(len(first) + hole, b"second")
        files = folder() | {IMG: log_buffer({0: first + bytes(hole) + second}, 11)}
        with open_store(MemoryStorage(files)) as store:
            faults: list[str] = []
            records = store.read("images/11", on_fault=lambda fault, seen=faults: seen.append(fault.code))
            assert [record.payload for record in records] == [payload, b"second"]
            assert faults == ["frame-gap"]


def test_a_message_cut_by_a_hole_is_not_given_and_those_around_it_are() -> None:
    pieces = [
        frame(0, b"before"),
        frame(64, b"y" * 32, flags=0x80),
        bytes(64),
        frame(192, b"z" * 32, flags=0x40),
        frame(256, b"behind"),
    ]
    files = folder() | {IMG: log_buffer({0: b"".join(pieces)}, 11)}
    with open_store(MemoryStorage(files)) as store:
        notes: list[tuple[str, Severity]] = []
        records = store.read("images/11", on_fault=lambda fault: notes.append((fault.code, fault.severity)))
        assert [record.payload for record in records] == [b"before", b"behind"]
    assert notes == [("incomplete-message", Severity.NOTE), ("frame-gap", Severity.NOTE)]


def test_terms_that_turned_are_read_in_the_order_of_positions() -> None:
    # Term 3 is in the first third, 1 and 2 are behind it.
    terms = {i: frame(0, b"term %d" % n, term_id=INITIAL + n) for i, n in ((0, 3), (1, 1), (2, 2))}
    tails = tail(INITIAL + 3, 64), tail(INITIAL + 1, TERM), tail(INITIAL + 2, TERM)
    files = folder() | {PUB: log_buffer(terms, 9, tails, active_term_count=3)}
    with open_store(MemoryStorage(files)) as store:
        records = list(store.read("publications/9", on_fault=lambda fault: None))
        assert [(record.address, record.payload) for record in records] == [
            (str(TERM), b"term 1"),
            (str(2 * TERM), b"term 2"),
            (str(3 * TERM), b"term 3"),
        ]
        (info,) = [info for info in store.streams() if info.name == "publications/9"]
        assert info.end == str(3 * TERM + 64)
        assert [split.stream for split in store.splits("publications/9", split_bytes=1)] == ["publications/9"] * 3


def test_terms_whose_ids_wrap_are_read() -> None:
    first = (1 << 31) - 1
    wrapped = -(1 << 31)
    terms = {0: frame(0, b"last", term_id=first), 1: frame(0, b"wrapped", term_id=wrapped)}
    log = log_buffer(terms, 9, (tail(first, TERM), tail(wrapped, 64), tail(first - 1, 0)), initial_term_id=first)
    log = put(log, META + 320 + 20, number(first))
    with open_store(MemoryStorage(folder() | {PUB: log})) as store:
        records = list(store.read("publications/9", on_fault=lambda fault: None))
        assert [(record.address, record.payload) for record in records] == [("0", b"last"), (str(TERM), b"wrapped")]


def test_times_come_from_the_reserved_value_where_asked() -> None:
    data = bytearray(image())
    data[24:32] = number(5, 8)
    with open_store(MemoryStorage(folder() | {IMG: bytes(data)}), timestamp_from="reserved_value:ms") as store:
        first = next(iter(store.read("images/11", on_fault=lambda fault: None)))
    assert first.timestamp_ns == 5_000_000
