"""Derives a UDP channel's addresses, interface and control mode from its URI. Source: Aeron, UdpChannel."""

from __future__ import annotations

import enum
import itertools
import socket
from dataclasses import dataclass

from everlog.aeron.channel_parameters import INT32, MAX_INT32, duration_ns, int64, parse_number, parse_size, wrong
from everlog.aeron.channel_uri import UDP, ChannelUri, InvalidChannel
from everlog.aeron.java_exception import ILLEGAL_ARGUMENT, JavaException
from everlog.aeron.transport.media.interfaces import (
    ANY_INTERFACE,
    Interfaces,
    NetworkInterface,
    ResolvedInterface,
    parse_interface,
    system_interfaces,
)
from everlog.aeron.transport.media.name_resolver import DEFAULT_RESOLVER, NameResolver, known_address
from everlog.kernel.socket_address import SocketAddress

ENDPOINT, CONTROL, CONTROL_MODE = "endpoint", "control", "control-mode"
RESERVED_VALUE_OFFSET = -8
"""The offset, from the payload's start, of a timestamp that goes into a frame's reserved value."""
MAX_TTL = 255
_ANY_V4, _ANY_V6 = SocketAddress("0.0.0.0", 0), SocketAddress("::", 0)
_unique = itertools.count()


class ControlMode(enum.Enum):
    """How a publication gets its destinations: one endpoint, from status messages, manually, or as the response to
    another channel."""

    NONE = ""
    DYNAMIC = "dynamic"
    MANUAL = "manual"
    RESPONSE = "response"


@dataclass(frozen=True, eq=False, kw_only=True)
class UdpChannel:
    """A channel's addresses, from its parameters. Channels that share a socket have the same ``canonical_form``, which
    their comparison uses. Lengths are 0 if the channel leaves them to the driver."""

    uri: ChannelUri
    original_uri: str
    canonical_form: str
    family: int
    remote_data: SocketAddress
    local_data: SocketAddress
    remote_control: SocketAddress
    local_control: SocketAddress
    control_mode: ControlMode
    local_interface: NetworkInterface | None = None
    is_multicast: bool = False
    has_explicit_endpoint: bool = False
    has_explicit_control: bool = False
    tag: int | None = None
    multicast_ttl: int | None = None
    socket_rcvbuf_length: int = 0
    socket_sndbuf_length: int = 0
    receiver_window_length: int = 0
    channel_receive_timestamp_offset: int | None = None
    channel_send_timestamp_offset: int | None = None
    group_tag: int | None = None
    nak_delay_ns: int | None = None

    @classmethod
    def parse(
        cls,
        channel: str,
        resolver: NameResolver = DEFAULT_RESOLVER,
        is_destination: bool = False,
        interfaces: Interfaces = system_interfaces,
    ) -> UdpChannel:
        """Parse a channel. Raises :class:`InvalidChannel`, which names the parameter, and its subclass ``UnknownHost``.
        Resolves names, which may take as long as the resolver does."""
        uri = ChannelUri.parse(channel)
        _check_media(uri, channel)
        return _Reader(uri, channel, resolver, interfaces, is_destination).channel()

    @property
    def has_tag(self) -> bool:
        """Whether the channel has a tag."""
        return self.tag is not None

    @property
    def is_manual_control_mode(self) -> bool:
        """Whether the user adds destinations."""
        return self.control_mode is ControlMode.MANUAL

    @property
    def is_dynamic_control_mode(self) -> bool:
        """Whether status messages add destinations."""
        return self.control_mode is ControlMode.DYNAMIC

    @property
    def is_response_control_mode(self) -> bool:
        """Whether it is the response to another channel."""
        return self.control_mode is ControlMode.RESPONSE

    @property
    def is_multi_destination(self) -> bool:
        """Whether it may have several destinations."""
        return self.is_manual_control_mode or self.is_dynamic_control_mode

    @property
    def has_group_semantics(self) -> bool:
        """Whether it may have several receivers."""
        return self.is_multicast or self.is_multi_destination

    @property
    def description(self) -> str:
        """A readable description."""
        return f"localData: {self.local_data}, remoteData: {self.remote_data}, ttl: {self.multicast_ttl or 0}"

    def matches_tag(
        self,
        other: UdpChannel,
        local_address: SocketAddress | None = None,
        remote_address: SocketAddress | None = None,
    ) -> bool:
        """Whether this channel refers to the endpoint of ``other`` by its tag; the addresses may have changed since.
        Raises :class:`TagMismatch` if the tags are equal and the rest contradicts."""
        if self.tag is None or self.tag != other.tag:
            return False
        differ = f"{self.original_uri} <> {other.original_uri}"
        if self.control_mode is not ControlMode.NONE and self.control_mode is not other.control_mode:
            found = f"matching tag={self.tag} has mismatched control-mode: {differ}"
            raise _mismatch(found, "the same control-mode")
        theirs = (remote_address or other.remote_data, local_address or other.local_data)
        if not self._is_wildcard and (self.remote_data, self.local_data) != theirs:
            found = f"matching tag={self.tag} has mismatched endpoint or control: {differ}"
            raise _mismatch(found, "the same endpoint and control, or neither")
        return True

    @property
    def _is_wildcard(self) -> bool:
        ends = (self.remote_data, self.local_data)
        return all(end.is_any and end.port == 0 for end in ends)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UdpChannel) and self.canonical_form == other.canonical_form

    def __hash__(self) -> int:
        return hash(self.canonical_form)

    def __str__(self) -> str:
        return self.canonical_form


