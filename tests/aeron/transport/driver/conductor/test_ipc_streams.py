"""IPC publications and subscriptions: creating, linking and ending them. Events are in the order of Java's driver,
with its labels and log metadata."""

from __future__ import annotations

import pytest

from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.format.layouts import LogMetaData
from everlog.aeron.transport.format.log_buffers import NO_END
from everlog.aeron.transport.memory import log_memory
from everlog.aeron.transport.protocol import commands
from tests.aeron.transport.driver.conducted_driver import MS, SECOND, ConductedDriver, all_of, only

TERM, WINDOW = 65_536, 32_768


def claim(log: log_memory.LogMemory, position: int) -> None:
    """Claim as a publisher does, and write one frame over the whole claim."""
    count = position // TERM
    log_memory.set_active_term_count(log.metadata, count)
    log_memory.set_raw_tail(log.metadata, count % 3, log_memory.pack_tail(log.initial_term_id + count, position % TERM))


def metadata(log: log_memory.LogMemory) -> LogMetaData:
    return LogMetaData.unpack_from(log.metadata.read(0, LogMetaData.size))


def test_a_new_client_is_told_of_its_heartbeat_before_its_publication() -> None:
    driver = ConductedDriver()
    events = driver.ask(commands.AddPublication(7, driver.next_id(), 10, "aeron:ipc"))
    heartbeat, ready = events
    assert heartbeat == commands.OnCounterReady(7, 48)
    assert isinstance(ready, commands.OnPublicationReady)
    assert (ready.correlation_id, ready.registration_id, ready.channel_status_id) == (1, 1, -1)
    assert ready.position_limit_counter_id == 47
    labels = {
        f"pub-pos (concurrent): 1 {ready.session_id} 10 aeron:ipc": 0,
        f"pub-lmt: 1 {ready.session_id} 10 aeron:ipc": 0,
        "client-heartbeat: id=7": driver.now_ms,
    }
    assert driver.labels() == labels
    by_id = driver.counters()
    assert [(by_id[i].type_id, by_id[i].registration_id, by_id[i].owner_id) for i in (46, 47, 48)] == [
        (12, 1, 7),
        (1, 1, 7),
        (11, 7, 7),
    ]


def test_the_logs_metadata_say_what_the_channel_asked_for() -> None:
    driver = ConductedDriver()
    position = "init-term-id=100|term-id=103|term-offset=8192"
    timeouts = "linger=3s|untethered-window-limit-timeout=1s|untethered-resting-timeout=2ms"
    channel = f"aeron:ipc?session-id=777|{position}|{timeouts}|eos=false|sparse=false|max-resend=5|ssc=true|tags=1,2"
    ready = driver.add_publication(channel, 4, is_exclusive=True)
    found = metadata(driver.log(ready))
    assert isinstance(ready, commands.OnExclusivePublicationReady)
    assert (found.tail_0, found.tail_1, found.tail_2) == ((103 << 32) + 8192, 101 << 32, 102 << 32)
    assert (found.active_term_count, found.initial_term_id, found.term_length) == (3, 100, TERM)
    assert (found.mtu_length, found.publication_window_length, found.max_resend) == (1408, WINDOW, 5)
    assert (found.linger_timeout_ns, found.untethered_resting_timeout_ns) == (3 * SECOND, 2 * MS)
    assert (found.untethered_window_limit_timeout_ns, found.untethered_linger_timeout_ns) == (SECOND, SECOND)
    assert (found.signal_eos, found.sparse, found.spies_simulate_connection, found.log_type) == (0, 0, 1, 1)
    assert (found.entity_tag, found.response_correlation_id, found.is_connected) == (2, -1, 0)
    assert found.end_of_stream_position == NO_END
    start = 3 * TERM + 8192
    labels = driver.labels()
    assert labels[f"pub-pos (exclusive): 1 777 4 {channel}"] == start
    assert labels[f"pub-lmt: 1 777 4 {channel}"] == start


