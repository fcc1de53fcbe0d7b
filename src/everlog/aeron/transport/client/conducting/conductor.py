"""The client's conductor: sends commands, reads the driver's events, and keeps the client's resources. It is a state
machine without clock, locks or waits; :mod:`everlog.aeron.transport.client.conducting.runner` has those and drives it.
Source: Aeron's ClientConductor, DriverEventsAdapter, DriverProxy.

| event | effect |
| --- | --- |
| OnPublicationReady, OnExclusivePublicationReady | the registration gets its publication |
| OnSubscriptionReady | the registration gets its subscription |
| OnAvailableImage | the subscription gets an image; its handler is called |
| OnUnavailableImage | the subscription loses the image; its handler is called |
| OnOperationSuccess, OnNextAvailableSessionId | the registration is done |
| OnCounterReady | the registration gets its counter; counter handlers are called |
| OnStaticCounter | the registration gets its counter |
| OnUnavailableCounter | counter handlers are called |
| OnError | the registration is refused, or a channel of this client failed |
| OnPublicationError | its handler is called |
| OnClientTimeout for this client | the client ends |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from everlog.aeron.layouts import NULL_VALUE
from everlog.aeron.transport.client.conducting.client_commands import Commands
from everlog.aeron.transport.client.conducting.driver_proxy import DriverProxy
from everlog.aeron.transport.client.conducting.handlers import Handlers
from everlog.aeron.transport.client.conducting.liveness import Liveness
from everlog.aeron.transport.client.conducting.requests import Requests
from everlog.aeron.transport.client.conducting.resources import Resources
from everlog.aeron.transport.client.counters_reader import CountersReader
from everlog.aeron.transport.client.errors import (
    ChannelEndpointFailed,
    ClientTimeout,
    DriverTimeout,
    RegistrationRefused,
    closed_error,
)
from everlog.aeron.transport.client.options import ClientOptions
from everlog.aeron.transport.client.owner import Owner
from everlog.aeron.transport.client.registration import Registration, Waiter
from everlog.aeron.transport.memory.broadcast import BroadcastReceiver
from everlog.aeron.transport.memory.log_memory import LogMemory
from everlog.aeron.transport.memory.ring_buffer import ManyToOneRingBuffer
from everlog.aeron.transport.protocol.commands import (
    ClientClose,
    ErrorCode,
    OnAvailableImage,
    OnClientTimeout,
    OnCounterReady,
    OnError,
    OnPublicationError,
    OnUnavailableCounter,
    OnUnavailableImage,
    decode_event,
)
from everlog.errors import CorruptData, DataLost, EverlogError, UnknownMessage
from everlog.kernel.memory import Memory
from everlog.kernel.watch import WordPair
from everlog.runtime.quiet import BUSY

EVENT_LIMIT = 64
"""Most events read in one duty cycle."""


@dataclass(frozen=True, slots=True)
class DriverMemory:
    """The sections of ``cnc.dat`` that a client needs, and the liveness timeout from its header."""

    to_driver: Memory
    to_clients: Memory
    counters_metadata: Memory
    counters_values: Memory
    client_liveness_timeout_ns: int
    folder: str = ""
    """For error messages."""


class ConductorHost(Owner, Waiter, Protocol):
    """The object that drives the conductor; publications and registrations call it."""


class ClientConductor:
    """One client of a driver. ``owner`` drives it; ``map_log`` maps a log buffer, given the driver's file name.

    Call :meth:`check_open` before using ``commands``.
    """

    def __init__(
        self, driver: DriverMemory, map_log: Callable[[str], LogMemory], options: ClientOptions, owner: ConductorHost
    ) -> None:
        self.counters = CountersReader(driver.counters_metadata, driver.counters_values)
        self.proxy = DriverProxy(ManyToOneRingBuffer(driver.to_driver))
        self.client_id = self.proxy.client_id
        self.handlers = Handlers(options)
        self.liveness = Liveness(self.proxy, self.counters, options, driver.client_liveness_timeout_ns, driver.folder)
        self.resources = Resources(owner, self.counters, map_log)
        self.protocol_version = self.counters.control_protocol_version()
        """Version of the driver's control protocol, major, minor and patch in one number; 0 for older drivers."""
        self.failure: EverlogError | None = None
        """The error that ended the client; ``None`` if the program closed it."""
        self.is_ended = False
        self.requests = Requests(self.proxy, owner)
        self.commands = Commands(self.proxy, self.requests, self.resources, owner)
        self._events = BroadcastReceiver(driver.to_clients)
        self._options = options

    # Duty

    def do_work(self, now_ns: int, now_ms: int) -> int:
        """Send commands and the heartbeat, check the driver, read events. Returns the amount of work done. Errors end
        the client: see :attr:`failure`."""
        if self.is_ended:
            return 0
        try:
            # Events first: the driver makes the client's heartbeat counter before it answers the first command.
            done = self.proxy.flush() + self._read_events()
            return done if self.is_ended else done + self.liveness.check(now_ns, now_ms)
        except (DriverTimeout, ClientTimeout, DataLost, CorruptData) as error:
            # CorruptData: the command buffer is damaged. Damaged events are only reported.
            self.fail(error)
            return 1

    def quiet_until(self) -> int:
        """The time before which only an event of the driver, at :attr:`words`, can bring work; ``BUSY`` if each cycle
        is needed."""
        if self.is_ended or self.proxy.has_unsent:
            return BUSY
        self._events.listen()
        return self.liveness.due_ns()

    @property
    def words(self) -> WordPair:
        """Two numbers that differ once the driver has sent an event."""
        return self._events.words

    def _read_events(self) -> int:
        for count in range(EVENT_LIMIT):
            if self.is_ended:
                return count
            try:
                received = self._events.receive()
                if received is None:
                    return count
                self._on_event(decode_event(*received))
            except UnknownMessage:
                continue  # an event of a later release
            except CorruptData as error:
                self.handlers.report(error)
        return EVENT_LIMIT

    def check_open(self) -> None:
        """Raises the error that ended the client, :class:`~everlog.errors.Closed` if the program closed it."""
        if self.is_ended:
            raise closed_error("client", self.failure)

    def cancel(self, registration: Registration[Any], error: EverlogError) -> None:
        """Cancel a registration, and give back what the driver has granted or will grant."""
        self.requests.give_up(registration, error)
        self._drop_subscription(registration.registration_id)

    def close_subscription(self, registration_id: int) -> None:
        """Detach the subscription, have the driver remove it, and call its handler for each image it had."""
        closed = self.commands.close_subscription(registration_id)
        if closed is not None:
            subscription, images = closed
            for image in images:
                self.handlers.call(subscription.on_unavailable_image, image)

    # Events

    def _on_event(self, event: Any) -> None:
        # By exact class: some events are subclasses of others with the same fields.
        _REACTIONS.get(type(event), ClientConductor._on_ready)(self, event)

    def _on_counter_ready(self, event: OnCounterReady) -> None:
        self._on_ready(event)
        self.handlers.call_all(self.handlers.available_counter, event.correlation_id, event.counter_id)

    def _on_unavailable_counter(self, event: OnUnavailableCounter) -> None:
        self.handlers.call_all(self.handlers.unavailable_counter, event.correlation_id, event.counter_id)

    def _on_publication_error(self, event: OnPublicationError) -> None:
        publications = self.resources.publications.values()
        if any(event.registration_id == one.original_registration_id for one in publications):
            self.handlers.call(self._options.on_publication_error, event)

    def _on_client_timeout(self, event: OnClientTimeout) -> None:
        if event.client_id == self.client_id:
            raise self.liveness.client_timeout("the driver has timed this client out")

    def _on_ready(self, event: Any) -> None:
        if not self.requests.answer(event):
            self._drop_subscription(event.correlation_id)

    def _on_error(self, event: OnError) -> None:
        if event.error_code == ErrorCode.CHANNEL_ENDPOINT_ERROR:
            # The id is that of an existing channel's status counter, or of a command.
            channels = list(self.resources.channels_of(event.correlation_id))
            for channel in channels:
                self.handlers.report(ChannelEndpointFailed(channel, found=event.message))
            if channels:
                return
        what = self.requests.what(event.correlation_id)
        if what is not None:
            self.requests.refuse(event.correlation_id, RegistrationRefused.of(what, event.error_code, event.message))
            self._drop_subscription(event.correlation_id)

    def _on_available_image(self, event: OnAvailableImage) -> None:
        subscription = self.resources.subscriptions.get(event.subscription_registration_id)
        if subscription is None:
            return
        try:
            image = self.resources.add_image(subscription, event)
        except EverlogError as error:
            self.handlers.report(error)
            return
        self.handlers.call(subscription.on_available_image, image)

    def _on_unavailable_image(self, event: OnUnavailableImage) -> None:
        subscription = self.resources.subscriptions.get(event.subscription_registration_id)
        image = None if subscription is None else subscription.remove_image(event.correlation_id)
        if subscription is not None and image is not None:
            self.handlers.call(subscription.on_unavailable_image, image)

    # The end

    def close(self) -> None:
        """End the client and report that to the driver. A second call does nothing."""
        if not self.is_ended:
            self._end(closed_error("client", None))
            self.proxy.send_or_queue(ClientClose(self.client_id, NULL_VALUE))

    def fail(self, error: EverlogError) -> None:
        """End the client with an error and report it."""
        if not self.is_ended:
            self.failure = error
            self._end(error)
            self.handlers.report(error)

    def abandon(self, error: EverlogError) -> None:
        """End the client in a forked child process: without commands to the driver or calls of handlers."""
        self.is_ended, self.failure = True, error
        self.resources.detach()
        self.requests.end(error)

    def _end(self, error: EverlogError) -> None:
        self.is_ended = True
        self.requests.end(error)
        for subscription, image in self.resources.detach():
            self.handlers.call(subscription.on_unavailable_image, image)
        self.handlers.call_all(self.handlers.close)

    def _drop_subscription(self, registration_id: int) -> None:
        """Remove the subscription of a registration that failed."""
        subscription = self.resources.subscriptions.pop(registration_id, None)
        if subscription is not None:
            for image in subscription.detach():
                self.handlers.call(subscription.on_unavailable_image, image)


_REACTIONS: dict[type[Any], Callable[[ClientConductor, Any], None]] = {
    OnAvailableImage: ClientConductor._on_available_image,
    OnUnavailableImage: ClientConductor._on_unavailable_image,
    OnError: ClientConductor._on_error,
    OnCounterReady: ClientConductor._on_counter_ready,
    OnUnavailableCounter: ClientConductor._on_unavailable_counter,
    OnPublicationError: ClientConductor._on_publication_error,
    OnClientTimeout: ClientConductor._on_client_timeout,
}
"""Handlers by event class; all other events answer a request."""
