"""An image on a simulated network, from its setup to its end: status messages, NAKs, liveness, rejection, windows.
Expectations follow the real driver."""

from __future__ import annotations

from everlog.aeron.transport.driver import stream_counters
from everlog.aeron.transport.driver.receiver.congestion.cubic import CubicSettings
from everlog.aeron.transport.driver.receiver.dispatcher import SessionState
from everlog.aeron.transport.driver.receiver.feedback_delay import StaticDelayGenerator
from everlog.aeron.transport.driver.receiver.image_exchange import ImageState
from everlog.aeron.transport.driver.receiver.publication_image import PublicationImage
from everlog.aeron.transport.driver.stream_counters import StreamName
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.protocol import wire
from tests.aeron.transport.driver.receiver.receiving import (
    EOS,
    INITIAL,
    REVOKED,
    SESSION,
    STREAM,
    TERM,
    WHOLE,
    data_frame,
    heartbeat,
    padding_frame,
    setup,
)
from tests.aeron.transport.driver.receiver.receiving_driver import (
    MS,
    RECEIVER_ID,
    SECOND,
    Link,
    Options,
    ReceivingDriver,
    naks,
    statuses,
)

WINDOW = 32 << 10  # half a term, which is less than the default of 128 KiB


def status(position: int, flags: int = 0, window: int = WINDOW) -> wire.StatusMessage:
    return wire.StatusMessage(
        SESSION, STREAM, INITIAL + position // TERM, position % TERM, window, RECEIVER_ID, None, flags
    )


def test_status_messages_come_at_least_every_200_ms() -> None:
    driver = ReceivingDriver()
    driver.connect(setup())
    told = driver.run(SECOND)
    assert told == [status(0)] * len(told)
    assert len(told) in (4, 5)


def test_a_status_message_comes_when_a_quarter_of_the_window_is_consumed() -> None:
    driver = ReceivingDriver()
    driver.connect(setup())
    frames = [data_frame(at, b"x" * (1024 - 32)) for at in range(0, 16 << 10, 1024)]
    driver.source.send(*frames)
    driver.step()
    driver.positions[0].set_release(8 << 10)
    assert driver.step(MS) == []
    driver.positions[0].set_release(9 << 10)
    assert driver.step(MS) == [status(9 << 10)]
    image = driver.images[0]
    assert image.log.memory.terms[0].read(0, 16 << 10) == b"".join(frames)


def test_positions_are_told_in_counters() -> None:
    driver = ReceivingDriver()
    image = driver.connect(setup())
    driver.source.send(data_frame(0, b"x"), data_frame(128, b"x"))
    driver.step()
    values = {driver.counters.label(n).split(":")[0]: driver.counters.value(n) for n in range(60)}
    assert values["rcv-hwm"] == 192
    assert values["rcv-pos"] == 64
    image.close()


def test_a_gap_is_asked_for_after_its_delay_and_again() -> None:
    driver = ReceivingDriver(options=Options(delay=StaticDelayGenerator(MS, 100 * MS)))
    driver.connect(setup())
    driver.source.send(data_frame(0, b"x"), data_frame(192, b"y"))
    assert naks(driver.step()) == []
    nak = wire.Nak(SESSION, STREAM, INITIAL, 64, 128)
    assert naks(driver.step(MS)) == [nak]
    assert naks(driver.run(90 * MS)) == []
    assert naks(driver.run(20 * MS)) == [nak]
    driver.source.send(data_frame(64, b"z" * 96))
    assert naks(driver.run(SECOND)) == []
    assert driver.count(SystemCounter.NAK_MESSAGES_SENT) == 2
    assert driver.images[0].join_position() == 0
    driver.positions[0].set_release(256)
    driver.step()
    assert driver.images[0].join_position() == 256


def test_what_was_lost_is_reported_once() -> None:
    driver = ReceivingDriver(options=Options(delay=StaticDelayGenerator(0, 10 * MS)))
    driver.connect(setup())
    driver.source.send(heartbeat(128))
    driver.run(50 * MS)
    driver.source.send(heartbeat(512))
    driver.run(50 * MS)
    loss = driver.losses()[0]
    assert (loss.total_bytes_lost, loss.observation_count) == (512, 2)
    assert (loss.session_id, loss.stream_id) == (SESSION, STREAM)
    assert loss.channel == "aeron:udp?endpoint=10.0.0.2:4000"
    assert loss.source == "10.0.0.1:40123"
    assert len(driver.losses()) == 1


