"""What a client says to its driver, and makes of what it hears: every command, every event, and silence."""

from __future__ import annotations

import pytest

from everlog.aeron.transport.client.errors import (
    ChannelEndpointFailed,
    ClientTimeout,
    Closed,
    DriverTimeout,
    RegistrationRefused,
)
from everlog.aeron.transport.client.image import Image
from everlog.aeron.transport.client.publication import ExclusivePublication, Publication
from everlog.aeron.transport.protocol.commands import (
    AddCounter,
    AddDestination,
    AddExclusivePublication,
    AddPublication,
    AddRcvDestination,
    AddStaticCounter,
    AddSubscription,
    ClientClose,
    ErrorCode,
    GetNextAvailableSessionId,
    OnClientTimeout,
    OnCounterReady,
    OnError,
    OnNextAvailableSessionId,
    OnOperationSuccess,
    OnPublicationError,
    OnPublicationReady,
    OnStaticCounter,
    OnSubscriptionReady,
    OnUnavailableCounter,
    OnUnavailableImage,
    RejectImage,
    RemoveCounter,
    RemoveDestination,
    RemoveDestinationById,
    RemovePublication,
    RemoveRcvDestination,
    RemoveSubscription,
    TerminateDriver,
)
from everlog.errors import CorruptData, DataLost, LimitExceeded, StoreUnavailable, UsageError
from tests.aeron.transport.client.scripted_driver import SESSION_ID, ScriptedDriver


@pytest.fixture
def driver() -> ScriptedDriver:
    return ScriptedDriver()


def test_a_publication_is_asked_for_and_has_what_the_driver_granted(driver: ScriptedDriver) -> None:
    driver.grant_all()
    aeron = driver.client()
    publication = aeron.add_publication("aeron:ipc", 10)
    (asked,) = driver.said
    # The driver's counter gives 0 to the client and 1 to its first command.
    assert asked == AddPublication(0, 1, 10, "aeron:ipc")
    assert isinstance(publication, Publication)
    assert (publication.registration_id, publication.original_registration_id, publication.is_original) == (1, 1, True)
    assert (publication.session_id, publication.stream_id, publication.channel) == (SESSION_ID, 10, "aeron:ipc")
    assert publication.channel_status == 1
    assert publication.offer(b"x" * 10) == 64


def test_an_exclusive_publication_is_asked_for_by_its_own_command(driver: ScriptedDriver) -> None:
    driver.grant_all()
    publication = driver.client().add_exclusive_publication("aeron:ipc", 10)
    assert driver.said == [AddExclusivePublication(0, 1, 10, "aeron:ipc")]
    assert isinstance(publication, ExclusivePublication)
    assert publication.offer(b"") == 32


def test_two_publications_of_one_registration_share_its_log(driver: ScriptedDriver) -> None:
    aeron = driver.client()
    driver.grant_all()
    first = aeron.add_publication("aeron:ipc", 10)
    limit = driver.add_counter(1, value=65536)
    same = OnPublicationReady(2, 1, SESSION_ID, 10, limit.id, -1, "log-1")
    driver.answers[AddPublication] = lambda command: driver.tell(same)
    second = aeron.add_publication("aeron:ipc", 10)
    assert not second.is_original
    first.offer(b"a")
    assert second.position == 64
    assert second.log is first.log


def test_a_closed_publication_is_removed_once_and_takes_nothing_more(driver: ScriptedDriver) -> None:
    driver.grant_all()
    aeron = driver.client()
    publication = aeron.add_publication("aeron:ipc", 10)
    publication.close()
    publication.close()
    assert driver.heard() == [RemovePublication(0, 2, 1)]
    assert publication.offer(b"x") == -4
    assert publication.is_closed
    assert publication.channel_status == -1
    with pytest.raises(Closed):
        publication.send(b"x")


def test_a_revoked_publication_says_so(driver: ScriptedDriver) -> None:
    driver.grant_all()
    with driver.client() as aeron:
        aeron.add_exclusive_publication("aeron:ipc", 10).revoke()
        assert driver.heard() == [RemovePublication(0, 2, 1, True)]
        other = aeron.add_publication("aeron:ipc", 11)
        other.revoke_on_close = True
        other.close()
        assert driver.heard() == [RemovePublication(0, 4, 3, True)]