def test_a_subscription_gets_images_of_what_is_there_and_of_what_comes() -> None:
    driver = ConductedDriver()
    first = driver.add_publication()
    registration_id, events = driver.add_subscription()
    assert [type(event).__name__ for event in events] == ["OnCounterReady", "OnSubscriptionReady", "OnAvailableImage"]
    image = only(events, commands.OnAvailableImage)
    assert image == commands.OnAvailableImage(
        first.registration_id,
        first.session_id,
        10,
        registration_id,
        image.subscriber_position_id,
        first.log_file_name,
        "aeron:ipc",
    )
    counter = driver.counters()[image.subscriber_position_id]
    assert counter.label == f"sub-pos: {registration_id} {first.session_id} 10 aeron:ipc @0"
    assert (counter.type_id, counter.owner_id, counter.reference_id) == (4, 2, first.registration_id)
    assert metadata(driver.log(first)).is_connected == 1
    second = driver.ask(commands.AddExclusivePublication(1, driver.next_id(), 10, "aeron:ipc"))
    assert [type(event).__name__ for event in second] == ["OnExclusivePublicationReady", "OnAvailableImage"]
    other = driver.ask(commands.AddExclusivePublication(1, driver.next_id(), 11, "aeron:ipc"))
    assert all_of(other, commands.OnAvailableImage) == []


def test_a_subscription_of_one_session_gets_only_that() -> None:
    driver = ConductedDriver()
    driver.add_publication("aeron:ipc?session-id=5", is_exclusive=True)
    driver.add_publication("aeron:ipc?session-id=6", is_exclusive=True)
    _, events = driver.add_subscription("aeron:ipc?session-id=6")
    assert only(events, commands.OnAvailableImage).session_id == 6


def test_concurrent_publications_of_a_stream_are_one_until_the_last_is_removed() -> None:
    driver = ConductedDriver()
    first, second = driver.add_publication(client_id=1), driver.add_publication(client_id=3)
    assert (second.registration_id, second.session_id) == (first.registration_id, first.session_id)
    assert second.log_file_name == first.log_file_name
    for ready in (first, second):
        assert len(driver.logs.logs) == 1
        events = driver.ask(commands.RemovePublication(1, driver.next_id(), ready.correlation_id))
        assert len(all_of(events, commands.OnOperationSuccess)) == 1
        driver.keep_alive(1, 3)
        driver.advance(3 * SECOND)
    assert driver.logs.logs == {}


def test_a_publication_lives_on_until_subscribers_have_read_it() -> None:
    driver = ConductedDriver()
    driver.alive = 1, 2, 5
    ready = driver.add_publication()
    registration_id, events = driver.add_subscription()
    image = only(events, commands.OnAvailableImage)
    log = driver.log(ready)
    claim(log, 4096)
    driver.ask(commands.RemovePublication(1, driver.next_id(), ready.correlation_id))
    assert metadata(log).end_of_stream_position == 4096
    driver.advance(5 * SECOND)
    assert driver.events() == []
    _, late = driver.add_subscription(client_id=5)
    assert len(all_of(late, commands.OnAvailableImage)) == 1
    for position in (image, only(late, commands.OnAvailableImage)):
        driver.set_counter(position.subscriber_position_id, 4096)
    driver.advance(3 * SECOND)
    gone = all_of(driver.events(), commands.OnUnavailableImage)
    assert commands.OnUnavailableImage(ready.registration_id, registration_id, 10, "aeron:ipc") in gone
    assert len(gone) == 2
    assert driver.logs.logs == {}
    assert [label for label in driver.labels() if label.startswith(("pub", "sub"))] == []


