"""The declarations of the store's protobuf messages.

Source: ``spb/protocol.proto`` of the server (ServerInfo, ClientInfo, ClientDelete, SubState, SubStateDelete,
SubStateUpdate) and ``pb/protocol.proto`` of stan.go (MsgProto). Fields that are never stored are not declared; the
decoder skips them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from everlog.layout import Readable
from everlog.nats_streaming.format.protobuf import FieldSpec, Kind, decode, encode
from everlog.nats_streaming.format.protobuf import fields as wire_fields


class Message:
    """Base of the declared messages. ``numbers`` maps field numbers to attributes."""

    numbers: ClassVar[dict[int, FieldSpec]]

    @classmethod
    def parse(cls, data: Readable, start: int = 0, end: int | None = None) -> Self:
        """Decode ``data[start:end]``. Raises :class:`~everlog.nats_streaming.format.protobuf.BadMessage`."""
        return cls(**decode(cls.numbers, data, start, end))

    def encode(self) -> bytes:
        """Return the message's bytes, fields in the order of their numbers, as the server writes them."""
        return encode(self.numbers, self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as plain values."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]


def _table(**declared: tuple[int, Kind]) -> dict[int, FieldSpec]:
    return {number: FieldSpec(name, kind) for name, (number, kind) in declared.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class MsgProto(Message):
    """A message in ``msgs.N.dat``. ``sequence`` counts from 1; ``subject`` is the channel; ``timestamp`` is
    nanoseconds since 1970."""

    sequence: int = 0
    subject: str = ""
    reply: str = ""
    data: bytes = b""
    timestamp: int = 0

    numbers: ClassVar[dict[int, FieldSpec]] = _table(
        sequence=(1, Kind.UINT64),
        subject=(2, Kind.TEXT),
        reply=(3, Kind.TEXT),
        data=(4, Kind.DATA),
        timestamp=(5, Kind.INT64),
    )

    @classmethod
    def sequence_in(cls, data: Readable, start: int) -> int:
        """Return the sequence of the message in ``data[start:]``. Raises
        :class:`~everlog.nats_streaming.format.protobuf.BadMessage` as :meth:`parse` does."""
        sequence = 0
        for number, wire, value, _ in wire_fields(data, start, len(data)):
            spec = cls.numbers.get(number)
            if spec is not None:
                spec.check(wire, start)
            if number == 1:
                sequence = value
        return sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo(Message):
    """The only record of ``server.dat``: the cluster's name and the subjects that clients use."""

    cluster_id: str = ""
    discovery: str = ""
    publish: str = ""
    subscribe: str = ""
    unsubscribe: str = ""
    close: str = ""
    sub_close: str = ""
    acks_subs: str = ""
    node_id: str = ""

    numbers: ClassVar[dict[int, FieldSpec]] = _table(
        cluster_id=(1, Kind.TEXT),
        discovery=(2, Kind.TEXT),
        publish=(3, Kind.TEXT),
        subscribe=(4, Kind.TEXT),
        unsubscribe=(5, Kind.TEXT),
        close=(6, Kind.TEXT),
        sub_close=(7, Kind.TEXT),
        acks_subs=(8, Kind.TEXT),
        node_id=(9, Kind.TEXT),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientInfo(Message):
    """A registered client in ``clients.dat``. ``ping_interval`` is in seconds."""

    id: str = ""
    hb_inbox: str = ""
    conn_id: bytes = b""
    protocol: int = 0
    ping_interval: int = 0
    ping_max_out: int = 0

    numbers: ClassVar[dict[int, FieldSpec]] = _table(
        id=(1, Kind.TEXT),
        hb_inbox=(2, Kind.TEXT),
        conn_id=(3, Kind.DATA),
        protocol=(4, Kind.INT32),
        ping_interval=(5, Kind.INT32),
        ping_max_out=(6, Kind.INT32),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientDelete(Message):
    """The deletion of a client in ``clients.dat``."""

    id: str = ""

    numbers: ClassVar[dict[int, FieldSpec]] = _table(id=(1, Kind.TEXT))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubState(Message):
    """A subscription in ``subs.dat``. ``id`` counts from 1 in each channel; ``last_sent`` is a sequence."""

    id: int = 0
    client_id: str = ""
    qgroup: str = ""
    inbox: str = ""
    ack_inbox: str = ""
    max_in_flight: int = 0
    ack_wait_secs: int = 0
    durable_name: str = ""
    last_sent: int = 0
    is_durable: bool = False
    is_closed: bool = False

    numbers: ClassVar[dict[int, FieldSpec]] = _table(
        id=(1, Kind.UINT64),
        client_id=(2, Kind.TEXT),
        qgroup=(3, Kind.TEXT),
        inbox=(4, Kind.TEXT),
        ack_inbox=(5, Kind.TEXT),
        max_in_flight=(6, Kind.INT32),
        ack_wait_secs=(7, Kind.INT32),
        durable_name=(8, Kind.TEXT),
        last_sent=(9, Kind.UINT64),
        is_durable=(10, Kind.BOOL),
        is_closed=(11, Kind.BOOL),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SubStateDelete(Message):
    """The deletion of a subscription in ``subs.dat``."""

    id: int = 0

    numbers: ClassVar[dict[int, FieldSpec]] = _table(id=(1, Kind.UINT64))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubStateUpdate(Message):
    """A message that was sent to a subscription or acknowledged by it, in ``subs.dat``."""

    id: int = 0
    sequence: int = 0

    numbers: ClassVar[dict[int, FieldSpec]] = _table(id=(1, Kind.UINT64), sequence=(2, Kind.UINT64))
