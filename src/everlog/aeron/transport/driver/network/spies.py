"""Spies: subscriptions that read network publications of the same driver. Source: DriverConductor."""

from __future__ import annotations

from everlog.aeron.transport.driver.commands.clients import Client
from everlog.aeron.transport.driver.commands.command_errors import unknown_subscription
from everlog.aeron.transport.driver.commands.subscription_params import SubscriptionParams, subscription_params
from everlog.aeron.transport.driver.conductor.local_streams import link_reader
from everlog.aeron.transport.driver.network.context import NetworkContext
from everlog.aeron.transport.driver.network.links import SpySubscriptionLink
from everlog.aeron.transport.driver.sender.network_publication import NetworkPublication
from everlog.aeron.transport.driver.stream_counters import NO_STATUS
from everlog.aeron.transport.media.send_channel_endpoint import SendChannelEndpoint
from everlog.aeron.transport.media.udp_channel import UdpChannel
from everlog.aeron.transport.protocol import commands
from everlog.runtime.tasks import Steps, finished


class Spies:
    """Handles ``aeron-spy:aeron:udp`` channels."""

    def __init__(self, parts: NetworkContext) -> None:
        self._parts = parts
        self._context = parts.context
        self._streams = parts.streams

    def add_subscription(self, command: commands.AddSubscription) -> Steps[None]:
        """Create a spy, with an image of each matching publication."""
        channel = yield from finished(self._parts.channels.parse(command.channel))
        params = subscription_params(channel.uri, self._context.configuration)
        client = self._streams.clients.get_or_add(command.client_id, self._context.now_ms)
        ids = command.correlation_id, command.stream_id
        link = self._new(channel, ids, client, params)
        self._context.client_proxy.on_subscription_ready(command.correlation_id, NO_STATUS)
        self._link_subscription(link)

    def add_destination(self, command: commands.AddRcvDestination) -> Steps[None]:
        """Add a spy to a multi-destination subscription."""
        registration_id = command.registration_correlation_id
        channel = yield from finished(self._parts.channels.parse(command.channel))
        params = subscription_params(channel.uri, self._context.configuration)
        owner = self._streams.destination_link(registration_id)
        if owner is None:
            raise unknown_subscription(registration_id, "MDS")
        link = self._new(channel, (registration_id, owner.stream_id), owner.client, params)
        self._context.client_proxy.operation_succeeded(command.correlation_id)
        self._link_subscription(link)

    def _new(
        self, channel: UdpChannel, ids: tuple[int, int], client: Client, params: SubscriptionParams
    ) -> SpySubscriptionLink:
        link = SpySubscriptionLink(channel, ids, client, params)
        self._streams.subscription_links.append(link)
        return link

    def _link_subscription(self, link: SpySubscriptionLink) -> None:
        for publication in self._streams.network_publications:
            is_for_it = link.matches_publication(publication, channel_of(publication))
            if is_for_it and publication.is_accepting_subscriptions:
                self._link(publication, link)

    def link_publication(self, publication: NetworkPublication) -> None:
        """Link all matching spies to a new publication."""
        channel = channel_of(publication)
        for link in list(self._streams.subscription_links):
            if not isinstance(link, SpySubscriptionLink) or link.is_linked(publication):
                continue
            if link.matches_publication(publication, channel):
                self._link(publication, link)

    def _link(self, publication: NetworkPublication, link: SpySubscriptionLink) -> None:
        link_reader(self._context, self._streams, publication, link, publication.consumer_position)

    def cleanup(self, publication: NetworkPublication) -> None:
        """Notify and unlink all spies of a publication."""
        for link in self._streams.subscription_links:
            if link.is_linked(publication):
                self._streams.notices.unavailable(publication.registration_id, link)
                link.unlink(publication)


def channel_of(publication: NetworkPublication) -> UdpChannel:
    """The channel on which a publication is sent."""
    endpoint = publication.channel_endpoint
    assert isinstance(endpoint, SendChannelEndpoint)
    return endpoint.udp_channel
