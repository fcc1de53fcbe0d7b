"""The blocking client of an archive."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar, Unpack

from everlog.aeron.archive.client.blocking.signals import SignalStream
from everlog.aeron.archive.client.blocking.streams import BlockingStreams, PendingAnswer
from everlog.aeron.archive.client.blocking.turns import PollTurns
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
FOLLOW_S = 0.1


class AeronArchive(BlockingStreams):
    """A client of an archive, ours or Aeron's own. Close it, or use it in a ``with`` statement::

        with AeronArchive.connect(control_request_channel="aeron:udp?endpoint=archive:8010",
                                  control_response_channel="aeron:udp?endpoint=me:0") as archive:
            for recording in archive.list_recordings():
                print(recording.recording_id, recording.stop_position)

    Names are those of Aeron's ``AeronArchive``; its overloads have names of their own, and its ``get`` is left out:
    :meth:`start_position`. -1 becomes ``None``. Threads may share a client; their requests are in flight together.

    A program that makes no calls for minutes must call :meth:`poll_for_recording_signals` or
    :meth:`check_for_error_response` now and then, or set ``poll_interval_s``: otherwise the archive ends the
    session."""

    def __init__(self, core: ClientCore) -> None:
        """Programs use :meth:`connect`."""
        self._core = core
        self._lock = threading.RLock()
        self._turns = PollTurns()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @classmethod
    def connect(
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
        core = ClientCore(aeron, with_keywords(options, keywords))
        client = cls(core)
        try:
            client._connect()
        except BaseException:
            core.close()
            raise
        client._start_thread()
        return client

    def _connect(self) -> None:
        connector = self._core.connector()
        idle = Idle()
        try:
            while (link := connector.poll(time.monotonic_ns())) is None:
                time.sleep(idle.seconds(self._core.aeron.do_work()))
        except BaseException:
            connector.close()
            raise
        self._core.adopt(link)

    def _start_thread(self) -> None:
        if self._core.options.poll_interval_s is not None:
            self._thread = threading.Thread(target=self._poll_often, name="aeron-archive-client", daemon=True)
            self._thread.start()

    def _poll_often(self) -> None:
        while not self._stopping.wait(self._core.options.poll_interval_s):
            try:
                with self._lock:
                    if self.state is not ClientState.CONNECTED:
                        continue
                    self._core.poll()
            except Exception:
                _log.exception("a handler of the archive client failed")

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
        with self._lock:
            return self._core.lost_sessions

    # Requests

    def _call(self, call: Call[T]) -> T:
        return self._finish(self._submit(call))

    def _submit(self, call: Call[T]) -> PendingAnswer[T]:
        wake = threading.Event()
        with self._lock:
            if self._core.needs_connect(call.name):
                self._connect()
            return self._core.submit(call, wake.set), wake

    def _finish(self, pending: PendingAnswer[T]) -> T:
        ticket, wake = pending
        try:
            self._wait(lambda: ticket.done, wake)
        except BaseException:
            self._cancel(ticket)
            raise
        return ticket.result()

    def _cancel(self, ticket: Ticket[T]) -> None:
        with self._lock, contextlib.suppress(Closed):
            self._core.cancel(ticket)

    def _wait(self, is_done: Callable[[], bool], wake: threading.Event) -> None:
        """Poll until something is done, or sleep while another thread polls; ``wake`` ends the sleep."""
        try:
            while not is_done():
                if self._turns.take(wake):
                    self._poll_until(is_done)
                else:
                    wake.wait(FOLLOW_S)
                    wake.clear()
        finally:
            self._turns.forget(wake)

    def _poll_until(self, is_done: Callable[[], bool]) -> None:
        idle = Idle()
        try:
            while True:
                with self._lock:
                    if is_done():
                        return
                    work_count = self._core.poll()
                time.sleep(idle.seconds(work_count))
        finally:
            self._turns.give()

    # Signals and errors

    def poll_for_recording_signals(self) -> int:
        """Deliver the signals that have come; returns their number. Without ``on_error``, raises the next error that
        answers no request, for example of a recording that failed."""
        with self._lock:
            before = self._core.inbox.signal_count
            self._core.poll()
            count = self._core.inbox.signal_count - before
            if not count:
                self._raise_error()
            return count

    def poll_for_error_response(self) -> ErrorResponse | None:
        """Poll, and return the next error that answers no request and that ``on_error`` did not get, if any; also
        that the session is lost."""
        with self._lock:
            self._core.poll()
            return self._core.take_error()

    def check_for_error_response(self) -> None:
        """Poll, and raise the error that :meth:`poll_for_error_response` would return."""
        with self._lock:
            self._core.poll()
            self._raise_error()

    def _raise_error(self) -> None:
        response = self._core.take_error()
        if response is not None:
            raise response.error.with_traceback(None)

    def recording_signals(self) -> SignalStream:
        """The recording signals from now on, to iterate over."""
        return SignalStream(self._core.inbox, self.poll)

    def poll(self) -> bool:
        """Read what has come and call handlers; returns whether anything had. Other calls do it, too, while they
        wait. Raises :class:`SessionLost`, :class:`Closed`."""
        with self._lock:
            if self._core.poll():
                return True
            self._core.check_connected()
            return False

    def recording_events(self, channel: str | None = None, stream_id: int | None = None) -> RecordingEvents:
        """Subscribe to the archive's recording events; by default with ``recording_events_channel`` and its stream.
        Raises :class:`UsageError` if no channel is known."""
        return RecordingEvents(self.aeron.add_subscription(*self._core.events_channel(channel, stream_id)))

    # The end

    def close(self) -> None:
        """End the session; requests in flight fail. A second call does nothing."""
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        with self._lock:
            self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<AeronArchive {self.options.control_request_channel}: {self.state.name}>"