def test_a_refused_command_raises_with_code_and_words(driver: ScriptedDriver) -> None:
    refusal = OnError(1, ErrorCode.INVALID_CHANNEL, "ERROR - no such thing")
    driver.answers[AddPublication] = lambda command: driver.tell(refusal)
    aeron = driver.client()
    with pytest.raises(RegistrationRefused, match=r"aeron:ipc\?x=1, stream 10: INVALID_CHANNEL: ERROR") as caught:
        aeron.add_publication("aeron:ipc?x=1", 10)
    assert caught.value.error_code == 1
    assert not aeron.is_closed


def test_a_code_of_a_later_release_is_kept(driver: ScriptedDriver) -> None:
    driver.answers[AddPublication] = lambda command: driver.tell(OnError(1, 99, "new"))
    with pytest.raises(RegistrationRefused, match="error 99: new") as caught:
        driver.client().add_publication("aeron:ipc", 10)
    assert caught.value.error_code == 99


def test_a_driver_that_lives_and_does_not_answer_is_given_up_and_told(driver: ScriptedDriver) -> None:
    aeron = driver.client(driver_timeout_ms=500)
    with pytest.raises(DriverTimeout, match=r"add-publication aeron:ipc, stream 10: no answer .* within 0\.5 s"):
        aeron.add_publication("aeron:ipc", 10)
    driver.heard()
    assert driver.said == [AddPublication(0, 1, 10, "aeron:ipc"), RemovePublication(0, 2, 1)]
    # Its answer comes at last: nobody has it, and nothing breaks.
    driver.grant_publication(AddPublication(0, 1, 10, "aeron:ipc"))
    aeron.do_work()
    driver.grant_all()
    assert aeron.add_publication("aeron:ipc", 10).registration_id == 3


def test_a_cancelled_subscription_is_removed_and_gets_no_images(driver: ScriptedDriver) -> None:
    seen: list[Image] = []
    aeron = driver.client(on_available_image=seen.append)
    registration = aeron.async_add_subscription("aeron:ipc", 10)
    registration.cancel()
    assert registration.done
    assert driver.heard()[1:] == [RemoveSubscription(0, 2, 1)]
    driver.add_log("log", 10)
    driver.tell(OnSubscriptionReady(1, -1))
    driver.show_image(1, 50, "log")
    aeron.do_work()
    assert seen == []
    with pytest.raises(Closed, match="cancelled"):
        registration.result()


def test_commands_that_do_not_wait_are_done_when_the_answer_is_there(driver: ScriptedDriver) -> None:
    aeron = driver.client()
    registration = aeron.async_add_exclusive_publication("aeron:ipc", 10)
    aeron.do_work()
    assert not registration.done
    assert repr(registration) == "<Registration 1 add-exclusive-publication aeron:ipc, stream 10: waiting>"
    driver.grant_all()
    driver.work()
    aeron.do_work()
    assert registration.done
    assert registration.result() is registration.result()


def test_a_log_that_is_not_there_fails_the_publication_and_gives_it_back(driver: ScriptedDriver) -> None:
    limit = driver.add_counter(1)
    granted = OnPublicationReady(1, 1, SESSION_ID, 10, limit.id, -1, "gone")
    driver.answers[AddPublication] = lambda command: driver.tell(granted)
    aeron = driver.client()
    with pytest.raises(StoreUnavailable, match="gone"):
        aeron.add_publication("aeron:ipc", 10)
    assert driver.heard() == [RemovePublication(0, 2, 1)]


@pytest.mark.parametrize("counter_id", [-1, 64, 1 << 30])
def test_a_counter_that_the_driver_can_not_have_fails_the_publication(driver: ScriptedDriver, counter_id: int) -> None:
    driver.add_log("log", 10)
    granted = OnPublicationReady(1, 1, SESSION_ID, 10, counter_id, -1, "log")
    driver.answers[AddPublication] = lambda command: driver.tell(granted)
    with pytest.raises(CorruptData, match=f"counter {counter_id}"):
        driver.client().add_publication("aeron:ipc", 10)


