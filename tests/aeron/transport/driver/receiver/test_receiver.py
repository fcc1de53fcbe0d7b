"""The receiver on a simulated network: setups, sessions, invalid packets, destinations, commands of the conductor.
Expectations follow the real driver."""

from __future__ import annotations

import pytest

from everlog.aeron.transport.driver.receiver.dispatcher import MAX_SESSIONS, SessionState
from everlog.aeron.transport.driver.receiver.image_exchange import ImageState
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.protocol import wire
from everlog.kernel.udp import SocketAddress
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
from tests.aeron.transport.driver.receiver.receiving_driver import (
    MS,
    RECEIVER_ID,
    SECOND,
    Options,
    ReceivingDriver,
    Source,
    statuses,
)

WINDOW = 32 << 10  # half a term, which is less than the default of 128 KiB


def status(position: int, flags: int = 0, window: int = WINDOW) -> wire.StatusMessage:
    return wire.StatusMessage(
        SESSION, STREAM, INITIAL + position // TERM, position % TERM, window, RECEIVER_ID, None, flags
    )


ASKING = wire.StatusMessage(SESSION, STREAM, 0, 0, 0, RECEIVER_ID, None, wire.SM_SEND_SETUP)


def test_data_of_an_unknown_session_asks_for_its_setup_once_a_second() -> None:
    driver = ReceivingDriver()
    driver.subscribe()
    driver.source.send(data_frame(0, b"who is this?"))
    assert driver.step() == [ASKING]
    driver.source.send(data_frame(64, b"again"), heartbeat(128))
    assert driver.run(900 * MS) == []
    assert driver.endpoint.dispatcher.state_of(STREAM, SESSION) is SessionState.PENDING_SETUP
    assert driver.run(200 * MS) == []
    driver.source.send(data_frame(64, b"again"))
    assert driver.step() == [ASKING]


def test_a_setup_makes_an_image_that_tells_where_it_is() -> None:
    driver = ReceivingDriver()
    driver.subscribe()
    driver.source.send(data_frame(0, b"x"))
    driver.step()
    driver.source.send(setup(active=INITIAL + 2, offset=96, flags=wire.SETUP_GROUP))
    told = driver.step() + driver.step()
    create = driver.told[0][1]
    assert create[:9] == (SESSION, STREAM, INITIAL, INITIAL + 2, 96, TERM, 1408, 0, wire.SETUP_GROUP)
    assert create.control_address == create.source_address == driver.source.address
    assert told == [status(2 * TERM + 96)]
    image = driver.images[0]
    assert image.state is ImageState.ACTIVE
    assert image.join_position() == 2 * TERM + 96
    assert driver.count(SystemCounter.STATUS_MESSAGES_SENT) == 1


def test_a_setup_of_a_stream_that_nobody_wants_makes_nothing() -> None:
    driver = ReceivingDriver()
    driver.subscribe(stream_id=STREAM + 1)
    driver.source.send(setup(), data_frame(0, b"x"))
    assert driver.step() == []
    assert driver.told == []


def test_setups_while_the_image_is_made_make_no_second_one() -> None:
    driver = ReceivingDriver()
    driver.connect(setup(), setup(), data_frame(0, b"x"), setup())
    assert driver.names() == ["create"]


def test_an_image_that_could_not_be_made_may_be_asked_for_again() -> None:
    driver = ReceivingDriver()
    driver.is_image_refused = True
    driver.subscribe()
    driver.source.send(setup())
    driver.step()
    driver.source.send(setup())
    driver.step()
    assert driver.names() == ["create", "create"]


def test_subscriptions_to_one_session_leave_out_the_others() -> None:
    driver = ReceivingDriver()
    driver.subscribe(SESSION)
    driver.source.send(setup(session=5), data_frame(0, b"x", session=6))
    assert driver.step() == []
    dispatcher = driver.endpoint.dispatcher
    assert dispatcher.state_of(STREAM, 5) is dispatcher.state_of(STREAM, 6) is SessionState.NO_INTEREST
    driver.source.send(setup())
    driver.step()
    assert [create.session_id for _, create in driver.told] == [SESSION]
    driver.subscribe(5)
    driver.source.send(setup(session=5))
    driver.step()
    assert [create.session_id for _, create in driver.told] == [SESSION, 5]
    driver.subscribe()
    assert dispatcher.state_of(STREAM, 6) is None
    driver.proxy.remove_subscription(driver.endpoint, STREAM)
    driver.step()
    driver.proxy.remove_subscription(driver.endpoint, STREAM, 5)
    driver.step()
    assert [image.state for image in driver.images] == [ImageState.ACTIVE, ImageState.DRAINING]


