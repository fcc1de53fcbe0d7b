"""``Aeron``: connects a program to a media driver. Source: Aeron's Aeron and Aeron.Context."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, Unpack

from everlog.aeron.transport.client.conducting.client_commands import Commands
from everlog.aeron.transport.client.conducting.conductor import ClientConductor, DriverMemory
from everlog.aeron.transport.client.conducting.connecting import connect, map_log
from everlog.aeron.transport.client.conducting.runner import ClientRunner, Clock
from everlog.aeron.transport.client.counter import Counter
from everlog.aeron.transport.client.counters_reader import CountersReader
from everlog.aeron.transport.client.options import (
    ClientOptions,
    CounterHandler,
    ImageHandler,
    Settings,
    default_folder,
    with_settings,
)
from everlog.aeron.transport.client.publication import ExclusivePublication, Publication
from everlog.aeron.transport.client.registration import Registration
from everlog.aeron.transport.client.subscription import Subscription
from everlog.aeron.transport.memory.log_memory import LogMemory
from everlog.errors import EverlogError
from everlog.kernel.watch import WordPair
from everlog.time_units import NS_PER_S

T = TypeVar("T")
SESSION_ID_VERSION = 1 << 16
"""First version of the control protocol (1.0.0) in which the driver allocates session ids."""


class Aeron:
    """A client of a media driver, ours or Aeron's own. Close it, or use it in a ``with`` statement::

        with Aeron.connect() as aeron:
            publication = aeron.add_publication("aeron:ipc", 1001)
            subscription = aeron.add_subscription("aeron:ipc", 1001)
            publication.send(b"hello")
            subscription.poll(lambda payload, header: print(payload))

    Methods that add something wait for the driver's answer. They raise :class:`RegistrationRefused` if the driver
    refuses, :class:`DriverTimeout` if it doesn't answer. Their ``async_`` variants return a :class:`Registration` at
    once, to wait for, check or ``await``. After the driver has stopped, or has timed the client out, every method
    raises that error; after :meth:`close`, :class:`~everlog.errors.Closed`.

    A client is thread-safe, except that only one thread at a time may poll a subscription or offer to an exclusive
    publication. A forked child process can't use its parent's client: connect again there."""

    def __init__(
        self,
        driver: DriverMemory,
        map_log: Callable[[str], LogMemory] = map_log,
        options: ClientOptions | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Use driver memory that is already mapped: for simulations. Programs use :meth:`connect`."""
        self._runner = ClientRunner(driver, map_log, ClientOptions() if options is None else options, clock)
        self.folder = Path(driver.folder)
        self.client_id = self._runner.client_id

    @classmethod
    def connect(
        cls, folder: str | Path | None = None, *, options: ClientOptions | None = None, **settings: Unpack[Settings]
    ) -> Self:
        """Connect to the driver that runs in ``folder``, by default ``AERON_DIR``, else ``/dev/shm/aeron-<user>``.
        ``settings`` override fields of ``options``, see :class:`ClientOptions`. Waits up to ``driver_timeout_ms`` for
        the driver to start, then raises :class:`DriverTimeout`. Raises :class:`UnsupportedVersion` if the driver's
        files have an unknown version, :class:`UsageError` for an unknown or wrong setting."""
        chosen = with_settings(options or ClientOptions(), settings)
        aeron = cls(connect(Path(folder) if folder is not None else default_folder(), chosen), options=chosen)
        if not chosen.use_invoker:
            aeron._runner.start()
        return aeron

    # Publications

    def add_publication(self, channel: str, stream_id: int) -> Publication:
        """Add a publication that many threads and processes may share. Raises :class:`RegistrationRefused`,
        :class:`DriverTimeout`."""
        return self.async_add_publication(channel, stream_id).result()

    def add_exclusive_publication(self, channel: str, stream_id: int) -> ExclusivePublication:
        """Add a publication with its own session and log, for one thread. Raises :class:`RegistrationRefused`,
        :class:`DriverTimeout`."""
        return self.async_add_exclusive_publication(channel, stream_id).result()

    def async_add_publication(self, channel: str, stream_id: int) -> Registration[Publication]:
        """Like :meth:`add_publication`, without waiting."""
        return self._ask(lambda commands: commands.add_publication(channel, stream_id, exclusive=False))

    def async_add_exclusive_publication(self, channel: str, stream_id: int) -> Registration[ExclusivePublication]:
        """Like :meth:`add_exclusive_publication`, without waiting."""
        return self._ask(lambda commands: commands.add_publication(channel, stream_id, exclusive=True))

    # Subscriptions

    def add_subscription(
        self,
        channel: str,
        stream_id: int,
        on_available_image: ImageHandler | None = None,
        on_unavailable_image: ImageHandler | None = None,
    ) -> Subscription:
        """Add a subscription. Handlers default to those of the client's options; they run in the client's thread and
        must not wait for the driver. Raises :class:`RegistrationRefused`, :class:`DriverTimeout`."""
        return self.async_add_subscription(channel, stream_id, on_available_image, on_unavailable_image).result()

    def async_add_subscription(
        self,
        channel: str,
        stream_id: int,
        on_available_image: ImageHandler | None = None,
        on_unavailable_image: ImageHandler | None = None,
    ) -> Registration[Subscription]:
        """Like :meth:`add_subscription`, without waiting."""
        options = self._runner.options
        handlers = (
            on_available_image or options.on_available_image,
            on_unavailable_image or options.on_unavailable_image,
        )
        return self._ask(lambda commands: commands.add_subscription(channel, stream_id, handlers))

    # Counters

    @property
    def counters(self) -> CountersReader:
        """All counters of the driver."""
        return self._runner.counters

    def add_counter(self, type_id: int, label: str, key: bytes = b"") -> Counter:
        """Add a counter that other processes can read; the driver frees it when the client ends. ``type_id`` is 1000 or
        more for applications, ``key`` at most 112 bytes, ``label`` at most 380 ASCII characters. Raises
        :class:`RegistrationRefused`, :class:`DriverTimeout`."""
        return self.async_add_counter(type_id, label, key).result()

    def async_add_counter(self, type_id: int, label: str, key: bytes = b"") -> Registration[Counter]:
        """Like :meth:`add_counter`, without waiting."""
        return self._ask(lambda commands: commands.add_counter(type_id, label, key))

    def add_static_counter(self, type_id: int, label: str, registration_id: int, key: bytes = b"") -> Counter:
        """Add a counter that lives as long as the driver, or return the one that already has this type and
        registration id. The caller chooses both. Raises the errors of :meth:`add_counter`."""
        return self.async_add_static_counter(type_id, label, registration_id, key).result()

    def async_add_static_counter(
        self, type_id: int, label: str, registration_id: int, key: bytes = b""
    ) -> Registration[Counter]:
        """Like :meth:`add_static_counter`, without waiting."""
        return self._ask(lambda commands: commands.add_static_counter(type_id, label, registration_id, key))

    # Handlers

    def add_available_counter_handler(self, handler: CounterHandler) -> int:
        """Call ``handler(registration_id, counter_id)`` for each counter that any client adds. Returns an id for
        :meth:`remove_handler`."""
        return self._add_handler("available_counter", handler)

    def add_unavailable_counter_handler(self, handler: CounterHandler) -> int:
        """Call ``handler(registration_id, counter_id)`` for each counter that is freed. Returns an id for
        :meth:`remove_handler`."""
        return self._add_handler("unavailable_counter", handler)

    def add_close_handler(self, handler: Callable[[], object]) -> int:
        """Call ``handler()`` when the client ends. Returns an id for :meth:`remove_handler`."""
        return self._add_handler("close", handler)

    def remove_handler(self, handler_id: int) -> bool:
        """Remove a handler. Returns whether it existed."""

        def remove(conductor: ClientConductor) -> bool:
            handlers = conductor.handlers
            each = (handlers.available_counter, handlers.unavailable_counter, handlers.close)
            return sum(one.pop(handler_id, None) is not None for one in each) > 0

        return self._runner.ask(remove)

    def _add_handler(self, kind: str, handler: Callable[..., object]) -> int:
        def add(conductor: ClientConductor) -> int:
            handler_id = conductor.proxy.next_correlation_id()
            getattr(conductor.handlers, kind)[handler_id] = handler
            return handler_id

        return self._runner.ask(add)

    # The driver

    def next_correlation_id(self) -> int:
        """Take a correlation id, unique among all clients of this driver."""
        return self._runner.ask(lambda conductor: conductor.proxy.next_correlation_id())

    def next_session_id(self, stream_id: int) -> int:
        """Return a session id (``session-id=`` in a channel) that no publication of the stream uses on this driver. For
        drivers older than control protocol 1.0.0 the id is random."""
        if self._runner.ask(lambda conductor: conductor.protocol_version) < SESSION_ID_VERSION:
            return random.getrandbits(32) - (1 << 31)
        return self._ask(lambda commands: commands.next_session_id(stream_id)).result()

    def terminate_driver(self, token: bytes = b"") -> None:
        """Ask the driver to terminate. It does so only if it is configured to accept ``token``, and never answers."""
        self._runner.ask(lambda conductor: conductor.commands.terminate_driver(token))

    def _ask(self, command: Callable[[Commands], Registration[T]]) -> Registration[T]:
        return self._runner.ask(lambda conductor: command(conductor.commands))

    # Duty and end

    def do_work(self) -> int:
        """Do the client's work if ``use_invoker`` is set: send heartbeats, check the driver, read its events and call
        handlers. Returns the amount of work done. Harmless without ``use_invoker``."""
        return self._runner.work()

    def quiet_until(self) -> int:
        """With ``use_invoker``: the monotonic time in nanoseconds before which only an event of the driver, at
        :attr:`words`, makes a :meth:`do_work` necessary; 0 if each one is. For agents that sleep between cycles."""
        return self._runner.quiet_until()

    @property
    def words(self) -> WordPair:
        """Two numbers in memory that differ, after a :meth:`quiet_until`, once the driver has sent an event."""
        return self._runner.ask(lambda conductor: conductor.words)

    def wait_until(self, condition: Callable[[], bool], timeout_s: float = 10.0, sleep_s: float = 0.001) -> bool:
        """Do the client's work until ``condition()`` is true, for example ``lambda: publication.is_connected``.
        Returns false if that takes more than ``timeout_s`` seconds; sleeps ``sleep_s`` between checks. Raises the
        error that ended the client."""
        clock = self._runner.clock
        deadline_ns = clock.now_ns() + round(timeout_s * NS_PER_S)
        while not condition():
            self._runner.ask(lambda _: None)
            if clock.now_ns() >= deadline_ns:
                return False
            if not self._runner.work():
                clock.sleep(sleep_s)
        return True

    @property
    def clock(self) -> Clock:
        """The clock that the client waits by; simulations have their own."""
        return self._runner.clock

    @property
    def is_closed(self) -> bool:
        """Whether the client has ended: closed by the program, timed out by the driver, or its driver has stopped."""
        return self._runner.is_ended

    @property
    def failure(self) -> EverlogError | None:
        """The error that ended the client; ``None`` while it runs, and if the program closed it."""
        return self._runner.failure

    def close(self) -> None:
        """Close the client with its publications, subscriptions, images and counters. A second call does nothing."""
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else "open"
        return f"<Aeron client {self.client_id} of {self.folder}: {state}>"