def test_images_come_and_go_with_their_handlers(driver: ScriptedDriver) -> None:
    driver.grant_all()
    aeron = driver.client()
    events: list[tuple[str, int]] = []
    subscription = aeron.add_subscription(
        "aeron:ipc",
        10,
        lambda image: events.append(("available", image.correlation_id)),
        lambda image: events.append(("unavailable", image.correlation_id)),
    )
    assert driver.said == [AddSubscription(0, 1, -1, 10, "aeron:ipc")]
    driver.add_log("log", 10)
    driver.show_image(1, 50, "log")
    driver.show_image(99, 51, "log")  # another client's
    aeron.do_work()
    (image,) = subscription.images
    assert (image.session_id, image.correlation_id, image.source_identity) == (SESSION_ID, 50, "127.0.0.1:9")
    assert subscription.image_by_session_id(SESSION_ID) is image
    assert image.subscription is subscription
    driver.tell(OnUnavailableImage(50, 99, 10, "aeron:ipc"))
    aeron.do_work()
    assert subscription.is_connected
    driver.tell(OnUnavailableImage(50, 1, 10, "aeron:ipc"))
    driver.tell(OnUnavailableImage(50, 1, 10, "aeron:ipc"))
    aeron.do_work()
    assert subscription.images == ()
    assert image.is_closed
    assert image.poll(lambda payload, header: None) == 0
    assert events == [("available", 50), ("unavailable", 50)]


def test_a_closed_subscription_ends_its_images(driver: ScriptedDriver) -> None:
    driver.grant_all()
    gone: list[int] = []
    aeron = driver.client(on_unavailable_image=lambda image: gone.append(image.correlation_id))
    driver.add_log("log", 10)
    with aeron.add_subscription("aeron:ipc", 10) as subscription:
        driver.show_image(1, 50, "log")
        aeron.do_work()
    assert gone == [50]
    assert driver.heard() == [RemoveSubscription(0, 2, 1)]
    assert subscription.poll(lambda payload, header: None) == 0
    with pytest.raises(Closed):
        subscription.add_destination("aeron:udp?endpoint=localhost:1")


def test_an_image_whose_log_is_not_there_is_an_error_and_no_image(driver: ScriptedDriver) -> None:
    driver.grant_all()
    errors: list[BaseException] = []
    aeron = driver.client(on_error=errors.append)
    subscription = aeron.add_subscription("aeron:ipc", 10)
    driver.add_log("log", 10)
    driver.show_image(1, 50, "log")
    del driver.logs["log"]
    aeron.do_work()
    assert subscription.images == ()
    assert [type(error) for error in errors] == [StoreUnavailable]
    driver.tell(OnUnavailableImage(50, subscription.registration_id, 10, "aeron:ipc"))
    driver.add_log("next", 10)
    driver.show_image(1, 51, "next")
    aeron.do_work()
    assert [image.correlation_id for image in subscription.images] == [51]
    assert len(errors) == 1


def test_handlers_may_ask_but_not_wait_and_may_fail(driver: ScriptedDriver) -> None:
    driver.grant_all()
    errors: list[BaseException] = []
    aeron = driver.client(on_error=errors.append)
    asked = []

    def on_image(image: Image) -> None:
        asked.append(aeron.async_add_publication("aeron:ipc", 11))
        aeron.add_publication("aeron:ipc", 12)

    subscription = aeron.add_subscription("aeron:ipc", 10, on_image)
    driver.add_log("log", 10)
    driver.show_image(1, 50, "log")
    aeron.do_work()
    assert subscription.is_connected
    assert [type(error) for error in errors] == [UsageError]
    assert "a handler must not wait for the driver" in str(errors[0])
    assert asked[0].result().stream_id == 11


