"""Shared memory beside the real one: Agrona's ring buffer and broadcast on the same file at the same time, Aeron's own
commands, and Java's readers of ``cnc.dat``, counters, errors, losses and log buffers on what we wrote."""

from __future__ import annotations

import os
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tools import aeron_java

import tests
from everlog.aeron.transport.memory import log_memory
from everlog.aeron.transport.memory.broadcast import TRAILER_LENGTH as BROADCAST_TRAILER
from everlog.aeron.transport.memory.broadcast import BroadcastReceiver, BroadcastTransmitter
from everlog.aeron.transport.memory.cnc_memory import CncMemory, CncSettings
from everlog.aeron.transport.memory.counters_memory import Counters
from everlog.aeron.transport.memory.error_log_writer import DistinctErrorLog
from everlog.aeron.transport.memory.log_memory import LogMemory, LogParameters
from everlog.aeron.transport.memory.loss_report_writer import LossReport
from everlog.aeron.transport.memory.ring_buffer import TRAILER_LENGTH as RING_TRAILER
from everlog.aeron.transport.memory.ring_buffer import ManyToOneRingBuffer
from everlog.aeron.transport.memory.shared_files import create_file
from everlog.aeron.transport.protocol import commands as c
from tests.interop.archive.java_archive import FLAGS

