"""The conductor's side of a network publication: limits, cleaning, spies, and its end."""

from __future__ import annotations

import pytest

from everlog.aeron.transport.driver.sender.network_publication import State
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.memory import log_memory
from everlog.aeron.transport.protocol import wire
from tests.aeron.transport.driver.sender.sending import MS, MTU, SECOND, TERM, Sending, Spy

FULL, SMALL = bytes(MTU - 32), bytes(32)
WINDOW = TERM // 2


def run(stream: Sending, end: int) -> None:
    """Publish, send and receive until the sender has reached ``end``."""
    while stream.sender_position < end:
        stream.offer(FULL)
        stream.send()
        stream.status(stream.sender_position, WINDOW)
        stream.cycle()


def is_clean(stream: Sending, start: int, end: int) -> bool:
    """Whether all bytes between two positions are zero."""
    index, offset = start // TERM % 3, start % TERM
    return stream.log.terms[index].read(offset, end - start) == bytes(end - start)


def test_publishers_may_be_one_window_before_the_sender() -> None:
    stream = Sending()
    assert stream.cycle() == 0
    stream.connect()
    assert stream.publisher_limit == WINDOW
    assert stream.cycle() == 0
    stream.offer(FULL)
    stream.send()
    assert stream.cycle() == 1
    assert stream.publisher_limit == MTU + WINDOW
    assert stream.pub_counters.publisher_position.get() == MTU
    # Without receivers the limit goes back to the sender.
    stream.send(6 * SECOND)
    assert stream.cycle() == 1
    assert stream.publisher_limit == MTU
    assert not log_memory.is_connected(stream.log.metadata)


def test_connected_is_what_receivers_say() -> None:
    stream = Sending()
    assert not log_memory.is_connected(stream.log.metadata)
    stream.status(0)
    assert log_memory.is_connected(stream.log.metadata)
    stream.send(6 * SECOND)
    stream.time_event()
    assert not log_memory.is_connected(stream.log.metadata)