def test_destinations_are_of_the_first_registration(driver: ScriptedDriver) -> None:
    driver.grant_all()
    for kind in (AddDestination, RemoveDestination, AddRcvDestination, RemoveRcvDestination, RemoveDestinationById):
        driver.answers[kind] = lambda command: driver.tell(OnOperationSuccess(command.correlation_id))
    aeron = driver.client()
    publication = aeron.add_publication("aeron:udp?control-mode=manual", 10)
    subscription = aeron.add_subscription("aeron:udp?control-mode=manual", 10)
    where = "aeron:udp?endpoint=localhost:1"
    destination = publication.add_destination(where)
    publication.remove_destination(destination)
    publication.remove_destination(where)
    subscription.add_destination(where)
    subscription.remove_destination(where)
    assert driver.said[2:] == [
        AddDestination(0, 3, 1, where),
        RemoveDestinationById(0, 4, 1, 3),
        RemoveDestination(0, 5, 1, where),
        AddRcvDestination(0, 6, 2, where),
        RemoveRcvDestination(0, 7, 2, where),
    ]


def test_counters_are_added_written_and_removed(driver: ScriptedDriver) -> None:
    made = driver.add_counter(1001, b"key", "mine", 5)
    driver.answers[AddCounter] = lambda command: driver.tell(OnCounterReady(command.correlation_id, made.id))
    aeron = driver.client()
    with aeron.add_counter(1001, "mine", b"key") as counter:
        assert driver.said == [AddCounter(0, 1, 1001, b"key", "mine")]
        assert (counter.counter_id, counter.value, counter.registration_id) == (made.id, 5, 1)
        counter.value = 8
        assert counter.add(3) == 8
        assert not counter.compare_and_set(8, 1)
        assert counter.compare_and_set(11, 12)
        assert made.get() == 12
    assert driver.heard() == [RemoveCounter(0, 2, 1)]
    with pytest.raises(UsageError, match="closed"):
        counter.add()
    with pytest.raises(UsageError, match="counter label must be at most 380 characters"):
        aeron.add_counter(1001, "x" * 381)
    with pytest.raises(UsageError, match="counter key must be at most 112 bytes"):
        aeron.add_counter(1001, "x", bytes(113))


def test_a_static_counter_stays(driver: ScriptedDriver) -> None:
    made = driver.add_counter(1001, b"", "everybody's")
    driver.counters.set_registration_id(made.id, 77)
    driver.answers[AddStaticCounter] = lambda command: driver.tell(OnStaticCounter(command.correlation_id, made.id))
    seen: list[int] = []
    aeron = driver.client(on_available_counter=lambda registration_id, counter_id: seen.append(counter_id))
    with aeron.add_static_counter(1001, "everybody's", 77) as counter:
        assert driver.said == [AddStaticCounter(0, 1, 77, 1001, b"", "everybody's")]
        assert counter.registration_id == 77
    assert driver.heard() == []
    assert seen == []


def test_counter_handlers_hear_of_all_clients_counters(driver: ScriptedDriver) -> None:
    seen: list[tuple[str, int, int]] = []
    aeron = driver.client(on_available_counter=lambda *ids: seen.append(("new", *ids)))
    added = aeron.add_unavailable_counter_handler(lambda *ids: seen.append(("gone", *ids)))
    driver.tell(OnCounterReady(40, 3))
    driver.tell(OnUnavailableCounter(40, 3))
    aeron.do_work()
    assert seen == [("new", 40, 3), ("gone", 40, 3)]
    assert aeron.remove_handler(added)
    assert not aeron.remove_handler(added)
    driver.tell(OnUnavailableCounter(41, 4))
    aeron.do_work()
    assert len(seen) == 2


def test_the_drivers_counters_are_read_by_id_type_and_registration(driver: ScriptedDriver) -> None:
    driver.add_counter(0, b"\1\0\0\0", "Bytes sent", 9)
    driver.counters.free(driver.add_counter(1002, b"", "freed").id, driver.now_ms)
    second = driver.add_counter(1001, b"", "second", 4)
    driver.counters.set_registration_id(second.id, 6)
    counters = driver.client().counters
    assert [(counter.label, counter.value) for counter in counters] == [("Bytes sent", 9), ("second", 4)]
    found = counters.find(1001, 6)
    assert found is not None
    assert found.counter_id == 2
    assert counters.find(1001, 5) is None
    assert (counters.value(2), counters.state(1), counters.state(60), counters.get(1)) == (4, -1, 0, None)
    with pytest.raises(UsageError, match="0 to 63"):
        counters.value(64)