def make_up_sessions(driver: ReceivingDriver) -> None:
    """Send data of more sessions than are tracked."""
    for start in range(0, MAX_SESSIONS + 512, 256):
        for session in range(start, start + 256):
            driver.source.send(data_frame(0, b"", session=session))
        for _ in range(4):
            driver.step()


def test_made_up_sessions_are_limited() -> None:
    driver = ReceivingDriver()
    driver.subscribe(SESSION)
    make_up_sessions(driver)
    assert len(driver.endpoint.dispatcher.sessions) == MAX_SESSIONS
    driver.source.send(setup(session=-5), data_frame(0, b"", session=-6))
    assert driver.step() == []
    assert driver.told == []
    assert len(driver.endpoint.dispatcher.sessions) == MAX_SESSIONS
    driver.subscribe()
    driver.source.send(setup(session=-5))
    driver.step()
    assert driver.names() == ["create"]


def test_made_up_sessions_keep_none_out_that_is_subscribed_to() -> None:
    driver = ReceivingDriver()
    driver.subscribe(SESSION)
    make_up_sessions(driver)
    driver.source.send(data_frame(0, b"who is this?"))
    assert driver.step() == [ASKING]
    driver.source.send(setup())
    driver.step()
    assert driver.names() == ["create"]


def test_an_image_that_ends_among_made_up_sessions_takes_no_more_data() -> None:
    driver = ReceivingDriver()
    driver.subscribe(SESSION)
    driver.source.send(setup())
    driver.step()
    make_up_sessions(driver)
    (image,) = driver.images
    driver.run(11 * SECOND, 100 * MS)
    assert image.state is ImageState.DRAINING
    driver.source.send(data_frame(0, b"too late"))
    driver.step()
    assert image.log.memory.terms[0].read(0, 64) == bytes(64)
    driver.proxy.remove_cool_down(driver.endpoint, SESSION, STREAM)
    driver.step()
    driver.source.send(data_frame(0, b"who is this?"))
    assert driver.step() == [ASKING]
    driver.source.send(setup())
    driver.step()
    assert driver.names() == ["create", "create"]


def test_one_session_too_many_is_an_error() -> None:
    driver = ReceivingDriver(options=Options(stream_session_limit=1))
    driver.connect(setup())
    driver.source.send(setup(session=5), setup())
    driver.step()
    assert driver.names() == ["create"]
    assert len(driver.errors) == 1
    assert "session limit" in driver.errors[0]


@pytest.mark.parametrize(
    "frame",
    [
        setup(offset=TERM),
        setup(offset=-32),
        setup(offset=33),
        setup(active=INITIAL - 1),
        setup()[:39],
        setup()[:24] + bytes(16),
        setup()[:28] + (3 << 20).to_bytes(4, "little") + setup()[32:],
        setup()[:32] + (1407).to_bytes(4, "little") + setup()[36:],
        setup()[:32] + (1 << 20).to_bytes(4, "little") + setup()[36:],
        (4000).to_bytes(4, "little") + setup()[4:],
        b"\x28\0\0\0\0\0\x06\0",
        b"\x28\0\0\0\0\0\x06\0" + bytes(8),
        b"\x28\0\0\0\x01\0\x05\0" + bytes(32),
        bytes(40),
    ],
)
def test_malformed_frames_are_counted_and_logged_once(frame: bytes) -> None:
    driver = ReceivingDriver()
    driver.subscribe()
    driver.source.send(frame, frame, setup(), frame)
    driver.step()
    driver.source.send(frame)
    driver.step()
    assert driver.names() == ["create"]
    assert driver.count(SystemCounter.INVALID_PACKETS) == 4
    assert len(driver.errors) == 1
    assert "channel=aeron:udp?endpoint=10.0.0.2:4000" in driver.errors[0]


def test_a_setup_frame_of_no_stream_is_logged_with_its_sender() -> None:
    driver = ReceivingDriver()
    driver.subscribe()
    driver.source.send(setup(offset=33))
    driver.step()
    assert f"setup frame from {driver.source.address}: " in driver.errors[0]
    assert "expected a term length, MTU, term offset and term ids that fit together" in driver.errors[0]


def test_bytes_are_counted() -> None:
    driver = ReceivingDriver()
    driver.subscribe()
    driver.source.send(setup(), b"\xff" * 100, data_frame(0, b""))
    driver.step()
    assert driver.count(SystemCounter.BYTES_RECEIVED) == 40 + 100 + 32


