"""Notifies clients that an image of a subscription is available or unavailable. Source: DriverConductor."""

from __future__ import annotations

from everlog.aeron.transport.driver.commands.client_proxy import ClientProxy
from everlog.aeron.transport.driver.links import SubscriptionLink
from everlog.aeron.transport.protocol import commands


class ImageNotices:
    """Sends notices to all clients; each client picks out those of its own subscriptions."""

    def __init__(self, client_proxy: ClientProxy) -> None:
        self._client_proxy = client_proxy

    def available(
        self, image: tuple[int, int], link: SubscriptionLink, position_id: int, log_name: str, source: str
    ) -> None:
        """Notify that an image is available. ``image`` is its correlation id and session id; ``position_id`` is the id
        of the counter that the subscriber moves; ``source`` is the source identity."""
        correlation_id, session_id = image
        event = commands.OnAvailableImage(
            correlation_id, session_id, link.stream_id, link.registration_id, position_id, log_name, source
        )
        self._client_proxy.transmit(event)

    def unavailable(self, correlation_id: int, link: SubscriptionLink) -> None:
        """Notify that a subscription lost an image."""
        self._client_proxy.on_unavailable_image(correlation_id, link.registration_id, link.stream_id, link.channel)