def test_a_session_id_is_asked_for_where_the_driver_knows_how(driver: ScriptedDriver) -> None:
    driver.answers[GetNextAvailableSessionId] = lambda command: driver.tell(
        OnNextAvailableSessionId(command.correlation_id, -5)
    )
    old = driver.client()
    assert -(1 << 31) <= old.next_session_id(10) < 1 << 31
    assert driver.said == []
    for counter_id in range(44):
        driver.counters.set_registration_id(driver.add_counter(0, b"", "system").id, counter_id)
    driver.counters.counter(43).set_release(1 << 16)
    new = driver.client()
    assert new.next_session_id(10) == -5
    assert driver.said == [GetNextAvailableSessionId(1, 2, 10)]


def test_an_image_is_rejected_from_its_position_on_but_not_by_a_spy(driver: ScriptedDriver) -> None:
    driver.grant_all()
    driver.answers[RejectImage] = lambda command: driver.tell(OnOperationSuccess(command.correlation_id))
    aeron = driver.client()
    driver.add_log("log", 10)
    for channel in ("aeron:udp?endpoint=localhost:1", "aeron-spy:aeron:udp?endpoint=localhost:1"):
        subscription = aeron.add_subscription(channel, 10)
        driver.show_image(subscription.registration_id, 50, "log").set_release(64)
        aeron.do_work()
        (image,) = subscription.images
        if subscription.channel.startswith("aeron-spy"):
            with pytest.raises(UsageError, match="spy"):
                image.reject("no")
        else:
            image.reject("no")
            assert driver.said[-1] == RejectImage(0, 2, 50, 64, "no")


def test_errors_of_publications_and_channels_come_to_handlers(driver: ScriptedDriver) -> None:
    driver.grant_all()
    errors: list[BaseException] = []
    refusals: list[OnPublicationError] = []
    aeron = driver.client(on_error=errors.append, on_publication_error=refusals.append)
    aeron.add_publication("aeron:ipc", 10)
    mine = OnPublicationError(1, -1, 7, 10, 3, -1, ("127.0.0.1", 5), ErrorCode.IMAGE_REJECTED, "no")
    driver.tell(OnPublicationError(2, -1, 7, 10, 3, -1, ("127.0.0.1", 5), ErrorCode.IMAGE_REJECTED, "another's"))
    driver.tell(mine)
    status = driver.add_counter(7, b"", "rcv-channel")
    driver.answers[AddSubscription] = lambda command: driver.tell(OnSubscriptionReady(2, status.id))
    subscription = aeron.add_subscription("aeron:udp?endpoint=localhost:1", 10)
    assert subscription.channel_status == 0
    driver.tell(OnError(status.id, ErrorCode.CHANNEL_ENDPOINT_ERROR, "address in use"))
    aeron.do_work()
    assert refusals == [mine]
    (failed,) = errors
    assert isinstance(failed, ChannelEndpointFailed)
    assert "aeron:udp?endpoint=localhost:1: address in use" in str(failed)


def test_wildcard_ports_are_read_from_the_counters(driver: ScriptedDriver) -> None:
    status = driver.add_counter(7, b"", "rcv-channel")
    driver.answers[AddSubscription] = lambda command: driver.tell(OnSubscriptionReady(1, status.id))
    subscription = driver.client().add_subscription("aeron:udp?endpoint=localhost:0|reliable=false", 10)
    assert subscription.resolved_channel() is None
    status.set_release(1)
    key = status.id.to_bytes(4, "little") + len("127.0.0.1:40123").to_bytes(4, "little") + b"127.0.0.1:40123"
    address = driver.add_counter(14, key, "rcv-local-sockaddr")
    assert subscription.local_socket_addresses == []
    address.set_release(1)
    assert subscription.resolved_endpoint == "127.0.0.1:40123"
    assert subscription.resolved_channel() == "aeron:udp?endpoint=localhost:40123|reliable=false"


