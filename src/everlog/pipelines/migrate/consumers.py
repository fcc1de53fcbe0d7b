"""A channel's subscriptions as JetStream consumers: plans each consumer without I/O.

A consumer has one position for a subscription's ``last_sent`` and ``pending``: it starts after the acknowledgement
floor. Messages above the floor that were acknowledged are acknowledged again by the migration; pending ones stay
pending.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from everlog.pipelines.migrate.naming import marked_name, plain_name

PendingMode = Literal["redeliver", "skip"]
"""What happens to messages that were sent to subscribers but not acknowledged."""
REDELIVER: Final = "redeliver"
SKIP: Final = "skip"
DEFAULT_ACK_WAIT_S = 30
DEFAULT_MAX_ACK_PENDING = 1000
_KINDS = {
    "durable": "durable",
    "offline durable": "durable",
    "queue": "queue group",
    "durable queue": "durable queue group",
    "offline durable queue": "durable queue group",
}


@dataclass(frozen=True, slots=True)
class ConsumerPlan:
    """A consumer to create. ``floor``: everything up to it was acknowledged; ``pending`` was sent but not acknowledged;
    both are sequences of the channel. ``clients`` are the subscriptions' client ids."""

    name: str
    kind: str
    durable: str
    clients: tuple[str, ...]
    floor: int
    last_sent: int
    pending: tuple[int, ...]
    ack_wait_s: int
    max_ack_pending: int

    def start(self, mode: PendingMode) -> int:
        """The first sequence to deliver: after the floor with ``redeliver``, after everything sent with ``skip``."""
        return (self.floor if mode == REDELIVER else self.last_sent) + 1


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """``consumers`` to create, and ``left_out``: subscriptions, as the store has them, that end with their connection
    and need no consumer."""

    consumers: tuple[ConsumerPlan, ...] = ()
    left_out: tuple[dict[str, Any], ...] = field(default_factory=tuple)

    @property
    def last_sent(self) -> int:
        """The highest sequence that any of them was sent; 0 if there is none."""
        sent = [plan.last_sent for plan in self.consumers] + [int(sub["last_sent"]) for sub in self.left_out]
        return max(sent, default=0)


def plan_consumers(subscriptions: Sequence[Mapping[str, Any]], *, queue_groups: bool = True) -> Subscriptions:
    """Plan the consumers for ``subscriptions`` from ``store.info()``. All members of a queue group share one consumer.
    A queue group that is not durable ends with its last member; it is moved only with ``queue_groups``."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    left_out: list[dict[str, Any]] = []
    for sub in subscriptions:
        kind = _KINDS.get(sub["kind"])
        if kind is None or (kind == "queue group" and not queue_groups):
            left_out.append(dict(sub))
            continue
        # A durable is identified by its client and name, a group by its own name, which includes the durable's.
        client = sub["client_id"] if kind == "durable" else ""
        groups.setdefault((kind, client, sub["qgroup"] or sub["durable_name"]), []).append(sub)
    names = _names(list(groups))
    plans = [_plan(names[key], key, members) for key, members in sorted(groups.items())]
    return Subscriptions(tuple(plans), tuple(left_out))


def _names(keys: list[tuple[str, str, str]]) -> dict[tuple[str, str, str], str]:
    """The durable's or group's name if it is unique in the channel, otherwise prefixed with the client's. Names that
    still clash get a mark made from their own key, so that a name does not depend on the others."""
    wanted: dict[tuple[str, str, str], str] = {}
    short = [name for _, _, name in keys]
    for key in keys:
        _, client, name = key
        wanted[key] = name if short.count(name) == 1 or not client else f"{client}_{name}"
    count = Counter(plain_name(text) for text in wanted.values())
    marks = {key: marked_name("\0".join(key)).rpartition("_")[2] for key in keys}
    names = {key: plain_name(text) for key, text in wanted.items()}
    return {key: name if count[name] == 1 else f"{name}_{marks[key]}" for key, name in names.items()}


def _plan(name: str, key: tuple[str, str, str], members: list[Mapping[str, Any]]) -> ConsumerPlan:
    kind, _, durable = key
    last_sent = max(int(sub["last_sent"]) for sub in members)
    pending = tuple(sorted({int(number) for sub in members for number in sub["pending"]}))
    in_flight = sum(int(sub["max_in_flight"]) for sub in members if sub["client_id"]) or sum(
        int(sub["max_in_flight"]) for sub in members
    )
    return ConsumerPlan(
        name=name,
        kind=kind,
        durable=durable,
        clients=tuple(sorted({sub["client_id"] for sub in members if sub["client_id"]})),
        floor=min(pending) - 1 if pending else last_sent,
        last_sent=max(last_sent, pending[-1] if pending else 0),
        pending=pending,
        ack_wait_s=max((int(sub["ack_wait_secs"]) for sub in members), default=0) or DEFAULT_ACK_WAIT_S,
        max_ack_pending=max(in_flight or DEFAULT_MAX_ACK_PENDING, len(pending)),
    )
