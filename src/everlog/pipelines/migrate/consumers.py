"""A channel's subscriptions as JetStream consumers: what to make of each, decided without I/O.

A consumer has one place for a subscription's ``last_sent`` and ``pending``: it starts behind the acknowledgement floor;
what above the floor was acknowledged is acknowledged again by the migration, and what was pending stays so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from everlog.pipelines.migrate.naming import marked_name, plain_name

REDELIVER, SKIP = "redeliver", "skip"
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
    """A consumer to make. ``floor``: everything up to it was acknowledged; ``pending`` was sent and not acknowledged;
    both are sequences of the channel. ``members`` are the subscriptions' ids and clients. ``start`` is the first
    sequence to deliver."""

    name: str
    kind: str
    durable: str
    clients: tuple[str, ...]
    floor: int
    last_sent: int
    pending: tuple[int, ...]
    ack_wait_s: int
    max_ack_pending: int

    def start(self, mode: str) -> int:
        """With ``redeliver`` behind the floor, with ``skip`` behind all that was sent."""
        return (self.floor if mode == REDELIVER else self.last_sent) + 1


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """``consumers`` to make, and ``left_out``: subscriptions that live and die with their connection, as the store has
    them, which need no consumer."""

    consumers: tuple[ConsumerPlan, ...] = ()
    left_out: tuple[dict[str, Any], ...] = field(default_factory=tuple)

    @property
    def last_sent(self) -> int:
        """The highest sequence that any of them has seen; 0 without one."""
        told = [plan.last_sent for plan in self.consumers] + [int(sub["last_sent"]) for sub in self.left_out]
        return max(told, default=0)


def plan_consumers(subscriptions: Sequence[Mapping[str, Any]], *, queue_groups: bool = True) -> Subscriptions:
    """``subscriptions`` as ``store.info()`` tells them. All members of a queue group share one consumer. A queue group
    that is not durable ends with its last member, so that only ``queue_groups`` takes it along."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    left_out: list[dict[str, Any]] = []
    for sub in subscriptions:
        kind = _KINDS.get(sub["kind"])
        if kind is None or (kind == "queue group" and not queue_groups):
            left_out.append(dict(sub))
            continue
        # A durable is known by its client and name; a group by its own name, which holds the durable's.
        client = sub["client_id"] if kind == "durable" else ""
        groups.setdefault((kind, client, sub["qgroup"] or sub["durable_name"]), []).append(sub)
    names = _names(list(groups))
    plans = [_plan(names[key], key, members) for key, members in sorted(groups.items())]
    return Subscriptions(tuple(plans), tuple(left_out))


def _names(keys: list[tuple[str, str, str]]) -> dict[tuple[str, str, str], str]:
    """The durable's name, or the group's, where it is the only one in the channel; else the client's before it. Those
    that would still share one are marked, each by what it is, so that a name does not hang on who else there is."""
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
