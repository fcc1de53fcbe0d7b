"""Network subscriptions: creates them, adds their sources, and closes them. Source: DriverConductor."""

from __future__ import annotations

from everlog.aeron.transport.driver.commands.command_errors import unknown_subscription
from everlog.aeron.transport.driver.commands.subscription_params import subscription_params
from everlog.aeron.transport.driver.links import SubscriptionLink
from everlog.aeron.transport.driver.network import channel_rules
from everlog.aeron.transport.driver.network.context import NetworkContext
from everlog.aeron.transport.driver.network.images import NetworkImages
from everlog.aeron.transport.driver.network.links import NetworkSubscriptionLink
from everlog.aeron.transport.driver.network.receive_endpoints import ReceiveEndpoints
from everlog.aeron.transport.driver.receiver.endpoint import ReceiveEndpoint
from everlog.aeron.transport.protocol import commands
from everlog.runtime.tasks import Steps, finished


class NetworkSubscriptions:
    """Handles subscriptions to ``aeron:udp`` channels."""

    def __init__(self, parts: NetworkContext, endpoints: ReceiveEndpoints, images: NetworkImages) -> None:
        self._parts = parts
        self._context = parts.context
        self._streams = parts.streams
        self._endpoints = endpoints
        self._images = images

    def add(self, command: commands.AddSubscription) -> Steps[None]:
        """Create a subscription, link it to existing images, and let the receiver request more."""
        channel = yield from finished(self._parts.channels.parse(command.channel))
        yield from self._parts.releases.finish(self._context)
        channel_rules.check_subscription_channel(channel)
        params = subscription_params(channel.uri, self._context.configuration)
        self._endpoints.check_for_clash(params, channel, command.stream_id)
        endpoint = self._endpoints.get_or_create(params, channel, command.correlation_id)
        try:
            client = self._streams.clients.get_or_add(command.client_id, self._context.now_ms)
        except BaseException:
            self._endpoints.close_if_unused(endpoint)
            raise
        ids = command.correlation_id, command.stream_id
        link = NetworkSubscriptionLink(endpoint, ids, command.channel, client, params)
        self._streams.subscription_links.append(link)
        if channel.is_response_control_mode:
            endpoint.inc_response_ref_to_stream(link.stream_id)
            link.awaits_response = True
        else:
            self._subscribe_receiver(link)
        self._context.client_proxy.on_subscription_ready(command.correlation_id, endpoint.status_indicator_counter_id)
        self._images.link_subscription(link)

    def _subscribe_receiver(self, link: NetworkSubscriptionLink) -> None:
        """Let the receiver take a stream, or one session of it, for the first subscription to it."""
        endpoint, stream_id, session_id = link.endpoint, link.stream_id, link.session_id
        if session_id is not None:
            count = endpoint.inc_ref_to_stream_and_session(stream_id, session_id)
        else:
            count = endpoint.inc_ref_to_stream(stream_id)
        if count == 1:
            self._parts.receiver.add_subscription(endpoint, stream_id, session_id)

    def cleanup_link(self, link: SubscriptionLink) -> None:
        """Clean up a removed subscription; after the last one to a stream, the receiver drops the stream."""
        if not isinstance(link, NetworkSubscriptionLink):
            return
        endpoint, stream_id, session_id = link.endpoint, link.stream_id, link.session_id
        if link.awaits_response:
            endpoint.dec_response_ref_to_stream(stream_id)
        elif session_id is not None:
            if endpoint.dec_ref_to_stream_and_session(stream_id, session_id) == 0:
                self._parts.receiver.remove_subscription(endpoint, stream_id, session_id)
        elif endpoint.dec_ref_to_stream(stream_id) == 0:
            self._parts.receiver.remove_subscription(endpoint, stream_id)
        self._endpoints.close_if_unused(endpoint)

    # Sources

    def add_destination(self, command: commands.AddRcvDestination) -> Steps[None]:
        """Add a source to a subscription."""
        registration_id, text = command.registration_correlation_id, command.channel
        channel = yield from finished(self._parts.channels.parse(text, is_destination=True))
        channel_rules.check_destination(channel.uri, text)
        yield from self._parts.releases.finish(self._context)
        link = self._streams.destination_link(registration_id)
        if not isinstance(link, NetworkSubscriptionLink):
            raise unknown_subscription(registration_id, "MDS")
        transport = self._endpoints.open_destination(link.endpoint, channel, registration_id)
        self._parts.receiver.add_destination(link.endpoint, transport)
        self._context.client_proxy.operation_succeeded(command.correlation_id)

    def remove_destination(self, command: commands.RemoveRcvDestination) -> Steps[None]:
        """Remove a source from a subscription."""
        endpoint = self._endpoint_of(command.registration_correlation_id)
        endpoint.validate_allows_destination_control()
        channel = yield from finished(self._parts.channels.parse(command.channel, is_destination=True))
        self._parts.releases.begin(self._context.now_ns)
        self._parts.receiver.remove_destination(endpoint, channel)
        self._context.client_proxy.operation_succeeded(command.correlation_id)

    def _endpoint_of(self, registration_id: int) -> ReceiveEndpoint:
        for link in self._streams.subscription_links:
            if link.registration_id == registration_id and isinstance(link, NetworkSubscriptionLink):
                return link.endpoint
        raise unknown_subscription(registration_id)

    # Responses

    def on_response_setup(self, response_correlation_id: int, response_session_id: int) -> None:
        """Set the session id of a subscription's responses."""
        for link in self._streams.subscription_links:
            if link.registration_id == response_correlation_id and isinstance(link, NetworkSubscriptionLink):
                if link.session_id is not None:
                    self._parts.receiver.request_setup(link.endpoint, link.stream_id, link.session_id)
                else:
                    link.session_id = response_session_id
                    self._subscribe_receiver(link)
                    link.endpoint.dec_response_ref_to_stream(link.stream_id)
                    link.awaits_response = False
                break

    def on_response_connected(self, response_correlation_id: int) -> None:
        """Stop sending a response's session id to the source, because the response is connected."""
        for image in self._streams.images:
            if image.correlation_id == response_correlation_id and image.has_send_response_setup:
                image.set_response_session_id(None)
