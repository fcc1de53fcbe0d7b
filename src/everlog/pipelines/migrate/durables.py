"""Creates the consumer that replaces a durable.

A crash leaves a consumer with the state ``importing``, which the next run removes and creates again: no one reads from
it before its state is ``done``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from everlog.core.counting import counted
from everlog.errors import UsageError, WriteFailed
from everlog.pipelines.migrate.connection import JetStream
from everlog.pipelines.migrate.consumers import REDELIVER, ConsumerPlan
from everlog.pipelines.migrate.move import ChannelMove
from everlog.time_units import NS_PER_S

IMPORTING, DONE = "importing", "done"
FETCH = 256
IMPORT_ACK_WAIT_S = 3600
SETTLE_TRIES = 100
SETTLE_WAIT_S = 0.05


async def make_consumer(js: JetStream, move: ChannelMove, plan: ConsumerPlan, present: set[int]) -> dict[str, Any]:
    """Create a durable pull consumer; returns its state as plain values. ``present``: the sequences from its start to
    the last one sent that the channel still has. A consumer that was used since it was created is left unchanged."""
    mode = move.settings.pending
    made: dict[str, Any] = {
        "name": plan.name,
        "kind": plan.kind,
        "durable": plan.durable,
        "clients": list(plan.clients),
    }
    made |= {"floor": plan.floor, "last_sent": plan.last_sent, "pending": list(plan.pending)}
    made["pending_gone"] = [n for n in plan.pending if n not in present] if mode == REDELIVER else []
    found = await js.consumer_info(move.stream, plan.name)
    if found is not None and not _may_replace(move, plan, found):
        return made | {"start": plan.start(mode), "outcome": "kept: it was used"}
    if found is not None:
        await js.api(f"CONSUMER.DELETE.{move.stream}.{plan.name}")
    await _put(js, move, plan, IMPORTING, 0)
    delivered = 0
    if mode == REDELIVER and plan.pending:
        delivered = await _replay(js, move, plan, present)
    await _put(js, move, plan, DONE, delivered)
    info = await js.consumer_info(move.stream, plan.name) or {}
    return made | {
        "start": plan.start(mode),
        "outcome": "made",
        "ack_floor": info.get("ack_floor", {}).get("stream_seq"),
        "ack_pending": info.get("num_ack_pending"),
        "num_pending": info.get("num_pending"),
    }


def _may_replace(move: ChannelMove, plan: ConsumerPlan, info: Mapping[str, Any]) -> bool:
    metadata = info["config"].get("metadata") or {}
    if "everlog.state" not in metadata:
        raise UsageError(
            f"consumer {plan.name} of stream {move.stream}",
            found="a consumer that no migration made",
            expected="none",
            message=f"stream {move.stream} already has a consumer {plan.name} that no migration made",
            hint="delete it, or leave the subscription out",
        )
    is_untouched = str(info["delivered"]["consumer_seq"]) == metadata.get("everlog.delivered")
    return metadata["everlog.state"] == IMPORTING or is_untouched


async def _put(js: JetStream, move: ChannelMove, plan: ConsumerPlan, state: str, delivered: int) -> None:
    metadata = {
        "everlog.kind": plan.kind,
        "everlog.durable": plan.durable,
        "everlog.clients": ",".join(plan.clients),
        "everlog.last_sent": str(plan.last_sent),
        "everlog.state": state,
        "everlog.delivered": str(delivered),
    }
    config = {
        "name": plan.name,
        "durable_name": plan.name,
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": max(plan.start(move.settings.pending), 1),
        "ack_policy": "explicit",
        # During the import, nothing may be redelivered automatically.
        "ack_wait": (IMPORT_ACK_WAIT_S if state == IMPORTING else plan.ack_wait_s) * NS_PER_S,
        # Pending messages must not block those that are acknowledged again.
        "max_ack_pending": -1 if state == IMPORTING else plan.max_ack_pending,
        "replay_policy": "instant",
        "metadata": metadata,
    }
    action = "create" if state == IMPORTING else "update"
    request = {"stream_name": move.stream, "config": config, "action": action}
    await js.api(f"CONSUMER.CREATE.{move.stream}.{plan.name}", request)


async def _replay(js: JetStream, move: ChannelMove, plan: ConsumerPlan, present: set[int]) -> int:
    """Fetch what was sent before, acknowledge what was acknowledged, and negatively acknowledge the rest, so that it is
    delivered again. Returns the number of deliveries."""
    pending = set(plan.pending) & present
    context = js.nc.jetstream(domain=move.connection.domain) if move.connection.domain else js.nc.jetstream()
    subscription = await context.pull_subscribe_bind(consumer=plan.name, stream=move.stream)
    held, seen, left = [], 0, len(present)
    while left:
        # Never more than there are up to the last one sent, so that nothing after it is fetched.
        for message in await subscription.fetch(min(FETCH, left), timeout=5):
            seen = message.metadata.sequence.stream
            if seen in pending:
                held.append(message)
            else:
                await message.ack()
        left = sum(number > seen for number in present)
    await js.nc.flush()
    for message in held:
        await message.nak()
    await js.nc.flush()
    await subscription.unsubscribe()
    for _ in range(SETTLE_TRIES):
        info = await js.consumer_info(move.stream, plan.name)
        if info is not None and info["num_ack_pending"] == len(pending):
            return int(info["delivered"]["consumer_seq"])
        await asyncio.sleep(SETTLE_WAIT_S)
    raise WriteFailed(
        f"consumer {plan.name} of stream {move.stream}",
        found="acknowledgements that the server did not accept",
        expected=counted(len(pending), "pending message"),
    )
