"""How receivers' status messages move the sender's limit. Terms are of 64 KiB, windows of 1000 bytes in most tests."""

from __future__ import annotations

import pytest

from everlog.aeron.channel_uri import ChannelUri, InvalidChannel
from everlog.aeron.transport.driver.sender.flow_control import (
    MAX_RECEIVERS,
    FlowControl,
    FlowControlSettings,
    MaxFlowControl,
    MinFlowControl,
    TaggedFlowControl,
    flow_control_for,
)
from everlog.aeron.transport.protocol.wire import SM_EOS, SM_SEND_SETUP, ErrorFrame, StatusMessage

SECOND = 1_000_000_000
TAG = 1001


class Counter:
    """Records the number that a strategy publishes."""

    def __init__(self) -> None:
        self.value = 0
        self.is_closed = False

    def set_release(self, value: int) -> None:
        self.value = value

    def close(self) -> None:
        self.is_closed = True


def status(receiver: int, *, tag: int | None = None, flags: int = 0, window: int = 1000) -> StatusMessage:
    return StatusMessage(1, 2, 3, 0, window, receiver, tag, flags)


def chosen(fc: str | None, *, many: bool = True, settings: FlowControlSettings | None = None) -> FlowControl:
    uri = ChannelUri("udp", {} if fc is None else {"fc": fc})
    return flow_control_for(uri, settings or FlowControlSettings(), has_many_receivers=many)


@pytest.mark.parametrize("make", [lambda: chosen(None, many=False), lambda: chosen("max")])
def test_one_receiver_or_the_fastest_moves_the_limit_and_never_back(make: object) -> None:
    control: FlowControl = make()  # type: ignore[operator]
    assert control.on_status_message(status(1), 5000, 0, 0) == 6000
    assert control.on_status_message(status(2), 2000, 6000, 0) == 6000
    assert control.on_idle(100 * SECOND, 6000) == 6000
    assert control.has_required_receivers
    assert not control.wants_receiver_counter


def test_the_slowest_receiver_is_waited_for() -> None:
    control = chosen("min")
    assert control.on_status_message(status(1), 0, 0, 0) == 1000
    assert control.on_status_message(status(2), 0, 1000, 0) == 1000
    assert control.on_status_message(status(1), 4000, 1000, 0) == 1000
    assert control.on_status_message(status(2), 3000, 1000, 0) == 4000
    assert control.on_idle(1, 4000) == 4000


def test_a_silent_receiver_is_waited_for_no_longer_than_its_timeout() -> None:
    control = chosen("min,t:2s")
    assert isinstance(control, MinFlowControl)
    counter = control.receiver_counter = Counter()
    control.on_status_message(status(1), 0, 0, 0)
    control.on_status_message(status(2), 0, 1000, 0)
    assert control.on_status_message(status(1), 500, 1000, 1 * SECOND) == 1000
    assert (control.on_idle(2 * SECOND, 1000), counter.value) == (1000, 2)
    assert (control.on_idle(2 * SECOND + 1, 1000), counter.value) == (1500, 1)
    assert (control.on_idle(3 * SECOND + 1, 1500), counter.value) == (1500, 0)
    control.close()
    assert counter.is_closed


def test_a_receiver_that_leaves_is_forgotten_when_the_sender_is_idle() -> None:
    control = chosen("min")
    control.on_status_message(status(1), 0, 0, 0)
    control.on_status_message(status(2), 500, 1000, 0)
    assert control.on_status_message(status(1, flags=SM_EOS), 0, 1000, 0) == 1000
    assert control.on_idle(1, 1000) == 1500
    # One that says goodbye and was not known is not counted.
    assert control.on_status_message(status(3, flags=SM_EOS), 0, 1500, 0) == 1500
    assert isinstance(control, MinFlowControl)
    assert control.receiver_count == 1


def test_a_receiver_that_refuses_the_stream_is_forgotten() -> None:
    control = chosen("min")
    control.on_status_message(status(1), 0, 0, 0)
    control.on_status_message(status(2), 500, 1000, 0)
    control.on_error(ErrorFrame(1, 2, 1, 16, "no"), 0)
    assert control.on_idle(1, 1000) == 1500


def test_a_newcomer_far_behind_all_others_is_not_waited_for() -> None:
    control = chosen("min")
    assert isinstance(control, MinFlowControl)
    control.on_status_message(status(1), 10_000, 0, 0)
    # The lowest limit is 11,000; one whose limit is a window below that, at 10,000, joins, and one lower does not.
    assert control.on_status_message(status(2), 8_999, 11_000, 0) == 11_000
    assert control.receiver_count == 1
    control.on_status_message(status(3), 9_000, 11_000, 0)
    assert control.receiver_count == 2
    assert control.on_idle(1, 11_000) == 10_000


def test_receivers_that_somebody_makes_up_are_limited_and_forgotten() -> None:
    control, counter = chosen("min"), Counter()
    assert isinstance(control, MinFlowControl)
    control.receiver_counter = counter
    for receiver in range(MAX_RECEIVERS + 10):
        assert control.on_status_message(status(receiver), 5000, 6000, 0) == 6000
    assert control.receiver_count == counter.value == MAX_RECEIVERS
    assert control.on_status_message(status(5), 5100, 6000, SECOND) == 6000
    assert control.on_idle(5 * SECOND + 1, 6000) == 6100
    assert control.receiver_count == counter.value == 1
    assert control.on_status_message(status(-1), 5100, 6100, 5 * SECOND) == 6100
    assert control.receiver_count == 2


