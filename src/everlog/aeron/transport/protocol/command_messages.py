"""Commands of clients to a media driver and its events to them, as values. Source: ControlProtocolEvents and the
flyweights named by each layout in :mod:`everlog.aeron.transport.format.command_layouts`.
:mod:`everlog.aeron.transport.protocol.commands` encodes and decodes them."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from everlog.aeron.transport.format import command_layouts as layouts
from everlog.errors import CorruptData
from everlog.layout import Layout

_REVOKE = 1
_IPV4, _IPV6 = 1, 2
_IPV4_BYTES = 4


@dataclass(frozen=True, slots=True)
class Message:
    """Base of commands and events. A message's fields are those of its layout, in order, followed by its texts
    (``str``, ASCII; other characters become ``?``) and bytes."""

    type_id: ClassVar[int]
    layout: ClassVar[type[Layout]]

    def fixed(self) -> Iterable[Any]:
        """The values of the layout's fields."""
        return (getattr(self, field.name) for field in self.layout.fields)

    @classmethod
    def decoded(cls, fixed: tuple[Any, ...], variable: list[Any]) -> Self:
        """Make a message from the values of the layout's fields and of the texts and bytes after them."""
        return cls(*fixed, *variable)

    @classmethod
    def layout_of(cls, length: int) -> type[Layout]:
        """The layout of a message of ``length`` bytes; some old messages are shorter."""
        return cls.layout


@dataclass(frozen=True, slots=True)
class _Correlated(Message):
    layout: ClassVar[type[Layout]] = layouts.CorrelatedCommand
    client_id: int
    correlation_id: int


@dataclass(frozen=True, slots=True)
class AddPublication(_Correlated):
    """Add a publication, shared with all clients that add the same channel and stream."""

    type_id: ClassVar[int] = 0x01
    layout: ClassVar[type[Layout]] = layouts.PublicationCommand
    stream_id: int
    channel: str


@dataclass(frozen=True, slots=True)
class RemovePublication(_Correlated):
    """Remove a publication. With ``revoke`` it ends immediately, and subscribers lose what they have not read."""

    type_id: ClassVar[int] = 0x02
    layout: ClassVar[type[Layout]] = layouts.RemovePublicationCommand
    registration_id: int
    revoke: bool = False

    def fixed(self) -> Iterable[Any]:
        return self.client_id, self.correlation_id, self.registration_id, _REVOKE if self.revoke else 0

    @classmethod
    def decoded(cls, fixed: tuple[Any, ...], variable: list[Any]) -> Self:
        client_id, correlation_id, registration_id, *flags = fixed
        return cls(client_id, correlation_id, registration_id, any(flag & _REVOKE for flag in flags))

    @classmethod
    def layout_of(cls, length: int) -> type[Layout]:
        return cls.layout if length >= cls.layout.size else layouts.RemoveCommand


@dataclass(frozen=True, slots=True)
class AddExclusivePublication(AddPublication):
    """Add a publication with a single writer."""

    type_id: ClassVar[int] = 0x03


@dataclass(frozen=True, slots=True)
class AddSubscription(_Correlated):
    """Subscribe to a stream of a channel."""

    type_id: ClassVar[int] = 0x04
    layout: ClassVar[type[Layout]] = layouts.SubscriptionCommand
    registration_correlation_id: int
    stream_id: int
    channel: str


@dataclass(frozen=True, slots=True)
class RemoveSubscription(_Correlated):
    """Remove a subscription."""

    type_id: ClassVar[int] = 0x05
    layout: ClassVar[type[Layout]] = layouts.RemoveCommand
    registration_id: int


@dataclass(frozen=True, slots=True)
class ClientKeepalive(_Correlated):
    """Report that the client is alive."""

    type_id: ClassVar[int] = 0x06


@dataclass(frozen=True, slots=True)
class AddDestination(_Correlated):
    """Add a destination to a multi-destination publication."""

    type_id: ClassVar[int] = 0x07
    layout: ClassVar[type[Layout]] = layouts.DestinationCommand
    registration_correlation_id: int
    channel: str


@dataclass(frozen=True, slots=True)
class RemoveDestination(AddDestination):
    """Remove a destination of a multi-destination publication by its channel."""

    type_id: ClassVar[int] = 0x08


@dataclass(frozen=True, slots=True)
class AddCounter(_Correlated):
    """Add a counter that exists as long as its client."""

    type_id: ClassVar[int] = 0x09
    layout: ClassVar[type[Layout]] = layouts.CounterCommand
    counter_type_id: int
    key: bytes
    label: str


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
    layout: ClassVar[type[Layout]] = layouts.TerminateCommand
    token: bytes


@dataclass(frozen=True, slots=True)
class AddStaticCounter(_Correlated):
    """Create or find a counter that outlives its client."""

    type_id: ClassVar[int] = 0x0F
    layout: ClassVar[type[Layout]] = layouts.StaticCounterCommand
    registration_id: int
    counter_type_id: int
    key: bytes
    label: str


@dataclass(frozen=True, slots=True)
class RejectImage(_Correlated):
    """Reject an image: its publisher is notified with ``reason``."""

    type_id: ClassVar[int] = 0x10
    layout: ClassVar[type[Layout]] = layouts.RejectImageCommand
    image_correlation_id: int
    position: int
    reason: str


@dataclass(frozen=True, slots=True)
class RemoveDestinationById(_Correlated):
    """Remove a destination of a multi-destination publication by its registration id."""

    type_id: ClassVar[int] = 0x11
    layout: ClassVar[type[Layout]] = layouts.DestinationByIdCommand
    resource_registration_id: int
    destination_registration_id: int