def control_mode_of(uri: ChannelUri) -> ControlMode:
    """The control mode; an unknown one counts as none, as in Aeron."""
    text = uri.get(CONTROL_MODE) or ""
    return ControlMode(text) if text in {mode.value for mode in ControlMode} else ControlMode.NONE


class TagMismatch(InvalidChannel):
    """A channel has the tag of an existing endpoint but contradicts it otherwise."""


def _mismatch(found: str, expected: str) -> TagMismatch:
    java = JavaException(ILLEGAL_ARGUMENT, found)
    return TagMismatch("channel parameter tags", found=found, expected=expected, java=java)


def _check_media(uri: ChannelUri, text: str) -> None:
    if not uri.is_udp:
        java = JavaException(ILLEGAL_ARGUMENT, f"UdpChannel only supports UDP media: {text}")
        raise InvalidChannel("channel", found=f"media {uri.media!r}", expected=UDP, java=java)


def destination_address(uri: ChannelUri, resolver: NameResolver = DEFAULT_RESOLVER) -> SocketAddress:
    """A destination's endpoint. Raises :class:`InvalidChannel`, which names the parameter."""
    _check_media(uri, str(uri))
    return known_address(uri.get(ENDPOINT) or "", ENDPOINT, resolver)


@dataclass(frozen=True, slots=True)
class _Addresses:
    """The differences between the kinds of channels."""

    remote_data: SocketAddress
    local: SocketAddress
    remote_control: SocketAddress
    canonical_form: str
    interface: NetworkInterface | None = None
    is_multicast: bool = False
    has_explicit_control: bool = False


