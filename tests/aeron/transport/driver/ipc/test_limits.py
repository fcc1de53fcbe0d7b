"""Limits and cleaning of IPC publications, compiled and in Python. Expected numbers are worked out by hand from a
window of half a term of 64 KiB."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from everlog.aeron.transport.driver.ipc import limits_twin as ipc_limits_twin
from everlog.aeron.transport.driver.ipc.limits_twin import IpcTerms
from everlog.aeron.transport.memory import log_memory
from everlog.aeron.transport.memory.log_memory import LogMemory, LogParameters
from everlog.errors import CorruptData
from everlog.kernel.memory import Memory

TERM, WINDOW = 65_536, 32_768
try:
    from everlog.aeron.transport.driver.ipc import _limits as _ipc_limits

    KERNELS: list[Any] = [ipc_limits_twin, _ipc_limits]
except ImportError:
    KERNELS = [ipc_limits_twin]


@pytest.fixture(params=KERNELS, ids=lambda module: module.__name__.rpartition(".")[2])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    found: ModuleType = request.param
    return found


class Stream:
    """A log, its counters (0 position, 1 limit, 2.. subscribers) and limits."""

    def __init__(self, kernel: ModuleType, initial_term_id: int = 7, term_length: int = TERM) -> None:
        self.term_length = term_length
        self.log = LogMemory.allocate(
            LogParameters(
                correlation_id=1,
                session_id=2,
                stream_id=3,
                initial_term_id=initial_term_id,
                term_length=term_length,
                mtu_length=1408,
            )
        )
        self.counters = Memory.allocate(1024)
        terms = IpcTerms(self.log.terms, self.log.metadata, term_length, initial_term_id, term_length // 2)
        self.limits = kernel.IpcLimits(terms, (self.counters, 0), (self.counters, 128))

    def subscribe(self, index: int, position: int = 0) -> None:
        self.move(index, position)
        self.limits.add_subscriber(self.counters, 256 + 128 * index)

    def move(self, index: int, position: int) -> None:
        self.counters.put_i64(256 + 128 * index, position)

    def claim(self, position: int) -> None:
        """Claim as publishers do."""
        count = position // self.term_length
        log_memory.set_active_term_count(self.log.metadata, count)
        tail = log_memory.pack_tail(self.log.initial_term_id + count, position % self.term_length)
        log_memory.set_raw_tail(self.log.metadata, count % 3, tail)

    @property
    def position(self) -> int:
        return self.counters.get_i64(0)

    @property
    def limit(self) -> int:
        return self.counters.get_i64(128)


def test_without_subscribers_the_limit_stays_at_the_start(kernel: ModuleType) -> None:
    stream = Stream(kernel)
    assert stream.limits.update() == 0
    assert stream.limit == 0


def test_publishers_may_be_a_window_ahead_of_the_slowest_subscriber(kernel: ModuleType) -> None:
    stream = Stream(kernel)
    stream.subscribe(0)
    stream.subscribe(1)
    assert stream.limits.update() == 1
    assert stream.limit == WINDOW
    stream.move(0, 8192)
    assert stream.limits.update() == 0
    assert stream.limits.consumer_position == 8192
    stream.move(1, 4096)
    assert stream.limits.update() == 1
    assert stream.limit == 4096 + WINDOW


def test_the_limit_moves_in_eighths_of_a_window(kernel: ModuleType) -> None:
    stream = Stream(kernel)
    stream.subscribe(0)
    stream.limits.update()
    stream.move(0, 4064)
    assert stream.limits.update() == 0
    stream.move(0, 4096)
    assert stream.limits.update() == 1


def test_what_subscribers_have_passed_is_zeroed_term_by_term(kernel: ModuleType) -> None:
    stream = Stream(kernel)
    stream.subscribe(0)
    for term in stream.log.terms:
        term.write(0, b"\xff" * TERM)
    stream.move(0, TERM + 4096)
    stream.limits.update()
    assert stream.limits.clean_position == TERM
    assert not any(stream.log.terms[0].view())
    stream.move(0, TERM + 8192)
    stream.limits.update()
    assert stream.limits.clean_position == TERM + 8192
    assert not any(stream.log.terms[1].view()[:8192])
    assert all(stream.log.terms[1].view()[8192:])
    assert all(stream.log.terms[2].view())


def test_long_terms_are_zeroed_before_the_limits_next_step(kernel: ModuleType) -> None:
    stream = Stream(kernel, term_length=8 << 20)
    stream.subscribe(0)
    stream.subscribe(1)
    stream.claim(400 << 10)
    stream.log.terms[0].write(0, b"\xff" * (400 << 10))
    assert stream.limits.update() == 1
    assert stream.limit == 4 << 20
    for fast, slow, clean, work in [(300, 255, 0, 0), (300, 256, 256, 1), (400, 300, 256, 0)]:
        stream.move(0, fast << 10)
        stream.move(1, slow << 10)
        assert stream.limits.update() == work
        assert stream.limits.clean_position == clean << 10
    assert stream.limit == 4 << 20
    assert not any(stream.log.terms[0].view()[: 256 << 10])
    assert all(stream.log.terms[0].view()[256 << 10 : 400 << 10])


def test_nothing_is_zeroed_early_that_was_never_claimed(kernel: ModuleType) -> None:
    stream = Stream(kernel, term_length=8 << 20)
    stream.subscribe(0)
    stream.limits.update()
    stream.claim(100 << 10)
    stream.move(0, 500 << 10)  # as only a damaged counter says
    assert stream.limits.update() == 0
    assert stream.limits.clean_position == 0


def test_the_publishers_position_is_told_with_every_cycle(kernel: ModuleType) -> None:
    stream = Stream(kernel)
    stream.claim(2 * TERM + 96)
    stream.limits.update()
    assert stream.position == 2 * TERM + 96


def test_a_claim_behind_a_terms_end_counts_up_to_the_end(kernel: ModuleType) -> None:
    stream = Stream(kernel)
    log_memory.set_raw_tail(stream.log.metadata, 0, log_memory.pack_tail(7, TERM + 4096))
    assert stream.limits.producer_position() == TERM


def test_term_ids_wrap(kernel: ModuleType) -> None:
    stream = Stream(kernel, initial_term_id=(1 << 31) - 1)
    log_memory.set_active_term_count(stream.log.metadata, 1)
    log_memory.set_raw_tail(stream.log.metadata, 1, log_memory.pack_tail(-(1 << 31), 64))
    assert stream.limits.producer_position() == TERM + 64


def test_with_the_last_subscriber_gone_publishers_stop_where_it_was(kernel: ModuleType) -> None:
    stream = Stream(kernel)
    stream.subscribe(0)
    stream.limits.update()
    stream.move(0, 9600)
    stream.limits.update()
    assert stream.limits.remove_subscriber(256) is True
    assert stream.limits.remove_subscriber(256) is False
    assert stream.limits.update() == 1
    assert stream.limit == 9600
    assert stream.limits.join_position() == 9600


def test_a_new_subscriber_joins_the_slowest(kernel: ModuleType) -> None:
    stream = Stream(kernel)
    stream.subscribe(0)
    stream.subscribe(1)
    stream.move(0, 640)
    stream.move(1, 320)
    stream.limits.update()
    assert stream.limits.join_position() == 320
    assert stream.limits.is_drained(320)
    assert not stream.limits.is_drained(352)


def test_once_it_is_not_active_nothing_moves(kernel: ModuleType) -> None:
    stream = Stream(kernel)
    stream.subscribe(0)
    stream.limits.is_active = False
    stream.claim(640)
    assert stream.limits.update() == 0
    assert (stream.position, stream.limit) == (0, 0)


def test_all_publications_are_one_call(kernel: ModuleType) -> None:
    streams = [Stream(kernel) for _ in range(3)]
    for stream in streams[1:]:
        stream.subscribe(0)
    assert kernel.update_all([stream.limits for stream in streams]) == 2
    assert [stream.limit for stream in streams] == [0, WINDOW, WINDOW]


def test_limits_that_were_followed_are_where_the_last_look_left_them(kernel: ModuleType) -> None:
    streams = [Stream(kernel) for _ in range(3)]
    for stream in streams[:2]:
        stream.subscribe(0)
    limits = [stream.limits for stream in streams]
    assert kernel.update_all(limits, 5) == 2
    streams[0].move(0, 8192)
    assert kernel.update_all(limits, 5) == 1
    assert [stream.limit for stream in streams] == [WINDOW + 8192, WINDOW, 0]
    assert kernel.update_all(limits, 5) == 0


def test_a_subscriber_far_ahead_does_not_keep_the_driver(kernel: ModuleType) -> None:
    stream = Stream(kernel)
    stream.subscribe(0)
    assert kernel.update_all([stream.limits]) == 1
    stream.move(0, 1 << 40)
    assert kernel.update_all([stream.limits], 1 << 40) == 1
    assert stream.limits.clean_position <= (16 << 20) + 2 * TERM


@pytest.mark.parametrize(
    "position", [(1 << 63) - 1, -(1 << 63), (1 << 62) + 1, -1, 1, 33, TERM * 3 + 17, TERM - 1, 1 << 40]
)
def test_any_position_that_a_process_writes_is_survived(kernel: ModuleType, position: int) -> None:
    stream = Stream(kernel)
    stream.subscribe(0)
    for index in range(8):
        stream.move(0, position if index % 2 else 31)
        stream.counters.put_i64(0, position)
        stream.limits.update()
        stream.limits.join_position()
        assert stream.limits.clean_position % 32 == 0
        assert 0 <= stream.limits.clean_position <= 8 * TERM


@pytest.mark.parametrize("count", [-1, -(1 << 31), (1 << 31) - 1, 5])
def test_any_term_count_and_tail_that_a_process_writes_is_survived(kernel: ModuleType, count: int) -> None:
    stream = Stream(kernel)
    stream.subscribe(0)
    log_memory.set_active_term_count(stream.log.metadata, count)
    for index in range(3):
        stream.log.metadata.put_i64(index * 8, -(index + 1))
    stream.limits.update()


def test_a_log_that_is_none_is_refused(kernel: ModuleType) -> None:
    stream = Stream(kernel)
    pair = stream.counters, 0
    for terms in (
        IpcTerms(stream.log.terms, stream.log.metadata, TERM * 2, 7, WINDOW),
        IpcTerms(stream.log.terms, stream.log.metadata, 1000, 7, WINDOW),
        IpcTerms(stream.log.terms[:2], stream.log.metadata, TERM, 7, WINDOW),
        IpcTerms(stream.log.terms, Memory.allocate(100), TERM, 7, WINDOW),
    ):
        with pytest.raises(CorruptData):
            kernel.IpcLimits(terms, pair, pair)
    good = IpcTerms(stream.log.terms, stream.log.metadata, TERM, 7, WINDOW)
    with pytest.raises(IndexError):
        kernel.IpcLimits(good, (stream.counters, 1024), pair)
    with pytest.raises(IndexError):
        stream.limits.add_subscriber(stream.counters, 1020)
    with pytest.raises(ValueError, match="multiple"):
        stream.limits.add_subscriber(stream.counters, 4)
