"""The sender agent: commands, the order of publications, when sockets are polled, and resolving names again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from everlog.aeron.transport.driver.sender.sender import Sender, SenderDependencies, SenderProxy, SenderSettings
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.driver.system_counters import CycleTime, SystemCounter, SystemCounters
from everlog.kernel.udp import Datagrams
from tests.aeron.transport.driver.sender.sending import MS, SECOND, START, Conductor, private_counters


class FakeEndpoint:
    """Counts its calls."""

    def __init__(self) -> None:
        self.socket = object()
        self.polls: list[int] = []
        self.resolutions: list[int] = []
        self.told: list[tuple[Any, ...]] = []
        self.publications: list[object] = []
        self.error: Exception | None = None
        self.hears = 0
        self.on_poll: Callable[[], None] | None = None

    def poll(self, batch: Datagrams, now_ns: int) -> int:
        if self.error is not None:
            raise self.error
        self.polls.append(now_ns)
        if self.on_poll is not None:
            self.on_poll()
        return self.hears

    def check_for_re_resolution(self, now_ns: int) -> None:
        self.resolutions.append(now_ns)

    def register(self, publication: object) -> None:
        self.publications.append(publication)

    def unregister(self, publication: object) -> None:
        self.publications.remove(publication)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self.told.append((name, *arguments))


class FakePublication:
    """Sends a given number of bytes in each cycle."""

    def __init__(self, endpoint: FakeEndpoint, sends: int = 0, turns: list[str] | None = None, name: str = "") -> None:
        self.channel_endpoint = endpoint
        self.sender = self
        self.sends = sends
        self.turns = [] if turns is None else turns
        self.name = name
        self.is_released = False
        self.error: Exception | None = None

    def send(self, now_ns: int) -> int:
        self.turns.append(self.name)
        if self.error is not None:
            raise self.error
        return self.sends

    def release(self) -> None:
        self.is_released = True


class FakeSelector:
    def __init__(self) -> None:
        self.items: dict[int, Any] = {}

    def add(self, sock: object, item: Any) -> None:
        self.items[id(sock)] = item

    def remove(self, sock: object) -> None:
        del self.items[id(sock)]

    def ready(self) -> Sequence[Any]:
        return list(self.items.values())


class World:
    """A sender and its dependencies."""

    def __init__(self, **settings: int) -> None:
        self.system = SystemCounters(private_counters(), Configuration(), 0)
        self.selector, self.conductor = FakeSelector(), Conductor()
        self.errors: list[tuple[object, int | None]] = []
        cycle_time = CycleTime(
            self.system[SystemCounter.SENDER_MAX_CYCLE_TIME],
            self.system[SystemCounter.SENDER_CYCLE_TIME_THRESHOLD_EXCEEDED],
            SECOND,
        )
        seams: Any = SenderDependencies(self.selector, self.conductor, self, cycle_time)
        self.sender = Sender(SenderSettings(**settings), seams, self.system, START)
        self.proxy: Any = SenderProxy(self.sender)
        self.now = START

    def record(self, error: BaseException | str, now_ms: int | None = None) -> None:
        self.errors.append((error, now_ms))

    def work(self, after: int = 1) -> int:
        self.now += after
        return self.sender.do_work(self.now, self.now // MS)


def test_publications_have_their_turns_and_another_begins_each_cycle() -> None:
    world, endpoint, turns = World(), FakeEndpoint(), list[str]()
    for name in "abc":
        world.proxy.new_network_publication(FakePublication(endpoint, 10, turns, name))
    for _ in range(3):
        world.work()
    turns.clear()
    for _ in range(4):
        assert world.work() == 30
    assert "".join(turns) == "abc" + "bca" + "cab" + "abc"
    assert world.system[SystemCounter.BYTES_SENT].get() == 10 + 20 + 30 + 4 * 30


def test_receivers_are_listened_to_when_nothing_is_sent_or_after_some_cycles() -> None:
    world, endpoint = World(), FakeEndpoint()
    publication = FakePublication(endpoint)
    world.proxy.register_send_channel_endpoint(endpoint)
    world.proxy.new_network_publication(publication)
    world.work()
    world.work()
    endpoint.polls.clear()
    world.work()
    world.work()
    assert len(endpoint.polls) == 2
    publication.sends = 100
    for _ in range(12):
        world.work()
    assert len(endpoint.polls) == 4
    world.work(100 * MS)
    assert len(endpoint.polls) == 4
    world.work(2)
    assert len(endpoint.polls) == 5
    # A full socket means that there is time to listen.
    publication.send = lambda now_ns: world.system[SystemCounter.SHORT_SENDS].increment() + 1  # type: ignore[method-assign]
    world.work()
    assert len(endpoint.polls) == 6


def test_room_that_a_receiver_tells_of_is_used_in_the_same_cycle() -> None:
    world, endpoint = World(), FakeEndpoint()
    publication = FakePublication(endpoint)
    world.proxy.register_send_channel_endpoint(endpoint)
    world.proxy.new_network_publication(publication)
    world.work()
    world.work()
    endpoint.hears = 36
    endpoint.on_poll = lambda: setattr(publication, "sends", 1000)
    assert world.work() == 36 + 1000
    assert world.system[SystemCounter.BYTES_SENT].get() == 1000


def test_an_endpoint_that_is_closed_is_not_listened_to_and_the_conductor_told() -> None:
    world, endpoint = World(), FakeEndpoint()
    world.proxy.register_send_channel_endpoint(endpoint)
    world.proxy.close_send_channel_endpoint(endpoint)
    world.work()
    assert len(endpoint.polls) == 1
    world.work()
    assert len(endpoint.polls) == 1
    assert world.conductor.told == [("send_channel_endpoint_closed", endpoint)]
    world.sender.close()


def test_a_publication_that_is_removed_is_let_go() -> None:
    world, endpoint = World(), FakeEndpoint()
    publication = FakePublication(endpoint, 10)
    world.proxy.new_network_publication(publication)
    world.work()
    assert endpoint.publications == [publication]
    world.proxy.remove_network_publication(publication)
    world.work()
    assert endpoint.publications == []
    assert publication.is_released
    turns = len(publication.turns)
    world.work()
    assert len(publication.turns) == turns


def test_destinations_and_names_are_the_endpoints_business() -> None:
    world, endpoint = World(), FakeEndpoint()
    world.proxy.add_destination(endpoint, "uri", "address", 7)
    world.proxy.remove_destination(endpoint, "address")
    world.proxy.remove_destination_by_id(endpoint, 7)
    world.proxy.on_resolution_change(endpoint, "name:1", "other")
    for _ in range(4):
        world.work()
    assert endpoint.told == [
        ("add_destination", "uri", "address", 7, START + 1),
        ("remove_destination", "address"),
        ("remove_destination_by_id", 7),
        ("resolution_change", "name:1", "other"),
    ]
    assert world.system[SystemCounter.RESOLUTION_CHANGES].get() == 1


def test_names_are_looked_at_once_a_second_or_never() -> None:
    for interval, times in ((SECOND, 2), (0, 0)):
        world, endpoint = World(re_resolution_interval_ns=interval), FakeEndpoint()
        world.proxy.register_send_channel_endpoint(endpoint)
        for _ in range(24):
            world.work(100 * MS)
        assert len(endpoint.resolutions) == times


def test_an_error_of_one_is_recorded_and_the_others_go_on() -> None:
    world, endpoint, other = World(), FakeEndpoint(), FakeEndpoint()
    for each in (endpoint, other):
        world.proxy.register_send_channel_endpoint(each)
    broken, fine = FakePublication(endpoint, 10), FakePublication(endpoint, 20)
    world.proxy.new_network_publication(broken)
    world.proxy.new_network_publication(fine)
    for _ in range(4):
        world.work()
    broken.error = ValueError("broken")
    endpoint.error = OSError("down")
    world.errors.clear()
    assert world.work() == 20
    assert [str(error) for error, _ in world.errors] == ["broken"]
    other.polls.clear()
    world.work(SECOND)
    assert [str(error) for error, _ in world.errors] == ["broken", "broken", "down"]
    assert len(other.polls) == 1
    world.proxy.add_destination(endpoint, "uri", "address", 7)
    endpoint.add_destination = lambda *arguments: 1 // 0  # type: ignore[assignment]
    world.work()
    assert [error for error, _ in world.errors if isinstance(error, ZeroDivisionError)] != []


def test_a_long_cycle_shows_in_the_counters() -> None:
    world = World()
    world.work(1)
    world.work(3 * SECOND)
    world.work(1)
    assert world.system[SystemCounter.SENDER_MAX_CYCLE_TIME].get() == 3 * SECOND
    assert world.system[SystemCounter.SENDER_CYCLE_TIME_THRESHOLD_EXCEEDED].get() == 1
