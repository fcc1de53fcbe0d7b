"""A media driver whose every word is the test's: it holds the memory that clients share with it, hands out what they
said, and tells them what it is told to tell. Time stands still until the test moves it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from everlog.aeron.frames.constants import MIN_TERM_LENGTH
from everlog.aeron.transport.client.aeron import Aeron
from everlog.aeron.transport.client.conducting.conductor import DriverMemory
from everlog.aeron.transport.client.conducting.runner import Clock
from everlog.aeron.transport.client.options import ClientOptions
from everlog.aeron.transport.memory.broadcast import BroadcastTransmitter
from everlog.aeron.transport.memory.cnc_memory import CncMemory, CncSettings
from everlog.aeron.transport.memory.counters_memory import AtomicCounter, Counters
from everlog.aeron.transport.memory.log_memory import LogMemory, LogParameters
from everlog.aeron.transport.memory.ring_buffer import ManyToOneRingBuffer
from everlog.aeron.transport.protocol.commands import (
    AddExclusivePublication,
    AddPublication,
    AddSubscription,
    ClientClose,
    DriverMessage,
    OnAvailableImage,
    OnExclusivePublicationReady,
    OnPublicationReady,
    OnSubscriptionReady,
    decode_command,
    encode,
)
from everlog.errors import StoreUnavailable

START_MS = 1_700_000_000_000
HEARTBEAT, LIMIT, POSITION = 11, 1, 4
SESSION_ID = 7
NS_PER_MS = 1_000_000


class ScriptedDriver:
    """``answers`` are called by type with each command that a client waits for; what is not in it gets no answer."""

    def __init__(
        self,
        client_liveness_timeout_ns: int = 10_000_000_000,
        to_driver_length: int = 4096,
        folder: Path | None = None,
    ) -> None:
        """In private memory, or in a folder that exists."""
        settings = CncSettings(
            to_driver_buffer_length=to_driver_length + 768,
            to_clients_buffer_length=4096 + 128,
            counters_values_buffer_length=128 * 64,
            error_log_buffer_length=4096,
            client_liveness_timeout_ns=client_liveness_timeout_ns,
        )
        cnc = CncMemory.allocate(settings, START_MS) if folder is None else CncMemory.create(folder, settings, START_MS)
        self.folder = folder
        self.signal_ready = cnc.signal_ready
        self.now_ns = 1_000 * NS_PER_MS
        self.ring = ManyToOneRingBuffer(cnc.to_driver)
        self.broadcast = BroadcastTransmitter(cnc.to_clients)
        self.counters = Counters(cnc.counters_metadata, cnc.counters_values)
        self.memory = DriverMemory(
            cnc.to_driver,
            cnc.to_clients,
            cnc.counters_metadata,
            cnc.counters_values,
            client_liveness_timeout_ns,
            "/scripted",
        )
        self.logs: dict[str, LogMemory] = {}
        self.answers: dict[type[DriverMessage], Callable[[Any], None]] = {}
        self.said: list[DriverMessage] = []
        """All commands, in order."""
        self.is_alive = True
        self.beat()

    @property
    def now_ms(self) -> int:
        """The time that client and driver see."""
        return START_MS + self.now_ns // NS_PER_MS

    def pass_ms(self, milliseconds: int) -> None:
        """Time passes; a driver that lives says so."""
        self.now_ns += milliseconds * NS_PER_MS
        if self.is_alive:
            self.beat()

    def beat(self) -> None:
        """Say that the driver lives."""
        self.ring.consumer_heartbeat = self.now_ms

    def client(self, **options: Any) -> Aeron:
        """A client without a thread; while it waits, time passes and the driver works."""
        clock = Clock(lambda: self.now_ns, lambda: self.now_ms, self._sleep)
        return Aeron(self.memory, self.map_log, ClientOptions(use_invoker=True, **options), clock)

    def _sleep(self, seconds: float) -> None:
        self.pass_ms(max(round(seconds * 1000), 1))
        self.work()

    def work(self) -> None:
        """Read commands, and answer those that there are answers for."""
        for command in self.heard():
            answer = self.answers.get(type(command))
            if answer is not None:
                answer(command)

    def heard(self) -> list[DriverMessage]:
        """What clients said since the last call."""
        new: list[DriverMessage] = []
        self.ring.read(lambda type_id, data: new.append(decode_command(type_id, data)), 100)
        self.said += new
        return new

    def tell(self, event: DriverMessage) -> None:
        """To all clients."""
        self.broadcast.transmit(*encode(event))

    def map_log(self, name: str) -> LogMemory:
        """Of a name that the driver gave."""
        if name not in self.logs:
            raise StoreUnavailable(name, found="no such file", expected="a log buffer")
        return self.logs[name]

    def add_log(self, name: str, stream_id: int, session_id: int = SESSION_ID) -> LogMemory:
        """A log of 64 KiB terms."""
        parameters = LogParameters(
            correlation_id=1,
            session_id=session_id,
            stream_id=stream_id,
            initial_term_id=0,
            term_length=MIN_TERM_LENGTH,
            mtu_length=1408,
        )
        made = LogMemory.allocate(parameters) if self.folder is None else LogMemory.create(Path(name), parameters)
        self.logs[name] = made
        return self.logs[name]

    def add_counter(self, type_id: int, key: bytes = b"", label: str = "", value: int = 0) -> AtomicCounter:
        """One of the driver's."""
        counter = self.counters.allocate(type_id, key, label, now_ms=self.now_ms)
        counter.set_release(value)
        return counter

    # What a driver does that means well

    def grant_all(self) -> None:
        """Grant publications and subscriptions from now on."""
        self.answers[AddPublication] = self.grant_publication
        self.answers[AddExclusivePublication] = self.grant_publication
        self.answers[AddSubscription] = self.grant_subscription

    def grant_publication(self, command: AddPublication) -> None:
        """With a log that is named after its registration, and room for all of it."""
        name = (
            f"log-{command.correlation_id}" if self.folder is None else str(self.folder / f"{command.correlation_id}")
        )
        self.add_log(name, command.stream_id)
        limit = self.add_counter(LIMIT, value=MIN_TERM_LENGTH)
        exclusive = isinstance(command, AddExclusivePublication)
        kind = OnExclusivePublicationReady if exclusive else OnPublicationReady
        new = command.correlation_id
        self.tell(kind(new, new, SESSION_ID, command.stream_id, limit.id, -1, name))

    def grant_subscription(self, command: AddSubscription) -> None:
        """Without an image."""
        self.tell(OnSubscriptionReady(command.correlation_id, -1))

    def grant_heartbeat(self, client_id: int) -> AtomicCounter:
        """The counter in which a client says that it lives."""
        return self.add_counter(HEARTBEAT, client_id.to_bytes(8, "little"), f"client-heartbeat: id={client_id}")

    def show_image(self, subscription_id: int, image_id: int, name: str) -> AtomicCounter:
        """An image of a log that is there, from its start; its position."""
        position = self.add_counter(POSITION)
        log = self.logs[name]
        self.tell(
            OnAvailableImage(image_id, log.session_id, log.stream_id, subscription_id, position.id, name, "127.0.0.1:9")
        )
        return position