@dataclass(frozen=True, slots=True)
class GetNextAvailableSessionId(_Correlated):
    """Request a session id that is free for a stream."""

    type_id: ClassVar[int] = 0x12
    layout: ClassVar[type[Layout]] = layouts.SessionIdCommand
    stream_id: int


@dataclass(frozen=True, slots=True)
class OnError(Message):
    """A command was refused. ``error_code`` is an :class:`~everlog.aeron.transport.format.error_codes.ErrorCode`, or a
    number of a later release."""

    type_id: ClassVar[int] = 0xF01
    layout: ClassVar[type[Layout]] = layouts.ErrorEvent
    correlation_id: int
    error_code: int
    message: str


@dataclass(frozen=True, slots=True)
class OnAvailableImage(Message):
    """A subscription has a new image."""

    type_id: ClassVar[int] = 0xF02
    layout: ClassVar[type[Layout]] = layouts.ImageReadyEvent
    correlation_id: int
    session_id: int
    stream_id: int
    subscription_registration_id: int
    subscriber_position_id: int
    log_file_name: str
    source_identity: str


@dataclass(frozen=True, slots=True)
class OnPublicationReady(Message):
    """A publication was added."""

    type_id: ClassVar[int] = 0xF03
    layout: ClassVar[type[Layout]] = layouts.PublicationReadyEvent
    correlation_id: int
    registration_id: int
    session_id: int
    stream_id: int
    position_limit_counter_id: int
    channel_status_id: int
    log_file_name: str


@dataclass(frozen=True, slots=True)
class OnOperationSuccess(Message):
    """A command without an event of its own succeeded."""

    type_id: ClassVar[int] = 0xF04
    layout: ClassVar[type[Layout]] = layouts.OperationSucceededEvent
    correlation_id: int


@dataclass(frozen=True, slots=True)
class OnUnavailableImage(Message):
    """An image of a subscription is gone."""

    type_id: ClassVar[int] = 0xF05
    layout: ClassVar[type[Layout]] = layouts.ImageEvent
    correlation_id: int
    subscription_registration_id: int
    stream_id: int
    channel: str


@dataclass(frozen=True, slots=True)
class OnExclusivePublicationReady(OnPublicationReady):
    """An exclusive publication was added."""

    type_id: ClassVar[int] = 0xF06


@dataclass(frozen=True, slots=True)
class OnSubscriptionReady(Message):
    """A subscription was added."""

    type_id: ClassVar[int] = 0xF07
    layout: ClassVar[type[Layout]] = layouts.SubscriptionReadyEvent
    correlation_id: int
    channel_status_id: int


@dataclass(frozen=True, slots=True)
class OnCounterReady(Message):
    """A counter was added."""

    type_id: ClassVar[int] = 0xF08
    layout: ClassVar[type[Layout]] = layouts.CounterEvent
    correlation_id: int
    counter_id: int


@dataclass(frozen=True, slots=True)
class OnUnavailableCounter(OnCounterReady):
    """A counter was removed."""

    type_id: ClassVar[int] = 0xF09


@dataclass(frozen=True, slots=True)
class OnClientTimeout(Message):
    """The client timed out; the driver has freed its resources."""

    type_id: ClassVar[int] = 0xF0A
    layout: ClassVar[type[Layout]] = layouts.ClientTimeoutEvent
    client_id: int


@dataclass(frozen=True, slots=True)
class OnStaticCounter(OnCounterReady):
    """A static counter was created or found."""

    type_id: ClassVar[int] = 0xF0B


@dataclass(frozen=True, slots=True)
class OnPublicationError(Message):
    """A receiver reported an error to a publication. ``address`` is the receiver's ``(host, port)``; the host is a
    numeric IPv4 or IPv6 address."""

    type_id: ClassVar[int] = 0xF0C
    layout: ClassVar[type[Layout]] = layouts.PublicationErrorEvent
    registration_id: int
    destination_registration_id: int
    session_id: int
    stream_id: int
    receiver_id: int
    group_tag: int
    address: tuple[str, int]
    error_code: int
    message: str

    def fixed(self) -> Iterable[Any]:
        host, port = self.address
        family, kind = (socket.AF_INET6, _IPV6) if ":" in host else (socket.AF_INET, _IPV4)
        ids = (getattr(self, field.name) for field in fields(self)[:6])
        return *ids, kind, port, socket.inet_pton(family, host), self.error_code

    @classmethod
    def decoded(cls, fixed: tuple[Any, ...], variable: list[Any]) -> Self:
        registration_id, destination_registration_id, session_id, stream_id, *ids = fixed
        receiver_id, group_tag, kind, port, address, error_code = ids
        if kind not in (_IPV4, _IPV6):
            raise CorruptData("OnPublicationError", found=f"address type {kind}", expected=f"{_IPV4} or {_IPV6}")
        is_4 = kind == _IPV4
        family = socket.AF_INET if is_4 else socket.AF_INET6
        host = socket.inet_ntop(family, address[:_IPV4_BYTES] if is_4 else address)
        return cls(
            registration_id,
            destination_registration_id,
            session_id,
            stream_id,
            receiver_id,
            group_tag,
            (host, port),
            error_code,
            variable[0],
        )


@dataclass(frozen=True, slots=True)
class OnNextAvailableSessionId(Message):
    """The requested session id."""

    type_id: ClassVar[int] = 0xF0D
    layout: ClassVar[type[Layout]] = layouts.SessionIdEvent
    correlation_id: int
    session_id: int
