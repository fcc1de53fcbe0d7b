"""Receiving endpoints: finds, creates and closes them. Source: DriverConductor."""

from __future__ import annotations

from everlog.aeron.transport.driver import stream_counters
from everlog.aeron.transport.driver.commands.command_errors import temporarily_unavailable
from everlog.aeron.transport.driver.commands.subscription_params import SubscriptionParams
from everlog.aeron.transport.driver.network import channel_rules
from everlog.aeron.transport.driver.network.endpoints import Endpoints
from everlog.aeron.transport.driver.network.links import NetworkSubscriptionLink
from everlog.aeron.transport.driver.receiver.endpoint import ReceiveEndpoint
from everlog.aeron.transport.media.context import CLOSING
from everlog.aeron.transport.media.receive_channel_endpoint import ReceiveChannelEndpoint
from everlog.aeron.transport.media.receive_destination import ReceiveDestinationTransport
from everlog.aeron.transport.media.udp_channel import UdpChannel


class ReceiveEndpoints(Endpoints[ReceiveEndpoint]):
    """All receiving endpoints of a driver. See :class:`Endpoints`."""

    def find(self, channel: UdpChannel) -> ReceiveEndpoint | None:
        """Find a channel's endpoint by its tag or its addresses. Raises :class:`CommandRefused` if it is closing."""
        if channel.has_tag:
            for endpoint in self._endpoints:
                if endpoint.matches_tag(channel):
                    return endpoint
        found = self._of_form(channel)
        if found is not None and found.status == CLOSING:
            raise temporarily_unavailable("ReceiveChannelEndpoint found in CLOSING state, please retry")
        return found

    def check_for_clash(self, params: SubscriptionParams, channel: UdpChannel, stream_id: int) -> None:
        """Raises :class:`CommandRefused` if a subscription's options differ from those of existing subscriptions to the
        stream on the same endpoint."""
        endpoint = self.find(channel)
        if endpoint is None:
            return
        self.check(params, channel, endpoint)
        if channel.has_tag and not endpoint.matches_tag(channel):
            return
        for link in self._parts.streams.subscription_links:
            if isinstance(link, NetworkSubscriptionLink) and link.clashes(endpoint, stream_id, params):
                for name, asked, existing in (
                    ("reliable", params.is_reliable, link.is_reliable),
                    ("rejoin", params.is_rejoin, link.is_rejoin),
                    ("isResponse", params.is_response, link.is_response),
                ):
                    channel_rules.check_option(name, asked, existing, link.channel, channel.original_uri)

    def check(self, params: SubscriptionParams, channel: UdpChannel, endpoint: ReceiveEndpoint) -> None:
        """Raises :class:`CommandRefused` if a channel contradicts its existing endpoint."""
        existing, uri = endpoint.original_uri, channel.original_uri
        there = endpoint.udp_channel.channel_receive_timestamp_offset
        channel_rules.check_option(
            "channel-rcv-ts-offset", channel.channel_receive_timestamp_offset, there, existing, uri
        )
        default = self._parts.context.system_sockets.default_rcvbuf
        window = params.receiver_window_length
        channel_rules.check_window(window, endpoint.socket_rcvbuf_length, default, uri, existing)
        channel_rules.check_buffers(channel, endpoint)

    def get_or_create(self, params: SubscriptionParams, channel: UdpChannel, registration_id: int) -> ReceiveEndpoint:
        """Find or create a channel's endpoint. Raises :class:`CommandRefused`, and the errors of opening a socket."""
        endpoint = self.find(channel)
        if endpoint is not None:
            self.check(params, channel, endpoint)
            return endpoint
        context, parts, uri = self._parts.context, self._parts, channel.original_uri
        counters, now_ms = context.counters, context.now_ms
        status = stream_counters.receive_channel_status(counters, registration_id, uri, now_ms)
        endpoint = ReceiveChannelEndpoint(channel, parts.new_dispatcher(), status, parts.media, context.now_ns)
        try:
            if not channel.is_manual_control_mode:
                endpoint.local_socket_address_indicator = stream_counters.local_socket_address(
                    counters, registration_id, status.id, stream_counters.RECEIVE_LOCAL_ADDRESS, now_ms
                )
            default = context.system_sockets.default_rcvbuf
            window = params.receiver_window_length
            channel_rules.check_window(window, endpoint.socket_rcvbuf_length, default, uri, None)
            endpoint.open_channel()
            endpoint.indicate_active()
        except BaseException:
            endpoint.close()
            raise
        parts.receiver.register_receive_channel_endpoint(endpoint)
        self._endpoints.append(endpoint)
        return endpoint

    def open_destination(
        self, endpoint: ReceiveEndpoint, channel: UdpChannel, registration_id: int
    ) -> ReceiveDestinationTransport:
        """Open another source of a multi-destination subscription. Raises :class:`InvalidChannel` for one too many, and
        the errors of opening a socket."""
        endpoint.check_room_for_destination()
        context = self._parts.context
        indicator = stream_counters.local_socket_address(
            context.counters,
            registration_id,
            endpoint.status_indicator_counter_id,
            stream_counters.RECEIVE_LOCAL_ADDRESS,
            context.now_ms,
        )
        lengths = endpoint.buffer_lengths
        transport = ReceiveDestinationTransport(channel, self._parts.media, indicator, lengths, context.now_ns)
        try:
            transport.open_channel()
            transport.indicate_active()
        except BaseException:
            transport.close()
            raise
        endpoint.admit_destination(transport)
        return transport

    def _ask_to_release(self, endpoint: ReceiveEndpoint) -> None:
        self._parts.receiver.close_receive_channel_endpoint(endpoint)


def receive_endpoint(endpoint: object) -> ReceiveEndpoint:
    """Narrow the type of an image's endpoint."""
    assert isinstance(endpoint, ReceiveChannelEndpoint)
    return endpoint