def test_the_client_beats_in_its_counter_from_when_there_is_one(driver: ScriptedDriver) -> None:
    aeron = driver.client(client_name="tester")
    aeron.async_add_counter(1001, "x")
    aeron.do_work()
    heartbeat = driver.grant_heartbeat(aeron.client_id)
    driver.pass_ms(20)
    aeron.do_work()
    assert heartbeat.get() == driver.now_ms
    assert driver.counters.label(heartbeat.id).startswith("client-heartbeat: id=0 name=tester version=")
    driver.pass_ms(499)
    aeron.do_work()
    assert heartbeat.get() == driver.now_ms - 499
    driver.pass_ms(1)
    aeron.do_work()
    assert heartbeat.get() == driver.now_ms


def test_the_client_beats_four_times_within_a_short_liveness_timeout() -> None:
    driver = ScriptedDriver(client_liveness_timeout_ns=1_000_000_000)
    aeron = driver.client()
    aeron.async_add_counter(1001, "x")
    aeron.do_work()
    heartbeat = driver.grant_heartbeat(aeron.client_id)
    driver.pass_ms(20)
    aeron.do_work()
    for passed_ms, is_due in ((249, False), (1, True), (249, False), (1, True)):
        driver.pass_ms(passed_ms)
        aeron.do_work()
        assert (heartbeat.get() == driver.now_ms) is is_due


@pytest.mark.parametrize("is_shut_down", [True, False])
def test_a_driver_that_has_gone_ends_the_client_in_time(driver: ScriptedDriver, is_shut_down: bool) -> None:
    driver.grant_all()
    errors: list[BaseException] = []
    ended: list[str] = []
    aeron = driver.client(on_error=errors.append, on_close=lambda: ended.append("closed"))
    aeron.add_close_handler(lambda: ended.append("closed too"))
    publication = aeron.add_publication("aeron:ipc", 10)
    subscription = aeron.add_subscription("aeron:ipc", 10)
    driver.is_alive = False
    if is_shut_down:
        driver.ring.consumer_heartbeat = -1
        driver.pass_ms(500)
    else:
        driver.pass_ms(10_000)
        aeron.do_work()
        assert not aeron.is_closed
        driver.pass_ms(1)
    driver.now_ns += 500_000_000
    aeron.do_work()
    assert aeron.is_closed
    assert isinstance(aeron.failure, DriverTimeout)
    assert errors == [aeron.failure]
    assert ended == ["closed", "closed too"]
    assert publication.offer(b"x") == -4
    what = "the driver was shut down" if is_shut_down else "last heartbeat"
    with pytest.raises(DriverTimeout, match=what):
        publication.send(b"x")
    with pytest.raises(DriverTimeout, match=what):
        subscription.poll(lambda payload, header: None)
    with pytest.raises(DriverTimeout, match=what):
        aeron.add_publication("aeron:ipc", 10)
    depths = []
    for _ in range(3):
        with pytest.raises(DriverTimeout, match=what) as caught:
            _ = aeron.counters
        depths.append(len(caught.traceback))
    assert len(set(depths)) == 1  # No raise makes the next one's traceback longer.
    aeron.close()
    assert isinstance(aeron.failure, DriverTimeout)


def test_a_driver_that_gives_the_client_up_ends_it(driver: ScriptedDriver) -> None:
    driver.grant_all()
    aeron = driver.client(on_error=lambda error: None)
    waiting = aeron.async_add_counter(1001, "x")
    driver.tell(OnClientTimeout(5))
    aeron.do_work()
    assert not aeron.is_closed
    driver.tell(OnClientTimeout(0))
    aeron.do_work()
    assert isinstance(aeron.failure, ClientTimeout)
    with pytest.raises(ClientTimeout):
        waiting.result()


def test_a_heartbeat_counter_that_is_another_clients_now_ends_the_client(driver: ScriptedDriver) -> None:
    aeron = driver.client(on_error=lambda error: None)
    heartbeat = driver.grant_heartbeat(aeron.client_id)
    aeron.async_add_counter(1001, "x")
    aeron.do_work()
    driver.counters.set_key(heartbeat.id, b"\x09" + bytes(7))
    driver.pass_ms(600)
    aeron.do_work()
    assert isinstance(aeron.failure, ClientTimeout)


