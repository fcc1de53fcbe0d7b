"""Datagrams that no publication sends, given to the compiled code and its twin, and to a receiver that also has an
honest source. ``EVERLOG_FUZZ_SECONDS`` is the duration of each test, ``EVERLOG_FUZZ_SEED`` the seed; ``make
fuzz-packets`` runs for an hour."""

from __future__ import annotations

import os
import random
import time

import pytest

from everlog.aeron.transport.driver.receiver import packets_twin
from everlog.aeron.transport.driver.receiver.feedback_delay import StaticDelayGenerator
from everlog.aeron.transport.driver.receiver.image_exchange import ImageState
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.protocol import wire
from everlog.kernel.udp import SocketAddress
from everlog.testing.fuzz.packets import GUARD, TERM_LENGTH, Kernel, Mismatch, Side, fuzz, run_once
from everlog.testing.series import Series
from tests.aeron.transport.driver.receiver.receiving import (
    EOS,
    INITIAL,
    SESSION,
    STREAM,
    TERM,
    WHOLE,
    data_frame,
    heartbeat,
    setup,
)
from tests.aeron.transport.driver.receiver.receiving_driver import MS, Options, ReceivingDriver

SECONDS = float(os.environ.get("EVERLOG_FUZZ_SECONDS", "6"))
SEED = int(os.environ.get("EVERLOG_FUZZ_SEED", "1"))
ATTACKER, TARGET = SocketAddress("10.6.6.6", 666), SocketAddress("10.0.0.2", 4000)
FRAME = 1024


def test_compiled_code_does_with_hostile_datagrams_what_its_twin_does(series: Series) -> None:
    assert fuzz(SECONDS * series.effort, first_seed=SEED) > 100


def test_a_fault_that_is_planted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = packets_twin.ImageRebuilder._packet_length

    def careless(self: packets_twin.ImageRebuilder, data: bytes) -> int:
        length = real(self, data)
        return 64 if length == packets_twin.INVALID and len(data) == 64 else length

    monkeypatch.setattr(packets_twin.ImageRebuilder, "_packet_length", careless)
    kernels = Kernel.compiled(), Kernel.twin()
    with pytest.raises((Mismatch, IndexError)):
        sum(run_once(seed, kernels) for seed in range(200))


def test_what_is_written_beside_a_term_is_found() -> None:
    side = Side(Kernel.twin(), 0)
    side.arena.put_i32(GUARD + TERM_LENGTH, 0)
    with pytest.raises(Mismatch, match="outside"):
        side.check_guards()


def hostile(draw: random.Random, honest: list[bytes]) -> bytes:
    """Anything except a frame that could be the honest source's next one."""
    good = draw.choice(honest)
    cut = good[: draw.randrange(len(good))]
    junk = draw.randbytes(draw.choice((0, 1, 8, 12, 24, 40, 64, 1500)))
    kind = draw.choice((0, 1, 2, 3, 4, 5, 6, 7, 11, 12, 0xFFFF))
    headed = draw.choice((0, 8, 40, -1, 1 << 30)).to_bytes(4, "little", signed=True) + bytes((0, draw.randrange(256)))
    stranger = data_frame(draw.randrange(0, TERM, 32), junk, session=draw.randrange(1 << 20))
    spoofed = bytearray(good)
    spoofed[0:4] = draw.choice((0, 1, 31, len(good) + 1, len(good) + 32, TERM, 0x7FFFFFFF)).to_bytes(4, "little")
    misplaced = bytearray(good)
    misplaced[8:12] = draw.choice((1, 17, TERM, TERM + 32, 0xFFFFFFE0, 0x7FFFFFE0)).to_bytes(4, "little")
    late = data_frame(0, b"long ago", initial=INITIAL - 1)
    far = heartbeat(1 << 33)
    other_end = heartbeat(0, session=3, flags=WHOLE | EOS)
    ask = wire.encode(wire.RttMeasurement(SESSION, STREAM, draw.randrange(1 << 40), 0, 0, wire.RTTM_REPLY))
    answer = wire.encode(wire.RttMeasurement(SESSION, STREAM, -1, (1 << 62), 0, 0))
    setups = setup(session=draw.randrange(1 << 20), offset=draw.choice((0, 64, 33, TERM))), setup(offset=32), setup()
    forms = [cut, good, junk, headed + kind.to_bytes(2, "little") + junk, stranger, bytes(spoofed), bytes(misplaced)]
    return draw.choice([*forms, late, far, other_end, ask, answer, *setups])