PROGRAM = Path(__file__).with_name("SharedMemoryPeer.java")
SECONDS = 60.0
COUNT = 20_000
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(aeron_jar: Path) -> Iterator[Start]:
    """Starts a task of ``SharedMemoryPeer``; all end with the test."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: object) -> subprocess.Popen[str]:
        command = aeron_java.command(aeron_jar, "SharedMemoryPeer", *arguments, source=PROGRAM, flags=FLAGS)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def lines(process: subprocess.Popen[str]) -> list[str]:
    """What it printed until it ended well."""
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, err
    return out.splitlines()


def message(writer: int, number: int) -> bytes:
    return struct.pack("<ii", writer, number) * (1 + number % 7)


def running(processes: list[subprocess.Popen[str]], deadline: float) -> None:
    """Let others run; fails where one has failed, or all take too long."""
    for process in processes:
        assert process.poll() in (None, 0), process.communicate()[1]
    assert time.monotonic() < deadline
    os.sched_yield()


def test_java_writes_commands_and_we_read_them_both_at_once(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "ring"
    ring = ManyToOneRingBuffer(create_file(path, (8 << 10) + RING_TRAILER))
    writers = [start("ring-write", path, writer, COUNT) for writer in (0, 1)]
    next_of = [0, 0, 0]
    ours = 0

    def check(type_id: int, data: bytes) -> None:
        writer = type_id - 1
        assert data == message(writer, next_of[writer])
        next_of[writer] += 1

    deadline = time.monotonic() + SECONDS
    while sum(next_of) < 3 * COUNT:
        # A third writer is this process: on the same file as the two of Java's.
        if ours < COUNT and ring.write(3, message(2, ours)):
            ours += 1
        if not ring.read(check):
            running(writers, deadline)
    assert next_of == [COUNT] * 3
    assert [lines(writer) for writer in writers] == [[f"written {COUNT}"]] * 2


def test_we_write_commands_and_java_reads_them(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "ring"
    ring = ManyToOneRingBuffer(create_file(path, (8 << 10) + RING_TRAILER))
    reader = start("ring-read", path, 2 * COUNT)
    writer = start("ring-write", path, 1, COUNT)
    number, deadline = 0, time.monotonic() + SECONDS
    while number < COUNT:
        if ring.write(1, message(0, number)):
            number += 1
        else:
            running([reader, writer], deadline)
    assert lines(writer) == [f"written {COUNT}"]
    assert lines(reader) == [f"read {2 * COUNT}"]
    assert ring.size == 0


def test_java_broadcasts_and_we_receive(start: Start, tmp_path: Path) -> None:
    path, count = tmp_path / "broadcast", 4_000
    receiver = BroadcastReceiver(create_file(path, (64 << 10) + BROADCAST_TRAILER))
    sender = start("broadcast-send", path, count)
    number, deadline = 0, time.monotonic() + SECONDS
    while number < count:
        record = receiver.receive()
        if record is None:
            running([sender], deadline)
            continue
        assert record == (1, message(0, number))
        number += 1
    assert lines(sender) == [f"sent {count}"]
    assert receiver.lapped_count == 0


def test_we_broadcast_and_java_receives(start: Start, tmp_path: Path) -> None:
    path, count = tmp_path / "broadcast", 4_000
    transmitter = BroadcastTransmitter(create_file(path, (64 << 10) + BROADCAST_TRAILER))
    receiver = start("broadcast-receive", path, count)
    assert receiver.stdout is not None
    assert receiver.stdout.readline() == "ready\n"
    for number in range(count):
        transmitter.transmit(1, message(0, number))
        if number % 16 == 0:
            time.sleep(0.001)
    assert lines(receiver) == [f"received {count}"]


def test_aerons_flyweights_make_the_bytes_that_the_default_tests_know(start: Start) -> None:
    golden = tests.GOLDEN / "aeron" / "transport" / "flyweights-1.51.0.txt"
    assert lines(start("flyweights")) == golden.read_text().splitlines()


def test_what_a_java_client_asks_for_is_understood(start: Start, tmp_path: Path) -> None:
    cnc = CncMemory.create(tmp_path, CncSettings(), time.time_ns() // 1_000_000)
    ring = ManyToOneRingBuffer(cnc.to_driver)
    ring.consumer_heartbeat = time.time_ns() // 1_000_000
    cnc.signal_ready()
    client = start("client", tmp_path)
    found: list[c.Command] = []

    def read(type_id: int, data: bytes) -> None:
        command = c.decode_command(type_id, data)
        kind, encoded = c.encode(command)
        # Java claims up to 4 bytes more for a counter than it writes.
        assert (kind, encoded + bytes(len(data) - len(encoded))) == (type_id, data)
        assert len(data) - len(encoded) < 8
        found.append(command)

    deadline = time.monotonic() + SECONDS
    while not any(isinstance(command, c.ClientClose) for command in found):
        ring.consumer_heartbeat = time.time_ns() // 1_000_000
        if not ring.read(read):
            running([client], deadline)
    said = lines(client)
    own = int(said[0].split()[1])
    publication, exclusive, subscription, counter, fixed = map(int, said[1].split()[1:])
    asked = [command for command in found if not isinstance(command, c.ClientKeepalive)]
    removed = [command.correlation_id for command in asked[5:8]]
    udp = "aeron:udp?endpoint=localhost:40123"
    assert asked[:5] == [
        c.AddPublication(own, publication, 1001, "aeron:ipc?alias=one"),
        c.AddExclusivePublication(own, exclusive, -7, f"{udp}|mtu=1408"),
        c.AddSubscription(own, subscription, -1, -7, f"aeron-spy:{udp}"),
        c.AddCounter(own, counter, 1777, b"key", "a label"),
        c.AddStaticCounter(own, fixed, 99, 1778, b"", "fixed"),
    ]
    assert asked[5:8] == [
        c.RemovePublication(own, removed[0], publication),
        c.RemoveSubscription(own, removed[1], subscription),
        c.RemoveCounter(own, removed[2], counter),
    ]
    assert isinstance(asked[8], c.TerminateDriver)
    assert asked[8].token == b"secret"
    assert isinstance(asked[9], c.ClientClose)
    assert asked[9].client_id == own
    assert len(asked) == 10


def test_java_reads_our_folder_as_it_reads_its_own(start: Start, tmp_path: Path) -> None:
    settings = CncSettings(
        to_driver_buffer_length=(64 << 10) + RING_TRAILER,
        to_clients_buffer_length=(32 << 10) + BROADCAST_TRAILER,
        counters_values_buffer_length=64 << 10,
        error_log_buffer_length=(16 << 10),
        client_liveness_timeout_ns=7_000_000_000,
        pid=4711,
    )
    cnc = CncMemory.create(tmp_path, settings, 1_700_000_000_000)
    counters = Counters(cnc.counters_metadata, cnc.counters_values)
    counters.allocate(0, bytes(4), "Bytes sent", value=77, owner_id=-1)
    counters.allocate(1001, b"gone", "gone").close()
    ids = {"registration_id": 5, "owner_id": 6, "reference_id": 7}
    counters.allocate(1002, b"key", "a label", value=-(1 << 62), **ids)
    ring = ManyToOneRingBuffer(cnc.to_driver)
    ring.consumer_heartbeat = 1_700_000_000_500
    for _ in range(3):
        ring.next_correlation_id()
    assert ring.write(1, b"abc")
    errors = DistinctErrorLog(cnc.error_log)
    for now, text in ((1000, "first\nsecond line"), (2000, "other"), (3000, "first\nsecond line")):
        assert errors.record(text, now)
    losses = LossReport(create_file(tmp_path / "loss-report.dat", 4096))
    entry = losses.create_entry(32, 1000, -77, 5, "aeron:udp?endpoint=a:1", "10.0.0.1:4")
    assert entry is not None
    entry.record(64, 2000)
    cnc.signal_ready()
    assert lines(start("folder", tmp_path)) == [
        "version 0.2.0",
        "heartbeat 1700000000500",
        "counter 0 0 77 0 -1 0 Bytes sent",
        f"counter 2 1002 {-(1 << 62)} 5 6 7 a label",
        "timeout 7000000000",
        "pid 4711",
        "start 1700000000000",
        "page 4096",
        "sufficient true",
        "ring 65536 16 3",
        "broadcast 32768",
        "error 2 1000 3000 first",
        "error 1 2000 2000 other",
        "loss 2 96 1000 2000 -77 5 aeron:udp?endpoint=a:1 10.0.0.1:4",
    ]


def test_java_maps_our_log_buffers(start: Start, tmp_path: Path) -> None:
    parameters = LogParameters(
        correlation_id=9,
        session_id=-77,
        stream_id=5,
        initial_term_id=-3,
        term_length=128 << 10,
        mtu_length=8192,
        term_id=2,
        term_offset=96,
        publication_window_length=1,
        receiver_window_length=2,
        socket_sndbuf_length=3,
        socket_rcvbuf_length=4,
        max_resend=5,
        linger_timeout_ns=6,
        untethered_window_limit_timeout_ns=7,
        untethered_resting_timeout_ns=8,
        entity_tag=9,
        response_correlation_id=10,
        rejoin=True,
        sparse=True,
        spies_simulate_connection=True,
    )
    log = LogMemory.create(tmp_path / "9.logbuffer", parameters)
    log_memory.set_is_connected(log.metadata, True)
    log_memory.set_active_transport_count(log.metadata, 4)
    log.terms[2].put_i32_release(0, 55)
    assert lines(start("log", tmp_path / "9.logbuffer")) == [
        "term 131072 page 4096 mtu 8192 initial -3 correlation 9",
        f"active 5 eos {(1 << 63) - 1} connected true transports 4",
        "tail 0 0 first 0",
        "tail 1 0 first 0",
        "tail 2 96 first 55",
        "flags false false true false true false true false",
        "windows 1 2 3 4 5",
        "times 6 7 8 9 10",
    ]
