"""Commands of clients to a media driver and its events to them, as values. Source: ControlProtocolEvents and the
flyweight that each class names.

They have no header of their own: the record in the buffer has the type. Texts (ASCII) and bytes follow the numbers,
each after its length (int32), which is at a multiple of 4 bytes from the message's start.
:mod:`everlog.aeron.transport.protocol.commands` encodes and decodes them."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Annotated, ClassVar

from everlog.aeron.messages import Bytes, Composite, Int32, Int64, Message, Number, Text
from everlog.aeron.transport.format.layouts import ReceiverAddress

_REVOKE = 1
_IPV4, _IPV6 = 1, 2
_IPV4_BYTES = 4


def _is_revoke(flags: int) -> bool:
    return bool(flags & _REVOKE)


def _read_address(fields: ReceiverAddress) -> tuple[str, int]:
    if fields.address_type not in (_IPV4, _IPV6):
        raise ValueError(f"address type {fields.address_type}")
    is_4 = fields.address_type == _IPV4
    family, data = (socket.AF_INET, fields.address[:_IPV4_BYTES]) if is_4 else (socket.AF_INET6, fields.address)
    return socket.inet_ntop(family, data), fields.port


def _write_address(address: tuple[str, int]) -> bytes:
    host, port = address
    family, kind = (socket.AF_INET6, _IPV6) if ":" in host else (socket.AF_INET, _IPV4)
    return ReceiverAddress.pack(address_type=kind, port=port, address=socket.inet_pton(family, host))


@dataclass(frozen=True, slots=True)
class DriverMessage(Message):
    """Base of commands and events. ``source`` is Aeron's class for the message."""

    type_id: ClassVar[int]
    source: ClassVar[str]


@dataclass(frozen=True, slots=True)
class _Correlated(DriverMessage):
    source: ClassVar[str] = "CorrelatedMessageFlyweight"
    client_id: Int64
    correlation_id: Annotated[Int64, "a number of the to-driver buffer's counter; the response repeats it"]


@dataclass(frozen=True, slots=True)
class AddPublication(_Correlated):
    """Add a publication, shared with all clients that add the same channel and stream."""

    type_id: ClassVar[int] = 0x01
    source: ClassVar[str] = "PublicationMessageFlyweight"
    stream_id: Int32
    channel: Text


@dataclass(frozen=True, slots=True)
class RemovePublication(_Correlated):
    """Remove a publication. With ``revoke`` it ends immediately, and subscribers lose what they have not read."""

    type_id: ClassVar[int] = 0x02
    source: ClassVar[str] = "RemovePublicationFlyweight"
    registration_id: Int64
    revoke: Annotated[bool, Number("q", kind=_is_revoke), "flags: 1 revokes; old clients omit them"] = False


@dataclass(frozen=True, slots=True)
class AddExclusivePublication(AddPublication):
    """Add a publication with a single writer."""

    type_id: ClassVar[int] = 0x03


@dataclass(frozen=True, slots=True)
class AddSubscription(_Correlated):
    """Subscribe to a stream of a channel."""

    type_id: ClassVar[int] = 0x04
    source: ClassVar[str] = "SubscriptionMessageFlyweight"
    registration_correlation_id: Annotated[Int64, "-1"]
    stream_id: Int32
    channel: Text


@dataclass(frozen=True, slots=True)
class RemoveSubscription(_Correlated):
    """Remove a subscription."""

    type_id: ClassVar[int] = 0x05
    source: ClassVar[str] = "RemoveMessageFlyweight"
    registration_id: Annotated[Int64, "of the resource to remove"]


@dataclass(frozen=True, slots=True)
class ClientKeepalive(_Correlated):
    """Report that the client is alive."""

    type_id: ClassVar[int] = 0x06


@dataclass(frozen=True, slots=True)
class AddDestination(_Correlated):
    """Add a destination to a multi-destination publication."""

    type_id: ClassVar[int] = 0x07
    source: ClassVar[str] = "DestinationMessageFlyweight"
    registration_correlation_id: Annotated[Int64, "of the publication or subscription"]
    channel: Text


