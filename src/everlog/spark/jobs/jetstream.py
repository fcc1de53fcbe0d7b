"""Moves NATS Streaming channels into JetStream: the driver plans the moves, and a task moves each channel."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from everlog.core.report import Fault, Progress, Severity
from everlog.core.store import StreamInfo
from everlog.discovery import FoundStore
from everlog.errors import EverlogError, LimitExceeded, UnknownStream, UsageError
from everlog.nats_streaming.family import NATS_STREAMING
from everlog.nats_streaming.options import NatsStreamingOptions
from everlog.pipelines.migrate.channel import MAX_GAP_MESSAGES, ChannelImport, Counts, move_channel
from everlog.pipelines.migrate.connection import Connection, JetStream, run_async
from everlog.pipelines.migrate.consumers import Subscriptions, plan_consumers
from everlog.pipelines.migrate.move import ChannelMove, StreamSettings
from everlog.pipelines.migrate.naming import (
    MAX_NAME_LENGTH,
    SubjectMapping,
    distinct_names,
    map_subject,
    marked_name,
    plain_name,
)
from everlog.pipelines.migrate.progress import ProgressFolder, report_count, watch
from everlog.pipelines.migrate.stream import is_ours
from everlog.pipelines.scan.options import FAIL, OnFault
from everlog.spark.jobs.progress import TaskProgress
from everlog.stores import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = logging.getLogger("everlog.spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class JetStreamTarget:
    """Where channels go. ``stream_prefix`` and ``subject_prefix`` precede the names of streams and the subjects;
    ``mappings`` change subjects. ``queue_groups``: groups that are not durable become consumers, too. ``consumers``:
    whether subscriptions are moved at all. ``keep_limits``: streams get the limits that the store is read with."""

    connection: Connection
    settings: StreamSettings = field(default_factory=StreamSettings)
    stream_prefix: str = ""
    subject_prefix: str = ""
    mappings: tuple[SubjectMapping, ...] = ()
    queue_groups: bool = True
    consumers: bool = True
    keep_limits: bool = False


def plan_channels(
    store: FoundStore,
    target: JetStreamTarget,
    *,
    streams: Sequence[str] = (),
    options: dict[str, Any] | None = None,
    on_fault: OnFault = FAIL,
) -> list[ChannelMove]:
    """A move for each channel of a store, or of those in ``streams`` (names or patterns). ``options`` open the store; a
    key must be in a file or an environment variable.

    Raises :class:`UsageError`, :class:`UnknownStream`, and what opening a store raises.
    """
    if store.family != NATS_STREAMING.name:
        message = f"{store.path} is a store of {store.family}; only {NATS_STREAMING.title}s move to JetStream"
        raise UsageError(store.path, found=store.family, expected=NATS_STREAMING.name, message=message)
    options = dict(options or {})
    if "encryption_key" in options:
        raise UsageError("encryption_key", found="a key in plain text", expected="a file or an environment variable")
    with open_store(store.path, family=NATS_STREAMING.name, **options) as opened:
        infos = {info.name: info for info in opened.streams()}
        state = opened.info()
    chosen = _chosen(infos, streams)
    # Names depend on all channels, so that they do not depend on the selection.
    names = distinct_names(list(infos), target.stream_prefix)
    cluster = (state["server_info"] or {}).get("cluster_id", "")
    moves = []
    for name in chosen:
        known = state["channels"].get(name, {}).get("subscriptions", []) if target.consumers else []
        subscriptions = plan_consumers(known, queue_groups=target.queue_groups)
        first, last = _span(infos[name], subscriptions)
        subject, refusal = _subject(store, name, target)
        both = (plain_name(target.stream_prefix + name), marked_name(name, target.stream_prefix))
        moves.append(
            ChannelMove(
                store=store.path,
                options=options,
                on_fault=on_fault,
                channel=name,
                cluster=cluster,
                stream=names[name],
                subject=subject,
                first=first,
                last=last,
                byte_count=infos[name].byte_count,
                subscriptions=subscriptions,
                settings=_settings(target, options),
                connection=target.connection,
                other_names=tuple(other for other in both if other != names[name] and len(other) <= MAX_NAME_LENGTH),
                refusal=refusal,
            )
        )
    refuse_shared_streams(moves)
    return moves


def _subject(store: FoundStore, channel: str, target: JetStreamTarget) -> tuple[str, UsageError | None]:
    """The subject of a channel's messages, or why it has none; other channels are still moved."""
    try:
        return map_subject(channel, target.mappings, target.subject_prefix), None
    except UsageError as error:
        return channel, UsageError(
            f"{store.path}: channel {channel!r}",
            found=f"{error.where} {error.found}",
            expected=error.expected,
            message=f"{store.path}: channel {channel!r} can't be moved: {error}",
            hint="use --map FROM=TO to give it another subject",
        )


