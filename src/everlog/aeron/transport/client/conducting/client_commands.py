"""The client's commands to the driver. Source: Aeron's DriverProxy."""

from __future__ import annotations

from typing import Any

from everlog.aeron.layouts import NULL_VALUE
from everlog.aeron.transport.client.conducting.driver_proxy import DriverProxy
from everlog.aeron.transport.client.conducting.requests import Requests
from everlog.aeron.transport.client.conducting.resources import AnyPublication, Resources
from everlog.aeron.transport.client.counter import Counter
from everlog.aeron.transport.client.image import Image
from everlog.aeron.transport.client.options import ImageHandler
from everlog.aeron.transport.client.owner import Owner
from everlog.aeron.transport.client.registration import Registration
from everlog.aeron.transport.client.subscription import Subscription
from everlog.aeron.transport.format.counters import MAX_KEY_LENGTH, MAX_LABEL_LENGTH
from everlog.aeron.transport.protocol.commands import (
    AddCounter,
    AddExclusivePublication,
    AddPublication,
    AddStaticCounter,
    AddSubscription,
    GetNextAvailableSessionId,
    OnCounterReady,
    OnExclusivePublicationReady,
    OnNextAvailableSessionId,
    OnOperationSuccess,
    OnPublicationReady,
    OnStaticCounter,
    OnSubscriptionReady,
    RejectImage,
    RemoveCounter,
    RemovePublication,
    RemoveSubscription,
    TerminateDriver,
)
from everlog.errors import EverlogError, UsageError


class Commands:
    """Commands that add or query return a :class:`Registration` at once; they raise :class:`LimitExceeded` if the
    driver does not read its commands. Commands that close never raise; if the buffer is full they are sent later."""

    def __init__(self, proxy: DriverProxy, requests: Requests, resources: Resources, owner: Owner) -> None:
        self._proxy = proxy
        self._requests = requests
        self._resources = resources
        self._owner = owner
        self._client_id = proxy.client_id

    def add_publication(self, channel: str, stream_id: int, *, exclusive: bool) -> Registration[Any]:
        """Add a publication."""
        kind = AddExclusivePublication if exclusive else AddPublication

        def ready(event: OnPublicationReady | OnExclusivePublicationReady) -> AnyPublication:
            try:
                return self._resources.add_publication(channel, event)
            except EverlogError:
                self._requests.send(lambda new: RemovePublication(self._client_id, new, event.correlation_id))
                raise

        return self._requests.request(
            lambda new: kind(self._client_id, new, stream_id, channel),
            f"add-{'exclusive-' if exclusive else ''}publication {channel}, stream {stream_id}",
            (OnExclusivePublicationReady if exclusive else OnPublicationReady,),
            ready,
            lambda new, of: RemovePublication(self._client_id, new, of),
        )

    def add_subscription(
        self, channel: str, stream_id: int, handlers: tuple[ImageHandler | None, ImageHandler | None]
    ) -> Registration[Subscription]:
        """Add a subscription."""

        def ready(event: OnSubscriptionReady) -> Subscription:
            subscription = self._resources.subscriptions[event.correlation_id]
            subscription.channel_status_id = event.channel_status_id
            return subscription

        registration: Registration[Subscription] = self._requests.request(
            lambda new: AddSubscription(self._client_id, new, NULL_VALUE, stream_id, channel),
            f"add-subscription {channel}, stream {stream_id}",
            (OnSubscriptionReady,),
            ready,
            lambda new, of: RemoveSubscription(self._client_id, new, of),
        )
        new = registration.registration_id
        self._resources.subscriptions[new] = Subscription(self._owner, channel, stream_id, new, handlers)
        return registration

    def destination(self, kind: type[Any], registration_id: int, channel: str | int) -> Registration[int]:
        """Send a destination command. The result is the command's correlation id."""
        return self._requests.request(
            lambda new: kind(self._client_id, new, registration_id, channel),
            f"{kind.__name__} {channel} of {registration_id}",
            (OnOperationSuccess,),
            lambda event: int(event.correlation_id),
        )

    def add_counter(self, type_id: int, label: str, key: bytes) -> Registration[Counter]:
        """Add a counter that the driver frees when the client ends. Raises :class:`UsageError` if the label or key is
        too long."""
        _check_counter(label, key)
        return self._requests.request(
            lambda new: AddCounter(self._client_id, new, type_id, key, label),
            f"add-counter {label}",
            (OnCounterReady,),
            self._resources.add_counter,
            lambda new, of: RemoveCounter(self._client_id, new, of),
        )

    def add_static_counter(self, type_id: int, label: str, registration_id: int, key: bytes) -> Registration[Counter]:
        """Add or find the static counter with this type and registration id. Raises the errors of
        :meth:`add_counter`."""
        _check_counter(label, key)
        return self._requests.request(
            lambda new: AddStaticCounter(self._client_id, new, registration_id, type_id, key, label),
            f"add-static-counter {label}",
            (OnStaticCounter,),
            self._resources.add_counter,
        )

    def reject_image(self, image_correlation_id: int, position: int, reason: str) -> Registration[None]:
        """Ask the driver to reject an image."""
        return self._requests.request(
            lambda new: RejectImage(self._client_id, new, image_correlation_id, position, reason),
            f"reject-image {image_correlation_id}",
            (OnOperationSuccess,),
            lambda _: None,
        )

    def next_session_id(self, stream_id: int) -> Registration[int]:
        """Request a session id that no publication of the stream uses."""
        return self._requests.request(
            lambda new: GetNextAvailableSessionId(self._client_id, new, stream_id),
            f"next-available-session-id of stream {stream_id}",
            (OnNextAvailableSessionId,),
            lambda event: int(event.session_id),
        )

    def terminate_driver(self, token: bytes) -> None:
        """Ask the driver to terminate. It does not answer."""
        self._proxy.send(TerminateDriver(self._client_id, NULL_VALUE, token))

    def close_publication(self, registration_id: int, *, revoke: bool) -> None:
        """Detach the publication and have the driver remove it."""
        publication = self._resources.publications.pop(registration_id, None)
        if publication is not None:
            publication.detach()
            self._requests.send(lambda new: RemovePublication(self._client_id, new, registration_id, revoke))

    def close_subscription(self, registration_id: int) -> tuple[Subscription, tuple[Image, ...]] | None:
        """Detach the subscription and have the driver remove it. Returns it with the images it had; ``None`` if it was
        closed before."""
        subscription = self._resources.subscriptions.pop(registration_id, None)
        if subscription is None:
            return None
        self._requests.send(lambda new: RemoveSubscription(self._client_id, new, registration_id))
        return subscription, subscription.detach()

    def close_counter(self, correlation_id: int) -> None:
        """Detach the counter and have the driver free it, unless it is static."""
        counter = self._resources.counters.pop(correlation_id, None)
        if counter is not None:
            counter.detach()
            if not counter.is_static:
                self._requests.send(lambda new: RemoveCounter(self._client_id, new, correlation_id))


def _check_counter(label: str, key: bytes) -> None:
    if len(label) > MAX_LABEL_LENGTH:
        raise UsageError("counter label", found=str(len(label)), expected=f"at most {MAX_LABEL_LENGTH} characters")
    if len(key) > MAX_KEY_LENGTH:
        raise UsageError("counter key", found=str(len(key)), expected=f"at most {MAX_KEY_LENGTH} bytes")
