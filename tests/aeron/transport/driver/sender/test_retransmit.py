"""When missed data is resent."""

from __future__ import annotations

from everlog.aeron.transport.driver.sender.retransmit import RetransmitHandler, RetransmitSettings
from everlog.aeron.transport.protocol.wire import Nak

LINGER = 10_000_000


class Overflow:
    def __init__(self) -> None:
        self.count = 0

    def increment(self) -> None:
        self.count += 1


class Stream:
    """A handler and what it resent."""

    def __init__(self, **settings: int) -> None:
        self.overflow = Overflow()
        group = bool(settings.pop("group", 0))
        self.handler = RetransmitHandler(RetransmitSettings(has_group_semantics=group, **settings), self.overflow)
        self.sent: list[tuple[int, int, int]] = []

    def nak(self, term_id: int, offset: int, length: int, now_ns: int, most: int = 1 << 20) -> None:
        self.handler.on_nak(Nak(1, 2, term_id, offset, length), min(length, most), now_ns, self._resend)

    def time(self, now_ns: int) -> None:
        self.handler.process_timeouts(now_ns, self._resend)

    def _resend(self, term_id: int, offset: int, length: int) -> None:
        self.sent.append((term_id, offset, length))


def test_a_nak_is_answered_at_once_and_not_again_while_it_lingers() -> None:
    stream = Stream()
    stream.nak(7, 64, 128, 0)
    stream.nak(7, 64, 128, 1)
    stream.nak(7, 160, 32, 2)
    stream.time(LINGER)
    stream.nak(7, 64, 128, LINGER)
    assert stream.sent == [(7, 64, 128)]
    stream.time(LINGER + 1)
    stream.nak(7, 64, 128, LINGER + 1)
    assert stream.sent == [(7, 64, 128)] * 2


def test_one_receiver_that_misses_something_else_is_answered_at_once() -> None:
    stream = Stream()
    stream.nak(7, 64, 128, 0)
    stream.nak(7, 192, 32, 1)
    stream.nak(8, 64, 128, 2)
    stream.nak(7, 64, 128, 3)
    assert stream.sent == [(7, 64, 128), (7, 192, 32), (8, 64, 128), (7, 64, 128)]
    assert stream.handler.active_count == 1
    assert stream.overflow.count == 0


def test_a_group_is_answered_for_so_many_ranges_and_no_more() -> None:
    stream = Stream(group=1, max_retransmits=2)
    stream.nak(7, 0, 32, 0)
    stream.nak(7, 64, 32, 0)
    stream.nak(7, 128, 32, 0)
    stream.nak(7, 0, 32, 1)
    assert stream.sent == [(7, 0, 32), (7, 64, 32)]
    assert stream.overflow.count == 1
    stream.time(LINGER + 1)
    stream.nak(7, 128, 32, LINGER + 1)
    assert stream.sent[-1] == (7, 128, 32)


def test_a_delayed_answer_is_sent_when_its_time_has_come_and_lingers_then() -> None:
    stream = Stream(group=1, delay_ns=1000)
    stream.nak(7, 64, 128, 0)
    stream.nak(7, 96, 32, 500)
    stream.time(1000)
    assert stream.sent == []
    stream.time(1001)
    assert stream.sent == [(7, 64, 128)]
    stream.time(1001 + LINGER)
    assert stream.handler.active_count == 1
    stream.time(1002 + LINGER)
    assert stream.handler.active_count == 0
    assert len(stream.sent) == 1


def test_nothing_missed_is_not_answered_and_a_limit_is_kept() -> None:
    stream = Stream()
    stream.nak(7, 64, 0, 0)
    assert stream.sent == []
    stream.nak(7, 0, 60_000, 0, most=4096)
    # What is behind the answered part may be asked for at once.
    stream.nak(7, 4096, 60_000, 1, most=4096)
    assert stream.sent == [(7, 0, 4096), (7, 4096, 4096)]