def test_a_question_for_the_round_trip_is_answered() -> None:
    driver = ReceivingDriver()
    driver.connect(setup())
    asked = wire.RttMeasurement(SESSION, STREAM, 12345, 0, 0, wire.RTTM_REPLY)
    other = wire.RttMeasurement(SESSION, STREAM, 12345, 0, RECEIVER_ID + 1, wire.RTTM_REPLY)
    driver.source.send(wire.encode(asked), wire.encode(other))
    answers = [frame for frame in driver.step() if isinstance(frame, wire.RttMeasurement)]
    assert answers == [wire.RttMeasurement(SESSION, STREAM, 12345, 0, RECEIVER_ID, 0)]


def test_a_control_address_is_asked_every_second() -> None:
    driver = ReceivingDriver("aeron:udp?endpoint=10.0.0.2:4000|control=10.0.0.1:5000|control-mode=dynamic")
    control = Source(driver.source_machine, 5000, SocketAddress("10.0.0.2", 4000))
    driver.step()
    anything = wire.StatusMessage(0, 0, 0, 0, 0, RECEIVER_ID, None, wire.SM_SEND_SETUP)
    assert control.heard() == [anything]
    driver.run(3 * SECOND, 100 * MS)
    assert control.heard() == [], "nobody wants anything"
    driver.subscribe(SESSION)
    driver.run(2500 * MS, 100 * MS)
    asked = control.heard()
    assert wire.StatusMessage(SESSION, STREAM, 0, 0, 0, RECEIVER_ID, None, wire.SM_SEND_SETUP) in asked
    assert asked.count(anything) in (2, 3)
    other = Source(driver.source_machine, 5001, SocketAddress("10.0.0.2", 4000))
    driver.proxy.on_resolution_change(driver.endpoint, driver.endpoint.udp_channel, other.address)
    driver.run(2500 * MS, 100 * MS)
    assert anything in other.heard()
    assert driver.count(SystemCounter.RESOLUTION_CHANGES) == 1


def test_an_image_that_comes_by_two_destinations_answers_both() -> None:
    driver = ReceivingDriver("aeron:udp?control-mode=manual")
    one, two = "aeron:udp?endpoint=10.0.0.2:4001", "aeron:udp?endpoint=10.0.0.2:4002"
    first = Source(driver.source_machine, 5001, SocketAddress("10.0.0.2", 4001))
    second = Source(driver.source_machine, 5002, SocketAddress("10.0.0.2", 4002))
    for text in (one, two):
        driver.proxy.add_destination(driver.endpoint, driver.new_destination(text))
    driver.subscribe()
    first.send(setup())
    for _ in range(4):
        driver.step()
    image = driver.images[0]
    assert statuses(first.heard()) == [status(0)]
    second.send(setup(), data_frame(0, b"by the second"))
    first.send(data_frame(64, b"by the first"))
    driver.run(300 * MS)
    assert statuses(first.heard())[-1] == statuses(second.heard())[-1] == status(0)
    assert image.log.memory.metadata.get_i32(140) == 2
    assert image.log.memory.terms[0].read(32, 13) == b"by the second"
    first.send(heartbeat(128, flags=WHOLE | EOS))
    driver.run(50 * MS)
    assert image.state is ImageState.ACTIVE, "the other source goes on"
    second.send(heartbeat(128, flags=WHOLE | EOS))
    driver.run(50 * MS)
    assert image.state is ImageState.DRAINING
    driver.proxy.remove_destination(driver.endpoint, driver.channel(one))
    driver.step()
    assert driver.names()[-1] == "close_receive_destination"
    first.heard()
    driver.run(SECOND, 50 * MS)
    assert first.heard() == []


def test_an_endpoint_that_is_closed_is_read_no_more() -> None:
    driver = ReceivingDriver()
    driver.subscribe()
    driver.source.send(data_frame(0, b"x"))
    driver.step()
    driver.proxy.close_receive_channel_endpoint(driver.endpoint)
    driver.step()
    assert driver.told[-1] == ("receive_channel_endpoint_closed", driver.endpoint)
    driver.source.send(data_frame(0, b"x"))
    driver.run(2 * SECOND, 100 * MS)
    assert driver.count(SystemCounter.BYTES_RECEIVED) == 64


def test_an_error_in_one_command_does_not_stop_the_receiver() -> None:
    driver = ReceivingDriver()
    driver.proxy.remove_subscription(driver.endpoint, 12345)
    driver.subscribe()
    driver.source.send(setup())
    driver.step()
    assert driver.names() == ["create"]
    assert "12345" in driver.errors[0]
