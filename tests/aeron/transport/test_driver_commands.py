"""Commands of clients to our conductor, and its answers. Texts and codes are those of Java's driver 1.51.0, which was
given the same commands (parameters in the order in which they were written)."""

from __future__ import annotations

import pytest
from conducted_driver import SECOND, ConductedDriver, all_of, only

from everlog.aeron.transport import commands
from everlog.aeron.transport.driver.system_counters import SystemCounter

POSITION = "init-term-id=1|term-id=2|term-offset"
NUMBER = "java.lang.NumberFormatException : "
STATE = "java.lang.IllegalStateException : "
ARGUMENT = "java.lang.IllegalArgumentException : "
CONFIGURATION = "io.aeron.exceptions.ConfigurationException : ERROR - "
CORRELATION = "response-correlation-id, must be a number greater than or equal to -1, or 'prototype'"

PUBLICATIONS = [
    ("?mtu=1000", 11, CONFIGURATION + "mtuLength=1000 is not a multiple of FRAME_ALIGNMENT=32"),
    ("?mtu=100k", 11, CONFIGURATION + "mtuLength=102400 > MAX_UDP_PAYLOAD_LENGTH=65504"),
    ("?mtu=32", 11, CONFIGURATION + "mtuLength=32 <= HEADER_LENGTH=32"),
    (
        "?mtu=8224",
        1,
        "ERROR - MTU greater than max message length for term length: mtu=8224 maxMessageLength=8192"
        " termLength=65536 channel=aeron:ipc?mtu=8224",
    ),
    ("?term-length=1000", 11, STATE + "Term length less than min length of 65536: length=1000"),
    ("?term-length=65k", 11, STATE + "Term length not a power of 2: length=66560"),
    ("?term-length=2g", 11, STATE + "Term length less than min length of 65536: length=-2147483648"),
    ("?term-length=abc", 11, "org.agrona.AsciiNumberFormatException : error parsing long: ab"),
    ("?term-length=64x", 11, NUMBER + "term-length: 64x should end with: k, m, or g."),
    ("?session-id=abc", 1, "ERROR - invalid session-id, must be a number"),
    (
        "?session-id=tag:7",
        1,
        "ERROR - session-id=tag:7 must reference an IPC publication: channel=aeron:ipc?session-id=tag:7",
    ),
    ("?session-id=tag:x", 1, "ERROR - session-id=tag:x has an invalid tag: channel=aeron:ipc?session-id=tag:x"),
    ("?tags=1,x", 1, "ERROR - invalid entity tag, must be a number"),
    ("?tags=1,-1", 1, "ERROR - -1 tag is reserved: channel=aeron:ipc?tags=1,-1"),
    ("?stream-id=11", 1, "ERROR - stream-id=11 does not match provided streamId=10"),
    ("?stream-id=a", 1, "ERROR - invalid stream-id, must be a number"),
    ("?linger=5x", 11, NUMBER + "linger: 5x should end with: s, ms, us, or ns."),
    ("?linger=", 11, NUMBER + "linger must be non-empty: "),
    (
        "?init-term-id=1|term-id=2",
        1,
        "ERROR - params must be used as a complete set: init-term-id term-id term-offset"
        " channel=aeron:ipc?init-term-id=1|term-id=2",
    ),
    (
        f"?{POSITION}=65600",
        1,
        f"ERROR - term-offset=65600 > term-length=65536: channel=aeron:ipc?{POSITION}=65600",
    ),
    (
        f"?{POSITION}=33",
        1,
        f"ERROR - term-offset=33 must be a multiple of FRAME_ALIGNMENT: channel=aeron:ipc?{POSITION}=33",
    ),
    (f"?{POSITION}=-32", 1, f"ERROR - term-offset=-32 out of range: channel=aeron:ipc?{POSITION}=-32"),
    (
        "?init-term-id=2|term-id=1|term-offset=0",
        1,
        "ERROR - difference greater than 2^31 - 1: init-term-id=2 when term-id=1"
        " channel=aeron:ipc?init-term-id=2|term-id=1|term-offset=0",
    ),
    ("?init-term-id=a|term-id=1|term-offset=0", 1, "ERROR - invalid init-term-id, must be a number"),
    ("?pub-wnd=64", 1, "ERROR - pub-wnd=64 cannot be less than the mtu=1408"),
    ("?pub-wnd=64k", 1, "ERROR - pub-wnd=65536 must not exceed half the term-length=65536"),
    ("?max-resend=0", 1, "ERROR - invalid max-resend=0, must be > 0 and <= 256"),
    ("?max-resend=257", 1, "ERROR - invalid max-resend=257, must be > 0 and <= 256"),
    ("?max-resend=x", 1, "ERROR - invalid max-resend, must be a number"),
    ("?response-correlation-id=-2", 1, f"ERROR - invalid {CORRELATION}"),
    ("?response-correlation-id=x", 1, f"ERROR - invalid {CORRELATION}"),
    ("?", 1, "java.lang.IllegalStateException: no more input found, state=PARAMS_KEY in aeron:ipc?"),
    ("?a", 1, "java.lang.IllegalStateException: no more input found, state=PARAMS_KEY in aeron:ipc?a"),
    ("?=b", 1, "java.lang.IllegalStateException: empty key not allowed at index 10 in aeron:ipc?=b"),
    (
        "|x=1",
        1,
        "java.lang.IllegalArgumentException: encountered '|' within media definition at index 9 in aeron:ipc|x=1",
    ),
    ("x", 1, "java.lang.IllegalArgumentException: unknown media: ipcx"),
    ("?a=b|", 1, "java.lang.IllegalStateException: no more input found, state=PARAMS_KEY in aeron:ipc?a=b|"),
]
SUBSCRIPTIONS = [
    ("?session-id=abc", 11, NUMBER + 'For input string: "abc"'),
    ("?session-id=99999999999", 11, NUMBER + 'For input string: "99999999999"'),
    (
        "?init-term-id=1",
        11,
        ARGUMENT + "params must be used as a complete set: init-term-id term-id term-offset"
        " channel=aeron:ipc?init-term-id=1",
    ),
    (
        f"?{POSITION}=33",
        11,
        ARGUMENT + f"term-offset=33 must be a multiple of FRAME_ALIGNMENT: channel=aeron:ipc?{POSITION}=33",
    ),
    (f"?{POSITION}=-32", 11, ARGUMENT + f"term-offset=-32 out of range: channel=aeron:ipc?{POSITION}=-32"),
    (
        "?init-term-id=2|term-id=1|term-offset=0",
        11,
        STATE + "difference greater than 2^31 - 1: init-term-id=2 when term-id=1"
        " channel=aeron:ipc?init-term-id=2|term-id=1|term-offset=0",
    ),
    ("?rcv-wnd=x", 11, "org.agrona.AsciiNumberFormatException : empty string: index=0 length=0"),
    ("?rcv-wnd=4g", 11, ARGUMENT + "Invalid rcv-wnd length: 4294967296"),
    (
        "?untethered-resting-timeout=1q",
        11,
        NUMBER + "untethered-resting-timeout: 1q should end with: s, ms, us, or ns.",
    ),
]


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


UNKNOWN = [
    (commands.RemovePublication, 3, "ERROR - unknown publication: 9999"),
    (commands.RemoveSubscription, 2, "ERROR - unknown subscription: 9999"),
    (commands.RemoveCounter, 5, "ERROR - unknown counter: 9999"),
]


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
