"""Moves one NATS Streaming channel into one JetStream stream, each message once and under its own sequence.

During the import, the stream listens on a private subject, ``_everlog.import.STREAM.>``, and a subject transform of the
server gives messages their real subject: no other publisher's message can come between, and live subscribers see none.
Messages are published without waiting for acknowledgements, each with ``Nats-Expected-Last-Sequence``, so that a
message that is sent twice is refused. Sequences that the channel lacks (due to damage or limits) are filled with empty
messages on ``_everlog.gap``, which one purge removes at the end: the stream then has the same gaps. Finally, the
durables become consumers and the stream gets its real subject.

The stream itself records the progress: its last sequence. A kill of either side leaves a stream with the first
messages; a repeated run continues after them. Observed with nats-server 2.15; ``first_seq`` and the subject transform
exist from 2.10 on.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from everlog.core.json_text import parse_json
from everlog.core.report import Fault, Severity
from everlog.core.rfc3339 import rfc3339
from everlog.core.store import Store
from everlog.errors import EverlogError, UsageError, WriteFailed
from everlog.nats_streaming.family import NATS_STREAMING
from everlog.pipelines.migrate.connection import (
    MESSAGE_NOT_FOUND,
    WRONG_LAST_SEQUENCE,
    JetStream,
    JetStreamRefused,
    ServerUnreachable,
    run_async,
)
from everlog.pipelines.migrate.consumers import REDELIVER
from everlog.pipelines.migrate.durables import make_consumer
from everlog.pipelines.migrate.move import ChannelMove
from everlog.pipelines.migrate.stream import DONE, GAP_SUBJECT, IMPORTING, check_is_ours, import_subject, stream_config
from everlog.pipelines.scan.options import SKIP
from everlog.pipelines.scan.store_errors import damage, warn_of_sealed
from everlog.stores import open_store

MAX_GAP_MESSAGES = 10_000_000
"""Most sequences that a channel may lack between its first and last: each costs a message that is purged later."""
WINDOW_MESSAGES = 500
WINDOW_BYTES = 8 << 20
"""Most that is published without acknowledgement: far below what a server queues for a stream (10,000 messages, 128
MiB)."""
STALL_S = 5.0
LOOK_S = 0.1
RETRY_WAIT_S = 0.2
_COLUMNS = ["sequence", "timestamp_ns", "reply", "payload"]


class Flying(NamedTuple):
    """A message that was published and not acknowledged yet."""

    sequence: int
    byte_count: int
    is_gap: bool


@dataclass(slots=True)
class Counts:
    """What one run did, over all its connections: ``moved`` messages and ``gaps`` filled, each counted once when the
    server has stored it; ``faults`` found while reading. ``highest`` is the last counted sequence."""

    moved: int = 0
    moved_bytes: int = 0
    gaps: int = 0
    faults: int = 0
    retries: int = 0
    highest: int = 0
    flying: deque[Flying] = field(default_factory=deque)
    flying_bytes: int = 0
    consumers: list[dict[str, Any]] = field(default_factory=list)

    def publish(self, sequence: int, byte_count: int, is_gap: bool) -> None:
        """Count a message as in flight."""
        self.flying.append(Flying(sequence, byte_count, is_gap))
        self.flying_bytes += byte_count

    def acknowledge(self, sequence: int) -> None:
        """Count everything up to ``sequence`` as stored. What the server lost and got again is not counted twice."""
        while self.flying and self.flying[0].sequence <= sequence:
            stored = self.flying.popleft()
            self.flying_bytes -= stored.byte_count
            if stored.sequence <= self.highest:
                continue
            self.highest = stored.sequence
            self.gaps += stored.is_gap
            self.moved += not stored.is_gap
            self.moved_bytes += stored.byte_count

    def land(self, last: int) -> None:
        """Settle after a lost connection: ``last``, the stream's last sequence, tells what the server has stored; the
        rest is sent again."""
        self.acknowledge(last)
        self.flying.clear()
        self.flying_bytes = 0


class Stalled(Exception):
    """No acknowledgement came for some time."""


def move_channel(move: ChannelMove, progress: Callable[[int], None] = lambda moved: None) -> dict[str, Any]:
    """Move a channel; returns the result as plain values. Raises :class:`EverlogError`."""
    if move.refusal is not None:
        raise move.refusal
    return run_async(_move_patiently(move, progress))


async def _move_patiently(move: ChannelMove, progress: Callable[[int], None]) -> dict[str, Any]:
    """Retry over a new connection as long as attempts make progress."""
    import nats.errors

    counts = Counts()
    seen, since = 0, time.monotonic()
    while True:
        try:
            async with JetStream(move.connection) as js:
                return await ChannelImport(js, move, counts, progress).run()
        except (nats.errors.Error, TimeoutError, OSError, Stalled, EverlogError) as error:
            if not _may_pass(error):
                raise
            if counts.highest > seen:
                seen, since = counts.highest, time.monotonic()
            if time.monotonic() - since > move.connection.patience_s:
                if isinstance(error, EverlogError):
                    raise
                found = f"no progress for {move.connection.patience_s:g} s ({type(error).__name__}: {error})"
                raise WriteFailed(f"stream {move.stream}", found=found, expected="acknowledgements") from error
            counts.retries += 1
            await asyncio.sleep(RETRY_WAIT_S)


TRANSIENT = {WRONG_LAST_SEQUENCE, 10008, 10009, 10023, 10039, 10118, 10167, 10202}
"""Errors that pass, or that reading the stream's end again resolves: a wrong last sequence, JetStream unavailable, no
leader yet, too many requests."""


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, JetStreamRefused):
        return error.code in TRANSIENT
    return isinstance(error, ServerUnreachable) or not isinstance(error, EverlogError)


def _is_open(info: Mapping[str, Any]) -> bool:
    """Whether a migration has opened the stream to its real subject."""
    return bool(info["config"]["metadata"].get("everlog.state") == DONE)


def header_bytes(headers: Mapping[str, str]) -> int:
    """The headers' size on the wire.

    >>> header_bytes({"A": "b"}) == len(b"NATS/1.0\\r\\nA: b\\r\\n\\r\\n") True
    """
    return len("NATS/1.0\r\n\r\n") + sum(len(f"{name}: {value}\r\n".encode()) for name, value in headers.items())


class ChannelImport:
    """One attempt over one connection."""

    def __init__(self, js: JetStream, move: ChannelMove, counts: Counts, progress: Callable[[int], None]) -> None:
        self._js = js
        self._move = move
        self._counts = counts
        self._progress = progress
        self._error: EverlogError | None = None
        self._acked = asyncio.Event()
        self._inbox = ""

    async def run(self) -> dict[str, Any]:
        """Create the stream or find its end, publish what is missing, and finish it."""
        move = self._move
        with open_store(move.store, family=NATS_STREAMING.name, **move.options) as store:
            info = await self._js.stream_info(move.stream)
            if info is None:
                info = await self._js.api(f"STREAM.CREATE.{move.stream}", stream_config(move, IMPORTING))
            state, config = info["state"], info["config"]
            self._counts.land(state["last_seq"])
            if await self.is_done(store, info):
                return self._result("up to date", info)
            if _is_open(info) or config["subjects"] != [import_subject(move.stream) + ".>"]:
                # New messages must not be stored before the channel's remaining ones.
                await self._js.api(f"STREAM.UPDATE.{move.stream}", stream_config(move, IMPORTING))
            await self._push(store, state["last_seq"] + 1)
            # Removes all placeholders, including those of killed runs.
            await self._js.api(f"STREAM.PURGE.{move.stream}", {"filter": GAP_SUBJECT})
            if move.settings.finish:
                await self._finish(store)
        return self._result("moved" if move.settings.finish else "open", await self._js.stream_info(move.stream))

    async def is_done(self, store: Store, info: Mapping[str, Any]) -> bool:
        """Whether the stream has everything that the channel has. Raises :class:`UsageError` if it can't get the rest.
        Changes nothing."""
        move, last = self._move, info["state"]["last_seq"]
        check_is_ours(move, info)
        if _is_open(info) and await self._is_complete(info):
            await self._check_same(store, {"seq": move.last})
            return True
        if info["state"]["messages"]:
            await self._check_same(store, {"last_by_subj": move.subject})
        if not _is_open(info) and last > max(move.last, move.first - 1):
            raise UsageError(
                f"stream {move.stream}",
                found=f"messages up to {last}",
                expected=f"none after {move.last}, where channel {move.channel!r} ends",
                message=f"stream {move.stream} has messages up to {last}; channel {move.channel!r} ends at {move.last}",
                hint="the store was replaced or truncated; use another stream prefix to create another stream",
            )
        return False

    async def _is_complete(self, info: Mapping[str, Any]) -> bool:
        """Whether a finished stream lost nothing and the channel has nothing more. Raises :class:`UsageError` if the
        rest can't be added because others have published after the migration's end."""
        moved, last = int(info["config"]["metadata"]["everlog.last"]), info["state"]["last_seq"]
        is_whole = last >= moved and await self._is_migrated(moved)
        if is_whole and self._move.last <= moved:
            return True
        if last > moved or (last == moved and not is_whole):
            raise UsageError(
                f"stream {self._move.stream}",
                found=f"messages of other publishers after {moved}, where the migration ended"
                if is_whole
                else f"another publisher's message {moved}, where the migration ended: the server lost the end",
                expected="none, since the channel has more messages",
                message=f"stream {self._move.stream} has messages of other publishers where channel "
                f"{self._move.channel!r} continues: the migration ended at {moved}",
                hint="stop the NATS Streaming publishers before the stream is opened, or move the channel again "
                "under another stream prefix",
            )
        return False

    async def _is_migrated(self, sequence: int) -> bool:
        """Whether a migration wrote the stream's message with this sequence, or there is none."""
        if sequence < 1:
            return True
        try:
            found = await self._js.api(f"STREAM.MSG.GET.{self._move.stream}", {"seq": sequence})
        except JetStreamRefused as error:
            if error.code == MESSAGE_NOT_FOUND:
                return True
            raise
        return f"Everlog-Sequence: {sequence}\r\n".encode() in base64.b64decode(found["message"].get("hdrs", ""))

    async def _check_same(self, store: Store, request: Mapping[str, Any]) -> None:
        """Check that a message of the stream equals the channel's message of the same sequence, if both exist."""
        move = self._move
        if request.get("seq") == 0:
            return
        try:
            found = await self._js.api(f"STREAM.MSG.GET.{move.stream}", dict(request))
        except JetStreamRefused as error:
            if error.code != MESSAGE_NOT_FOUND:
                raise
            return  # only placeholders, or a gap
        message = found["message"]
        sequence, payload = int(message["seq"]), base64.b64decode(message.get("data", ""))
        for record in store.read(move.channel, sequence, sequence + 1, on_fault=lambda fault: None):
            if record.payload != payload:
                raise UsageError(
                    f"stream {move.stream}",
                    found=f"another message {sequence} than in channel {move.channel!r}",
                    message=f"message {sequence} of stream {move.stream} differs from that of channel {move.channel!r}",
                    expected="a stream that was filled from this store",
                    hint="use another stream prefix to create another stream",
                )

    # Publishing

    async def _push(self, store: Store, start: int) -> None:
        if start > self._move.last:
            return
        self._inbox = self._js.nc.new_inbox()
        subscription = await self._js.nc.subscribe(f"{self._inbox}.*", cb=self._on_ack)
        try:
            expected = start
            for sequence, time_ns, reply, payload in self._records(store, start):
                if sequence < expected:
                    continue
                while expected < sequence:
                    await self._publish_gap(expected)
                    expected += 1
                await self._publish(sequence, time_ns, reply, payload)
                expected += 1
            while expected <= self._move.last:
                await self._publish_gap(expected)
                expected += 1
            while self._counts.flying:
                await self._wait()
        finally:
            await subscription.unsubscribe()

    def _records(self, store: Store, start: int) -> Iterator[tuple[int, int, str, bytes]]:
        for batch in store.scan(
            self._move.channel,
            columns=_COLUMNS,
            start=start,
            end=self._move.last + 1,
            max_rows=1024,
            max_bytes=4 << 20,
            on_fault=self._on_fault,
        ):
            yield from zip(*(batch.data[name].to_list(batch.row_count) for name in _COLUMNS), strict=True)

    def _on_fault(self, fault: Fault) -> None:
        warn_of_sealed(self._move.store, fault)
        if fault.severity is Severity.FAULT:
            self._counts.faults += 1
            if self._move.on_fault != SKIP:
                raise damage(self._move.store, fault, "moves the rest")

    async def _publish(self, sequence: int, time_ns: int, reply: str, payload: bytes) -> None:
        move = self._move
        headers = {"Everlog-Time": rfc3339(time_ns) or str(time_ns), "Everlog-Sequence": str(sequence)}
        if move.subject != move.channel:
            headers["Everlog-Channel"] = move.channel
        if reply:
            headers["Everlog-Reply"] = reply
        await self._send(sequence, move.subject, payload, headers)

    async def _publish_gap(self, sequence: int) -> None:
        await self._send(sequence, GAP_SUBJECT, b"", {})

    async def _send(self, sequence: int, subject: str, payload: bytes, headers: dict[str, str]) -> None:
        counts, stream = self._counts, self._move.stream
        headers |= {"Nats-Expected-Stream": stream, "Nats-Expected-Last-Sequence": str(sequence - 1)}
        self._check_size(sequence, payload, headers)
        while len(counts.flying) >= WINDOW_MESSAGES or (counts.flying and counts.flying_bytes > WINDOW_BYTES):
            await self._wait()
        if self._error is not None:
            raise self._error
        counts.publish(sequence, len(payload), subject == GAP_SUBJECT)
        await self._js.nc.publish(
            f"{import_subject(stream)}.{subject}", payload, reply=f"{self._inbox}.{sequence}", headers=headers
        )

    def _check_size(self, sequence: int, payload: bytes, headers: Mapping[str, str]) -> None:
        """Raise :class:`UsageError` for a message over the server's limit for headers and payload; the server would
        close the connection."""
        most, taken = self._js.nc.max_payload, header_bytes(headers)
        room = most - taken
        if len(payload) > room:
            raise UsageError(
                f"message {sequence} of channel {self._move.channel}",
                found=f"{len(payload)} bytes",
                expected=f"at most {room} bytes: the server's max_payload of {most} minus {taken} bytes of headers",
                hint="raise max_payload in the server's configuration",
            )

    async def _on_ack(self, message: Any) -> None:
        """Handle an acknowledgement. They come in order: the server stores a stream's messages one after another, and
        refuses all messages after a missing one."""
        sequence = int(message.subject.rpartition(".")[2])
        try:
            answer = parse_json(message.data) if message.data else {"error": {"description": "no responders"}}
        except ValueError:
            answer = {"error": {"description": "no JSON"}}
        if "error" in answer or answer.get("seq") != sequence or answer.get("duplicate"):
            error = answer.get("error") or {"description": f"sequence {answer.get('seq')} for {sequence}"}
            code = int(error.get("err_code", 0)) or (10008 if not message.data else 0)
            found = str(error.get("description"))
            self._error = self._error or JetStreamRefused(
                f"stream {self._move.stream}", code=code, found=found, expected=f"message {sequence} stored"
            )
        else:
            self._counts.acknowledge(sequence)
            self._progress(self._counts.moved + self._counts.gaps)
        self._acked.set()

    async def _wait(self) -> None:
        self._acked.clear()
        if self._error is not None:
            raise self._error
        if not self._counts.flying:
            return
        deadline = time.monotonic() + STALL_S
        while not self._acked.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._acked.wait(), LOOK_S)
            # A lost connection does not wake waiters.
            if not self._acked.is_set() and (self._js.nc.is_closed or time.monotonic() > deadline):
                raise Stalled("the connection was lost" if self._js.nc.is_closed else f"nothing for {STALL_S:g} s")

    # The end

    async def _finish(self, store: Store) -> None:
        move = self._move
        info = await self._js.stream_info(move.stream)
        if info is None or info["state"]["last_seq"] != move.last:
            # A killed server may have lost what it had not written yet.
            raise Stalled("the stream does not end where the channel does")
        for plan in move.subscriptions.consumers:
            present: set[int] = set()
            if plan.pending and move.settings.pending == REDELIVER:
                present = self._sequences(store, plan.start(REDELIVER), plan.last_sent)
            self._counts.consumers = [c for c in self._counts.consumers if c["name"] != plan.name]
            self._counts.consumers.append(await make_consumer(self._js, move, plan, present))
        await self._js.api(f"STREAM.UPDATE.{move.stream}", stream_config(move, DONE))

    def _sequences(self, store: Store, first: int, last: int) -> set[int]:
        found: set[int] = set()
        for batch in store.scan(
            self._move.channel, columns=["sequence"], start=first, end=last + 1, on_fault=lambda fault: None
        ):
            found.update(batch.data["sequence"].to_list(batch.row_count))
        return found

    def _result(self, outcome: str, info: Mapping[str, Any] | None) -> dict[str, Any]:
        state = info["state"] if info is not None else {}
        counts = self._counts
        return {
            "outcome": outcome,
            "messages": state.get("messages"),
            "stream_first": state.get("first_seq"),
            "stream_last": state.get("last_seq"),
            "moved": counts.moved,
            "moved_bytes": counts.moved_bytes,
            "gaps": counts.gaps,
            "faults": counts.faults,
            "retries": counts.retries,
            "consumers": counts.consumers,
        }