def test_the_limit_follows_a_subscriber() -> None:
    driver = ConductedDriver()
    ready = driver.add_publication()
    _, events = driver.add_subscription()
    driver.work()
    limit = ready.position_limit_counter_id
    assert driver.counters()[limit].value == WINDOW
    claim(driver.log(ready), 8192)
    driver.set_counter(only(events, commands.OnAvailableImage).subscriber_position_id, 8192)
    driver.work()
    assert driver.counters()[limit].value == 8192 + WINDOW
    assert driver.counters()[limit - 1].value == 8192


def test_a_removed_subscription_is_waited_for_no_more() -> None:
    driver = ConductedDriver()
    ready = driver.add_publication()
    registration_id, events = driver.add_subscription()
    driver.set_counter(only(events, commands.OnAvailableImage).subscriber_position_id, 640)
    driver.work()
    removed = driver.ask(commands.RemoveSubscription(2, driver.next_id(), registration_id))
    assert [type(event) for event in removed] == [commands.OnOperationSuccess]
    assert metadata(driver.log(ready)).is_connected == 0
    assert driver.counters()[ready.position_limit_counter_id].value == 640
    assert [label for label in driver.labels() if label.startswith("sub-pos")] == []


def test_a_revoked_publication_ends_at_once() -> None:
    driver = ConductedDriver()
    ready = driver.add_publication()
    registration_id, _ = driver.add_subscription()
    log = driver.log(ready)
    claim(log, 4096)
    driver.ask(commands.RemovePublication(1, driver.next_id(), ready.correlation_id, revoke=True))
    driver.advance(1100 * MS)
    events = driver.events()
    assert events == [commands.OnUnavailableImage(ready.registration_id, registration_id, 10, "aeron:ipc")]
    found = metadata(log)
    assert (found.is_publication_revoked, found.end_of_stream_position, found.is_connected) == (1, 4096, 0)
    assert driver.system(SystemCounter.PUBLICATIONS_REVOKED) == 1
    driver.advance(2 * SECOND)
    assert driver.logs.logs == {}


def test_a_client_that_falls_silent_loses_all_that_it_has() -> None:
    driver = ConductedDriver()
    ready = driver.add_publication(client_id=1)
    registration_id, _ = driver.add_subscription(client_id=1)
    counter = only(driver.ask(commands.AddCounter(1, driver.next_id(), 1001, b"key", "mine")), commands.OnCounterReady)
    driver.add_subscription(client_id=2)
    for _ in range(9):
        driver.advance(SECOND)
        driver.keep_alive(2)
    assert driver.events() == []
    driver.advance(2 * SECOND)
    driver.keep_alive(2)
    events = driver.events()
    assert events[0] == commands.OnClientTimeout(1)
    gone = [event.correlation_id for event in all_of(events, commands.OnUnavailableCounter)]
    assert gone == [1, counter.correlation_id]
    assert driver.system(SystemCounter.CLIENT_TIMEOUTS) == 1
    driver.advance(4 * SECOND)
    images = all_of(driver.events() + events, commands.OnUnavailableImage)
    assert [image.subscription_registration_id == registration_id for image in images] == [False]
    assert images[0].correlation_id == ready.registration_id
    assert list(driver.labels()) == ["client-heartbeat: id=2"]
    assert driver.logs.logs == {}


def test_a_client_that_closes_goes_at_the_next_look_and_is_no_timeout() -> None:
    driver = ConductedDriver()
    driver.add_publication(client_id=1)
    assert driver.ask(commands.ClientClose(1, 0)) == []
    driver.advance(1100 * MS)
    assert [type(event) for event in driver.events()] == [commands.OnUnavailableCounter]
    assert driver.system(SystemCounter.CLIENT_TIMEOUTS) == 0
    driver.advance(3 * SECOND)
    assert driver.labels() == {}


