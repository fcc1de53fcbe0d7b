"""Network commands to the conductor on a simulated machine. Codes, texts and the order of counters are those of
Java's driver 1.51.0 for the same commands."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from everlog.aeron.transport.driver.network.conductor import NetworkConductor
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.media.receive_channel_endpoint import MAX_DESTINATIONS
from everlog.aeron.transport.memory import log_memory
from everlog.aeron.transport.protocol import commands
from everlog.kernel.socket_address import SocketAddress
from tests.aeron.transport.driver.conducted_driver import MS, SECOND, ConductedDriver, all_of, only
from tests.aeron.transport.driver.driver_answers import NETWORK_PUBLICATIONS, NETWORK_SUBSCRIPTIONS, UDP


@pytest.mark.parametrize(("channel", "code", "text"), NETWORK_PUBLICATIONS)
def test_a_publications_channel_is_refused_and_nothing_is_left_of_it(channel: str, code: int, text: str) -> None:
    driver = ConductedDriver()
    error = driver.error(commands.AddPublication(1, driver.next_id(), 10, channel))
    assert (error.error_code, error.message[: len(text)]) == (code, text)
    driver.work(4)
    assert driver.logs.logs == {}
    assert driver.labels() == {}
    assert driver.system(SystemCounter.ERRORS) == 1


@pytest.mark.parametrize(("channel", "code", "text"), NETWORK_SUBSCRIPTIONS)
def test_a_subscriptions_channel_is_refused_and_nothing_is_left_of_it(channel: str, code: int, text: str) -> None:
    driver = ConductedDriver()
    error = driver.error(commands.AddSubscription(1, driver.next_id(), -1, 10, channel))
    assert (error.error_code, error.message[: len(text)]) == (code, text)
    assert driver.labels() == {}


def test_who_shares_a_sending_endpoint_asks_for_the_same() -> None:
    driver = ConductedDriver()
    first = "aeron:udp?endpoint=127.0.0.1:24010|so-sndbuf=128k|so-rcvbuf=64k|ssc=true"
    channel = "aeron:udp?endpoint=127.0.0.1:24010"
    driver.add_publication(first, 30)
    buffers = "does not match existing value of"
    option = "ERROR - option conflicts with existing subscription:"
    spies = "java.lang.IllegalStateException : existing publication has different spiesSimulateConnection:"
    for rest, stream, expected in (
        ("|so-sndbuf=64k", 31, f"ERROR - so-sndbuf=65536 {buffers} 131072:"),
        ("|so-rcvbuf=128k", 31, f"ERROR - so-rcvbuf=131072 {buffers} 65536:"),
        ("|channel-snd-ts-offset=0", 31, f"{option} channel-snd-ts-offset=0"),
        ("", 30, f"{spies} existing=true requested=false"),
    ):
        error = driver.error(commands.AddPublication(1, driver.next_id(), stream, channel + rest))
        assert error.message == f"{expected} existingChannel={first} channel={channel}{rest}"
    shared = driver.add_publication(channel + "|ssc=true", 30)
    assert shared.registration_id == 1


def test_a_channel_that_is_meant_by_its_tag_has_the_sessions_of_its_endpoint() -> None:
    driver = ConductedDriver(publication_linger_timeout_ns=0)
    driver.alive = (1,)
    named, tagged = "aeron:udp?endpoint=127.0.0.1:24010|tags=5|session-id=77", "aeron:udp?tags=5|session-id=77"
    clash = f"ERROR - existing publication has clashing sessionId=77 for streamId=30 channel={tagged}"
    driver.add_publication(named.replace("77", "76"), 30, is_exclusive=True)
    for first in (named, tagged):
        publication = driver.add_publication(first, 30, is_exclusive=True)
        error = driver.error(commands.AddExclusivePublication(1, driver.next_id(), 30, tagged))
        assert error.message == clash
        driver.ask(commands.RemovePublication(1, driver.next_id(), publication.registration_id))
        driver.advance(5 * SECOND)
    assert driver.add_publication(tagged, 30, is_exclusive=True).session_id == 77


def test_endpoints_of_one_form_and_two_tags_are_kept_apart() -> None:
    driver = ConductedDriver(publication_linger_timeout_ns=0)
    driver.alive = (1,)
    channel = "aeron:udp?endpoint=127.0.0.1:24010"
    one = driver.add_publication(f"{channel}|tags=1", 30, is_exclusive=True)
    two = driver.add_publication(f"{channel}|tags=2", 31, is_exclusive=True)
    assert one.channel_status_id != two.channel_status_id
    assert driver.add_publication("aeron:udp?tags=1", 32).channel_status_id == one.channel_status_id
    assert driver.add_publication("aeron:udp?tags=2", 33).channel_status_id == two.channel_status_id
    for stream in (30, 32):
        shared = driver.add_publication(f"{channel}|tags=1", stream)
        assert shared.channel_status_id == one.channel_status_id
    for link in list(driver.parts.conductor.streams.publication_links):
        if link.publication.channel_endpoint.status_indicator_counter_id == one.channel_status_id:
            driver.ask(commands.RemovePublication(1, driver.next_id(), link.registration_id))
    driver.advance(5 * SECOND)
    (label,) = (label for label in driver.labels() if label.startswith("snd-channel"))
    assert label.startswith(f"snd-channel: {channel}|tags=2 ")
    assert driver.add_publication("aeron:udp?tags=2", 34).channel_status_id == two.channel_status_id
    driver.parts.conductor.close()
    assert [label for label in driver.labels() if label.startswith(("snd-channel", "snd-local"))] == []


def test_who_shares_a_stream_of_a_receiving_endpoint_asks_for_the_same() -> None:
    driver = ConductedDriver()
    first, channel = "aeron:udp?endpoint=127.0.0.1:24021|so-rcvbuf=128k", "aeron:udp?endpoint=127.0.0.1:24021"
    driver.add_subscription(first, 40)
    option = "ERROR - option conflicts with existing subscription:"
    for rest, stream, expected in (
        ("|reliable=false", 40, f"{option} reliable=false"),
        ("|rejoin=false", 40, f"{option} rejoin=false"),
        ("|so-rcvbuf=64k|rcv-wnd=32k", 41, "ERROR - so-rcvbuf=65536 does not match existing value of 131072:"),
        ("|channel-rcv-ts-offset=0", 41, f"{option} channel-rcv-ts-offset=0"),
    ):
        error = driver.error(commands.AddSubscription(2, driver.next_id(), -1, stream, channel + rest))
        assert error.message == f"{expected} existingChannel={first} channel={channel}{rest}"
    driver.add_subscription(channel + "|session-id=5|reliable=false", 40)


@pytest.mark.parametrize(("first", "second"), [("", "|control-mode=response"), ("|control-mode=response", "")])
def test_a_response_and_no_response_do_not_share_a_stream(first: str, second: str) -> None:
    driver = ConductedDriver()
    channel = "aeron:udp?control=127.0.0.1:24022"
    driver.add_subscription(channel + first, 40)
    error = driver.error(commands.AddSubscription(2, driver.next_id(), -1, 40, channel + second))
    asked = "true" if second else "false"
    option = f"ERROR - option conflicts with existing subscription: isResponse={asked}"
    assert error.message == f"{option} existingChannel={channel}{first} channel={channel}{second}"


def test_a_publications_counters_come_in_javas_order() -> None:
    driver = ConductedDriver()
    channel = "aeron:udp?control=127.0.0.1:24011|control-mode=dynamic|fc=min"
    ready = driver.add_publication(channel, 32, is_exclusive=True)
    stream = f"1 {ready.session_id} 32 {channel}"
    found = [
        (counter.type_id, counter.owner_id, counter.label)
        for counter in driver.counters().values()
        if counter.counter_id > 45
    ]
    assert found == [
        (6, 0, f"snd-channel: {channel} 127.0.0.1:24011"),
        (14, 0, "snd-local-sockaddr: 46 127.0.0.1:24011"),
        (18, 0, f"mdc-num-dest: {channel} "),
        (17, -1, f"fc-receivers: {stream}"),
        (12, 1, f"pub-pos (exclusive): {stream}"),
        (1, 1, f"pub-lmt: {stream}"),
        (2, 1, f"snd-pos: {stream}"),
        (9, 1, f"snd-lmt: {stream}"),
        (13, 1, f"snd-bpe: {stream}"),
        (19, 1, f"snd-naks-received: {stream}"),
        (11, 1, "client-heartbeat: id=1"),
    ]
    assert ready.channel_status_id == 46
    assert ready.position_limit_counter_id == 51


def test_destinations_are_added_and_removed_by_their_user() -> None:
    driver = ConductedDriver()
    ready = driver.add_publication("aeron:udp?control-mode=manual", 34)
    destinations = next(c.counter_id for c in driver.counters().values() if c.label.startswith("mdc-num-dest"))

    def ask(kind: type[commands.AddDestination], uri: str) -> commands.Event:
        (event,) = driver.ask(kind(1, driver.next_id(), ready.registration_id, uri))
        driver.work(2)
        return event

    added = ask(commands.AddDestination, "aeron:udp?endpoint=127.0.0.1:24012")
    assert isinstance(added, commands.OnOperationSuccess)
    assert driver.counters()[destinations].value == 1
    ask(commands.AddDestination, "aeron:udp?endpoint=nohost.invalid:24012")
    assert driver.counters()[destinations].value == 2
    wrong = ask(commands.AddDestination, "aeron:udp?endpoint=127.0.0.1:24012|mtu=1408")
    assert isinstance(wrong, commands.OnError)
    text = "ERROR - destinations must not contain the key: mtu channel=aeron:udp?endpoint=127.0.0.1:24012|mtu=1408"
    assert (wrong.error_code, wrong.message) == (1, text)
    assert isinstance(ask(commands.AddDestination, "aeron:ipc"), commands.OnError)
    ask(commands.RemoveDestination, "aeron:udp?endpoint=127.0.0.1:24012")
    assert driver.counters()[destinations].value == 1
    again = only(
        driver.ask(commands.AddDestination(1, 99, ready.registration_id, "aeron:udp?endpoint=127.0.0.1:24014")),
        commands.OnOperationSuccess,
    )
    driver.ask(commands.RemoveDestinationById(1, 100, ready.registration_id, again.correlation_id))
    driver.work(2)
    assert driver.counters()[destinations].value == 1


def test_a_publication_with_one_destination_gets_no_other() -> None:
    driver = ConductedDriver()
    ready = driver.add_publication("aeron:udp?endpoint=127.0.0.1:24013", 34)
    uri = "aeron:udp?endpoint=127.0.0.1:24012"
    error = driver.error(commands.AddDestination(1, driver.next_id(), ready.registration_id, uri))
    assert (error.error_code, error.message) == (1, "ERROR - channel does not allow manual control")
    error = driver.error(commands.AddDestination(1, driver.next_id(), 9999, uri))
    assert (error.error_code, error.message) == (3, "ERROR - unknown publication: 9999")
    spy = "aeron-spy:aeron:udp?endpoint=127.0.0.1:1"
    error = driver.error(commands.AddDestination(1, driver.next_id(), ready.registration_id, spy))
    assert error.message == f"ERROR - Aeron spies are invalid as send destinations: channel={spy}"


def test_a_subscriptions_sources_come_and_go() -> None:
    driver = ConductedDriver()
    registration_id, _ = driver.add_subscription("aeron:udp?control-mode=manual", 42)
    source = "aeron:udp?endpoint=127.0.0.1:24030"
    for uri in (source, "aeron:ipc", "aeron-spy:aeron:udp?endpoint=127.0.0.1:24013"):
        added = driver.ask(commands.AddRcvDestination(2, driver.next_id(), registration_id, uri))
        assert isinstance(added[0], commands.OnOperationSuccess)
    assert "rcv-local-sockaddr: 46 127.0.0.1:24030" in driver.labels()
    taken = driver.error(commands.AddRcvDestination(2, driver.next_id(), registration_id, source))
    assert taken.error_code == 11
    for uri in (source, "aeron:ipc", "aeron-spy:aeron:udp?endpoint=127.0.0.1:24013"):
        removed = driver.ask(commands.RemoveRcvDestination(2, driver.next_id(), registration_id, uri))
        assert isinstance(removed[0], commands.OnOperationSuccess)
    driver.work(4)
    assert [label for label in driver.labels() if label.startswith("rcv-local")] == []
    driver.ask(commands.RemoveSubscription(2, driver.next_id(), registration_id))
    driver.work(4)
    assert list(driver.labels()) == ["client-heartbeat: id=2"]


def test_one_source_too_many_is_refused_and_nothing_is_left_of_it() -> None:
    driver = ConductedDriver()
    registration_id, _ = driver.add_subscription("aeron:udp?control-mode=manual", 42)
    sources = [f"aeron:udp?endpoint=127.0.0.1:{25_000 + index}" for index in range(MAX_DESTINATIONS + 1)]
    for uri in sources[:-1]:
        driver.ask(commands.AddRcvDestination(2, driver.next_id(), registration_id, uri))
    labels = driver.labels()
    error = driver.error(commands.AddRcvDestination(2, driver.next_id(), registration_id, sources[-1]))
    assert (error.error_code, str(MAX_DESTINATIONS) in error.message) == (1, True)
    driver.work(4)
    assert driver.labels() == labels
    driver.ask(commands.RemoveRcvDestination(2, driver.next_id(), registration_id, sources[0]))
    driver.work(4)
    for uri in (sources[-1], sources[0]):
        answers = driver.ask(commands.AddRcvDestination(2, driver.next_id(), registration_id, uri))
        assert isinstance(answers[0], commands.OnOperationSuccess if uri == sources[-1] else commands.OnError)
    driver.ask(commands.RemoveSubscription(2, driver.next_id(), registration_id))
    driver.work(4)
    assert list(driver.labels()) == ["client-heartbeat: id=2"]


def test_images_in_shared_memory_come_by_a_source_of_a_subscription() -> None:
    driver = ConductedDriver()
    publication = driver.add_publication("aeron:ipc", 42)
    registration_id, _ = driver.add_subscription("aeron:udp?control-mode=manual", 42)
    events = driver.ask(commands.AddRcvDestination(2, driver.next_id(), registration_id, "aeron:ipc"))
    image = only(events, commands.OnAvailableImage)
    assert image.subscription_registration_id == registration_id
    events = driver.ask(commands.RemoveRcvDestination(2, driver.next_id(), registration_id, "aeron:ipc"))
    gone = only(events, commands.OnUnavailableImage)
    assert gone == commands.OnUnavailableImage(publication.registration_id, registration_id, 42, "aeron:ipc")


def test_an_endpoint_goes_with_its_last_subscription() -> None:
    driver = ConductedDriver()
    ids = [driver.add_subscription("aeron:udp?endpoint=127.0.0.1:24021", stream)[0] for stream in (1, 1, 2)]
    for registration_id in ids:
        assert "rcv-channel: aeron:udp?endpoint=127.0.0.1:24021 127.0.0.1:24021" in driver.labels()
        driver.ask(commands.RemoveSubscription(2, driver.next_id(), registration_id))
        driver.work(2)
    assert list(driver.labels()) == ["client-heartbeat: id=2"]
    driver.add_subscription("aeron:udp?endpoint=127.0.0.1:24021", 1)


def test_counters_that_are_out_leave_no_half_made_stream() -> None:
    driver = ConductedDriver()
    refused: list[commands.OnError] = []
    while not refused:
        refused = all_of(driver.ask(commands.AddCounter(1, driver.next_id(), 1, b"", "x")), commands.OnError)
    labels = len(driver.counters())
    for free in range(8):
        for _ in range(free):
            link = next(iter(driver.parts.conductor._counters._links.values()))
            driver.ask(commands.RemoveCounter(1, driver.next_id(), link.registration_id))
        driver.now_ms += 2000
        before = len(driver.counters())
        error = driver.error(commands.AddPublication(1, driver.next_id(), 10, UDP))
        assert error.error_code == 11
        driver.work(4)
        driver.now_ms += 2000
        assert len(driver.counters()) == before
        while len(driver.counters()) < labels:
            driver.ask(commands.AddCounter(1, driver.next_id(), 1, b"", "x"))
    assert driver.logs.logs == {}


@pytest.mark.parametrize(("channel", "needed"), [("aeron:ipc?session-id=7", 2), (f"{UDP}|session-id=7", 8)])
def test_a_publication_whose_client_gets_no_counter_ends(channel: str, needed: int) -> None:
    driver = ConductedDriver()
    driver.alive = (1,)
    refused: list[commands.OnError] = []
    while not refused:
        refused = all_of(driver.ask(commands.AddCounter(1, driver.next_id(), 1, b"", "x")), commands.OnError)
    for _ in range(needed):
        link = next(iter(driver.parts.conductor._counters._links.values()))
        driver.ask(commands.RemoveCounter(1, driver.next_id(), link.registration_id))
    driver.advance(2 * SECOND)
    before = len(driver.counters())
    error = driver.error(commands.AddPublication(9, driver.next_id(), 10, channel))
    assert "all in use" in error.message
    assert len(driver.counters()) == before + needed, "all were made but the client's"
    driver.advance(10 * SECOND)
    assert len(driver.counters()) == before
    assert driver.logs.logs == {}
    driver.ask(commands.RemoveCounter(1, driver.next_id(), next(iter(driver.parts.conductor._counters._links))))
    driver.advance(2 * SECOND)
    assert driver.add_publication(channel, 10, 9).session_id == 7


class Slow:
    """A task on a name server that does not answer yet, which delays the tasks after it."""

    def __init__(self, value: object) -> None:
        self.value = value
        self.is_done = False

    def done(self) -> bool:
        return self.is_done

    def result(self) -> object:
        return self.value


def test_names_are_looked_up_anew_one_by_one_and_not_once_more_while_that_takes() -> None:
    driver = ConductedDriver()
    driver.alive = (1, 2)
    driver.add_publication("aeron:udp?endpoint=127.0.0.1:24010", 30)
    registration = driver.add_publication("aeron:udp?control-mode=manual", 31).registration_id
    driver.ask(commands.AddDestination(1, driver.next_id(), registration, "aeron:udp?endpoint=127.0.0.1:24011"))
    driver.add_subscription("aeron:udp?endpoint=127.0.0.1:24012|control=127.0.0.1:24013|control-mode=dynamic", 32)
    network = driver.parts.conductor._network
    assert isinstance(network, NetworkConductor)
    asked: list[str] = []
    lookups: list[Slow] = []

    def resolve_again(text: str, parameter: str) -> Slow:
        asked.append(text)
        lookups.append(Slow(SocketAddress(*text.split(":")[:1], int(text.split(":")[1]) + 100)))
        return lookups[-1]

    object.__setattr__(network._parts, "channels", SimpleNamespace(resolve_again=resolve_again))
    driver.advance(60 * SECOND)
    assert len(network._lookups) == 3
    assert len(asked) == 1
    for count in (2, 3):
        lookups[-1].is_done = True
        driver.advance(300 * MS)
        assert len(asked) == count
    assert sorted(asked) == ["127.0.0.1:24010", "127.0.0.1:24011", "127.0.0.1:24013"]
    for _ in range(60):
        lookups[-1].is_done = True
        driver.advance(500 * MS)
    assert driver.system(SystemCounter.RESOLUTION_CHANGES) >= 3
    assert 3 * 30 / 6 <= len(asked) <= 3 * 30 / 5 + 3, "each is asked for again, every five seconds"


@pytest.mark.parametrize("channel", ["aeron:ipc", UDP])
def test_a_publication_that_was_just_revoked_is_shared_with_nobody(channel: str) -> None:
    driver = ConductedDriver()
    driver.alive = (1, 9)
    first = driver.add_publication(channel)
    driver.ask(commands.RemovePublication(1, driver.next_id(), first.registration_id, True))
    second = driver.add_publication(channel, client_id=9)
    assert second.registration_id != first.registration_id
    assert second.session_id != first.session_id
    driver.advance(10 * SECOND)
    assert not log_memory.is_publication_revoked(driver.log(second).metadata)
    assert driver.system(SystemCounter.PUBLICATIONS_REVOKED) == 1
    assert list(driver.logs.logs) == [second.log_file_name]
