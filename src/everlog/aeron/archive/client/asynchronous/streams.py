"""Replays and recorded publications of a client for asyncio programs."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from dataclasses import replace
from functools import partial
from typing import TypeVar

from everlog.aeron.archive.client.asynchronous.replayed import AsyncReplayedMessages
from everlog.aeron.archive.client.asynchronous.requests import AsyncRequests
from everlog.aeron.archive.client.connection.core import (
    ClientCore,
    awaited_channel,
    is_response_channel,
    is_unresolved,
    no_subscription,
    replayed_channel,
    unresolved,
    with_session_id,
)
from everlog.aeron.archive.client.connection.link import Ticket
from everlog.aeron.archive.client.connection.replay import OpenReplay
from everlog.aeron.archive.client.errors import timeout
from everlog.aeron.archive.client.machine import calls
from everlog.aeron.archive.client.machine.call import Call
from everlog.aeron.archive.client.options import ArchiveClientOptions
from everlog.aeron.archive.client.values import ReplayParams
from everlog.aeron.archive.protocol.requests import SourceLocation
from everlog.aeron.transport.client.aeron import Aeron
from everlog.aeron.transport.client.publication import ExclusivePublication, Publication
from everlog.aeron.transport.client.subscription import Subscription
from everlog.errors import UsageError

T = TypeVar("T")
WHOLE = ReplayParams()
PendingAnswer = tuple[Ticket[T], "asyncio.Future[None]"]


def wake(future: asyncio.Future[None]) -> None:
    """Let the task go on that waits; it may have been cancelled."""
    if not future.done():
        future.set_result(None)


class AsyncStreams(AsyncRequests):
    """What a client does with streams: it records its own publications, and receives replays."""

    _core: ClientCore

    @property
    @abstractmethod
    def options(self) -> ArchiveClientOptions:
        """The client's options."""

    @property
    @abstractmethod
    def aeron(self) -> Aeron:
        """The Aeron client that it uses."""

    @abstractmethod
    def poll(self) -> bool:
        """Do the session's work."""

    @abstractmethod
    async def _submit(self, call: Call[T]) -> PendingAnswer[T]:
        """Start a request."""

    @abstractmethod
    async def _finish(self, pending: PendingAnswer[T]) -> T:
        """Wait for the answer."""

    @abstractmethod
    def _cancel(self, ticket: Ticket[T]) -> None:
        """Forget a request."""

    # Recording one's own publications

    async def add_recorded_publication(self, channel: str, stream_id: int) -> Publication:
        """Add a publication and record it, and nothing else of its stream. Raises :class:`UsageError` if the
        publication exists already."""
        publication = await self.aeron.async_add_publication(channel, stream_id)
        if not publication.is_original:
            publication.close()
            where = f"publication {channel}, stream {stream_id}"
            raise UsageError(where, message=f"{where} already added")
        await self._record(publication, channel, stream_id)
        return publication

    async def add_recorded_exclusive_publication(self, channel: str, stream_id: int) -> ExclusivePublication:
        """Like :meth:`add_recorded_publication`, exclusive."""
        publication = await self.aeron.async_add_exclusive_publication(channel, stream_id)
        await self._record(publication, channel, stream_id)
        return publication

    async def _record(self, publication: Publication | ExclusivePublication, channel: str, stream_id: int) -> None:
        recorded = with_session_id(channel, publication.session_id)
        try:
            await self.start_recording(recorded, stream_id, SourceLocation.LOCAL)
        except BaseException:
            publication.close()
            raise

    async def stop_recording_of(self, publication: Publication | ExclusivePublication) -> None:
        """Stop the recording of a publication that was added here. Source: stopRecording(Publication)."""
        await self.stop_recording(with_session_id(publication.channel, publication.session_id), publication.stream_id)

    # Replays

    async def start_replay(
        self, recording_id: int, replay_channel: str, replay_stream_id: int, params: ReplayParams = WHOLE
    ) -> int:
        """Replay a recording to a channel. Returns the replay session's id, for :meth:`stop_replay`; its low 32 bits
        are the session id of the replayed stream."""
        params = await self._with_length(recording_id, params)
        if not is_response_channel(replay_channel):
            return await self._call(calls.replay(recording_id, replay_channel, replay_stream_id, params))
        if params.subscription_registration_id is None:
            raise no_subscription()
        return (await self._replay_over_response(recording_id, replay_channel, replay_stream_id, params))[0]

    async def replay(
        self, recording_id: int, replay_channel: str, replay_stream_id: int, params: ReplayParams = WHOLE
    ) -> Subscription:
        """Replay a recording, and return a subscription that receives the replay alone. Close it to end the replay."""
        subscription, _, correlation_id = await self._replay(recording_id, replay_channel, replay_stream_id, params)
        self._core.inbox.unwatch(correlation_id)
        return subscription

    async def replay_messages(
        self, recording_id: int, replay_channel: str, replay_stream_id: int, params: ReplayParams = WHOLE
    ) -> AsyncReplayedMessages:
        """Replay a recording, and return its messages: to iterate over, or in batches that Arrow takes."""
        subscription, *ids = await self._replay(recording_id, replay_channel, replay_stream_id, params)
        timeout_s = self.options.message_timeout_ms / 1000
        return AsyncReplayedMessages(OpenReplay(subscription, (ids[0], ids[1]), self._core.inbox, self.poll, timeout_s))

    async def _with_length(self, recording_id: int, params: ReplayParams) -> ReplayParams:
        """Return the parameters with an explicit length, up to what is recorded now: old archives need one."""
        if not self._core.is_length_needed(params):
            return params
        start = await self.start_position(recording_id) if params.position is None else params.position
        end = await self.recording_position(recording_id)
        if end is None:
            end = await self.stop_position(recording_id)
        return replace(params, position=start, length=max(0, (start if end is None else end) - start))

    async def _replay(
        self, recording_id: int, channel: str, stream_id: int, params: ReplayParams
    ) -> tuple[Subscription, int, int]:
        """The subscription, the replay session's id, and the correlation id of the request."""
        params = await self._with_length(recording_id, params)
        if is_response_channel(channel):
            subscription = await self.aeron.async_add_subscription(channel, stream_id)
            chosen = replace(params, subscription_registration_id=subscription.registration_id)
            try:
                ids = await self._replay_over_response(recording_id, channel, stream_id, chosen)
            except BaseException:
                subscription.close()
                raise
            return subscription, *ids
        if is_unresolved(channel):
            return await self._replay_to_any_port(recording_id, channel, stream_id, params)
        pending = await self._submit(calls.replay(recording_id, channel, stream_id, params))
        correlation_id = pending[0].correlation_id
        self._core.inbox.watch(correlation_id)
        try:
            replay_session_id = await self._finish(pending)
            try:
                place = replayed_channel(channel, replay_session_id)
                subscription = await self.aeron.async_add_subscription(place, stream_id)
            except BaseException:
                await self.stop_replay(replay_session_id)
                raise
        except BaseException:
            self._core.inbox.unwatch(correlation_id)
            raise
        return subscription, replay_session_id, correlation_id

    async def _replay_to_any_port(
        self, recording_id: int, channel: str, stream_id: int, params: ReplayParams
    ) -> tuple[Subscription, int, int]:
        """Subscribe first: the request names the port that the driver has chosen."""
        subscription = await self.aeron.async_add_subscription(awaited_channel(channel), stream_id)
        correlation_id = None
        try:
            resolved = await self._resolved(subscription)
            pending = await self._submit(calls.replay(recording_id, resolved, stream_id, params))
            correlation_id = pending[0].correlation_id
            self._core.inbox.watch(correlation_id)
            return subscription, await self._finish(pending), correlation_id
        except BaseException:
            if correlation_id is not None:
                self._core.inbox.unwatch(correlation_id)
            subscription.close()
            raise

    async def _resolved(self, subscription: Subscription) -> str:
        timeout_ns = self.options.message_timeout_ns
        deadline_ns = time.monotonic_ns() + timeout_ns
        while (resolved := subscription.resolved_channel()) is None:
            if time.monotonic_ns() >= deadline_ns:
                raise unresolved(subscription.channel, timeout_ns)
            await asyncio.sleep(0.001)
        return resolved

    async def _replay_over_response(
        self, recording_id: int, channel: str, stream_id: int, params: ReplayParams
    ) -> tuple[int, int]:
        """Ask for a replay over a publication of its own: the archive answers to the subscription that it names."""
        token = await self.replay_token(recording_id)
        call = calls.replay(recording_id, channel, stream_id, params, token)
        place = self._core.request_channel_for(params.subscription_registration_id or 0)
        timeout_ns = self.options.message_timeout_ns
        deadline_ns = time.monotonic_ns() + timeout_ns
        with await self.aeron.async_add_exclusive_publication(
            place, self.options.control_request_stream_id
        ) as requests:
            done = asyncio.get_running_loop().create_future()
            data, ticket = self._core.submit_elsewhere(call, partial(wake, done))
            try:
                while not ticket.done and requests.offer(data) < 0:
                    if time.monotonic_ns() >= deadline_ns:
                        raise timeout(call.name, ticket.correlation_id, timeout_ns, was_sent=False)
                    await asyncio.sleep(0.001)
            except BaseException:
                self._cancel(ticket)
                raise
            return await self._finish((ticket, done)), ticket.correlation_id
