"""``clients.dat``: a log of clients added and deleted. Folding it gives the registered clients.

Source: ``stores/filestore.go`` (recoverClients)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from everlog.core.files.storage import Storage
from everlog.core.report import Fault
from everlog.core.store import FaultSink
from everlog.kernel.crc32 import Crc32
from everlog.nats_streaming.format.messages import ClientDelete, ClientInfo
from everlog.nats_streaming.format.names import CLIENTS_FILE
from everlog.nats_streaming.format.protobuf import BadMessage
from everlog.nats_streaming.format.records import LogFile, TypedLog

ADD, DELETE = 1, 2
TYPES = range(ADD, DELETE + 1)


@dataclass(frozen=True, slots=True)
class ClientEvent:
    """One record of the log: ``info`` is the added client, or ``None`` for a deletion. ``length`` is the payload's
    size in bytes."""

    offset: int
    length: int
    id: str
    info: ClientInfo | None


def client_events(storage: Storage, crc: Crc32, check: bool, on_fault: FaultSink) -> Iterator[ClientEvent]:
    """Yield the log's records. A missing file is reported as a fault and yields nothing."""
    if not storage.exists(CLIENTS_FILE):
        on_fault(
            Fault(
                "clients-missing",
                CLIENTS_FILE,
                None,
                "no file",
                "clients.dat",
                "the registered clients",
                "restore the file from a copy before a server starts: it would drop online durable queue members",
            )
        )
        return
    with storage.open(CLIENTS_FILE) as file:
        for record in TypedLog(LogFile(file, CLIENTS_FILE, TYPES), crc, check, on_fault):
            try:
                if record.type == ADD:
                    info = ClientInfo.parse(record.payload)
                    yield ClientEvent(record.offset, len(record.payload), info.id, info)
                else:
                    gone = ClientDelete.parse(record.payload)
                    yield ClientEvent(record.offset, len(record.payload), gone.id, None)
            except BadMessage as error:
                on_fault(
                    Fault("bad-message", CLIENTS_FILE, record.offset, str(error), "a client record", "this record")
                )


def read_clients(storage: Storage, crc: Crc32, check: bool, on_fault: FaultSink) -> dict[str, ClientInfo]:
    """Return the registered clients by client ID, in the order of their registration."""
    clients: dict[str, ClientInfo] = {}
    for event in client_events(storage, crc, check, on_fault):
        clients.pop(event.id, None)
        if event.info is not None:
            clients[event.id] = event.info
    return clients


def client_dict(info: ClientInfo) -> dict[str, Any]:
    """Return a client as plain values; the connection ID as text if it is printable ASCII, otherwise in hex."""
    text = info.conn_id.decode("ascii", "replace")
    return info.to_dict() | {"conn_id": text if text.isprintable() and text.isascii() else info.conn_id.hex()}
