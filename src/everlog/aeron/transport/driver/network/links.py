"""Links of network subscriptions, and of spies on publications of the same driver. Source: NetworkSubscriptionLink,
SpySubscriptionLink."""

from __future__ import annotations

from everlog.aeron.transport.driver.commands.clients import Client
from everlog.aeron.transport.driver.commands.subscription_params import SubscriptionParams
from everlog.aeron.transport.driver.links import SubscriptionLink
from everlog.aeron.transport.driver.receiver.endpoint import ReceiveEndpoint
from everlog.aeron.transport.driver.receiver.publication_image import PublicationImage
from everlog.aeron.transport.driver.sender.network_publication import NetworkPublication
from everlog.aeron.transport.media.udp_channel import UdpChannel


class NetworkSubscriptionLink(SubscriptionLink):
    """A subscription to images received on ``endpoint``."""

    def __init__(
        self, endpoint: ReceiveEndpoint, ids: tuple[int, int], channel: str, client: Client, params: SubscriptionParams
    ) -> None:
        """Create a link. ``ids`` are its registration id and stream id."""
        super().__init__(ids[0], ids[1], channel, client, params)
        self.endpoint = endpoint
        self.is_reliable = params.is_reliable
        self.has_destinations = endpoint.has_destination_control
        self.awaits_response = False
        """Whether the endpoint counts the subscription as waiting for a response, not as one to a stream."""

    def matches_image(self, image: PublicationImage) -> bool:
        """Whether the subscription accepts an image."""
        return image.channel_endpoint is self.endpoint and self.matches_stream(image.stream_id, image.session_id)

    def matches_stream(self, stream_id: int, session_id: int) -> bool:
        """Whether the subscription accepts a session of a stream on its endpoint."""
        return stream_id == self.stream_id and self.matches_session(session_id)

    def clashes(self, endpoint: ReceiveEndpoint, stream_id: int, params: SubscriptionParams) -> bool:
        """Whether another subscription would share this one's images."""
        is_same_stream = endpoint is self.endpoint and stream_id == self.stream_id
        return is_same_stream and self.session_id == params.session_id


class SpySubscriptionLink(SubscriptionLink):
    """A spy on this driver's publications on the channel ``spied``."""

    def __init__(self, spied: UdpChannel, ids: tuple[int, int], client: Client, params: SubscriptionParams) -> None:
        """Create a link. ``ids`` are its registration id and stream id."""
        super().__init__(ids[0], ids[1], spied.original_uri, client, params)
        self.spied = spied

    def matches_publication(self, publication: NetworkPublication, channel: UdpChannel) -> bool:
        """Whether the spy accepts a publication, which is sent on ``channel``."""
        if publication.stream_id != self.stream_id:
            return False
        if self.spied.tag is not None and self.spied.tag == channel.tag:
            return True
        return self.matches_session(publication.session_id) and self.spied.canonical_form == channel.canonical_form