def test_a_publisher_that_died_within_a_claim_is_helped_on() -> None:
    driver = ConductedDriver(publication_unblock_timeout_ns=15 * SECOND)
    driver.alive = 1, 2, 5
    ready = driver.add_publication()
    driver.add_subscription()
    log = driver.log(ready)
    log_memory.set_raw_tail(log.metadata, 0, log_memory.pack_tail(log.initial_term_id, 128))
    log.terms[0].put_i32(0, -128)
    driver.advance(14 * SECOND)
    assert log.terms[0].get_i32(0) == -128
    driver.advance(4 * SECOND)
    assert driver.system(SystemCounter.UNBLOCKED_PUBLICATIONS) == 1
    assert log.terms[0].get_i32(0) == 128


def test_an_exclusive_publication_is_not_helped_on() -> None:
    driver = ConductedDriver()
    driver.alive = 1, 2, 5
    ready = driver.add_publication(is_exclusive=True)
    driver.add_subscription()
    log = driver.log(ready)
    log_memory.set_raw_tail(log.metadata, 0, log_memory.pack_tail(log.initial_term_id, 128))
    log.terms[0].put_i32(0, -128)
    driver.advance(40 * SECOND)
    assert driver.system(SystemCounter.UNBLOCKED_PUBLICATIONS) == 0


def untethered(rejoin: bool) -> tuple[ConductedDriver, commands.OnAvailableImage, commands.OnAvailableImage]:
    """A publication with two subscribers: one reads, the other is untethered and does not."""
    driver = ConductedDriver()
    driver.alive = 1, 2, 5
    ready = driver.add_publication("aeron:ipc?untethered-window-limit-timeout=2s|untethered-resting-timeout=3s")
    _, events = driver.add_subscription()
    _, slow = driver.add_subscription(f"aeron:ipc?tether=false|rejoin={'true' if rejoin else 'false'}", client_id=5)
    fast_image = only(events, commands.OnAvailableImage)
    claim(driver.log(ready), WINDOW)
    driver.set_counter(fast_image.subscriber_position_id, WINDOW)
    driver.work()
    return driver, fast_image, only(slow, commands.OnAvailableImage)


def test_a_subscriber_that_is_not_tethered_is_left_behind_and_comes_back() -> None:
    driver, fast, slow = untethered(rejoin=True)
    assert driver.labels()[next(label for label in driver.labels() if label.startswith("pub-lmt"))] == WINDOW
    driver.advance(3100 * MS)
    assert only(driver.events(), commands.OnUnavailableImage).subscription_registration_id == (
        slow.subscription_registration_id
    )
    driver.advance(3100 * MS)
    assert driver.labels()[next(label for label in driver.labels() if label.startswith("pub-lmt"))] == 2 * WINDOW
    driver.set_counter(fast.subscriber_position_id, WINDOW + 320)
    driver.advance(4100 * MS)
    again = only(driver.events(), commands.OnAvailableImage)
    assert again == slow
    assert driver.counters()[slow.subscriber_position_id].value == WINDOW + 320


def test_a_subscriber_that_does_not_rejoin_stays_away() -> None:
    driver, _, slow = untethered(rejoin=False)
    driver.advance(20 * SECOND)
    assert [type(event) for event in driver.events()] == [commands.OnUnavailableImage]
    assert slow.subscriber_position_id not in driver.counters()


def test_a_rejected_image_is_gone_for_all_until_it_has_cooled_down() -> None:
    driver = ConductedDriver()
    driver.alive = 1, 2, 5
    ready = driver.add_publication()
    registration_id, _ = driver.add_subscription()
    correlation_id = driver.next_id()
    events = driver.ask(commands.RejectImage(2, correlation_id, ready.registration_id, 0, "no use"))
    assert events == [
        commands.OnPublicationError(
            ready.registration_id, -1, ready.session_id, 10, -1, -1, ("127.0.0.1", 0), 13, "no use"
        ),
        commands.OnUnavailableImage(ready.registration_id, registration_id, 10, "aeron:ipc"),
        commands.OnOperationSuccess(correlation_id),
    ]
    assert driver.system(SystemCounter.IMAGES_REJECTED) == 1
    assert metadata(driver.log(ready)).is_connected == 0
    driver.advance(9 * SECOND)
    assert driver.events() == []
    driver.advance(3 * SECOND)
    image = only(driver.events(), commands.OnAvailableImage)
    assert image.subscription_registration_id == registration_id


