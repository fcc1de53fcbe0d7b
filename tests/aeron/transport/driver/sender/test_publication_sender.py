"""The sender's side of a network publication: what it sends, and how it handles the receivers' frames."""

from __future__ import annotations

import pytest

from everlog.aeron.transport.driver.sender.flow_control import MAX_RECEIVERS
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.protocol import wire
from tests.aeron.transport.driver.sender.sending import (
    INITIAL,
    MS,
    MTU,
    RECEIVER,
    SECOND,
    SESSION,
    STREAM,
    TERM,
    Channel,
    KeptDatagrams,
    Sending,
    frames,
    heartbeats,
    setups,
    wrap,
)

FULL = bytes(MTU - 32)
"""A payload that fills a datagram."""
SMALL = bytes(32)
"""A payload whose frame is of 64 bytes."""


def test_a_setup_frame_is_sent_every_100_ms_until_a_receiver_answers() -> None:
    stream = Sending()
    sent = stream.send()
    assert setups(sent) == [wire.Setup(SESSION, STREAM, INITIAL, INITIAL, 0, TERM, MTU)]
    assert len(sent) == 1
    assert stream.send(100 * MS) == []
    assert len(setups(stream.send(1))) == 1
    stream.status(0)
    assert setups(stream.send(SECOND)) == []


def test_a_setup_frame_says_what_its_channel_is() -> None:
    endpoint = KeptDatagrams(Channel(is_multicast=True, has_group_semantics=True), multicast_ttl=7)
    stream = Sending(
        "aeron:udp?endpoint=224.0.1.1:4000|response-correlation-id=9", endpoint=endpoint, position=3 * TERM + 96
    )
    (setup,) = setups(stream.send())
    assert setup == wire.Setup(
        SESSION, STREAM, INITIAL, wrap(INITIAL + 3), 96, TERM, MTU, 7, wire.SETUP_GROUP | wire.SETUP_SEND_RESPONSE
    )


def test_nothing_is_sent_to_nobody() -> None:
    stream = Sending()
    assert stream.offer(SMALL) == -1
    assert heartbeats(stream.send(SECOND)) == []
    assert stream.cycle() == 0
    assert stream.offer(SMALL) == -1


def test_a_block_of_a_term_is_sent_as_datagrams_that_are_full() -> None:
    stream = Sending()
    stream.connect()
    for payload in (SMALL, FULL, SMALL, SMALL, FULL):
        assert stream.offer(payload) > 0
    sent = stream.send()
    assert [[header.term_offset for header in frames(data)] for data in sent] == [[0], [64], [1472, 1536], [1600]]
    assert [len(data) for data in sent] == [64, MTU, 128, MTU]
    assert stream.sender_position == 3008
    assert stream.send() == []


def test_receivers_that_somebody_makes_up_are_limited_and_forgotten() -> None:
    stream = Sending()
    for receiver in range(MAX_RECEIVERS + 10):
        stream.status(0, receiver=receiver)
    assert len(stream.sender._receivers) == MAX_RECEIVERS
    stream.send(4 * SECOND)
    stream.status(0, receiver=5)
    stream.send(SECOND)
    assert list(stream.sender._receivers) == [5]
    stream.status(0, receiver=-1)
    assert list(stream.sender._receivers) == [5, -1]
    stream.send(4 * SECOND)
    assert list(stream.sender._receivers) == [-1]
    stream.send(5 * SECOND)
    assert list(stream.sender._receivers) == []


def test_the_receivers_window_is_never_left() -> None:
    stream = Sending()
    stream.connect(0, 2 * MTU)
    for _ in range(5):
        assert stream.offer(FULL) > 0
    assert len(stream.send()) == 2
    assert stream.sender_position == stream.sender_limit == 2 * MTU
    assert stream.send() == []
    assert stream.send() == []
    # A limit is counted once, until something was sent again.
    assert stream.count(SystemCounter.SENDER_FLOW_CONTROL_LIMITS) == 1
    assert stream.pub_counters.sender_bpe.get() == 1
    stream.status(MTU, 2 * MTU + 32)
    assert len(stream.send()) == 1
    assert stream.send() == []
    assert stream.count(SystemCounter.SENDER_FLOW_CONTROL_LIMITS) == 2
    # An older message does not take the limit back.
    stream.status(0, 64)
    assert stream.sender_limit == 3 * MTU + 32


