"""Encodes and decodes commands of clients to a media driver and its events to them. Source: ControlProtocolEvents and
the flyweights that the classes of :mod:`everlog.aeron.transport.protocol.command_messages` name.

:func:`encode` returns type id and bytes for :class:`~everlog.aeron.transport.memory.ring_buffer.ManyToOneRingBuffer`
and :class:`~everlog.aeron.transport.memory.broadcast.BroadcastTransmitter`; :func:`decode_command` and
:func:`decode_event` read bytes of other processes and check every length."""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Any

from everlog.aeron.messages import BodyCodec
from everlog.aeron.transport.format.error_codes import ErrorCode
from everlog.aeron.transport.protocol.command_messages import (
    AddCounter,
    AddDestination,
    AddExclusivePublication,
    AddPublication,
    AddRcvDestination,
    AddStaticCounter,
    AddSubscription,
    ClientClose,
    ClientKeepalive,
    DriverMessage,
    GetNextAvailableSessionId,
    OnAvailableImage,
    OnClientTimeout,
    OnCounterReady,
    OnError,
    OnExclusivePublicationReady,
    OnNextAvailableSessionId,
    OnOperationSuccess,
    OnPublicationError,
    OnPublicationReady,
    OnStaticCounter,
    OnSubscriptionReady,
    OnUnavailableCounter,
    OnUnavailableImage,
    RejectImage,
    RemoveCounter,
    RemoveDestination,
    RemoveDestinationById,
    RemovePublication,
    RemoveRcvDestination,
    RemoveSubscription,
    TerminateDriver,
)
from everlog.errors import UnknownMessage

_BODIES = BodyCodec(length_code="i", alignment=4)
_CORRELATION_ID = Struct("<8xq")


Command = (
    AddPublication
    | RemovePublication
    | AddExclusivePublication
    | AddSubscription
    | RemoveSubscription
    | ClientKeepalive
    | AddDestination
    | RemoveDestination
    | AddCounter
    | RemoveCounter
    | ClientClose
    | AddRcvDestination
    | RemoveRcvDestination
    | TerminateDriver
    | AddStaticCounter
    | RejectImage
    | RemoveDestinationById
    | GetNextAvailableSessionId
)
Event = (
    OnError
    | OnAvailableImage
    | OnPublicationReady
    | OnOperationSuccess
    | OnUnavailableImage
    | OnExclusivePublicationReady
    | OnSubscriptionReady
    | OnCounterReady
    | OnUnavailableCounter
    | OnClientTimeout
    | OnStaticCounter
    | OnPublicationError
    | OnNextAvailableSessionId
)
_COMMANDS: dict[int, type[DriverMessage]] = {kind.type_id: kind for kind in Command.__args__}
_EVENTS: dict[int, type[DriverMessage]] = {kind.type_id: kind for kind in Event.__args__}
MESSAGES: tuple[type[DriverMessage], ...] = (*_COMMANDS.values(), *_EVENTS.values())


def encode(message: DriverMessage) -> tuple[int, bytes]:
    """Encode a message: its type id and bytes. Raises :class:`UsageError` if a number does not fit its field."""
    body, _ = _BODIES.encode(message)
    return message.type_id, bytes(body)


def decode_command(type_id: int, data: bytes) -> Command:
    """Decode a client's command. Raises :class:`UnknownMessage` for an unknown type, :class:`CorruptData` if the data
    is too short for its lengths."""
    found: Command = _decode(_COMMANDS, "command", type_id, data)
    return found


def decode_event(type_id: int, data: bytes) -> Event:
    """Decode a driver's event. Raises :class:`UnknownMessage` for an unknown type, for example of a later release,
    :class:`CorruptData` if the data is too short for its lengths."""
    found: Event = _decode(_EVENTS, "event", type_id, data)
    return found


def correlation_id_of(data: bytes) -> int | None:
    """The correlation id of a command that may otherwise be damaged, so that it can be answered; ``None`` if the
    command is too short to have one."""
    return _CORRELATION_ID.unpack_from(data)[0] if len(data) >= _CORRELATION_ID.size else None


def _decode(kinds: Mapping[int, type[DriverMessage]], what: str, type_id: int, data: bytes) -> Any:
    kind = kinds.get(type_id)
    if kind is None:
        message = f"unknown {what} type {type_id:#x}"
        expected = "a type of ControlProtocolEvents"
        raise UnknownMessage(what, found=f"type {type_id:#x}", expected=expected, message=message)
    return _BODIES.decode(kind, data, where=f"{what} {kind.__name__}")


__all__ = [
    "AddCounter",
    "AddDestination",
    "AddExclusivePublication",
    "AddPublication",
    "AddRcvDestination",
    "AddStaticCounter",
    "AddSubscription",
    "ClientClose",
    "ClientKeepalive",
    "Command",
    "DriverMessage",
    "ErrorCode",
    "Event",
    "GetNextAvailableSessionId",
    "OnAvailableImage",
    "OnClientTimeout",
    "OnCounterReady",
    "OnError",
    "OnExclusivePublicationReady",
    "OnNextAvailableSessionId",
    "OnOperationSuccess",
    "OnPublicationError",
    "OnPublicationReady",
    "OnStaticCounter",
    "OnSubscriptionReady",
    "OnUnavailableCounter",
    "OnUnavailableImage",
    "RejectImage",
    "RemoveCounter",
    "RemoveDestination",
    "RemoveDestinationById",
    "RemovePublication",
    "RemoveRcvDestination",
    "RemoveSubscription",
    "TerminateDriver",
    "correlation_id_of",
    "decode_command",
    "decode_event",
    "encode",
]