def test_a_term_is_clean_when_publishers_come_to_it() -> None:
    stream = Sending()
    stream.connect(0, WINDOW)
    sent = []
    for _ in range(400):
        start = stream.publication.producer_position
        if stream.offer(FULL) > 0:
            sent.append(start if start % TERM else stream.publication.producer_position - MTU)
        stream.send()
        stream.status(stream.sender_position, WINDOW)
        stream.cycle()
        producer, limit = stream.publication.producer_position, stream.publisher_limit
        # One message may be claimed over the limit.
        end = min(limit + MTU, (producer // TERM + 1) * TERM)
        assert is_clean(stream, producer, max(end, producer))
        # What may have to be sent again is still there.
        oldest = max(stream.sender_position - TERM // 2 - TERM // 8, 0)
        assert not any(is_clean(stream, position, position + 4) for position in sent if position >= oldest)
    assert stream.sender_position > 8 * TERM


def test_a_limit_waits_for_a_term_to_be_clean() -> None:
    stream = Sending()
    stream.connect(0, WINDOW)
    run(stream, 2 * TERM)
    # The sender is suddenly a term farther: one cycle cleans one term at most, and the limit waits.
    before = stream.publisher_limit
    stream.publication.parameters.state.sender_position += TERM
    assert stream.cycle() == 1
    first = stream.publisher_limit
    while stream.cycle() and stream.publisher_limit == first:
        pass
    assert before <= first <= stream.publisher_limit == stream.publication.consumer_position + WINDOW


def test_a_spy_holds_publishers_back() -> None:
    stream = Sending()
    spy, position = Spy(), stream.position_counter()
    stream.connect(0, WINDOW)
    stream.publication.add_subscriber(spy, position, stream.now)
    while stream.offer(FULL) > 0:
        stream.send()
        stream.status(stream.sender_position, WINDOW)
        stream.cycle()
    assert stream.publisher_limit == WINDOW
    position.set(MTU)
    assert stream.cycle() == 1
    assert stream.publisher_limit == MTU + WINDOW
    stream.publication.remove_subscriber(spy, position)
    assert position.is_closed
    stream.cycle()
    assert stream.publisher_limit == stream.sender_position + WINDOW


def test_a_spy_alone_is_a_connection_if_its_channel_says_so() -> None:
    for channel, connected in (("aeron:udp?endpoint=a:1", False), ("aeron:udp?endpoint=a:1|ssc=true", True)):
        stream = Sending(channel)
        position = stream.position_counter()
        stream.publication.add_subscriber(Spy(), position, stream.now)
        stream.cycle()
        assert log_memory.is_connected(stream.log.metadata) is connected
        assert (stream.offer(SMALL) == 64) is connected
    position.set(64)
    stream.cycle()
    stream.send()
    # Nobody receives: the sender goes where the spy is.
    assert stream.sender_position == 64
    assert stream.sender_limit == 64
    assert stream.publication.consumer_position == 64
    stream.cycle()
    assert stream.publisher_limit == 64 + WINDOW


def test_an_untethered_spy_that_is_too_slow_is_left_behind_and_comes_back() -> None:
    stream = Sending("aeron:udp?endpoint=a:1|untethered-window-limit-timeout=1s|untethered-resting-timeout=3s")
    spy, position = Spy(is_tether=False), stream.position_counter()
    stream.publication.add_subscriber(spy, position, stream.now)
    stream.connect(0, WINDOW)
    run(stream, WINDOW - MTU)
    stream.time_event()
    stream.time_event(SECOND - 1)
    assert stream.conductor.told == []
    stream.time_event(1)
    assert stream.conductor.told.pop() == ("notify_unavailable_image_link", 2, spy)
    stream.cycle()
    assert stream.publisher_limit == WINDOW
    stream.time_event(SECOND)
    stream.status(stream.sender_position, WINDOW)
    stream.cycle()
    assert stream.publisher_limit == stream.sender_position + WINDOW
    assert not stream.publication.has_spies
    stream.time_event(3 * SECOND)
    told = stream.conductor.told.pop()
    assert told == (
        "notify_available_image_link",
        2,
        77,
        spy,
        position.id,
        stream.sender_position,
        stream.publication.log.name,
        "aeron:ipc",
    )
    assert stream.publication.has_spies


def test_an_untethered_spy_that_does_not_rejoin_is_forgotten() -> None:
    stream = Sending("aeron:udp?endpoint=a:1|untethered-window-limit-timeout=1s")
    spy, position = Spy(is_tether=False, is_rejoin=False), stream.position_counter()
    stream.publication.add_subscriber(spy, position, stream.now)
    stream.connect(0, WINDOW)
    run(stream, WINDOW - MTU)
    stream.time_event(SECOND)
    stream.time_event(SECOND)
    assert position.is_closed
    assert spy.unlinked == 1


def test_a_closed_publication_is_drained_lingers_and_is_let_go() -> None:
    stream = Sending()
    stream.connect(0, MTU)
    stream.offer(FULL)
    stream.offer(FULL)
    stream.send()
    publication = stream.publication
    publication.dec_ref()
    assert (publication.state, publication.is_active) == (State.DRAINING, False)
    assert log_memory.end_of_stream_position(stream.log.metadata) == 2 * MTU
    assert stream.publisher_limit == 2 * MTU
    assert stream.offer(SMALL) < 0
    stream.time_event()
    assert publication.state is State.DRAINING
    stream.status(MTU, MTU)
    stream.send()
    stream.time_event()
    assert publication.state is State.LINGER
    stream.time_event(5 * SECOND)
    assert stream.conductor.told == []
    assert stream.endpoint.references == 1
    stream.time_event(1)
    assert publication.state is State.DONE
    assert stream.conductor.told == [("cleanup_publication", publication)]
    assert stream.endpoint.references == 0
    stream.time_event(10 * SECOND)
    assert len(stream.conductor.told) == 1
    assert not publication.has_reached_end_of_life
    publication.sender.release()
    assert publication.has_reached_end_of_life
    publication.close()
    assert stream.pub_counters.publisher_limit.is_closed


def test_its_one_receiver_that_has_read_all_shortens_the_linger() -> None:
    stream = Sending()
    stream.connect()
    stream.publication.dec_ref()
    stream.time_event()
    assert stream.publication.state is State.LINGER
    stream.status(0, flags=wire.SM_EOS)
    stream.time_event(1)
    assert stream.publication.state is State.DONE


def test_a_receiver_that_left_before_does_not_shorten_the_linger_for_the_next_one() -> None:
    stream = Sending()
    stream.connect(0, WINDOW)
    stream.status(0, flags=wire.SM_EOS)
    stream.status(0, receiver=6)
    stream.offer(SMALL)
    stream.send()
    stream.publication.dec_ref()
    stream.time_event()
    assert stream.publication.state is State.LINGER
    stream.time_event(SECOND)
    assert stream.publication.state is State.LINGER, "it may have missed something"
    stream.nak(0, 64)
    assert len(stream.send()) > 0
    stream.status(64, receiver=6, flags=wire.SM_EOS)
    stream.time_event(1)
    assert stream.publication.state is State.DONE


def test_without_receivers_what_was_not_sent_is_not_waited_for() -> None:
    stream = Sending()
    stream.connect(0, MTU)
    stream.offer(FULL)
    stream.offer(FULL)
    stream.send()
    stream.publication.dec_ref()
    stream.send(6 * SECOND)
    stream.time_event()
    assert stream.publication.state is State.LINGER


def test_spies_read_what_is_left_before_it_ends() -> None:
    stream = Sending("aeron:udp?endpoint=a:1|ssc=true")
    position = stream.position_counter()
    stream.publication.add_subscriber(Spy(), position, stream.now)
    stream.cycle()
    stream.offer(SMALL)
    stream.publication.dec_ref()
    assert stream.publication.is_accepting_subscriptions
    stream.time_event()
    assert stream.publication.state is State.DRAINING
    position.set(64)
    stream.time_event()
    assert stream.conductor.told == [("cleanup_spies", stream.publication)]
    assert stream.publication.state is State.LINGER
    assert not stream.publication.is_accepting_subscriptions


def test_a_revoked_publication_ends_at_once() -> None:
    stream = Sending()
    stream.connect(0, MTU)
    stream.offer(FULL)
    stream.offer(FULL)
    publication = stream.publication
    publication.revoke()
    publication.dec_ref()
    stream.time_event()
    assert publication.state is State.LINGER
    assert stream.conductor.told == [("cleanup_spies", publication)]
    assert stream.count(SystemCounter.PUBLICATIONS_REVOKED) == 1
    assert log_memory.end_of_stream_position(stream.log.metadata) == 2 * MTU
    assert not log_memory.is_connected(stream.log.metadata)


def test_a_publisher_that_died_in_a_claim_is_unblocked() -> None:
    stream = Sending(is_exclusive=False, unblock_timeout_ns=SECOND)
    stream.connect(0, WINDOW)
    stream.offer(SMALL)
    stream.send()
    stream.cycle()
    # Claimed, not written: the tail is 64 bytes farther than the frames. Then another publisher writes behind it.
    metadata, term = stream.log.metadata, stream.log.terms[0]
    tail = log_memory.raw_tail(metadata, 0)
    log_memory.set_raw_tail(metadata, 0, tail + 64)
    assert stream.offer(SMALL) == 192
    stream.time_event()
    stream.time_event(SECOND)
    assert term.get_i32(64) == 0
    stream.time_event(1)
    assert term.get_i32(64) == 64
    assert stream.count(SystemCounter.UNBLOCKED_PUBLICATIONS) == 1
    sent = stream.send()
    assert [wire.frame_type(data) for data in sent] == [0]
    assert stream.sender_position == 128
    stream.send()
    assert stream.sender_position == 192


def test_an_exclusive_publisher_is_never_unblocked_while_it_lives() -> None:
    stream = Sending(unblock_timeout_ns=SECOND)
    stream.connect(0, WINDOW)
    tail = log_memory.raw_tail(stream.log.metadata, 0)
    log_memory.set_raw_tail(stream.log.metadata, 0, tail + 64)
    for _ in range(5):
        stream.time_event(SECOND)
    assert stream.log.terms[0].get_i32(0) == 0


@pytest.mark.parametrize("value", [-1, 31, 33, 5 * TERM + 7, 2**62, -(2**63), 2**63 - 1])
@pytest.mark.parametrize("connected_by_spies", [False, True])
def test_a_spys_position_that_can_not_be_moves_no_limit_too_far(value: int, connected_by_spies: bool) -> None:
    stream = Sending("aeron:udp?endpoint=a:1|ssc=" + ("true" if connected_by_spies else "false"))
    stream.connect(0, WINDOW)
    run(stream, 2 * TERM)
    if connected_by_spies:
        stream.send(6 * SECOND)
    position = stream.position_counter(value)
    stream.publication.add_subscriber(Spy(), position, stream.now)
    for _ in range(20):
        stream.offer(FULL)
        stream.send()
        if not connected_by_spies:
            stream.status(stream.sender_position, WINDOW)
        stream.cycle()
        stream.time_event(10 * MS)
        assert 2 * TERM <= stream.sender_position <= stream.publication.producer_position
        assert stream.publisher_limit <= stream.sender_position + WINDOW


@pytest.mark.parametrize("value", [0, -1, 33, 2**62, -(2**63), 2**63 - 1])
def test_what_other_processes_write_to_its_counters_changes_nothing(value: int) -> None:
    stream = Sending()
    stream.connect(0, WINDOW)
    run(stream, TERM)
    before = stream.sender_position, stream.sender_limit, stream.publisher_limit
    for counter in ("publisher_position", "publisher_limit", "sender_position", "sender_limit"):
        getattr(stream.pub_counters, counter).set(value)
    start = stream.publication.consumer_position
    assert start == before[0]
    limit = stream.pub_counters.publisher_limit
    limit.set(before[2])
    stream.offer(FULL)
    stream.send()
    stream.status(start + MTU, WINDOW)
    stream.cycle()
    assert (stream.sender_position, stream.sender_limit) == (start + MTU, start + MTU + WINDOW)
    assert stream.publisher_limit == start + MTU + WINDOW