def test_a_gap_of_an_unreliable_stream_is_filled_with_padding() -> None:
    driver = ReceivingDriver(options=Options(is_reliable=False))
    image = driver.connect(setup())
    driver.source.send(data_frame(128, b"y"))
    assert naks(driver.step()) == []
    driver.step()
    header = image.log.memory.terms[0].read(0, 32)
    assert header[:24] == padding_frame(0, 128)[:24]
    assert driver.count(SystemCounter.LOSS_GAP_FILLS) == 1
    assert driver.count(SystemCounter.NAK_MESSAGES_SENT) == 0


def test_what_subscribers_have_read_is_zero_before_it_is_written_again() -> None:
    driver = ReceivingDriver()
    image = driver.connect(setup())
    end = 3 * TERM + TERM // 2
    for start in range(0, end, 8 << 10):
        driver.source.send(*(data_frame(start + at, b"\xee" * 992) for at in range(0, 8 << 10, 1024)))
        driver.step(MS)
        driver.positions[0].set_release(start + (8 << 10))
        driver.step(MS)
        driver.step(MS)
    # A term behind what was consumed, told in steps of 16 KiB at most.
    term = image.log.memory.terms[2]
    assert term.read(0, TERM // 2 - (16 << 10)) == bytes(TERM // 2 - (16 << 10))
    assert term.read(TERM // 2, TERM // 2).count(b"\xee" * 992) == TERM // 2 // 1024
    assert driver.count(SystemCounter.FLOW_CONTROL_OVER_RUNS) == 0
    assert driver.count(SystemCounter.HEARTBEATS_RECEIVED) == 0
    assert driver.images[0].join_position() == end


def test_the_end_of_the_stream_is_told_to_the_source_until_it_is_gone() -> None:
    driver = ReceivingDriver()
    image = driver.connect(setup())
    driver.source.send(data_frame(0, b"last"), heartbeat(64, flags=WHOLE | EOS))
    told = driver.step()
    assert driver.count(SystemCounter.HEARTBEATS_RECEIVED) == 1
    assert image.state is ImageState.DRAINING
    assert statuses(told)[-1].flags == wire.SM_EOS
    driver.time_event(2 * SECOND)
    assert image.state is ImageState.DRAINING, "its subscriber has not read all"
    driver.positions[0].set_release(64)
    driver.time_event()
    assert image.state is ImageState.LINGER
    assert driver.told[1:] == [("transition_to_linger", image), ("try_close_receive_channel_endpoint", driver.endpoint)]
    assert not image.is_accepting_subscriptions
    driver.step()
    driver.time_event(9 * SECOND)
    assert not image.has_reached_end_of_life
    driver.time_event(2 * SECOND)
    assert driver.told[-1] == ("cleanup_image", image)
    assert image.has_reached_end_of_life


def test_the_end_is_not_reached_while_something_is_missing() -> None:
    driver = ReceivingDriver()
    image = driver.connect(setup())
    driver.source.send(heartbeat(64, flags=WHOLE | EOS))
    assert naks(driver.run(SECOND)) == [wire.Nak(SESSION, STREAM, INITIAL, 0, 64)] * 100
    assert image.state is ImageState.ACTIVE
    driver.source.send(data_frame(0, b"found"))
    driver.step()
    driver.step()
    assert image.state is ImageState.DRAINING


def test_a_revoked_stream_is_gone_at_once() -> None:
    driver = ReceivingDriver()
    image = driver.connect(setup())
    driver.source.send(heartbeat(1024, flags=WHOLE | EOS | REVOKED))
    driver.step()
    assert driver.count(SystemCounter.PUBLICATION_IMAGES_REVOKED) == 1
    assert naks(driver.run(100 * MS)) == [], "what is missing is not asked for"
    driver.time_event()
    driver.time_event()
    assert image.state is ImageState.LINGER
    assert image.log.memory.metadata.get_i64(128) == 1024
    assert image.log.memory.metadata.read(496, 1) == b"\1"


def test_an_image_that_nothing_is_heard_of_is_gone_after_ten_seconds_and_cools_down() -> None:
    driver = ReceivingDriver()
    image = driver.connect(setup())
    driver.run(9 * SECOND, 100 * MS)
    assert image.state is ImageState.ACTIVE
    driver.run(1100 * MS, 100 * MS)
    assert image.state is ImageState.DRAINING
    driver.source.send(setup(), data_frame(0, b"back"))
    driver.step()
    assert driver.endpoint.dispatcher.state_of(STREAM, SESSION) is SessionState.ON_COOL_DOWN
    assert driver.names() == ["create"]
    driver.proxy.remove_cool_down(driver.endpoint, SESSION, STREAM)
    driver.step()
    driver.source.send(setup())
    driver.step()
    assert driver.names() == ["create", "create"]


def test_heartbeats_keep_an_image_alive() -> None:
    driver = ReceivingDriver()
    image = driver.connect(setup())
    for _ in range(30):
        driver.source.send(heartbeat(0))
        driver.run(SECOND, 100 * MS)
    assert image.state is ImageState.ACTIVE


def test_an_image_ends_when_nobody_subscribes_any_more() -> None:
    driver = ReceivingDriver()
    image = driver.connect(setup())
    driver.proxy.remove_subscription(driver.endpoint, STREAM)
    link = driver.links[0]
    image.remove_subscriber(link, driver.positions[0])
    told = driver.step() + driver.step()
    assert statuses(told)[-1].flags == wire.SM_EOS
    assert image.state is ImageState.DRAINING
    assert driver.positions[0].is_closed
    driver.run(1100 * MS)
    driver.time_event()
    assert image.state is ImageState.LINGER
    driver.step()
    driver.time_event()
    assert image.has_reached_end_of_life
    driver.source.send(data_frame(0, b"x"))
    assert driver.step() == []


def test_an_image_that_came_too_late_for_its_subscription_ends() -> None:
    driver = ReceivingDriver()
    driver.subscribe()
    driver.source.send(setup())
    driver.proxy.remove_subscription(driver.endpoint, STREAM)
    driver.receiver.do_work(driver.now, 0)
    driver.proxy.add_subscription(driver.endpoint, STREAM)
    driver.source.send(setup())
    driver.receiver.do_work(driver.now, 0)
    driver.proxy.remove_subscription(driver.endpoint, STREAM)
    driver.receiver.commands.rotate(1)
    for _ in range(4):
        driver.step()
    for image in driver.images:
        assert image.state is ImageState.DRAINING
    assert driver.images


def test_a_rejected_image_tells_why_instead_of_where_it_is() -> None:
    driver = ReceivingDriver()
    image = driver.connect(setup())
    driver.proxy.reject_image(image.correlation_id, 0, "no good")
    driver.source.send(data_frame(0, b"x" * 1000))
    told = driver.run(SECOND)
    errors = [frame for frame in told if isinstance(frame, wire.ErrorFrame)]
    assert errors[0] == wire.ErrorFrame(SESSION, STREAM, RECEIVER_ID, 13, "no good")
    assert len(errors) in (4, 5)
    assert told == errors
    assert driver.count(SystemCounter.ERROR_FRAMES_SENT) == len(errors)


def test_a_cubic_window_asks_for_the_round_trip_and_is_cut_by_loss() -> None:
    cubic = CubicSettings(measure_rtt=True)
    driver = ReceivingDriver(options=Options(congestion="cubic", cubic=cubic))
    image = driver.connect(setup())
    told = driver.run(20 * MS)
    questions = [frame for frame in told if isinstance(frame, wire.RttMeasurement)]
    assert questions[0].flags == wire.RTTM_REPLY
    question = questions[-1]
    driver.now += 5 * MS
    driver.source.send(wire.encode(wire.RttMeasurement(SESSION, STREAM, question.echo_timestamp_ns, 0, 0)))
    driver.step()
    labels = {driver.counters.label(n).split(":")[0]: driver.counters.value(n) for n in range(60)}
    assert labels["rcv-cc-cubic-rtt"] == driver.now - question.echo_timestamp_ns
    driver.source.send(heartbeat(1024))
    told = driver.step()
    before = min(10, WINDOW // 1408)
    assert statuses(told)[-1].receiver_window_length <= 1408 * WINDOW // 1408
    assert statuses(told)[-1].receiver_window_length % 1408 == 0
    assert before == 10
    image.close()


def test_a_response_session_is_told_with_status_messages_of_the_time() -> None:
    driver = ReceivingDriver()
    image = driver.connect(setup(flags=wire.SETUP_SEND_RESPONSE))
    assert image.has_send_response_setup
    image.set_response_session_id(4711)
    image.request_next_sm_deadline_reset()
    told = driver.step()
    assert told == [wire.ResponseSetup(SESSION, STREAM, 4711), status(0)]


def test_an_untethered_subscriber_that_does_not_keep_up_is_left_behind_and_comes_back() -> None:
    driver = ReceivingDriver()
    driver.links = [Link(), Link(is_tether=False)]
    image = driver.connect(setup())
    tethered, slow = driver.positions
    driver.source.send(*(data_frame(at, b"x" * 992) for at in range(0, 31 << 10, 1024)))
    driver.step()
    tethered.set_release(31 << 10)
    driver.time_event()
    for _ in range(6):
        driver.source.send(heartbeat(31 << 10))
        driver.step(SECOND)
        driver.time_event()
    assert driver.told[-1] == ("notify_unavailable_image_link", image.correlation_id, driver.links[1])
    assert statuses(driver.step(SECOND))[-1].consumption_term_offset == 0, "its position counts until it has lingered"
    for _ in range(6):
        driver.source.send(heartbeat(31 << 10))
        driver.step(SECOND)
        driver.time_event()
    driver.step()
    assert statuses(driver.step(SECOND))[-1].consumption_term_offset == 31 << 10
    for _ in range(11):
        driver.source.send(heartbeat(31 << 10))
        driver.step(SECOND)
        driver.time_event()
    told = driver.told[-1]
    assert told[0] == "notify_available_image_link"
    assert told[1:6] == (image.correlation_id, SESSION, driver.links[1], slow.id, 31 << 10)
    assert slow.get() == 31 << 10


def resting(driver: ReceivingDriver) -> PublicationImage:
    """An image whose second subscriber is untethered, lost the image, and rests."""
    driver.links = [Link(), Link(is_tether=False)]
    image = driver.connect(setup())
    driver.source.send(*(data_frame(at, b"x" * 992) for at in range(0, 31 << 10, 1024)))
    driver.step()
    driver.positions[0].set_release(31 << 10)
    for _ in range(13):
        driver.source.send(heartbeat(31 << 10))
        driver.step(SECOND)
        driver.time_event()
    assert driver.told[-1][0] == "notify_unavailable_image_link"
    return image


def test_an_image_whose_one_subscriber_rests_goes_on_when_it_comes_back() -> None:
    driver = ReceivingDriver()
    image = resting(driver)
    image.remove_subscriber(driver.links[0], driver.positions[0])
    for _ in range(12):
        driver.source.send(heartbeat(31 << 10))
        driver.step(SECOND)
        driver.time_event()
    assert driver.told[-1][0] == "notify_available_image_link"
    driver.source.send(*(data_frame(at, b"x" * 992) for at in range(31 << 10, 47 << 10, 1024)))
    driver.step()
    driver.positions[1].set_release(47 << 10)
    driver.step(SECOND)
    assert statuses(driver.step(SECOND))[-1].consumption_term_offset == 47 << 10


def test_an_image_whose_one_subscriber_rests_is_had_by_a_new_one() -> None:
    driver = ReceivingDriver()
    image = resting(driver)
    image.remove_subscriber(driver.links[0], driver.positions[0])
    assert image.is_accepting_subscriptions
    assert image.join_position() == 31 << 10
    name = StreamName(1, 1, SESSION, STREAM, "aeron:udp")
    position = stream_counters.subscriber_position(driver.counters, name, 0, join_position=image.join_position())
    image.add_subscriber(Link(), position, driver.now)
    driver.source.send(*(data_frame(at, b"x" * 992) for at in range(31 << 10, 40 << 10, 1024)))
    driver.step()
    position.set_release(40 << 10)
    driver.step(SECOND)
    assert statuses(driver.step(SECOND))[-1].consumption_term_offset == 40 << 10


def test_an_image_that_nobody_subscribes_to_is_had_by_nobody() -> None:
    driver = ReceivingDriver()
    image = driver.connect(setup())
    image.remove_subscriber(driver.links[0], driver.positions[0])
    assert not image.is_accepting_subscriptions


def test_a_second_image_of_a_session_silences_the_first() -> None:
    driver = ReceivingDriver()
    first = driver.connect(setup())
    driver.source.send(heartbeat(0, flags=WHOLE | EOS))
    driver.step()
    driver.step()
    assert first.state is ImageState.DRAINING
    driver.proxy.remove_subscription(driver.endpoint, STREAM)
    second = driver.connect(setup(offset=1024))
    assert second is not first
    told = statuses(driver.run(2 * SECOND))
    assert {each.consumption_term_offset for each in told} == {1024}