class LiveDriver:
    """A scripted driver in a folder, in a thread of its own and by the system's clock; in a ``with`` statement."""

    def __init__(self, folder: Path, client_liveness_timeout_ns: int = 10_000_000_000) -> None:
        self.scripted = ScriptedDriver(client_liveness_timeout_ns, folder=folder)
        self.scripted.grant_all()
        self.scripted.beat = self.beat  # type: ignore[method-assign]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def beat(self) -> None:
        """Say that the driver lives."""
        self.scripted.ring.consumer_heartbeat = time.time_ns() // NS_PER_MS

    def _run(self) -> None:
        while not self._stopping.wait(0.002):
            self.beat()
            self.scripted.work()

    def __enter__(self) -> ScriptedDriver:
        self.beat()
        self.scripted.signal_ready()
        self._thread.start()
        return self.scripted

    def await_close(self) -> DriverMessage | None:
        """What a client said last, once that is that it closes; 5 seconds at most."""
        said, deadline = self.scripted.said, time.monotonic() + 5
        while not (said and isinstance(said[-1], ClientClose)) and time.monotonic() < deadline:
            time.sleep(0.001)
        return said[-1] if said else None

    def kill(self) -> None:
        """No sign of life any more."""
        self._stopping.set()
        self._thread.join()

    def __exit__(self, *_: object) -> None:
        self.kill()
