"""Telling clients of images: that a subscription has one, or lost it. Source: DriverConductor."""

from __future__ import annotations

from everlog.aeron.transport.driver.commands.client_proxy import ClientProxy
from everlog.aeron.transport.driver.links import SubscriptionLink
from everlog.aeron.transport.protocol import commands


class ImageNotices:
    """To all clients; each knows its own subscriptions."""

    def __init__(self, client_proxy: ClientProxy) -> None:
        self._client_proxy = client_proxy

    def available(
        self, image: tuple[int, int], link: SubscriptionLink, position_id: int, log_name: str, source: str
    ) -> None:
        """``image``: its correlation id and session id; ``position_id``: the counter that the subscriber moves;
        ``source``: where it comes from."""
        correlation_id, session_id = image
        event = commands.OnAvailableImage(
            correlation_id, session_id, link.stream_id, link.registration_id, position_id, log_name, source
        )
        self._client_proxy.transmit(event)

    def unavailable(self, correlation_id: int, link: SubscriptionLink) -> None:
        """The subscription has it no more."""
        self._client_proxy.on_unavailable_image(correlation_id, link.registration_id, link.stream_id, link.channel)
