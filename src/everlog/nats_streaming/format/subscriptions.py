"""``subs.dat``: a log of events of a channel's subscriptions. Folding it gives their state.

Note the record types: 4 is an acknowledgement, 5 a sent message. Source: ``stores/filestore.go``
(recoverSubscriptions), and ``server/server.go`` for the kinds."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from everlog.core.files.storage import ReadableFile
from everlog.core.report import Fault
from everlog.core.store import FaultSink
from everlog.kernel.crc32 import Crc32
from everlog.nats_streaming.format.messages import SubState, SubStateDelete, SubStateUpdate
from everlog.nats_streaming.format.protobuf import BadMessage
from everlog.nats_streaming.format.records import LogFile, TypedLog

NEW, UPDATE, DELETE, ACK, SENT = 1, 2, 3, 4, 5
TYPES = range(NEW, SENT + 1)
EVENT_NAMES = {NEW: "new", UPDATE: "update", DELETE: "delete", ACK: "ack", SENT: "msg"}


class SubscriptionKind(Enum):
    """The kind of a stored subscription."""

    PLAIN = "plain"
    DURABLE = "durable"
    OFFLINE_DURABLE = "offline durable"
    QUEUE = "queue"
    DURABLE_QUEUE = "durable queue"
    SHADOW = "offline durable queue"


@dataclass(slots=True)
class Subscription:
    """A subscription's folded state. ``pending`` has the sequences that were sent and not yet acknowledged."""

    state: SubState
    last_sent: int = 0
    pending: set[int] = field(default_factory=set)

    def kind(self, clients: Container[str] | None = None) -> SubscriptionKind:
        """Classify the subscription.

        With the registered ``clients``, a durable whose client is not registered also counts as offline: older stores
        do not mark it as closed.
        """
        state = self.state
        if state.qgroup:
            if not state.is_durable:
                return SubscriptionKind.QUEUE
            return SubscriptionKind.DURABLE_QUEUE if state.client_id else SubscriptionKind.SHADOW
        if not state.durable_name:
            return SubscriptionKind.PLAIN
        gone = clients is not None and state.client_id not in clients
        return SubscriptionKind.OFFLINE_DURABLE if state.is_closed or gone else SubscriptionKind.DURABLE

    def is_ghost(self, clients: Container[str]) -> bool:
        """Whether this is a durable queue member whose client is not registered; a starting server deletes it."""
        return self.kind() is SubscriptionKind.DURABLE_QUEUE and self.state.client_id not in clients

    def to_dict(self, clients: Container[str] | None = None) -> dict[str, Any]:
        """Return the subscription as plain values, with ``pending`` sorted."""
        state = self.state.to_dict() | {"last_sent": self.last_sent}
        return state | {"kind": self.kind(clients).value, "pending": sorted(self.pending)}


@dataclass(frozen=True, slots=True)
class SubscriptionEvent:
    """One record of the log. New and update have a ``state``, ack and msg a ``sequence``; ``length`` is the payload's
    size in bytes."""

    offset: int
    length: int
    type: int
    id: int
    sequence: int | None = None
    state: SubState | None = None


def subscription_events(
    file: ReadableFile, name: str, crc: Crc32, check: bool, on_fault: FaultSink, stream: str
) -> Iterator[SubscriptionEvent]:
    """Yield the log's records. Reports damage to ``on_fault``."""
    for record in TypedLog(LogFile(file, name, TYPES, stream), crc, check, on_fault):
        offset, length, kind = record.offset, len(record.payload), record.type
        try:
            if kind in (NEW, UPDATE):
                state = SubState.parse(record.payload)
                yield SubscriptionEvent(offset, length, kind, state.id, state=state)
            elif kind == DELETE:
                yield SubscriptionEvent(offset, length, kind, SubStateDelete.parse(record.payload).id)
            else:
                update = SubStateUpdate.parse(record.payload)
                yield SubscriptionEvent(offset, length, kind, update.id, update.sequence)
        except BadMessage as error:
            on_fault(
                Fault("bad-message", name, offset, str(error), "a subscription record", "this record", stream=stream)
            )


def fold(events: Iterator[SubscriptionEvent]) -> dict[int, Subscription]:
    """Fold the log into subscriptions by ID. Events of unknown subscriptions are ignored."""
    subscriptions: dict[int, Subscription] = {}
    for event in events:
        known = subscriptions.get(event.id)
        if event.state is not None:
            # An update keeps the pending sequences and takes the new last_sent, even if it is lower.
            pending = known.pending if known is not None and event.type == UPDATE else set()
            subscriptions[event.id] = Subscription(event.state, event.state.last_sent, pending)
        elif event.type == DELETE:
            subscriptions.pop(event.id, None)
        elif known is not None and event.sequence is not None:
            if event.type == ACK:
                known.pending.discard(event.sequence)
            else:
                known.pending.add(event.sequence)
                known.last_sent = max(known.last_sent, event.sequence)
    for subscription in subscriptions.values():
        subscription.state = replace(subscription.state, last_sent=subscription.last_sent)
    return dict(sorted(subscriptions.items()))