def test_static_counters_are_found_again_and_outlive_their_client() -> None:
    driver = ConductedDriver()
    first = driver.ask(commands.AddStaticCounter(1, driver.next_id(), 42, 1001, b"key", "static"))
    again = driver.ask(commands.AddStaticCounter(2, driver.next_id(), 42, 1001, b"key", "static"))
    counter_id = only(first, commands.OnStaticCounter).counter_id
    assert only(again, commands.OnStaticCounter).counter_id == counter_id
    other = driver.ask(commands.AddStaticCounter(2, driver.next_id(), 43, 1001, b"key", "static"))
    assert only(other, commands.OnStaticCounter).counter_id != counter_id
    driver.advance(12 * SECOND)
    assert [counter.label for counter in driver.counters().values()][46:] == ["static", "static"]
    assert driver.counters()[counter_id].owner_id == -1


def test_a_counter_of_a_clients_is_no_static_one() -> None:
    driver = ConductedDriver()
    mine = all_of(driver.ask(commands.AddCounter(1, 42, 1001, b"key", "mine")), commands.OnCounterReady)[-1]
    error = driver.error(commands.AddStaticCounter(1, 77, 42, 1001, b"key", "mine"))
    assert error == commands.OnError(
        77,
        11,
        f"cannot add static counter, because a non-static counter exists (counterId={mine.counter_id}) for"
        " typeId=1001 and registrationId=42",
    )


def test_a_removed_counter_is_told_to_all() -> None:
    driver = ConductedDriver()
    mine = all_of(driver.ask(commands.AddCounter(1, 42, 1001, b"key", "mine")), commands.OnCounterReady)[-1]
    events = driver.ask(commands.RemoveCounter(1, 77, 42))
    assert events == [commands.OnOperationSuccess(77), commands.OnUnavailableCounter(42, mine.counter_id)]
    assert "mine" not in driver.labels()


def test_counters_that_are_out_are_an_error_of_the_command() -> None:
    driver = ConductedDriver()
    refused: list[commands.OnError] = []
    while not refused:
        refused = all_of(driver.ask(commands.AddCounter(1, driver.next_id(), 1, b"", "x")), commands.OnError)
    assert refused[0].error_code == 11
    publication = driver.error(commands.AddPublication(1, driver.next_id(), 10, "aeron:ipc"))
    assert publication.error_code == 11
    driver.work(2)
    assert driver.logs.logs == {}


def test_a_response_finds_its_subscription() -> None:
    driver = ConductedDriver()
    waiting, _ = driver.add_subscription("aeron:ipc?control-mode=response", 20, client_id=1)
    request = driver.add_publication(f"aeron:ipc?response-correlation-id={waiting}", 10, client_id=1)
    assert driver.events() == []
    driver.add_subscription(stream_id=10, client_id=2)
    answer = driver.ask(
        commands.AddPublication(
            2,
            driver.next_id(),
            20,
            f"aeron:ipc?control-mode=response|response-correlation-id={request.registration_id}",
        )
    )
    image = only(answer, commands.OnAvailableImage)
    assert image.subscription_registration_id == waiting


@pytest.mark.parametrize("channel", ["aeron:ipc?alias=" + "a" * 600])
def test_a_long_channel_is_cut_in_keys_and_labels(channel: str) -> None:
    driver = ConductedDriver()
    driver.add_publication(channel)
    limit = next(counter for counter in driver.counters().values() if counter.label.startswith("pub-lmt"))
    assert len(limit.label) == 380
    assert limit.key_fields["channel"] == channel[:92]
