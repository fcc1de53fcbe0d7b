"""Checks of network channels, alone and against existing endpoints. Refusals have the texts of Java's driver. Source:
DriverConductor, PublicationParams, SubscriptionParams."""

from __future__ import annotations

from typing import Protocol

from everlog.aeron.channel_uri import ChannelUri
from everlog.aeron.transport.driver.commands.command_errors import (
    CommandRefused,
    illegal_argument,
    illegal_state,
    invalid_channel,
)
from everlog.aeron.transport.media.udp_channel import ControlMode, UdpChannel

NOT_IN_DESTINATIONS = ("mtu", "rcv-wnd", "so-rcvbuf", "so-sndbuf", "response-correlation-id")


class ExistingEndpoint(Protocol):
    """An existing endpoint."""

    @property
    def original_uri(self) -> str: ...
    @property
    def socket_rcvbuf_length(self) -> int: ...
    @property
    def socket_sndbuf_length(self) -> int: ...


def check_publication_channel(channel: UdpChannel) -> None:
    """Check that a publication's channel says where to send."""
    uri = channel.original_uri
    if not channel.is_multi_destination and channel.has_explicit_endpoint and channel.remote_data.port == 0:
        raise illegal_argument(f"endpoint has port=0 for publication: channel={uri}")
    if channel.is_dynamic_control_mode and not channel.has_explicit_control:
        raise illegal_argument(f"'control-mode=dynamic' requires that 'control' parameter is set, channel={uri}")
    is_alone = channel.has_explicit_control and not channel.has_explicit_endpoint
    if is_alone and channel.control_mode is ControlMode.NONE:
        raise illegal_argument(
            f"'control' parameter requires that either 'endpoint' or 'control-mode' is specified, channel={uri}"
        )


def check_subscription_channel(channel: UdpChannel) -> None:
    """Check a subscription's channel: its control port, and that it needs no media timestamps."""
    uri = channel.original_uri
    if channel.has_explicit_control and channel.local_control.port == 0:
        raise illegal_argument(f"control has port=0 for subscription: channel={uri}")
    if channel.uri.get("media-rcv-ts-offset") is not None:
        raise invalid_channel(
            f"Media timestamps 'media-rcv-ts-offset' are not supported in the Java driver: channel={uri}"
        )


def check_destination(uri: ChannelUri, text: str) -> None:
    """Check that a destination has an address and no parameters of a whole channel."""
    if uri.is_spy:
        raise invalid_channel(f"Aeron spies are invalid as send destinations: channel={text}")
    for key in NOT_IN_DESTINATIONS:
        if uri.get(key) is not None:
            raise invalid_channel(f"destinations must not contain the key: {key} channel={text}")
    if uri.get("control-mode") == "response":
        raise invalid_channel("destinations may not specify control-mode=response")


def check_send_destination(uri: ChannelUri, text: str) -> None:
    """Check that a send destination has a port."""
    endpoint = uri.get("endpoint")
    if endpoint is not None and endpoint.endswith(":0"):
        raise invalid_channel(f"endpoint has port=0 for send destination: channel={text}")


def check_mtu(mtu_length: int, sndbuf: int, default_sndbuf: int, channel: str, existing: str | None) -> None:
    """Check that a datagram fits into the socket's send buffer. ``sndbuf`` is the configured length, or 0."""
    if mtu_length > (sndbuf or default_sndbuf):
        length = str(sndbuf) if sndbuf else f"{default_sndbuf} (OS default)"
        text = f"MTU greater than SO_SNDBUF for channel: mtu={mtu_length} so-sndbuf={length}"
        raise _too_long(text, channel, existing)


def check_window(window: int, rcvbuf: int, default_rcvbuf: int, channel: str, existing: str | None) -> None:
    """Check that a window fits into the socket's receive buffer. ``rcvbuf`` is the configured length, or 0."""
    if window > (rcvbuf or default_rcvbuf):
        length = str(rcvbuf) if rcvbuf else f"{default_rcvbuf} (OS default)"
        text = f"Initial window greater than SO_RCVBUF for channel: rcv-wnd={window} so-rcvbuf={length}"
        raise _too_long(text, channel, existing)


def check_buffers(channel: UdpChannel, endpoint: ExistingEndpoint) -> None:
    """Check that a channel's socket buffer lengths, if given, are those of the endpoint it shares."""
    pairs = (
        ("so-rcvbuf", channel.socket_rcvbuf_length, endpoint.socket_rcvbuf_length),
        ("so-sndbuf", channel.socket_sndbuf_length, endpoint.socket_sndbuf_length),
    )
    for name, asked, existing in pairs:
        if asked and asked != existing:
            raise invalid_channel(
                f"{name}={asked} does not match existing value of {existing or 'OS default'}:"
                f" existingChannel={endpoint.original_uri} channel={channel.original_uri}"
            )


def check_option(name: str, asked: object, existing: object, existing_channel: str, channel: str) -> None:
    """Check that an option has the same value as for the endpoint or stream that is shared."""
    if asked != existing:
        raise conflict(name, asked, existing_channel, channel)


def conflict(name: str, asked: object, existing_channel: str, channel: str) -> CommandRefused:
    """Return the refusal of an option that conflicts with an existing subscription."""
    value = -1 if asked is None else str(asked).lower() if isinstance(asked, bool) else asked
    return invalid_channel(
        f"option conflicts with existing subscription: {name}={value}"
        f" existingChannel={existing_channel} channel={channel}"
    )


def _too_long(text: str, channel: str, existing: str | None) -> CommandRefused:
    there = "" if existing is None else f" existingChannel={existing}"
    return illegal_state(f"{text}{there} channel={channel}")