def test_a_full_socket_is_tried_again_where_it_stopped() -> None:
    stream = Sending()
    stream.connect()
    for _ in range(4):
        stream.offer(FULL)
    stream.endpoint.room = 3
    assert len(stream.send()) == 3
    assert stream.sender_position == 3 * MTU
    assert stream.count(SystemCounter.SHORT_SENDS) == 1
    assert stream.send() == []
    assert stream.count(SystemCounter.SHORT_SENDS) == 2
    stream.endpoint.room = 10
    (last,) = stream.send()
    assert frames(last)[0].term_offset == 3 * MTU
    assert stream.sender_position == 4 * MTU


def test_of_padding_only_the_header_is_sent_and_the_next_term_follows() -> None:
    stream = Sending()
    stream.connect(0, TERM // 2)
    position = 0
    while position < 46 * MTU:
        position = max(stream.offer(FULL), position)
        stream.send()
        stream.status(stream.sender_position, TERM // 2)
        stream.cycle()
    assert stream.sender_position == 46 * MTU == TERM - 768
    assert stream.offer(FULL) == -3
    assert stream.offer(FULL) > TERM
    sent = stream.send()
    assert [(header.type, header.frame_length, header.term_id) for header in frames(sent[0])] == [(0, 768, INITIAL)]
    assert len(sent[0]) == 32
    assert stream.sender_position == TERM
    (data,) = stream.send()
    assert [(header.term_offset, header.term_id) for header in frames(data)] == [(0, INITIAL + 1)]


def test_terms_wrap_around_the_largest_id() -> None:
    stream = Sending(position=5 * TERM)
    stream.connect(5 * TERM)
    stream.offer(SMALL)
    (data,) = stream.send()
    assert frames(data)[0].term_id == wrap(INITIAL + 5) == -(2**31) + 3
    assert stream.sender_position == 5 * TERM + 64
    stream.nak(5 * TERM, 64)
    assert stream.endpoint.taken() == [data]


def test_heartbeats_fill_silence_and_say_where_the_stream_is() -> None:
    stream = Sending()
    stream.connect()
    stream.offer(SMALL)
    stream.send()
    assert stream.send(100 * MS) == []
    (heartbeat,) = heartbeats(stream.send(1))
    assert (heartbeat.term_offset, heartbeat.term_id, heartbeat.flags) == (64, INITIAL, 0xC0)
    assert (heartbeat.session_id, heartbeat.stream_id) == (SESSION, STREAM)
    assert stream.send(100 * MS) == []
    assert stream.count(SystemCounter.HEARTBEATS_SENT) == 1


def test_the_end_of_the_stream_is_said_by_heartbeats() -> None:
    for channel, flags in (("aeron:udp?endpoint=a:1", 0xE0), ("aeron:udp?endpoint=a:1|eos=false", 0xC0)):
        stream = Sending(channel)
        stream.connect()
        stream.publication.dec_ref()
        assert [heartbeat.flags for heartbeat in heartbeats(stream.send(101 * MS))] == [flags]
    stream = Sending()
    stream.connect()
    stream.publication.revoke()
    assert [heartbeat.flags for heartbeat in heartbeats(stream.send(101 * MS))] == [0xF0]


def test_beside_padding_that_goes_over_the_window_a_heartbeat_stays_in_it() -> None:
    stream = Sending(position=TERM - 2 * MTU)
    stream.connect(TERM - 2 * MTU, MTU + 32)
    stream.offer(FULL)
    # It does not fit behind the first: padding of 1408 bytes, whose header is in the window and whose end is not.
    assert stream.offer(FULL + SMALL) == -3
    assert [len(data) for data in stream.send()] == [MTU, 32]
    assert stream.sender_limit == TERM - MTU + 32 < stream.sender_position == TERM
    sent = heartbeats(stream.send(100 * MS + 1))
    assert [(each.term_id, each.term_offset) for each in sent] == [(INITIAL + 1, 0), (INITIAL, TERM - MTU + 32)]
    # The end of the stream is where it is.
    stream.publication.dec_ref()
    assert [each.flags for each in heartbeats(stream.send(100 * MS + 1))] == [0xE0, 0xC0]
    stream.status(TERM, MTU)
    assert [each.term_offset for each in heartbeats(stream.send(100 * MS + 1))] == [0]


def test_a_nak_is_answered_with_the_same_datagrams() -> None:
    stream = Sending()
    stream.connect()
    for payload in (FULL, FULL, SMALL, SMALL, FULL):
        stream.offer(payload)
    sent = stream.send()
    assert len(sent) == 4
    stream.nak(MTU, 2 * MTU + 128 - MTU)
    assert stream.endpoint.taken() == sent[1:3]
    assert stream.pub_counters.naks_received.get() == 1
    assert stream.count(SystemCounter.RETRANSMITS_SENT) == 1
    assert stream.count(SystemCounter.RETRANSMITTED_BYTES) == MTU + 128
    # The same range lingers for 10 ms.
    stream.nak(MTU, MTU)
    assert stream.endpoint.taken() == []
    stream.send(10 * MS + 1)
    stream.nak(MTU, MTU)
    assert stream.endpoint.taken() == sent[1:2]


def test_what_was_not_sent_is_not_sent_again() -> None:
    stream = Sending()
    stream.connect(0, MTU)
    stream.offer(FULL)
    stream.offer(FULL)
    assert len(stream.send()) == 1
    stream.nak(MTU, MTU)
    assert stream.endpoint.taken() == []
    stream.now += SECOND
    stream.sender.send(stream.now)
    stream.endpoint.taken()
    # It begins before what was sent, and ends behind it.
    stream.nak(0, 2 * MTU)
    assert [len(data) for data in stream.endpoint.taken()] == [MTU]


def test_what_may_have_been_cleaned_is_not_sent_again() -> None:
    stream = Sending()
    stream.connect(0, TERM // 2)
    while stream.sender_position < 3 * TERM:
        stream.offer(FULL)
        stream.send()
        stream.status(stream.sender_position, TERM // 2)
        stream.cycle()
    position = stream.sender_position
    oldest = position - TERM // 2 - TERM // 8
    for start in (oldest - 32, 0, position, position + 32, -(2**31) * 32):
        stream.nak(start, 32)
    assert stream.endpoint.taken() == []


def test_padding_is_sent_again_as_its_header() -> None:
    stream = Sending(position=TERM - 96)
    stream.connect(TERM - 96)
    assert stream.offer(FULL) == -3
    (padding,) = stream.send()
    stream.nak(TERM - 96, 96)
    assert stream.endpoint.taken() == [padding]
    assert stream.count(SystemCounter.RETRANSMITTED_BYTES) == 96


def test_a_status_message_that_can_not_be_is_not_valid() -> None:
    stream = Sending(position=10 * TERM)
    at = {
        0: True,
        TERM // 2: True,
        -(TERM // 2): True,
        TERM // 2 + 32: False,
        -(TERM // 2) - 32: False,
        -9 * TERM: False,
    }
    for distance, valid in at.items():
        position = 10 * TERM + distance
        message = wire.StatusMessage(SESSION, STREAM, wrap(INITIAL + position // TERM), position % TERM, 64, 5)
        assert stream.sender.is_valid_status_message(message) is valid, distance


def test_a_receiver_that_is_silent_for_5_s_is_gone() -> None:
    stream = Sending()
    stream.connect()
    stream.send(5 * SECOND - 1)
    assert stream.publication.parameters.state.has_receivers
    stream.send(1)
    assert not stream.publication.parameters.state.has_receivers
    stream.cycle()
    assert stream.offer(SMALL) == -1
    stream.status(0)
    stream.cycle()
    assert stream.offer(SMALL) == 64


def test_a_receiver_that_asks_gets_a_setup_frame() -> None:
    stream = Sending()
    stream.connect()
    stream.offer(SMALL)
    stream.send(200 * MS)
    question = wire.StatusMessage(0, 0, 0, 0, 0, 6, None, wire.SM_SEND_SETUP)
    stream.sender.trigger_send_setup_frame(question, RECEIVER, stream.now)
    (setup,) = setups(stream.send())
    assert setup.term_offset == 64
    assert setups(stream.send(SECOND)) == []
    # At its end nobody may join any more.
    stream.publication.dec_ref()
    stream.sender.trigger_send_setup_frame(question, RECEIVER, stream.now)
    assert setups(stream.send(SECOND)) == []


def test_a_question_about_the_round_trip_is_answered() -> None:
    stream = Sending()
    question = wire.RttMeasurement(SESSION, STREAM, 123456789, 0, -5, wire.RTTM_REPLY)
    stream.sender.on_rtt_measurement(question, RECEIVER)
    (answer,) = stream.endpoint.taken()
    assert wire.decode(answer) == wire.RttMeasurement(SESSION, STREAM, 123456789, 0, -5, 0)
    stream.sender.on_rtt_measurement(wire.RttMeasurement(SESSION, STREAM, 1, 0, -5, 0), RECEIVER)
    assert stream.endpoint.taken() == []


def test_a_receiver_that_refuses_the_stream_is_told_of_once() -> None:
    stream = Sending()
    stream.connect()
    error = wire.ErrorFrame(SESSION, STREAM, 5, 16, "no")
    stream.sender.on_error(error, RECEIVER, 44, stream.now)
    stream.sender.on_error(error, RECEIVER, 44, stream.now)
    assert stream.conductor.told == [("on_publication_error", 2, 44, SESSION, STREAM, 5, None, RECEIVER, 16, "no")]
    stream.send()
    assert not stream.publication.parameters.state.has_receivers


def test_the_only_receiver_that_has_read_all_ends_the_wait() -> None:
    stream = Sending()
    stream.connect()
    stream.status(0, flags=wire.SM_EOS)
    assert stream.publication.parameters.state.has_unicast_eos
    group = Sending(endpoint=KeptDatagrams(Channel(is_multicast=True)))
    group.connect()
    group.status(0, flags=wire.SM_EOS)
    assert not group.publication.parameters.state.has_unicast_eos


def test_a_response_goes_to_who_asked() -> None:
    stream = Sending("aeron:udp?control=10.0.0.1:4001|control-mode=response|response-correlation-id=9")
    assert stream.send() == []
    assert stream.count(SystemCounter.SHORT_SENDS) == 1
    question = wire.StatusMessage(0, 0, 0, 0, 0, 6, None, wire.SM_SEND_SETUP)
    stream.sender.trigger_send_setup_frame(question, RECEIVER, stream.now)
    (setup,) = setups(stream.send(SECOND))
    assert setup.flags == 0
    stream.status(0)
    stream.cycle()
    stream.offer(SMALL)
    assert len(stream.send()) == 1
    assert set(stream.endpoint.addresses) == {RECEIVER}
    assert stream.conductor.told == [("response_connected", 9)]


@pytest.mark.parametrize("length", [0, 32, 1 << 20, 2**31 - 1])
def test_a_hostile_nak_reads_nothing_outside_the_term(length: int) -> None:
    stream = Sending()
    stream.connect()
    stream.offer(SMALL)
    stream.send()
    for term_id in (INITIAL, wrap(INITIAL + 1), 0, -1, 2**31 - 1, -(2**31)):
        for offset in (0, 32, TERM - 32):
            stream.sender.on_nak(wire.Nak(SESSION, STREAM, term_id, offset, length), stream.now)
            assert all(len(data) <= MTU for data in stream.endpoint.taken())
