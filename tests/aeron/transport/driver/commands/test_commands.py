"""Clients' commands to the conductor, and its answers. Texts and codes are those of Java's driver 1.51.0 for the
same commands (parameters in the order in which they were written)."""

from __future__ import annotations

import pytest

from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.protocol import commands
from tests.aeron.transport.driver.conducted_driver import SECOND, ConductedDriver, all_of, only
from tests.aeron.transport.driver.driver_answers import PUBLICATIONS, STATE, SUBSCRIPTIONS, UNKNOWN


@pytest.mark.parametrize(("rest", "code", "text"), PUBLICATIONS)
def test_a_publications_channel_is_refused_as_javas_driver_refuses_it(rest: str, code: int, text: str) -> None:
    driver = ConductedDriver()
    command = commands.AddExclusivePublication(1, driver.next_id(), 10, "aeron:ipc" + rest)
    assert driver.error(command) == commands.OnError(command.correlation_id, code, text)
    assert driver.system(SystemCounter.ERRORS) == 1
    assert driver.labels() == {}


@pytest.mark.parametrize(("rest", "code", "text"), SUBSCRIPTIONS)
def test_a_subscriptions_channel_is_refused_as_javas_driver_refuses_it(rest: str, code: int, text: str) -> None:
    driver = ConductedDriver()
    command = commands.AddSubscription(1, driver.next_id(), -1, 10, "aeron:ipc" + rest)
    assert driver.error(command) == commands.OnError(command.correlation_id, code, text)
    assert driver.labels() == {}


def test_a_channel_that_is_longer_than_any_is_refused() -> None:
    driver = ConductedDriver()
    channel = "aeron:ipc?x=" + "y" * 5000
    error = driver.error(commands.AddPublication(1, driver.next_id(), 10, channel))
    assert error.error_code == 1
    start = "java.lang.IllegalArgumentException: URI length (5012) exceeds max supported length (4095): aeron:ipc?x=yyy"
    assert error.message.startswith(start)


@pytest.mark.parametrize(
    ("channel", "name", "existing", "requested"),
    [
        ("aeron:ipc?term-length=128k", "term-length", 65536, 131072),
        ("aeron:ipc?mtu=2048", "mtu", 1408, 2048),
        ("aeron:ipc?session-id=78", "session-id", 77, 78),
    ],
)
def test_a_shared_publication_must_be_asked_for_as_it_is(
    channel: str, name: str, existing: int, requested: int
) -> None:
    driver = ConductedDriver()
    first = "aeron:ipc?term-length=64k|mtu=1408|session-id=77"
    driver.add_publication(first, 20)
    command = commands.AddPublication(1, driver.next_id(), 20, channel)
    text = (
        f"{STATE}existing publication has different '{name}': existing={existing} requested={requested}"
        f" existingChannel={first} channel={channel}"
    )
    assert driver.error(command) == commands.OnError(command.correlation_id, 11, text)


def test_a_session_that_is_in_use_is_refused() -> None:
    driver = ConductedDriver()
    driver.add_publication("aeron:ipc?session-id=77", 20)
    command = commands.AddExclusivePublication(1, driver.next_id(), 20, "aeron:ipc?session-id=77")
    text = "ERROR - existing publication has clashing sessionId=77 for streamId=20 channel=aeron:ipc?session-id=77"
    assert driver.error(command) == commands.OnError(command.correlation_id, 1, text)


def test_a_tag_names_one_publication_whose_session_others_may_take() -> None:
    driver = ConductedDriver()
    first = driver.add_publication("aeron:ipc?tags=5,6", 21)
    again = driver.error(commands.AddPublication(1, driver.next_id(), 22, "aeron:ipc?tags=5,6"))
    text = "ERROR - 6 entityTag already in use: existingChannel=aeron:ipc?tags=5,6 channel=aeron:ipc?tags=5,6"
    assert (again.error_code, again.message) == (1, text)
    channel = "aeron:ipc?session-id=tag:6|term-length=128k"
    other = driver.error(commands.AddExclusivePublication(1, driver.next_id(), 23, channel))
    assert other.message == f"ERROR - term-length=131072 does not match session-id tag value: channel={channel}"
    tagged = driver.add_publication("aeron:ipc?session-id=tag:6", 23, is_exclusive=True)
    assert tagged.session_id == first.session_id