@dataclass(frozen=True, slots=True)
class RemoveDestination(AddDestination):
    """Remove a destination of a multi-destination publication by its channel."""

    type_id: ClassVar[int] = 0x08


@dataclass(frozen=True, slots=True)
class AddCounter(_Correlated):
    """Add a counter that exists as long as its client."""

    type_id: ClassVar[int] = 0x09
    source: ClassVar[str] = "CounterMessageFlyweight"
    counter_type_id: Int32
    key: Bytes
    label: Text


@dataclass(frozen=True, slots=True)
class RemoveCounter(RemoveSubscription):
    """Remove a counter."""

    type_id: ClassVar[int] = 0x0A


@dataclass(frozen=True, slots=True)
class ClientClose(_Correlated):
    """Close the client and free all its resources."""

    type_id: ClassVar[int] = 0x0B


@dataclass(frozen=True, slots=True)
class AddRcvDestination(AddDestination):
    """Add a destination to a multi-destination subscription."""

    type_id: ClassVar[int] = 0x0C


@dataclass(frozen=True, slots=True)
class RemoveRcvDestination(AddDestination):
    """Remove a destination of a multi-destination subscription."""

    type_id: ClassVar[int] = 0x0D


@dataclass(frozen=True, slots=True)
class TerminateDriver(_Correlated):
    """Terminate the driver, if its termination validator accepts ``token``."""

    type_id: ClassVar[int] = 0x0E
    source: ClassVar[str] = "TerminateDriverFlyweight"
    token: Bytes


@dataclass(frozen=True, slots=True)
class AddStaticCounter(_Correlated):
    """Create or find a counter that outlives its client."""

    type_id: ClassVar[int] = 0x0F
    source: ClassVar[str] = "StaticCounterMessageFlyweight"
    registration_id: Annotated[Int64, "chosen by the client; with the type it identifies the counter"]
    counter_type_id: Int32
    key: Bytes
    label: Text


@dataclass(frozen=True, slots=True)
class RejectImage(_Correlated):
    """Reject an image: its publisher is notified with ``reason``."""

    type_id: ClassVar[int] = 0x10
    source: ClassVar[str] = "RejectImageFlyweight"
    image_correlation_id: Int64
    position: Annotated[Int64, "the client's position in the image"]
    reason: Text


@dataclass(frozen=True, slots=True)
class RemoveDestinationById(_Correlated):
    """Remove a destination of a multi-destination publication by its registration id."""

    type_id: ClassVar[int] = 0x11
    source: ClassVar[str] = "DestinationByIdMessageFlyweight"
    resource_registration_id: Annotated[Int64, "of the publication or subscription"]
    destination_registration_id: Int64


@dataclass(frozen=True, slots=True)
class GetNextAvailableSessionId(_Correlated):
    """Request a session id that is free for a stream."""

    type_id: ClassVar[int] = 0x12
    source: ClassVar[str] = "GetNextAvailableSessionIdMessageFlyweight"
    stream_id: Int32


@dataclass(frozen=True, slots=True)
class OnError(DriverMessage):
    """A command was refused. ``error_code`` is an :class:`~everlog.aeron.transport.format.error_codes.ErrorCode`, or a
    number of a later release."""

    type_id: ClassVar[int] = 0xF01
    source: ClassVar[str] = "ErrorResponseFlyweight"
    correlation_id: Annotated[Int64, "of the command; for a failed endpoint: its status indicator"]
    error_code: Int32
    message: Text


@dataclass(frozen=True, slots=True)
class OnAvailableImage(DriverMessage):
    """A subscription has a new image."""

    type_id: ClassVar[int] = 0xF02
    source: ClassVar[str] = "ImageBuffersReadyFlyweight"
    correlation_id: Annotated[Int64, "of the image"]
    session_id: Int32
    stream_id: Int32
    subscription_registration_id: Int64
    subscriber_position_id: Annotated[Int32, "counter"]
    log_file_name: Text
    source_identity: Text