def test_a_client_that_did_not_work_for_longer_than_the_driver_waits_ends(driver: ScriptedDriver) -> None:
    aeron = driver.client(on_error=lambda error: None)
    aeron.do_work()
    driver.pass_ms(10_001)
    aeron.do_work()
    assert not aeron.is_closed  # The driver has not heard of it yet.
    driver.grant_heartbeat(aeron.client_id)
    aeron.async_add_counter(1001, "x")
    aeron.do_work()
    driver.pass_ms(10_001)
    aeron.do_work()
    assert isinstance(aeron.failure, ClientTimeout)
    with pytest.raises(ClientTimeout, match="no client heartbeat for 10001 ms"):
        aeron.next_correlation_id()


def test_a_client_that_was_overtaken_by_events_ends(driver: ScriptedDriver) -> None:
    aeron = driver.client(on_error=lambda error: None)
    for _ in range(400):
        driver.tell(OnOperationSuccess(1000))
    aeron.do_work()
    assert isinstance(aeron.failure, DataLost)


def test_events_of_later_releases_and_damaged_ones_are_passed_over(driver: ScriptedDriver) -> None:
    driver.grant_all()
    errors: list[BaseException] = []
    aeron = driver.client(on_error=errors.append)
    driver.broadcast.transmit(0x0FFF, b"whatever")
    driver.broadcast.transmit(OnSubscriptionReady.type_id, b"short")
    assert aeron.add_subscription("aeron:ipc", 10).registration_id == 1
    assert [type(error) for error in errors] == [CorruptData]


def test_closing_ends_everything_and_is_told_once(driver: ScriptedDriver) -> None:
    driver.grant_all()
    aeron = driver.client()
    publication = aeron.add_publication("aeron:ipc", 10)
    waiting = aeron.async_add_subscription("aeron:ipc", 10)
    driver.heard()
    aeron.close()
    aeron.close()
    assert driver.heard() == [ClientClose(0, -1)]
    assert publication.is_closed
    with pytest.raises(Closed):
        waiting.result()
    with pytest.raises(Closed):
        aeron.add_publication("aeron:ipc", 10)
    assert aeron.failure is None
    assert aeron.do_work() == 0


def test_a_full_command_buffer_is_an_error_of_those_who_ask_and_no_loss_for_those_who_close() -> None:
    driver = ScriptedDriver(to_driver_length=1024)
    driver.grant_all()
    aeron = driver.client()
    publication = aeron.add_publication("aeron:ipc", 10)
    # Such a record takes 8 + 68 bytes, which makes 80 of the 1024: the thirteenth does not fit.
    for _ in range(12):
        aeron.async_add_counter(1001, "x" * 40)
    with pytest.raises(LimitExceeded, match="command buffer is full"):
        aeron.async_add_counter(1001, "x" * 40)
    publication.close()
    assert RemovePublication not in [type(command) for command in driver.heard()]
    aeron.do_work()
    (removal,) = driver.heard()
    assert isinstance(removal, RemovePublication)


def test_a_command_goes_behind_what_waited_as_soon_as_there_is_room() -> None:
    driver = ScriptedDriver(to_driver_length=1024)
    driver.grant_all()
    aeron = driver.client()
    publications = [aeron.add_publication("aeron:ipc", stream) for stream in range(5)]
    for _ in range(10):
        aeron.async_add_counter(1001, "x" * 40)
    for publication in publications:
        publication.close()
    while driver.heard():
        pass
    aeron.async_add_counter(1001, "y")
    driver.heard()
    kinds = [type(command) for command in driver.said if not (isinstance(command, AddCounter) and command.label != "y")]
    assert kinds == [AddPublication] * 5 + [RemovePublication] * 5 + [AddCounter]


def test_a_driver_is_asked_to_end(driver: ScriptedDriver) -> None:
    driver.client().terminate_driver(b"token")
    assert driver.heard() == [TerminateDriver(0, -1, b"token")]