def test_a_group_is_connected_with_its_least_size_and_not_before() -> None:
    control = chosen("min,g:/2")
    assert not control.has_required_receivers
    assert control.on_status_message(status(1), 700, 0, 0) == 0
    assert control.on_idle(1, 0) == 0
    assert not control.has_required_receivers
    assert control.on_status_message(status(2), 800, 0, 0) == 1700
    assert control.has_required_receivers
    control.on_status_message(status(2, flags=SM_EOS), 800, 1700, 0)
    assert control.on_idle(1, 1700) == 1700
    assert not control.has_required_receivers


def test_only_receivers_with_the_tag_are_waited_for() -> None:
    control = chosen(f"tagged,g:{TAG}/1")
    assert isinstance(control, TaggedFlowControl)
    assert control.on_status_message(status(1), 0, 0, 0) == 0
    assert control.on_status_message(status(2, tag=7), 0, 0, 0) == 0
    assert not control.has_required_receivers
    assert control.on_status_message(status(3, tag=TAG), 100, 0, 0) == 1100
    assert control.has_required_receivers
    assert control.on_status_message(status(1), 0, 1100, 0) == 1100
    control.on_error(ErrorFrame(1, 2, 3, 16, "no", group_tag=7), 0)
    assert control.receiver_count == 1
    control.on_error(ErrorFrame(1, 2, 3, 16, "no", group_tag=TAG), 0)
    control.on_idle(1, 1100)
    assert control.receiver_count == 0


def test_without_anybody_with_the_tag_the_others_say_how_far_it_goes() -> None:
    control = chosen(f"tagged,g:{TAG}")
    assert control.on_status_message(status(1), 0, 0, 0) == 1000
    assert control.has_required_receivers


def test_a_preferred_receiver_of_old_has_the_tag() -> None:
    control = chosen(f"tagged,g:{TAG}/1")
    old = StatusMessage(1, 2, 3, 0, 1000, 9, feedback=b"\xff\xff\xff\xff")
    assert control.on_status_message(old, 0, 0, 0) == 1000
    other = StatusMessage(1, 2, 3, 0, 1000, 10, feedback=b"\xff\xff\xff\x00")
    assert control.on_status_message(other, 0, 1000, 0) == 1000
    assert isinstance(control, TaggedFlowControl)
    assert control.receiver_count == 1


def test_the_limit_waits_for_a_receiver_that_asked_for_a_setup_frame() -> None:
    control = chosen("min,t:2s")
    assert isinstance(control, MinFlowControl)
    control.on_status_message(status(1), 0, 0, 0)
    control.on_trigger_send_setup(status(2, flags=SM_SEND_SETUP), 0)
    control.on_setup(1000, 0)
    assert control.on_status_message(status(1), 5000, 1000, 1) == 1000
    assert control.on_idle(2, 1000) == 1000
    control.on_status_message(status(2), 1000, 1000, 3)
    assert control.on_idle(4, 1000) == 2000
    # Nobody came: after the timeout it goes on.
    control.on_trigger_send_setup(status(3, flags=SM_SEND_SETUP), 5)
    control.on_setup(2000, 5)
    control.on_status_message(status(1), 5000, 2000, 2 * SECOND)
    control.on_status_message(status(2), 5000, 2000, 2 * SECOND)
    assert control.on_idle(2 * SECOND + 5, 2000) == 2000
    assert control.on_idle(2 * SECOND + 6, 2000) == 6000


def test_a_nak_is_answered_with_some_windows_and_within_the_term() -> None:
    # Terms of 64 KiB: a window is half a term at most.
    unicast, multicast = chosen(None, many=False), chosen("max")
    assert unicast.max_retransmission_length(0, 65536, 65536) == 65536
    assert unicast.max_retransmission_length(65504, 4096, 65536) == 32
    # Terms of 16 MiB: 16 windows of 128 KiB, or 4.
    term = 16 << 20
    assert unicast.max_retransmission_length(0, term, term) == 2 << 20
    assert multicast.max_retransmission_length(0, term, term) == 512 << 10
    assert chosen("min,rrwm:1").max_retransmission_length(0, term, term) == 128 << 10
    assert unicast.max_retransmission_length(0, 1408, term) == 1408


def test_a_channel_goes_before_the_drivers_settings() -> None:
    settings = FlowControlSettings(multicast="tagged", receiver_timeout_ns=7, group_tag=8, group_min_size=9)
    control = chosen(None, settings=settings)
    assert isinstance(control, TaggedFlowControl)
    assert (control.receiver_timeout_ns, control.group_tag, control.group_min_size) == (7, 8, 9)
    control = chosen("tagged,g:-5/3,t:5ms,unknown:1", settings=settings)
    assert isinstance(control, TaggedFlowControl)
    assert (control.receiver_timeout_ns, control.group_tag, control.group_min_size) == (5_000_000, -5, 3)
    assert isinstance(chosen("max", settings=settings), MaxFlowControl)
    assert isinstance(chosen("min", settings=settings), MinFlowControl)


@pytest.mark.parametrize(
    ("fc", "many"),
    [("min", False), ("fastest", True), ("", True), ("min,t:soon", True), ("tagged,g:x", True), ("min,rrwm:0", True)],
)
def test_a_wrong_flow_control_is_named(fc: str, many: bool) -> None:
    with pytest.raises(InvalidChannel, match="fc"):
        chosen(fc, many=many)
