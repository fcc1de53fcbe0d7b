"""The client's conductor: sends commands, reads the driver's events, and keeps what the client has. A machine: it is
told the time and reads no clock; who drives it (:mod:`everlog.aeron.transport.client.session`) waits and locks. Source:
Aeron's ClientConductor, DriverEventsAdapter, DriverProxy.

| event | what becomes of it |
| --- | --- |
| OnPublicationReady, OnExclusivePublicationReady | the registration has its publication |
| OnSubscriptionReady | the registration has its subscription |
| OnAvailableImage | the subscription has one image more; its handler is called |
| OnUnavailableImage | one less; its handler is called |
| OnOperationSuccess, OnNextAvailableSessionId | the registration is done |
| OnCounterReady, OnStaticCounter | the registration has its counter; counter handlers are called for the first |
| OnUnavailableCounter | counter handlers are called |
| OnError | the registration is refused; or a channel of this client failed |
| OnPublicationError | its handler is called |
| OnClientTimeout, this client's | everything ends |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from everlog.aeron.transport.broadcast import BroadcastReceiver
from everlog.aeron.transport.client.counters_reader import Counter, CountersReader
from everlog.aeron.transport.client.driver_proxy import DriverProxy
from everlog.aeron.transport.client.errors import (
    ChannelEndpointFailed,
    ClientClosed,
    ClientTimeout,
    DriverTimeout,
    RegistrationRefused,
)
from everlog.aeron.transport.client.handlers import Handlers
from everlog.aeron.transport.client.liveness import Liveness
from everlog.aeron.transport.client.options import ClientOptions, ImageHandler
from everlog.aeron.transport.client.owner import Owner
from everlog.aeron.transport.client.registration import Registration, Waiting
from everlog.aeron.transport.client.resources import AnyPublication, Resources
from everlog.aeron.transport.client.subscription import Subscription
from everlog.aeron.transport.commands import (
    AddCounter,
    AddExclusivePublication,
    AddPublication,
    AddStaticCounter,
    AddSubscription,
    ClientClose,
    ErrorCode,
    GetNextAvailableSessionId,
    Message,
    OnAvailableImage,
    OnClientTimeout,
    OnCounterReady,
    OnError,
    OnExclusivePublicationReady,
    OnPublicationError,
    OnPublicationReady,
    OnSubscriptionReady,
    OnUnavailableCounter,
    OnUnavailableImage,
    RejectImage,
    RemoveCounter,
    RemovePublication,
    RemoveSubscription,
    TerminateDriver,
    decode_event,
)
from everlog.aeron.transport.counters import MAX_KEY_LENGTH, MAX_LABEL_LENGTH
from everlog.aeron.transport.log_memory import LogMemory
from everlog.aeron.transport.ring_buffer import ManyToOneRingBuffer
from everlog.errors import CorruptData, DataLost, EverlogError, UnknownMessage, UsageError
from everlog.kernel.memory import Memory

NULL = -1
EVENT_LIMIT = 64
"""Events that are read in one go."""


@dataclass(frozen=True, slots=True)
class DriverMemory:
    """The parts of ``cnc.dat`` that a client needs, and what its header says."""

    to_driver: Memory
    to_clients: Memory
    counters_metadata: Memory
    counters_values: Memory
    client_liveness_timeout_ns: int
    folder: str = ""
    """For messages."""


class Driven(Owner, Waiting, Protocol):
    """Who drives the conductor, for what it hands out."""


@dataclass(frozen=True, slots=True)
class _Pending:
    """A registration, what makes its result of an event, and the command that gives it back."""

    registration: Registration[Any]
    make: Callable[[Any], Any]
    undo: Callable[[int, int], Message] | None


class ClientConductor:
    """One client of a driver. ``owner`` is who drives it; ``map_log`` maps the log buffer of a name that the driver
    gives.

    Commands give a :class:`Registration` at once. They raise what ended the client once it has ended, and
    :class:`LimitExceeded` where the driver reads no commands.
    """

    def __init__(
        self, driver: DriverMemory, map_log: Callable[[str], LogMemory], options: ClientOptions, owner: Driven
    ) -> None:
        self.counters = CountersReader(driver.counters_metadata, driver.counters_values)
        self.proxy = DriverProxy(ManyToOneRingBuffer(driver.to_driver))
        self.client_id = self.proxy.client_id
        self.handlers = Handlers(options)
        self.liveness = Liveness(self.proxy, self.counters, options, driver.client_liveness_timeout_ns, driver.folder)
        self.resources = Resources(owner, self.counters, map_log)
        self.protocol_version = self.counters.control_protocol_version()
        """Of the driver's commands: major, minor, patch in one; 0 for one that does not say."""
        self.failure: EverlogError | None = None
        """What ended the client, if it was not the program."""
        self.is_ended = False
        self._events = BroadcastReceiver(driver.to_clients)
        self._options = options
        self._owner = owner
        self._pending: dict[int, _Pending] = {}
        self._reactions: dict[type[Any], Callable[[Any], None]] = {
            OnAvailableImage: self._on_available_image,
            OnUnavailableImage: self._on_unavailable_image,
            OnError: self._on_error,
            OnCounterReady: self._on_counter_ready,
            OnUnavailableCounter: self._on_unavailable_counter,
            OnPublicationError: self._on_publication_error,
            OnClientTimeout: self._on_client_timeout,
        }

    # Duty

    def do_work(self, now_ns: int, now_ms: int) -> int:
        """Beat, look after the driver, read events: how much was done. What goes wrong ends the client: see
        :attr:`failure`."""
        if self.is_ended:
            return 0
        try:
            return self.liveness.check(now_ns, now_ms) + self.proxy.flush() + self._read_events()
        except (DriverTimeout, ClientTimeout, DataLost) as error:
            self.fail(error)
            return 1

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
                continue  # An event of a later release.
            except CorruptData as error:
                self.handlers.report(error)
        return EVENT_LIMIT

    def check_open(self) -> None:
        """Raises what ended the client, :class:`ClientClosed` when the program did."""
        if self.is_ended:
            raise self.failure or _closed()

    # Commands

    def add_publication(self, channel: str, stream_id: int, *, exclusive: bool) -> Registration[Any]:
        """Ask for a publication."""
        kind = AddExclusivePublication if exclusive else AddPublication

        def ready(event: OnPublicationReady | OnExclusivePublicationReady) -> AnyPublication:
            try:
                return self.resources.add_publication(channel, event)
            except EverlogError:
                self._tell(lambda new: RemovePublication(self.client_id, new, event.correlation_id))
                raise

        return self._ask(
            lambda new: kind(self.client_id, new, stream_id, channel),
            f"add-{'exclusive-' if exclusive else ''}publication {channel}, stream {stream_id}",
            ready,
            lambda new, of: RemovePublication(self.client_id, new, of),
        )

    def add_subscription(
        self, channel: str, stream_id: int, handlers: tuple[ImageHandler | None, ImageHandler | None]
    ) -> Registration[Subscription]:
        """Ask for a subscription."""

        def ready(event: OnSubscriptionReady) -> Subscription:
            subscription = self.resources.subscriptions[event.correlation_id]
            subscription.channel_status_id = event.channel_status_id
            return subscription

        registration: Registration[Subscription] = self._ask(
            lambda new: AddSubscription(self.client_id, new, NULL, stream_id, channel),
            f"add-subscription {channel}, stream {stream_id}",
            ready,
            lambda new, of: RemoveSubscription(self.client_id, new, of),
        )
        new = registration.registration_id
        self.resources.subscriptions[new] = Subscription(self._owner, channel, stream_id, new, handlers)
        return registration

    def destination(self, kind: type[Any], registration_id: int, channel: str | int) -> Registration[int]:
        """Send a command about destinations; its result is its own id."""
        return self._ask(
            lambda new: kind(self.client_id, new, registration_id, channel),
            f"{kind.__name__} {channel} of {registration_id}",
            lambda event: int(event.correlation_id),
        )

    def add_counter(self, type_id: int, label: str, key: bytes) -> Registration[Counter]:
        """Ask for a counter that goes with the client. Raises :class:`UsageError` for a label or key that is too
        long."""
        _check_counter(label, key)
        return self._ask(
            lambda new: AddCounter(self.client_id, new, type_id, key, label),
            f"add-counter {label}",
            self.resources.add_counter,
            lambda new, of: RemoveCounter(self.client_id, new, of),
        )

    def add_static_counter(self, type_id: int, label: str, registration_id: int, key: bytes) -> Registration[Counter]:
        """Ask for a counter that stays, the same for all who ask with this type and registration id. Raises as
        :meth:`add_counter`."""
        _check_counter(label, key)
        return self._ask(
            lambda new: AddStaticCounter(self.client_id, new, registration_id, type_id, key, label),
            f"add-static-counter {label}",
            self.resources.add_counter,
        )

    def reject_image(self, image_correlation_id: int, position: int, reason: str) -> Registration[None]:
        """Ask the driver to refuse an image."""
        return self._ask(
            lambda new: RejectImage(self.client_id, new, image_correlation_id, position, reason),
            f"reject-image {image_correlation_id}",
            lambda _: None,
        )

    def next_session_id(self, stream_id: int) -> Registration[int]:
        """Ask for a session id that no publication of the stream has."""
        return self._ask(
            lambda new: GetNextAvailableSessionId(self.client_id, new, stream_id),
            f"next-available-session-id of stream {stream_id}",
            lambda event: int(event.session_id),
        )

    def terminate_driver(self, token: bytes) -> None:
        """Ask the driver to end itself; there is no answer."""
        self.check_open()
        self.proxy.send(TerminateDriver(self.client_id, NULL, token))

    def cancel(self, registration: Registration[Any], error: EverlogError) -> None:
        """Give a registration up, and whatever the driver has granted or will."""
        pending = self._pending.pop(registration.registration_id, None)
        if pending is None:
            return
        registration.is_cancelled = True
        self._refuse(pending, error)
        undo = pending.undo
        if undo is not None:
            # The driver reads commands in order: it has granted what it is then told to take back.
            self._tell(lambda new: undo(new, registration.registration_id))

    def close_publication(self, publication: Any, *, revoke: bool) -> None:
        """Take it out of use, and tell the driver."""
        publication.detach()
        if self.resources.publications.pop(publication.registration_id, None) is not None:
            self._tell(lambda new: RemovePublication(self.client_id, new, publication.registration_id, revoke))

    def close_subscription(self, subscription: Subscription) -> None:
        """Take it out of use, tell the driver, and call its handler for each image that it had."""
        if self.resources.subscriptions.pop(subscription.registration_id, None) is not None:
            self._tell(lambda new: RemoveSubscription(self.client_id, new, subscription.registration_id))
        self._detach(subscription)

    def close_counter(self, counter: Counter) -> None:
        """Take it out of use, and tell the driver unless it is a static one."""
        counter.detach()
        if self.resources.counters.pop(counter.correlation_id, None) is not None and not counter.is_static:
            self._tell(lambda new: RemoveCounter(self.client_id, new, counter.correlation_id))

    def _ask(
        self,
        command: Callable[[int], Message],
        what: str,
        make: Callable[[Any], Any],
        undo: Callable[[int, int], Message] | None = None,
    ) -> Registration[Any]:
        """Send a command whose answer is waited for."""
        self.check_open()
        new = self.proxy.next_correlation_id()
        self.proxy.send(command(new))
        registration: Registration[Any] = Registration(new, what, self._owner)
        self._pending[new] = _Pending(registration, make, undo)
        return registration

    def _tell(self, command: Callable[[int], Message]) -> None:
        """Send a command whose answer matters to nobody."""
        if not self.is_ended:
            self.proxy.send_sooner_or_later(command(self.proxy.next_correlation_id()))

    # Events

    def _on_event(self, event: Any) -> None:
        # By the very class: some events are subclasses of others with the same fields.
        self._reactions.get(type(event), self._on_ready)(event)

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
            raise self.liveness.given_up("that the driver has waited for it in vain")

    def _on_ready(self, event: Any) -> None:
        """Something that was asked for; ids that nobody waits for are other clients'."""
        pending = self._pending.pop(event.correlation_id, None)
        if pending is not None:
            pending.registration.succeed_with(lambda: pending.make(event))

    def _on_error(self, event: OnError) -> None:
        if event.error_code == ErrorCode.CHANNEL_ENDPOINT_ERROR:
            # The id is of the status counter of a channel that was added before, or of a command.
            channels = list(self.resources.channels_of(event.correlation_id))
            for channel in channels:
                self.handlers.report(ChannelEndpointFailed(channel, found=event.message, expected="a working channel"))
            if channels:
                return
        pending = self._pending.pop(event.correlation_id, None)
        if pending is not None:
            what = pending.registration.what
            self._refuse(pending, RegistrationRefused.of(what, event.error_code, event.message))

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
        """End the client, and tell the driver; a second call does nothing."""
        if not self.is_ended:
            self._end(_closed())
            self.proxy.send_sooner_or_later(ClientClose(self.client_id, NULL))

    def fail(self, error: EverlogError) -> None:
        """End the client because of an error, which is reported."""
        if not self.is_ended:
            self.failure = error
            self._end(error)
            self.handlers.report(error)

    def abandon(self, error: EverlogError) -> None:
        """End the client without a word to the driver or to handlers: in a copy of the process that has it."""
        self.is_ended, self.failure = True, error
        self.resources.detach()
        self._fail_pending(error)

    def _end(self, error: EverlogError) -> None:
        self.is_ended = True
        self._fail_pending(error)
        for subscription, image in self.resources.detach():
            self.handlers.call(subscription.on_unavailable_image, image)
        self.handlers.call_all(self.handlers.close)

    def _fail_pending(self, error: EverlogError) -> None:
        for pending in self._pending.values():
            pending.registration.fail(error)
        self._pending.clear()

    def _refuse(self, pending: _Pending, error: EverlogError) -> None:
        """There will be no result, and no subscription that was ready for it."""
        subscription = self.resources.subscriptions.pop(pending.registration.registration_id, None)
        if subscription is not None:
            self._detach(subscription)
        pending.registration.fail(error)

    def _detach(self, subscription: Subscription) -> None:
        for image in subscription.detach():
            self.handlers.call(subscription.on_unavailable_image, image)


def _closed() -> ClientClosed:
    return ClientClosed("client", found="it is closed", expected="an open one")


def _check_counter(label: str, key: bytes) -> None:
    """Raises :class:`UsageError`."""
    if len(label) > MAX_LABEL_LENGTH:
        raise UsageError("counter", found=f"a label of {len(label)}", expected=f"at most {MAX_LABEL_LENGTH} letters")
    if len(key) > MAX_KEY_LENGTH:
        raise UsageError("counter", found=f"a key of {len(key)} bytes", expected=f"at most {MAX_KEY_LENGTH}")
