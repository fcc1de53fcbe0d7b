"""Encodes and decodes commands of clients to a media driver and its events to them. Source: ControlProtocolEvents and
the flyweights named by each layout in :mod:`everlog.aeron.transport.format.command_layouts`.

:func:`encode` returns type id and bytes for :class:`~everlog.aeron.transport.memory.ring_buffer.ManyToOneRingBuffer`
and :class:`~everlog.aeron.transport.memory.broadcast.BroadcastTransmitter`; :func:`decode_command` and
:func:`decode_event` read bytes of other processes and check every length."""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct, error
from typing import Any

from everlog.aeron.frames.constants import align
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
    GetNextAvailableSessionId,
    Message,
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
from everlog.errors import CorruptData, UnknownMessage, UsageError
from everlog.layout import Layout

_LENGTH = Struct("<i")
_NEXT_LENGTH = 4
"""The lengths of texts and bytes after a struct are at multiples of this."""
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
_COMMANDS: dict[int, type[Message]] = {kind.type_id: kind for kind in Command.__args__}
_EVENTS: dict[int, type[Message]] = {kind.type_id: kind for kind in Event.__args__}


def encode(message: Message) -> tuple[int, bytes]:
    """Encode a message: its type id and bytes. Raises :class:`UsageError` if a number does not fit its field."""
    try:
        data = bytearray(message.layout.struct.pack(*message.fixed()))
    except (error, OSError) as problem:
        where = type(message).__name__
        raise UsageError(where, found=str(message), message=f"can't encode {message}: {problem}") from None
    for part in message.layout.var_data:
        value = getattr(message, part.name)
        content = value if part.encoding is None else value.encode(part.encoding, "replace")
        data += bytes(align(len(data), _NEXT_LENGTH) - len(data)) + _LENGTH.pack(len(content)) + content
    return message.type_id, bytes(data)


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


def _decode(kinds: Mapping[int, type[Message]], what: str, type_id: int, data: bytes) -> Any:
    kind = kinds.get(type_id)
    if kind is None:
        message = f"unknown {what} type {type_id:#x}"
        expected = "a type of ControlProtocolEvents"
        raise UnknownMessage(what, found=f"type {type_id:#x}", expected=expected, message=message)
    layout = kind.layout_of(len(data))
    if len(data) < layout.size:
        found, expected = f"{len(data)} bytes", f"at least {layout.size} bytes"
        raise CorruptData(f"{what} {kind.__name__}", found=found, expected=expected)
    return kind.decoded(layout.struct.unpack_from(data), _variable(kind, layout, what, data))


def _variable(kind: type[Message], layout: type[Layout], what: str, data: bytes) -> list[Any]:
    """The texts and bytes after the struct."""
    found: list[Any] = []
    end = layout.size
    for part in layout.var_data:
        at = align(end, _NEXT_LENGTH)
        start = at + _LENGTH.size
        length = _LENGTH.unpack_from(data, at)[0] if start <= len(data) else -1
        end = start + length
        if length < 0 or end > len(data):
            room = f"0 to {max(len(data) - start, 0)} bytes"
            text = f"{part.name} of {length} bytes" if start <= len(data) else f"no {part.name}"
            raise CorruptData(f"{what} {kind.__name__}", offset=at, found=text, expected=room)
        content = data[start:end]
        found.append(content if part.encoding is None else content.decode(part.encoding, "replace"))
    return found


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
    "ErrorCode",
    "Event",
    "GetNextAvailableSessionId",
    "Message",
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
