"""Sending endpoints: finds, creates and closes them. Source: DriverConductor."""

from __future__ import annotations

from everlog.aeron.transport.driver import stream_counters
from everlog.aeron.transport.driver.commands.command_errors import (
    invalid_channel,
    temporarily_unavailable,
    unknown_publication,
)
from everlog.aeron.transport.driver.commands.publication_params import PublicationParams
from everlog.aeron.transport.driver.network import channel_rules
from everlog.aeron.transport.driver.network.endpoints import Endpoints
from everlog.aeron.transport.media.context import CLOSING
from everlog.aeron.transport.media.send_channel_endpoint import SendChannelEndpoint
from everlog.aeron.transport.media.udp_channel import UdpChannel


class SendEndpoints(Endpoints[SendChannelEndpoint]):
    """All sending endpoints of a driver. See :class:`Endpoints`."""

    def find(self, channel: UdpChannel) -> SendChannelEndpoint | None:
        """Find a channel's endpoint by its tag or its addresses. Raises :class:`CommandRefused` if it is closing, or if
        the channel has only a tag, which is unknown."""
        if channel.has_tag:
            for endpoint in self._endpoints:
                if endpoint.matches_tag(channel):
                    return endpoint
            is_named = channel.has_explicit_control or channel.uri.get("endpoint") is not None
            if not is_named and not channel.is_manual_control_mode:
                raise invalid_channel(
                    "URI must have explicit control, endpoint, or be manual control-mode when original:"
                    f" channel={channel.original_uri}"
                )
        found = self._of_form(channel)
        if found is not None:
            _check_open(found)
        return found

    def find_for_destinations(self, registration_id: int) -> SendChannelEndpoint:
        """Find the endpoint of a publication with manual destinations. Raises :class:`CommandRefused`."""
        for publication in self._parts.streams.network_publications:
            if publication.registration_id == registration_id:
                endpoint = self.of(publication.channel_endpoint)
                endpoint.validate_allows_manual_control()
                _check_open(endpoint)
                return endpoint
        raise unknown_publication(registration_id)

    def of(self, endpoint: object) -> SendChannelEndpoint:
        """Narrow the type of a publication's endpoint."""
        assert isinstance(endpoint, SendChannelEndpoint)
        return endpoint

    def check(self, params: PublicationParams, channel: UdpChannel, endpoint: SendChannelEndpoint) -> None:
        """Raises :class:`CommandRefused` if a channel contradicts its existing endpoint."""
        existing = endpoint.original_uri
        asked, there = channel.channel_send_timestamp_offset, endpoint.udp_channel.channel_send_timestamp_offset
        channel_rules.check_option("channel-snd-ts-offset", asked, there, existing, channel.original_uri)
        default = self._parts.context.system_sockets.default_sndbuf
        channel_rules.check_mtu(
            params.mtu_length, endpoint.socket_sndbuf_length, default, channel.original_uri, existing
        )
        channel_rules.check_buffers(channel, endpoint)

    def get_or_create(
        self, params: PublicationParams, channel: UdpChannel, registration_id: int
    ) -> SendChannelEndpoint:
        """Find or create a channel's endpoint. Raises :class:`CommandRefused`, and the errors of opening a socket."""
        endpoint = self.find(channel)
        if endpoint is not None:
            self.check(params, channel, endpoint)
            return endpoint
        context, parts, uri = self._parts.context, self._parts, channel.original_uri
        counters, now_ms = context.counters, context.now_ms
        status = stream_counters.send_channel_status(counters, registration_id, uri, now_ms)
        endpoint = SendChannelEndpoint(channel, status, parts.media)
        try:
            endpoint.local_socket_address_indicator = stream_counters.local_socket_address(
                counters, registration_id, status.id, stream_counters.SEND_LOCAL_ADDRESS, now_ms
            )
            if channel.is_multi_destination:
                endpoint.destinations_counter = stream_counters.mdc_destinations(counters, registration_id, uri, now_ms)
            default = context.system_sockets.default_sndbuf
            channel_rules.check_mtu(params.mtu_length, endpoint.socket_sndbuf_length, default, uri, None)
            endpoint.open_channel()
            endpoint.indicate_active()
        except BaseException:
            endpoint.close()
            raise
        parts.sender.register_send_channel_endpoint(endpoint)
        self._endpoints.append(endpoint)
        return endpoint

    def _ask_to_release(self, endpoint: SendChannelEndpoint) -> None:
        self._parts.sender.close_send_channel_endpoint(endpoint)


def _check_open(endpoint: SendChannelEndpoint) -> None:
    if endpoint.status == CLOSING:
        raise temporarily_unavailable("SendChannelEndpoint found in CLOSING state, please retry")