@dataclass(frozen=True, slots=True)
class _Reader:
    """Turns one channel's parameters into addresses."""

    uri: ChannelUri
    original: str
    resolver: NameResolver
    interfaces: Interfaces
    is_destination: bool

    def channel(self) -> UdpChannel:
        endpoint, control = self._address(ENDPOINT), self._address(CONTROL)
        mode = control_mode_of(self.uri)
        tag_text = self.uri.channel_tag
        tag = None if tag_text is None else parse_number("tags", tag_text)
        self._check_enough(endpoint or control, control, mode, tag)
        addresses = self._addresses(endpoint, control, tag)
        return UdpChannel(
            uri=self.uri,
            original_uri=self.original,
            canonical_form=addresses.canonical_form,
            family=addresses.remote_data.family,
            remote_data=addresses.remote_data,
            local_data=addresses.local,
            remote_control=addresses.remote_control,
            local_control=addresses.local,
            control_mode=mode,
            local_interface=addresses.interface,
            is_multicast=addresses.is_multicast,
            has_explicit_endpoint=endpoint is not None,
            has_explicit_control=addresses.has_explicit_control,
            tag=tag,
            multicast_ttl=self._ttl() if addresses.is_multicast else None,
            socket_rcvbuf_length=self._length("so-rcvbuf"),
            socket_sndbuf_length=self._length("so-sndbuf"),
            receiver_window_length=self._length("rcv-wnd"),
            channel_receive_timestamp_offset=self._timestamp_offset("channel-rcv-ts-offset"),
            channel_send_timestamp_offset=self._timestamp_offset("channel-snd-ts-offset"),
            group_tag=int64(self.uri, "gtag"),
            nak_delay_ns=duration_ns(self.uri, "nak-delay"),
        )

    def _check_enough(
        self, either: SocketAddress | None, control: SocketAddress | None, mode: ControlMode, tag: int | None
    ) -> None:
        if mode is ControlMode.DYNAMIC and control is None:
            text = f"explicit control expected with dynamic control mode: {self.original}"
            raise wrong(CONTROL, "none", text, JavaException(ILLEGAL_ARGUMENT, text))
        by_hand = mode in (ControlMode.MANUAL, ControlMode.RESPONSE)
        if either is None and tag is None and not by_hand:
            text = "URIs for UDP must specify an endpoint, control, tags, or control-mode=manual/response"
            java = JavaException(ILLEGAL_ARGUMENT, f"{text}: {self.original}")
            raise InvalidChannel("channel", found=self.original, expected=text, java=java)

    def _addresses(self, endpoint: SocketAddress | None, control: SocketAddress | None, tag: int | None) -> _Addresses:
        remote = endpoint or (_ANY_V6 if control is not None and control.is_ipv6 else _ANY_V4)
        if remote.is_multicast:
            return self._multicast(remote)
        suffix = self._suffix(endpoint, control, tag)
        remote_text = self.uri.get(ENDPOINT) or _text(remote)
        if control is not None:
            form = f"UDP-{self.uri.get(CONTROL)}-{remote_text}{suffix}"
            return _Addresses(remote, control, remote, form, has_explicit_control=True)
        local = self._interface(remote.family, is_multicast=False).address
        return _Addresses(remote, local, remote, f"UDP-{_text(local)}-{remote_text}{suffix}")

    def _multicast(self, group: SocketAddress) -> _Addresses:
        raw = group.raw
        if raw[-1] % 2 == 0:
            text = "multicast data address must be odd"
            java = JavaException(ILLEGAL_ARGUMENT, text)
            raise wrong(ENDPOINT, group.host_text, f"{text} (the even one after it is for control)", java)
        # The last byte wraps within itself: 255 is followed by 0 of the same network.
        host = socket.inet_ntop(group.family, raw[:-1] + bytes(((raw[-1] + 1) & 0xFF,)))
        found = self._interface(group.family, is_multicast=True)
        return _Addresses(
            group,
            found.address,
            SocketAddress(host, group.port, group.scope),
            f"UDP-{_text(found.address)}-{_text(group)}",
            interface=found.interface,
            is_multicast=True,
        )

    def _suffix(self, endpoint: SocketAddress | None, control: SocketAddress | None, tag: int | None) -> str:
        """A suffix that separates channels whose addresses are equal but that must not share a socket."""
        named = [address for address in (endpoint, control) if address is not None]
        if self.is_destination or (named and all(address.port for address in named)):
            return ""
        return f"-{next(_unique)}" if tag is None else f"#{self.uri.channel_tag}"

    def _address(self, parameter: str) -> SocketAddress | None:
        text = self.uri.get(parameter)
        return None if text is None else known_address(text, parameter, self.resolver)

    def _interface(self, family: int, is_multicast: bool) -> ResolvedInterface:
        text = self.uri.get("interface")
        wanted = ANY_INTERFACE if text is None else parse_interface(text, self.resolver)
        return wanted.resolve(is_multicast, family, self.interfaces)

    def _ttl(self) -> int | None:
        text = self.uri.get("ttl")
        return None if text is None else parse_number("ttl", text, range(MAX_TTL + 1))

    def _length(self, parameter: str) -> int:
        text = self.uri.get(parameter)
        return 0 if text is None else parse_size(parameter, text, MAX_INT32)

    def _timestamp_offset(self, parameter: str) -> int | None:
        text = self.uri.get(parameter)
        if text is None:
            return None
        if text == "reserved":
            return RESERVED_VALUE_OFFSET
        said = "timestamp offset must be a valid integer or the 'reserved' keyword"
        offset = parse_number(parameter, text, INT32, JavaException(ILLEGAL_ARGUMENT, said))
        return offset if offset >= 0 or offset == RESERVED_VALUE_OFFSET else None


def _text(address: SocketAddress) -> str:
    return f"{address.host_text}:{address.port}"
