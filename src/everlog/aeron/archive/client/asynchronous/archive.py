"""The client of an archive for asyncio programs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from functools import partial
from types import TracebackType
from typing import Self, TypeVar, Unpack

from everlog.aeron.archive.client.asynchronous.signals import AsyncSignalStream
from everlog.aeron.archive.client.asynchronous.streams import AsyncStreams, PendingAnswer, wake
from everlog.aeron.archive.client.connection.core import (
    ClientCore,
    ClientState,
)
from everlog.aeron.archive.client.connection.idling import Idle
from everlog.aeron.archive.client.connection.link import Ticket
from everlog.aeron.archive.client.machine.call import Call
from everlog.aeron.archive.client.machine.session import SessionRecord
from everlog.aeron.archive.client.options import ArchiveClientKeywords, ArchiveClientOptions, with_keywords
from everlog.aeron.archive.client.recording_events import RecordingEvents
from everlog.aeron.archive.client.values import ErrorResponse
from everlog.aeron.transport.client.aeron import Aeron
from everlog.errors import Closed

T = TypeVar("T")
_log = logging.getLogger("everlog.aeron.archive")


class AsyncAeronArchive(AsyncStreams):
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
    def archive_version(self) -> tuple[int, int, int]:
        """The archive's protocol version, for example ``(1, 12, 0)``. An older one passes over requests that it does
        not know, so that they time out. Raises :class:`Closed`."""
        return self._core.archive_version

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
        return self._core.submit(call, partial(wake, done)), done

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
