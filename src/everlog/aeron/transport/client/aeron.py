"""``Aeron``: a program's way to a media driver. Source: Aeron's Aeron and Aeron.Context."""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from everlog.aeron.transport.client.conducting.client_commands import Commands
from everlog.aeron.transport.client.conducting.conductor import ClientConductor, DriverMemory
from everlog.aeron.transport.client.conducting.connecting import connect, map_log
from everlog.aeron.transport.client.conducting.runner import ClientRunner, Clock
from everlog.aeron.transport.client.counter import Counter
from everlog.aeron.transport.client.counters_reader import CountersReader
from everlog.aeron.transport.client.options import ClientOptions, CounterHandler, ImageHandler, default_folder
from everlog.aeron.transport.client.publication import ExclusivePublication, Publication
from everlog.aeron.transport.client.registration import Registration
from everlog.aeron.transport.client.subscription import Subscription
from everlog.aeron.transport.memory.log_memory import LogMemory
from everlog.errors import EverlogError

T = TypeVar("T")
SESSION_ID_VERSION = 1 << 16
"""Drivers whose control protocol is of this version or later give out session ids (1.0.0)."""


class Aeron:
    """A client of a media driver, ours or Aeron's own. Close it, or use it in a ``with`` statement::

        with Aeron.connect() as aeron:
            publication = aeron.add_publication("aeron:ipc", 1001)
            subscription = aeron.add_subscription("aeron:ipc", 1001)
            publication.send(b"hello")
            subscription.poll(lambda payload, header: print(payload))

    Methods that add something wait for the driver's answer and raise :class:`RegistrationRefused` when it says no,
    :class:`DriverTimeout` when it says nothing; their ``async_`` twins give a :class:`Registration`, which can be
    waited for, looked at, or awaited. Once the driver is gone, or has given the client up, all methods raise what
    happened.

    All of it may be used from many threads, but a subscription is polled, and an exclusive publication offered to, by
    one at a time. In a process that was forked off the client has ended: connect anew there."""

    def __init__(
        self,
        driver: DriverMemory,
        map_log: Callable[[str], LogMemory] = map_log,
        options: ClientOptions | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Over memory that is there: for simulations; programs use :meth:`connect`."""
        self._runner = ClientRunner(driver, map_log, ClientOptions() if options is None else options, clock)
        self.folder = Path(driver.folder)
        self.client_id = self._runner.client_id

    @classmethod
    def connect(
        cls, folder: str | Path | None = None, *, options: ClientOptions | None = None, **settings: Any
    ) -> Self:
        """A client of the driver that runs in ``folder``: by default ``AERON_DIR``, else ``/dev/shm/aeron-<user>``.
        ``settings`` are fields of :class:`ClientOptions`. Waits up to ``driver_timeout_ms`` for a driver that starts;
        raises :class:`DriverTimeout` when there is none then, :class:`UnsupportedVersion` for one of another kind."""
        chosen = dataclasses.replace(options or ClientOptions(), **settings)
        aeron = cls(connect(Path(folder) if folder is not None else default_folder(), chosen), options=chosen)
        if not chosen.use_invoker:
            aeron._runner.start()
        return aeron

    # Publications

    def add_publication(self, channel: str, stream_id: int) -> Publication:
        """A publication that many threads and processes share. Raises :class:`RegistrationRefused`,
        :class:`DriverTimeout`."""
        return self.async_add_publication(channel, stream_id).result()

    def add_exclusive_publication(self, channel: str, stream_id: int) -> ExclusivePublication:
        """A publication with a session and log of its own, for one thread. Raises :class:`RegistrationRefused`,
        :class:`DriverTimeout`."""
        return self.async_add_exclusive_publication(channel, stream_id).result()

    def async_add_publication(self, channel: str, stream_id: int) -> Registration[Publication]:
        """As :meth:`add_publication`, without waiting."""
        return self._ask(lambda commands: commands.add_publication(channel, stream_id, exclusive=False))

    def async_add_exclusive_publication(self, channel: str, stream_id: int) -> Registration[ExclusivePublication]:
        """As :meth:`add_exclusive_publication`, without waiting."""
        return self._ask(lambda commands: commands.add_publication(channel, stream_id, exclusive=True))

    # Subscriptions

    def add_subscription(
        self,
        channel: str,
        stream_id: int,
        on_available_image: ImageHandler | None = None,
        on_unavailable_image: ImageHandler | None = None,
    ) -> Subscription:
        """A subscription; a handler that is not given is that of the client's options. Handlers are called in the
        client's thread and must not wait for the driver. Raises :class:`RegistrationRefused`,
        :class:`DriverTimeout`."""
        return self.async_add_subscription(channel, stream_id, on_available_image, on_unavailable_image).result()

    def async_add_subscription(
        self,
        channel: str,
        stream_id: int,
        on_available_image: ImageHandler | None = None,
        on_unavailable_image: ImageHandler | None = None,
    ) -> Registration[Subscription]:
        """As :meth:`add_subscription`, without waiting."""
        options = self._runner.options
        handlers = (
            on_available_image or options.on_available_image,
            on_unavailable_image or options.on_unavailable_image,
        )
        return self._ask(lambda commands: commands.add_subscription(channel, stream_id, handlers))

    # Counters

    @property
    def counters(self) -> CountersReader:
        """All of the driver's counters."""
        return self._runner.counters

    def add_counter(self, type_id: int, label: str, key: bytes = b"") -> Counter:
        """A counter that other processes see, and that goes with the client. ``type_id``: 1000 or more for one's own;
        ``key``: at most 112 bytes; ``label``: at most 380 ASCII letters. Raises :class:`RegistrationRefused`,
        :class:`DriverTimeout`."""
        return self.async_add_counter(type_id, label, key).result()

    def async_add_counter(self, type_id: int, label: str, key: bytes = b"") -> Registration[Counter]:
        """As :meth:`add_counter`, without waiting."""
        return self._ask(lambda commands: commands.add_counter(type_id, label, key))

    def add_static_counter(self, type_id: int, label: str, registration_id: int, key: bytes = b"") -> Counter:
        """The counter of a type and registration id of one's own, which stays as long as the driver; it is made when
        there is none yet. Raises as :meth:`add_counter`."""
        return self.async_add_static_counter(type_id, label, registration_id, key).result()

    def async_add_static_counter(
        self, type_id: int, label: str, registration_id: int, key: bytes = b""
    ) -> Registration[Counter]:
        """As :meth:`add_static_counter`, without waiting."""
        return self._ask(lambda commands: commands.add_static_counter(type_id, label, registration_id, key))

    # Handlers

    def add_available_counter_handler(self, handler: CounterHandler) -> int:
        """Call ``handler(registration_id, counter_id)`` for each counter that any client adds; gives an id for
        :meth:`remove_handler`."""
        return self._add_handler("available_counter", handler)

    def add_unavailable_counter_handler(self, handler: CounterHandler) -> int:
        """The same for counters that go."""
        return self._add_handler("unavailable_counter", handler)

    def add_close_handler(self, handler: Callable[[], object]) -> int:
        """Call ``handler()`` when the client ends; gives an id for :meth:`remove_handler`."""
        return self._add_handler("close", handler)

    def remove_handler(self, handler_id: int) -> bool:
        """Call it no more; whether there was such a handler."""

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
        """A number that no client of this driver has got or will get."""
        return self._runner.ask(lambda conductor: conductor.proxy.next_correlation_id())

    def next_session_id(self, stream_id: int) -> int:
        """A session id (``session-id=`` in a channel) that no publication of the stream has on this driver. Older
        drivers are not asked: a random one."""
        if self._runner.ask(lambda conductor: conductor.protocol_version) < SESSION_ID_VERSION:
            return random.getrandbits(32) - (1 << 31)
        return self._ask(lambda commands: commands.next_session_id(stream_id)).result()

    def terminate_driver(self, token: bytes = b"") -> None:
        """Ask the driver to end; it does so only if it was set up to obey. There is no answer."""
        self._runner.ask(lambda conductor: conductor.commands.terminate_driver(token))

    def _ask(self, command: Callable[[Commands], Registration[T]]) -> Registration[T]:
        return self._runner.ask(lambda conductor: command(conductor.commands))

    # Duty and end

    def do_work(self) -> int:
        """The client's work, with ``use_invoker``: beats, looks after the driver, reads its events and calls handlers;
        how much was done. Harmless otherwise."""
        return self._runner.work()

    def wait_until(self, condition: Callable[[], bool], timeout: float = 10.0, sleep: float = 0.001) -> bool:
        """Wait until ``condition()`` is true, such as ``lambda: publication.is_connected``, doing the client's work;
        false when ``timeout`` seconds are over first. Raises what ended the client."""
        deadline = time.monotonic() + timeout
        while not condition():
            self._runner.ask(lambda _: None)
            if time.monotonic() >= deadline:
                return False
            if not self._runner.work():
                time.sleep(sleep)
        return True

    @property
    def is_closed(self) -> bool:
        """Whether the client has ended: closed, its driver gone, or given up by it."""
        return self._runner.is_ended

    @property
    def failure(self) -> EverlogError | None:
        """What ended the client, if it was not the program; no call need be made to see it."""
        return self._runner.failure

    def close(self) -> None:
        """End the client: publications, subscriptions, images and counters with it. A second call does nothing."""
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
