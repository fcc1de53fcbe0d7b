"""The service's duty cycle: reads requests, runs control sessions, recordings, replays, listings and deletions.

Everything, the client of the driver included, runs in the thread that calls :meth:`ArchiveConductor.do_work`. If the
threading mode is DEDICATED, two other threads transfer recordings and replays
(:mod:`~everlog.aeron.archive.service.transfers`). Source: ArchiveConductor, SharedModeArchiveConductor,
DedicatedModeArchiveConductor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from everlog.aeron.archive.service.context import ServiceContext
from everlog.aeron.archive.service.control.dispatch import Dispatch, Parts
from everlog.aeron.archive.service.control.images import ControlImages
from everlog.aeron.archive.service.control.sessions import ControlSessions
from everlog.aeron.archive.service.control.subscribing import subscribe_control
from everlog.aeron.archive.service.counters import ArchiveCounters
from everlog.aeron.archive.service.queries.queries import Queries
from everlog.aeron.archive.service.recording.service import RecordingService
from everlog.aeron.archive.service.replay.service import ReplayService
from everlog.aeron.archive.service.requester import Session
from everlog.aeron.archive.service.security.interfaces import (
    AllowAllAuthenticator,
    AllowAllAuthorisation,
    Authenticator,
    AuthorisationService,
)
from everlog.aeron.archive.service.transfers import Transfers
from everlog.aeron.archive.service.upkeep.upkeep import Upkeep
from everlog.errors import EverlogError
from everlog.kernel.watch import Condition, WordPair
from everlog.runtime.quiet import BUSY

_log = logging.getLogger("everlog.aeron.archive")


class ArchiveConductor:
    """Runs one archive: an agent for :class:`~everlog.runtime.agent_runner.AgentRunner`. Keeps ``counters`` up
    to date; its owner closes them. Subscribes to the control channels when it is made: raises
    :class:`StoreUnavailable` while the driver is short of resources, :class:`RegistrationRefused`,
    :class:`DriverTimeout`.

    If ``counters`` have cycles for them (threading mode DEDICATED), ``recorder`` and ``replayer`` are agents for two
    other threads, else ``None``. The owner sets ``stop_transfers`` to what ends these threads; it is called before the
    sessions are closed."""

    def __init__(
        self,
        context: ServiceContext,
        counters: ArchiveCounters,
        *,
        authenticator: Authenticator | None = None,
        authorisation: AuthorisationService | None = None,
    ) -> None:
        self._context = context
        self._counters = counters
        self._running: list[Session] = []
        self._is_cut_off_told = False
        self.recorder = (
            None if counters.recorder_cycle is None else Transfers(counters.recorder_cycle, counters.clock_ns)
        )
        self.replayer = (
            None if counters.replayer_cycle is None else Transfers(counters.replayer_cycle, counters.clock_ns)
        )
        self.stop_transfers: Callable[[], None] = lambda: None
        self._recordings = RecordingService(context, write_times=counters.writes, transfers=self.recorder)
        self._replays = ReplayService(context, self._recordings, read_times=counters.reads, transfers=self.replayer)
        upkeep = Upkeep(context, self._recordings, self._replays, self._running.append)
        self._recordings.refuse_while_deleting(upkeep.is_deleting)
        self._replays.refuse_while_deleting(upkeep.is_deleting)
        parts = Parts(
            recordings=self._recordings,
            replays=self._replays,
            queries=Queries(context, self._recordings),
            upkeep=upkeep,
            add_session=self._running.append,
            archive_id=context.archive_id,
        )
        self._sessions = ControlSessions(
            context,
            Dispatch(parts, context.on_error),
            authenticator or AllowAllAuthenticator(),
            authorisation or AllowAllAuthorisation(),
            counters.control_sessions.show,
        )
        settings = context.settings
        channels = [(settings.local_control_channel, settings.local_control_stream_id)]
        if settings.control_channel is not None:
            channels.insert(0, (settings.control_channel, settings.control_stream_id))
        gone = self._sessions.on_unavailable_image
        self._controls = [subscribe_control(context.aeron, *each, gone) for each in channels]
        self._images = [ControlImages(subscription) for subscription in self._controls]
        self.words: Sequence[WordPair] = (context.aeron.words,)
        self.conditions: Sequence[Condition] = (*(each.scan for each in self._images), self._recordings.scan)
        """They show whether there are requests to read or messages to record."""

    @property
    def control_channels(self) -> list[str]:
        """The control channels with the ports they are bound to; the local one comes last."""
        return [subscription.resolved_channel() or subscription.channel for subscription in self._controls]

    @property
    def is_cut_off(self) -> bool:
        """Whether the client of the driver has ended, so that the service can't go on."""
        return self._context.aeron.is_closed

    def do_work(self, now_ns: int, now_ms: int = 0) -> int:
        """Run one cycle. Returns the amount of work done. Raises the error that ended the client of the driver."""
        self._counters.cycle.measure(now_ns)
        aeron = self._context.aeron
        done = aeron.do_work()
        if aeron.failure is not None:
            if self._is_cut_off_told:
                return 0
            self._is_cut_off_told = True
            raise aeron.failure
        for images in self._images:
            done += self._sessions.poll(images, now_ns)
        done += self._sessions.do_work(now_ns)
        done += self._guarded(self._replays.do_work, now_ns)
        done += self._guarded(self._recordings.do_work, now_ns)
        for session in self._running[:]:
            done += self._run(session, now_ns)
        self._show_counts()
        return done

    def _run(self, session: Session, now_ns: int) -> int:
        """Do a session's work, and close it at its end. One that fails ends: it would fail in every cycle."""
        has_failed = False
        try:
            done = session.do_work(now_ns)
        except Exception as error:
            self._context.on_error(error)
            session.abort(f"failed with exception: {error}")
            done, has_failed = 1, True
        if session.is_done or has_failed:
            self._running.remove(session)
            session.close()
        return done

    def _show_counts(self) -> None:
        counters = self._counters
        counters.recording_sessions.show(self._recordings.active_count)
        counters.replay_sessions.show(len(self._replays))
        counters.writes.publish()
        counters.reads.publish()

    def _guarded(self, work: Callable[[int], int], now_ns: int) -> int:
        """Do a part's work; an error of one part is logged, and the others go on."""
        try:
            return work(now_ns)
        except Exception as error:
            self._context.on_error(error)
            return 1

    def quiet_until(self) -> int:
        """See :class:`~everlog.runtime.agent_runner.Agent`. It needs every cycle during replays, listings and
        deletions, and while a client is connecting or has not taken all that it is sent."""
        if self._running or len(self._replays) or not self._recordings.is_quiet:
            return BUSY
        if not all(images.is_current for images in self._images):
            return BUSY
        until_ns = min(self._sessions.quiet_until(), self._recordings.quiet_until(), self._context.aeron.quiet_until())
        if until_ns > BUSY:
            self._counters.cycle.pause(self._counters.clock_ns())
        return until_ns

    def sockets(self) -> Sequence[int]:
        """It has none of its own."""
        return ()

    def resume(self) -> None:
        """Nothing needs to be caught up after a pause."""

    def abort(self) -> None:
        """End as a crash does: no stop position is written, opening the folder recovers them. For a driver that
        died."""
        self.stop_transfers()
        self._recordings.abort()

    def close(self) -> None:
        """End all sessions in good order: recordings are stopped and their stop positions written. After the end of the
        driver, end as a crash does."""
        if self.is_cut_off:
            self.abort()
            return
        self.stop_transfers()
        for session in self._running:
            session.close()
        self._running.clear()
        for close in (self._replays.close, self._recordings.close, self._sessions.close):
            try:
                close()
            except EverlogError as error:
                self._context.on_error(error)
        self._show_counts()
        for subscription in self._controls:
            subscription.close()
