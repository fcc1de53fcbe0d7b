"""The client of an archive for asyncio programs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self, TypeVar, Unpack

from everlog.aeron.archive.client.asynchronous.replayed import AsyncReplayedMessages
from everlog.aeron.archive.client.asynchronous.requests import AsyncRequests
from everlog.aeron.archive.client.asynchronous.signals import AsyncSignalStream
from everlog.aeron.archive.client.connection.core import (
    ClientCore,
    ClientState,
    is_response_channel,
    replayed_channel,
    with_session_id,
)
from everlog.aeron.archive.client.connection.idling import Idle
from everlog.aeron.archive.client.connection.link import Ticket
from everlog.aeron.archive.client.connection.replay import OpenReplay
from everlog.aeron.archive.client.errors import timeout
from everlog.aeron.archive.client.machine import calls
from everlog.aeron.archive.client.machine.call import Call
from everlog.aeron.archive.client.machine.session import SessionRecord
from everlog.aeron.archive.client.options import ArchiveClientKeywords, ArchiveClientOptions, with_keywords
from everlog.aeron.archive.client.recording_events import RecordingEvents
from everlog.aeron.archive.client.values import ErrorResponse, ReplayParams
from everlog.aeron.archive.protocol.requests import SourceLocation
from everlog.aeron.transport.client.aeron import Aeron
from everlog.aeron.transport.client.publication import ExclusivePublication, Publication
from everlog.aeron.transport.client.subscription import Subscription
from everlog.errors import Closed, UsageError

T = TypeVar("T")
_log = logging.getLogger("everlog.aeron.archive")
WHOLE = ReplayParams()
PendingAnswer = tuple[Ticket[T], "asyncio.Future[None]"]


def _wake(future: asyncio.Future[None]) -> None:
    """Let the task go on that waits; it may have been cancelled."""
    if not future.done():
        future.set_result(None)


class AsyncAeronArchive(AsyncRequests):
    """A client of an archive, ours or Aeron's own, for one event loop. Close it, or use it in an ``async with``
    statement::

        async with await AsyncAeronArchive.connect(control_request_channel="aeron:udp?endpoint=archive:8010",
                                                   control_response_channel="aeron:udp?endpoint=me:0") as archive:
            async for recording in archive.list_recordings():
                print(recording.recording_id, recording.stop_position)
            stops = await asyncio.gather(*(archive.stop_position(number) for number in range(100)))

    Has the methods of :class:`AeronArchive`. It polls in a task while requests are in flight, and all the time if
    ``poll_interval_s`` is set; an error of a handler in that task is logged."""

    def __init__(self, core: ClientCore) -> None:
        """Programs use :meth:`connect`."""
        self._core = core
        self._connecting = asyncio.Lock()
        self._poller: asyncio.Task[None] | None = None

    @classmethod
    async def connect(
        cls,
        options: ArchiveClientOptions | None = None,
        *,
        aeron: Aeron | None = None,
        **keywords: Unpack[ArchiveClientKeywords],
    ) -> Self:
        """Open a session with an archive. ``keywords`` override fields of ``options``. ``aeron`` stays open when the
        client is closed; without it, the client connects one of its own.

        Raises :class:`ArchiveTimeout` if the archive doesn't answer in time, :class:`ArchiveError` if it refuses,
        :class:`DriverTimeout` if no media driver runs, :class:`UsageError` for a wrong option."""
        chosen = with_keywords(options, keywords)
        core = await asyncio.to_thread(ClientCore, aeron, chosen)
        client = cls(core)
        try:
            await client._connect()
        except BaseException:
            core.close()
            raise
        client._start_poller()
        return client

    async def _connect(self) -> None:
        connector = self._core.connector()
        idle = Idle()
        try:
            while (link := connector.poll(time.monotonic_ns())) is None:
                await asyncio.sleep(idle.seconds(self._core.aeron.do_work()))
        except BaseException:
            connector.close()
            raise
        self._core.adopt(link)

    def _start_poller(self) -> None:
        is_wanted = self.options.poll_interval_s is not None or self._core.link.session.open_count
        if is_wanted and (self._poller is None or self._poller.done()):
            self._poller = asyncio.get_running_loop().create_task(self._poll_on())

    async def _poll_on(self) -> None:
        """Poll while a request is in flight; if ``poll_interval_s`` is set, until the client is closed."""
        idle = Idle()
        interval_s = self.options.poll_interval_s
        while not self._core.is_closed:
            try:
                work_count = self._core.poll()
            except Closed:
                return
            except Exception:
                _log.exception("a handler of the archive client failed")
                work_count = 1
            if self._core.link.session.open_count:
                await asyncio.sleep(idle.seconds(work_count))
            elif interval_s is not None and self.state is ClientState.CONNECTED:
                await asyncio.sleep(interval_s)
            else:
                return

    # State

    @property
    def options(self) -> ArchiveClientOptions:
        """The client's options."""
        return self._core.options

    @property
    def aeron(self) -> Aeron:
        """The Aeron client that it uses."""
        return self._core.aeron

    @property
    def state(self) -> ClientState:
        """Whether the session is open."""
        return self._core.state

    @property
    def control_session_id(self) -> int:
        """The session's id. Raises :class:`Closed`."""
        return self._core.link.session.session_id

    @property
    def archive_id(self) -> int | None:
        """The archive's id; ``None`` if it is older than protocol version 1.11. Raises :class:`Closed`."""
        return self._core.link.session.archive_id

    @property
    def lost_sessions(self) -> tuple[SessionRecord, ...]:
        """The sessions that were lost, oldest first, with what became of their last requests."""
        return self._core.lost_sessions

    # Requests

    async def _call(self, call: Call[T]) -> T:
        return await self._finish(await self._submit(call))

    async def _submit(self, call: Call[T]) -> PendingAnswer[T]:
        if self._core.needs_connect(call.name):
            async with self._connecting:
                if self._core.needs_connect(call.name):
                    await self._connect()
        done = asyncio.get_running_loop().create_future()
        return self._core.submit(call, partial(_wake, done)), done

    async def _finish(self, pending: PendingAnswer[T]) -> T:
        ticket, done = pending
        try:
            if not ticket.done:
                self._start_poller()
                await done
        except BaseException:
            self._cancel(ticket)
            raise
        return ticket.result()

    def _cancel(self, ticket: Ticket[T]) -> None:
        with contextlib.suppress(Closed):
            self._core.cancel(ticket)

    # Signals and errors

    async def poll_for_recording_signals(self) -> int:
        """Deliver the signals that have come; returns their number. Without ``on_error``, raises the next error that
        answers no request, for example of a recording that failed."""
        before = self._core.inbox.signal_count
        self._core.poll()
        await asyncio.sleep(0)
        count = self._core.inbox.signal_count - before
        if not count:
            self._raise_error()
        return count

    async def poll_for_error_response(self) -> ErrorResponse | None:
        """Poll, and return the next error that answers no request and that ``on_error`` did not get, if any; also
        that the session is lost."""
        self._core.poll()
        await asyncio.sleep(0)
        return self._core.take_error()

    async def check_for_error_response(self) -> None:
        """Poll, and raise the error that :meth:`poll_for_error_response` would return."""
        self._core.poll()
        await asyncio.sleep(0)
        self._raise_error()

    def _raise_error(self) -> None:
        response = self._core.take_error()
        if response is not None:
            raise response.error.with_traceback(None)

    def recording_signals(self) -> AsyncSignalStream:
        """The recording signals from now on, to iterate over with ``async for``."""
        return AsyncSignalStream(self._core.inbox, self.poll)

    def poll(self) -> bool:
        """Read what has come and call handlers; returns whether anything had. Never waits. Raises
        :class:`SessionLost`, :class:`Closed`."""
        if self._core.poll():
            return True
        self._core.check_connected()
        return False

    async def recording_events(self, channel: str | None = None, stream_id: int | None = None) -> RecordingEvents:
        """Subscribe to the archive's recording events; by default with ``recording_events_channel`` and its stream.
        Raises :class:`UsageError` if no channel is known."""
        place = self._core.events_channel(channel, stream_id)
        return RecordingEvents(await self.aeron.async_add_subscription(*place))

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
        if not is_response_channel(replay_channel):
            return await self._call(calls.replay(recording_id, replay_channel, replay_stream_id, params))
        if params.subscription_registration_id is None:
            raise UsageError("subscription_registration_id", found="none", expected="that of the replay's subscription")
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

    async def _replay(
        self, recording_id: int, channel: str, stream_id: int, params: ReplayParams
    ) -> tuple[Subscription, int, int]:
        """The subscription, the replay session's id, and the correlation id of the request."""
        if is_response_channel(channel):
            subscription = await self.aeron.async_add_subscription(channel, stream_id)
            chosen = replace(params, subscription_registration_id=subscription.registration_id)
            try:
                ids = await self._replay_over_response(recording_id, channel, stream_id, chosen)
            except BaseException:
                subscription.close()
                raise
            return subscription, *ids
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
            data, ticket = self._core.submit_elsewhere(call, partial(_wake, done))
            try:
                while not ticket.done and requests.offer(data) < 0:
                    if time.monotonic_ns() >= deadline_ns:
                        raise timeout(call.name, ticket.correlation_id, timeout_ns, was_sent=False)
                    await asyncio.sleep(0.001)
            except BaseException:
                self._cancel(ticket)
                raise
            return await self._finish((ticket, done)), ticket.correlation_id

    # The end

    async def close(self) -> None:
        """End the session; requests in flight fail. A second call does nothing."""
        self._core.close()
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.wait([self._poller])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncAeronArchive {self.options.control_request_channel}: {self.state.name}>"