def test_an_honest_stream_comes_through_a_flood_of_hostile_packets(series: Series) -> None:
    draw = random.Random(SEED)
    driver = ReceivingDriver(options=Options(delay=StaticDelayGenerator(0, MS)))
    driver.subscribe(SESSION)
    driver.source.send(setup())
    for _ in range(3):
        driver.step()
    image = driver.images[0]
    made = {at: data_frame(at, draw.randbytes(FRAME - 32), reserved=at) for at in range(0, TERM, FRAME)}
    sent, read = 0, 0
    end = time.monotonic() + SECONDS * series.effort
    while time.monotonic() < end:
        count = draw.randint(1, 8)
        new = [_moved(made[at % TERM], at) for at in range(sent, min(sent + count * FRAME, read + (16 << 10)), FRAME)]
        sent += len(new) * FRAME
        if draw.random() < 0.5:
            driver.source.send(*new)
        if new:
            for _ in range(draw.randint(1, 60)):
                driver.network.inject(hostile(draw, new), ATTACKER, TARGET)
        for nak in (frame for frame in driver.step(MS) if isinstance(frame, wire.Nak)):
            start = read - read % TERM + nak.term_offset
            start += TERM if start < read - TERM // 2 else 0
            again = range(start - start % FRAME, start + nak.length, FRAME)
            driver.source.send(*(_moved(made[at % TERM], at) for at in again if at < sent))
        driver.source.send(heartbeat(sent))
        read = _read_on(driver, made, read)
        driver.positions[0].set_release(read)
        driver.step(MS)
    assert image.state is ImageState.ACTIVE
    assert read > 4 * TERM
    assert driver.count(SystemCounter.INVALID_PACKETS) > 1000
    assert len(driver.errors) == 1
    assert driver.errors[0].startswith("invalid packet")
    assert driver.names().count("create") == 1


@pytest.mark.parametrize("congestion", [None, "cubic"])
def test_nothing_that_other_processes_write_to_counters_stops_the_receiver(congestion: str | None) -> None:
    draw = random.Random(SEED)
    driver = ReceivingDriver(options=Options(congestion=congestion))
    driver.connect(setup())
    extremes = (1 << 63) - 1, -(1 << 63), -1, 0, 33, draw.getrandbits(62)
    for start in range(0, 60 * FRAME, FRAME):
        for _ in range(20):
            driver.values.put_i64(128 * draw.randrange(80), draw.choice(extremes))
        driver.source.send(*(data_frame(at, b"x" * 992) for at in (start, start + FRAME) if draw.random() < 0.9))
        driver.source.send(heartbeat(start + 2 * FRAME))
        driver.step(MS)
        driver.time_event()
        driver.positions[0].set_release(start)
    assert driver.errors == []
    assert driver.images[0].state is ImageState.ACTIVE
    assert driver.images[0].receiver.rebuilder.hwm_position == 61 * FRAME


def _moved(frame: bytes, position: int) -> bytes:
    """A frame of the first term, moved to a later one."""
    return data_frame(position, frame[32:], reserved=position % TERM)


def _read_on(driver: ReceivingDriver, made: dict[int, bytes], read: int) -> int:
    """Compare everything that has arrived."""
    terms = driver.images[0].log.memory.terms
    while True:
        frame = terms[read // TERM % 3].read(read % TERM, FRAME)
        if frame[:4] == bytes(4):
            return read
        assert frame == _moved(made[read % TERM], read)
        read += FRAME