@dataclass(frozen=True, slots=True)
class OnPublicationReady(DriverMessage):
    """A publication was added."""

    type_id: ClassVar[int] = 0xF03
    source: ClassVar[str] = "PublicationBuffersReadyFlyweight"
    correlation_id: Annotated[Int64, "of the command"]
    registration_id: Annotated[Int64, "of the first command that added this publication; names its log buffer"]
    session_id: Int32
    stream_id: Int32
    position_limit_counter_id: Int32
    channel_status_id: Annotated[Int32, "counter; -1: none, as for IPC"]
    log_file_name: Text


@dataclass(frozen=True, slots=True)
class OnOperationSuccess(DriverMessage):
    """A command without an event of its own succeeded."""

    type_id: ClassVar[int] = 0xF04
    source: ClassVar[str] = "OperationSucceededFlyweight"
    correlation_id: Annotated[Int64, "of the command"]


@dataclass(frozen=True, slots=True)
class OnUnavailableImage(DriverMessage):
    """An image of a subscription is gone."""

    type_id: ClassVar[int] = 0xF05
    source: ClassVar[str] = "ImageMessageFlyweight"
    correlation_id: Annotated[Int64, "of the image"]
    subscription_registration_id: Int64
    stream_id: Int32
    channel: Text


@dataclass(frozen=True, slots=True)
class OnExclusivePublicationReady(OnPublicationReady):
    """An exclusive publication was added."""

    type_id: ClassVar[int] = 0xF06


@dataclass(frozen=True, slots=True)
class OnSubscriptionReady(DriverMessage):
    """A subscription was added."""

    type_id: ClassVar[int] = 0xF07
    source: ClassVar[str] = "SubscriptionReadyFlyweight"
    correlation_id: Annotated[Int64, "of the command"]
    channel_status_id: Annotated[Int32, "counter; -1: none, as for IPC"]


@dataclass(frozen=True, slots=True)
class OnCounterReady(DriverMessage):
    """A counter was added."""

    type_id: ClassVar[int] = 0xF08
    source: ClassVar[str] = "CounterUpdateFlyweight, StaticCounterFlyweight"
    correlation_id: Annotated[Int64, "of the command: the counter's registration id"]
    counter_id: Int32


@dataclass(frozen=True, slots=True)
class OnUnavailableCounter(OnCounterReady):
    """A counter was removed."""

    type_id: ClassVar[int] = 0xF09


@dataclass(frozen=True, slots=True)
class OnClientTimeout(DriverMessage):
    """The client timed out; the driver has freed its resources."""

    type_id: ClassVar[int] = 0xF0A
    source: ClassVar[str] = "ClientTimeoutFlyweight"
    client_id: Int64


@dataclass(frozen=True, slots=True)
class OnStaticCounter(OnCounterReady):
    """A static counter was created or found."""

    type_id: ClassVar[int] = 0xF0B


@dataclass(frozen=True, slots=True)
class OnPublicationError(DriverMessage):
    """A receiver reported an error to a publication. ``address`` is the receiver's ``(host, port)``; the host is a
    numeric IPv4 or IPv6 address."""

    type_id: ClassVar[int] = 0xF0C
    source: ClassVar[str] = "PublicationErrorFrameFlyweight"
    registration_id: Annotated[Int64, "of the publication"]
    destination_registration_id: Int64
    session_id: Int32
    stream_id: Int32
    receiver_id: Int64
    group_tag: Int64
    address: Annotated[tuple[str, int], Composite(ReceiverAddress, _read_address, _write_address)]
    error_code: Int32
    message: Text


@dataclass(frozen=True, slots=True)
class OnNextAvailableSessionId(DriverMessage):
    """The requested session id."""

    type_id: ClassVar[int] = 0xF0D
    source: ClassVar[str] = "NextAvailableSessionIdFlyweight"
    correlation_id: Annotated[Int64, "of the command"]
    session_id: Int32
