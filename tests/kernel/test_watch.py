"""Sleeping until there is something to do: the compiled class and its twin do the same."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest

from everlog.kernel import _memory, _watch, memory_twin, watch_twin

KINDS = pytest.mark.parametrize(
    "kind", [(_memory.Memory, _watch.Watch), (memory_twin.Memory, watch_twin.Watch)], ids=["compiled", "twin"]
)
MS, SECOND = 1_000_000, 1_000_000_000
FOREVER = 1 << 62


@KINDS
def test_it_sleeps_until_the_time_has_come(kind: Any) -> None:
    memory, watch = kind
    words = memory.allocate(16)
    begun = time.monotonic_ns()
    parks = watch([(words, 0, words, 8)]).park(MS, begun + 5 * MS)
    assert time.monotonic_ns() >= begun + 5 * MS
    assert 1 <= parks <= 5
    assert watch([]).park(MS, time.monotonic_ns()) == 0


@KINDS
def test_numbers_that_differ_end_it_before_it_sleeps(kind: Any) -> None:
    memory, watch = kind
    one, other = memory.allocate(32), memory.allocate(16)
    one.put_i64(24, 7)
    watched = watch([(one, 0, one, 8), (one, 24, other, 8)])
    assert watched.park(SECOND, FOREVER) == 0
    other.put_i64(8, 7)
    assert watched.park(MS, time.monotonic_ns() + MS) == 1


@KINDS
def test_a_number_that_changes_ends_it_and_others_run_meanwhile(kind: Any) -> None:
    memory, watch = kind
    words = memory.allocate(16)
    changing = threading.Timer(0.005, lambda: words.get_and_add_i64(8, 1))
    changing.start()
    watch([(words, 0, words, 8)]).park(MS, FOREVER)
    assert words.get_i64(8) == 1
    changing.join()


@KINDS
def test_a_socket_that_can_be_read_ends_a_sleep(kind: Any) -> None:
    _, watch = kind
    near, far = socket.socketpair()
    with near, far, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as quiet:
        sockets = [quiet.fileno(), near.fileno()]
        sending = threading.Timer(0.005, lambda: far.send(b"x"))
        sending.start()
        watch([]).park(SECOND, FOREVER, sockets)
        assert near.recv(1) == b"x"
        far.send(b"y")
        sending.join()
        assert watch([]).park(SECOND, FOREVER, sockets) == 0, "it can be read already"


@KINDS
def test_a_backoff_ends_when_the_time_has_come_or_a_number_has_changed(kind: Any) -> None:
    memory, watch = kind
    words = memory.allocate(16)
    watched = watch([(words, 0, words, 8)])
    begun = time.monotonic_ns()
    assert watched.back_off(10, 20, 1000, MS, begun + 5 * MS) is False
    assert time.monotonic_ns() >= begun + 5 * MS
    changing = threading.Timer(0.005, lambda: words.get_and_add_i64(8, 1))
    changing.start()
    assert watched.back_off(0, 0, 1000, MS, FOREVER) is True
    changing.join()
    assert watched.back_off(1, 0, SECOND, SECOND, FOREVER) is True, "before the first sleep"


@KINDS
@pytest.mark.parametrize("parks", [(0, MS), (2, 1), (MS, SECOND + 1)])
def test_a_backoff_with_invalid_times_to_sleep_is_refused(kind: Any, parks: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="park"):
        kind[1]([]).back_off(1, 1, *parks, FOREVER)


def test_a_condition_without_a_check_is_refused() -> None:
    with pytest.raises(TypeError, match="check"):
        _watch.Watch([], [_watch.Condition()])


@KINDS
@pytest.mark.parametrize("park_ns", [0, -1, SECOND + 1])
def test_what_is_no_time_to_sleep_is_refused(kind: Any, park_ns: int) -> None:
    with pytest.raises(ValueError, match="park"):
        kind[1]([]).park(park_ns, FOREVER)


@KINDS
def test_too_many_sockets_are_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match="4097 sockets"):
        kind[1]([]).park(MS, FOREVER, range(4097))


@KINDS
@pytest.mark.parametrize(("offset", "error"), [(-8, IndexError), (16, IndexError), (9, IndexError), (4, ValueError)])
def test_numbers_outside_of_their_memory_are_refused(kind: Any, offset: int, error: type[Exception]) -> None:
    memory, watch = kind
    words = memory.allocate(16)
    with pytest.raises(error):
        watch([(words, 0, words, offset)])