def _chosen(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Raises :class:`UnknownStream` for a pattern that matches nothing."""
    chosen: list[str] = []
    fitted: set[str] = set()
    for name in names:
        fitting = [pattern for pattern in patterns if name == pattern or fnmatchcase(name, pattern)]
        fitted.update(fitting)
        if fitting or not patterns:
            chosen.append(name)
    if missing := [pattern for pattern in patterns if pattern not in fitted]:
        found = ", ".join(map(repr, missing))
        message = f"no channel {found} (see: everlog ls STORE)"
        raise UnknownStream("stream", found=found, expected="a channel that ls lists", message=message)
    return chosen


def _settings(target: JetStreamTarget, options: Mapping[str, Any]) -> StreamSettings:
    if not target.keep_limits:
        return target.settings
    limits = NatsStreamingOptions(**options).limits()
    return replace(target.settings, max_msgs=limits.max_msgs, max_bytes=limits.max_bytes, max_age_ns=limits.max_age_ns)


def _span(info: StreamInfo, subscriptions: Subscriptions) -> tuple[int, int]:
    """First and last sequence of the stream. Sequences that a subscription was sent count even if their messages are
    lost: its consumer would skip a new message with such a sequence."""
    last = max(int(info.end or 1) - 1, int(info.last or 0), subscriptions.last_sent)
    first = int(info.first) if info.first is not None else last + 1
    if last - first + 1 - (info.record_count or 0) > MAX_GAP_MESSAGES:
        found = f"{info.record_count} messages of sequences {first} to {last}"
        raise LimitExceeded(info.name, found=found, expected=f"at most {MAX_GAP_MESSAGES} missing ones")
    return first, last


def refuse_shared_streams(moves: Sequence[ChannelMove]) -> None:
    """Raise :class:`UsageError` if two moves have the same stream or subject."""
    for kind in ("stream", "subject"):
        seen: dict[str, ChannelMove] = {}
        for move in (move for move in moves if move.refusal is None):
            name = getattr(move, kind)
            other = seen.setdefault(name, move)
            if other is not move:
                raise UsageError(
                    f"{kind} {name}",
                    found=f"channel {other.channel!r} of {other.store} and channel {move.channel!r} of {move.store}",
                    expected="one channel",
                    hint="move the stores one by one, each with its own prefixes",
                )


def describe(move: ChannelMove) -> dict[str, Any]:
    """A move as plain values for the results."""
    return {
        "store": move.store,
        "channel": move.channel,
        "stream": move.stream,
        "subject": move.subject,
        "first": move.first,
        "last": move.last,
        "not_moved": [
            {"id": sub["id"], "kind": sub["kind"], "client": sub["client_id"], "pending": len(sub["pending"])}
            for sub in move.subscriptions.left_out
        ],
    }


def rehearse(moves: Sequence[ChannelMove]) -> list[dict[str, Any]]:
    """What would be done, found out without changing anything on the server."""
    refuse_shared_streams(moves)
    return run_async(_rehearse(moves))


async def _rehearse(moves: Sequence[ChannelMove]) -> list[dict[str, Any]]:
    if not moves:
        return []
    async with JetStream(moves[0].connection) as js:
        return [await _rehearsed(js, move) for move in await _placed(js, moves)]


async def _placed(js: JetStream, moves: Sequence[ChannelMove]) -> list[ChannelMove]:
    """The moves with the names of streams that their channels already have: a new channel may have made other channels'
    names longer."""
    return [replace(move, stream=await _name(js, move)) for move in moves]


async def _name(js: JetStream, move: ChannelMove) -> str:
    for name in (move.stream, *move.other_names):
        info = await js.stream_info(name)
        if info is not None and is_ours(move, info):
            return name
    return move.stream


async def _rehearsed(js: JetStream, move: ChannelMove) -> dict[str, Any]:
    row = describe(move) | {"outcome": "would move", "error": None, "consumers": _would_make(move), "moved": 0}
    done, faults = 0, list[Fault]()
    try:
        if move.refusal is not None:
            raise move.refusal
        with open_store(move.store, family=NATS_STREAMING.name, **move.options) as store:
            if (info := await js.stream_info(move.stream)) is not None:
                done = info["state"]["last_seq"]
                if await ChannelImport(js, move, Counts(), lambda moved: None).is_done(store, info):
                    return row | {"outcome": "up to date", "faults": 0}
                row["outcome"] = "would finish" if done >= move.last else "would move"
            rest = store.scan(move.channel, columns=["sequence"], start=done + 1, on_fault=faults.append)
            row["moved"] = sum(batch.row_count for batch in rest)
    except UsageError as error:
        return row | {"outcome": "would fail", "error": str(error)}
    return row | {"faults": sum(fault.severity is Severity.FAULT for fault in faults)}


def _would_make(move: ChannelMove) -> list[dict[str, Any]]:
    return [
        {
            "name": plan.name,
            "kind": plan.kind,
            "durable": plan.durable,
            "clients": list(plan.clients),
            "floor": plan.floor,
            "last_sent": plan.last_sent,
            "start": plan.start(move.settings.pending),
            "pending": list(plan.pending),
            "outcome": "would make",
        }
        for plan in move.subscriptions.consumers
    ]


def migrate_to_jetstream(
    spark: SparkSession,
    moves: Sequence[ChannelMove],
    *,
    tasks: int | None = None,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Move channels in parallel, each in one task. Returns a row for each, in order. A channel that fails has a row
    with an ``error``; the others are moved. A repeated run adds what is missing.

    Raises what reaching the server raises, and :class:`UsageError` for channels of several stores that would share a
    stream, before anything is begun.
    """
    if not moves:
        return []
    refuse_shared_streams(moves)
    moves = with_streams(moves)
    count = max(1, min(len(moves), tasks or 4 * spark.sparkContext.defaultParallelism))
    with ProgressFolder(progress is not None) as folder:
        numbered = list(enumerate(moves))
        place = folder.path

        def run(part: Iterable[tuple[int, ChannelMove]]) -> Iterator[str]:
            for number, move in part:
                yield json.dumps(move_one(move, number, place))

        # The largest first, so that none runs alone at the end.
        numbered.sort(key=lambda item: -item[1].byte_count)
        total = sum(max(0, move.last - move.first + 1) for move in moves)
        with watch(folder, progress, "messages", total), TaskProgress(spark, "migrate", None):
            lines = spark.sparkContext.parallelize(numbered, count).mapPartitions(run).collect()
    rows = {row.pop("number"): row for row in map(json.loads, lines)}
    return [rows[number] for number in range(len(moves))]


def with_streams(moves: Sequence[ChannelMove]) -> list[ChannelMove]:
    """The moves with the stream names to use: a channel that already has a stream, maybe under an earlier name, keeps
    it. Raises what reaching the server raises."""
    return run_async(_reach(moves))


async def _reach(moves: Sequence[ChannelMove]) -> list[ChannelMove]:
    async with JetStream(moves[0].connection) as js:
        await js.api("INFO")
        return await _placed(js, moves)


def move_one(move: ChannelMove, number: int = 0, progress_folder: str | None = None) -> dict[str, Any]:
    """Move one channel in a task; an error is part of the row."""
    row = describe(move) | {"number": number, "error": None}
    try:
        return row | move_channel(move, lambda moved: report_count(progress_folder, number, moved))
    except EverlogError as error:
        LOG.warning("channel %s: %s", move.channel, error)
        return row | {"outcome": "failed", "moved": None, "consumers": [], "error": str(error)}