@pytest.mark.parametrize(("kind", "code", "text"), UNKNOWN)
def test_what_is_not_there_can_not_be_removed(
    kind: type[commands.RemovePublication | commands.RemoveSubscription], code: int, text: str
) -> None:
    driver = ConductedDriver()
    command = kind(1, driver.next_id(), 9999)
    assert driver.error(command) == commands.OnError(command.correlation_id, code, text)


def test_destinations_need_a_subscription_that_takes_them() -> None:
    driver = ConductedDriver()
    adding = driver.error(commands.AddRcvDestination(1, driver.next_id(), 9999, "aeron:ipc"))
    assert (adding.error_code, adding.message) == (2, "ERROR - unknown MDS subscription: 9999")
    removing = driver.error(commands.RemoveRcvDestination(1, driver.next_id(), 9999, "aeron:ipc"))
    assert (removing.error_code, removing.message) == (2, "ERROR - unknown subscription: 9999")


def test_an_image_is_rejected_only_if_it_is_there_and_for_a_short_reason() -> None:
    driver = ConductedDriver()
    unknown = driver.error(commands.RejectImage(1, driver.next_id(), 9999, 0, "no"))
    assert (unknown.error_code, unknown.message) == (11, "ERROR - Unable to resolve image for correlationId=9999")
    long = driver.error(commands.RejectImage(1, driver.next_id(), 9999, 0, "x" * 2000))
    assert (long.error_code, long.message) == (11, "ERROR - Invalidation reason must be 1023 bytes or less")
    assert driver.system(SystemCounter.IMAGES_REJECTED) == 0


def test_what_is_no_command_is_answered_and_counted() -> None:
    driver = ConductedDriver()
    driver.to_driver.write(0x77, bytes(16))
    driver.to_driver.write(1, bytes(8))
    driver.work(4)
    unknown, short = all_of(driver.events(), commands.OnError)
    assert unknown == commands.OnError(0, 6, "ERROR - command typeId=119")
    assert (short.correlation_id, short.error_code) == (0, 7)
    assert short.message.startswith("ERROR - command=1 too short: length=8")
    assert driver.system(SystemCounter.ERRORS) == 2


def test_session_ids_follow_each_other_and_leave_out_the_reserved_and_the_used() -> None:
    driver = ConductedDriver()
    sessions = driver.parts.conductor.streams.sessions
    sessions._next_id = -3
    first = only(driver.ask(commands.GetNextAvailableSessionId(1, 5, 7)), commands.OnNextAvailableSessionId)
    assert first == commands.OnNextAvailableSessionId(5, -3)
    sessions.add(-2, 7, "ipc")
    second = only(driver.ask(commands.GetNextAvailableSessionId(1, 6, 7)), commands.OnNextAvailableSessionId)
    assert second.session_id == 1001


def test_a_driver_ends_only_when_clients_may_end_it() -> None:
    for validator, terminations in (("deny", 0), ("allow", 1)):
        driver = ConductedDriver(termination_validator=validator)
        assert driver.ask(commands.TerminateDriver(1, driver.next_id(), b"token")) == []
        assert driver.terminations == terminations


def test_a_command_whose_writer_died_is_skipped_after_a_while() -> None:
    driver = ConductedDriver(client_liveness_timeout_ns=5 * SECOND)
    driver.to_driver._claim(64)
    driver.write(commands.GetNextAvailableSessionId(1, 5, 7))
    driver.advance(4 * SECOND)
    assert driver.events() == []
    driver.advance(4 * SECOND)
    assert driver.system(SystemCounter.UNBLOCKED_COMMANDS) == 1
    assert len(all_of(driver.events(), commands.OnNextAvailableSessionId)) == 1


def test_a_ring_with_a_length_that_can_not_be_is_read_on_behind_it() -> None:
    driver = ConductedDriver()
    at = driver.to_driver._claim(64)
    assert at is not None
    driver.cnc.to_driver.put_i32(at, 1 << 30)
    driver.work(2)
    assert driver.system(SystemCounter.ERRORS) == 1
    assert driver.ask(commands.GetNextAvailableSessionId(1, 5, 7)) != []


def test_the_heartbeat_is_there_once_a_second_and_says_so_when_the_driver_closes() -> None:
    driver = ConductedDriver()
    assert driver.to_driver.consumer_heartbeat == driver.now_ms
    driver.advance(3 * SECOND)
    assert 0 <= driver.now_ms - driver.to_driver.consumer_heartbeat <= 1100
    driver.parts.conductor.close()
    assert driver.to_driver.consumer_heartbeat == -1
