"""A live archive in threads of this process: its client of the driver, its folder, its conductor."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from everlog.aeron.archive.service.conductor import ArchiveConductor
from everlog.aeron.archive.service.context import ServiceContext
from everlog.aeron.archive.service.counters import ArchiveCounters, CycleThresholds
from everlog.aeron.archive.service.folder import open_folder
from everlog.aeron.archive.service.identity import claim_id, require_unused_id
from everlog.aeron.archive.service.line_limit import LineLimit
from everlog.aeron.archive.service.security.interfaces import Authenticator, AuthorisationService
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.mark_file import LIVENESS_TIMEOUT_MS, now_ms
from everlog.aeron.transport.client.aeron import Aeron
from everlog.core.files.writable import LocalWritableStorage, WritableStorage, make_folder
from everlog.errors import EverlogError
from everlog.runtime.agent_runner import AgentRunner
from everlog.runtime.idle import idle_strategy

CONDUCTOR, RECORDER, REPLAYER = "archive-conductor", "archive-recorder", "archive-replayer"
"""Names of the threads."""
KEEP_ALIVE_S = 0.1
ERRORS_IN_A_PERIOD, PERIOD_S = 20, 10.0
"""How many errors are logged within a period at most."""
_log = logging.getLogger("everlog.aeron.archive")


class EmbeddedArchive:
    """An archive service in this process, in one thread, or in three if the threading mode is DEDICATED. Use it as a
    context manager, or stop it with :meth:`close`.

    Raises :class:`DriverTimeout` without a driver in ``driver_folder`` (``None``: the default one),
    :class:`StoreUnavailable` while another archive owns the folder or has the same id on this driver, and the errors of
    :func:`~everlog.aeron.archive.opening.open_archive`. ``liveness_timeout_s``: how long the folder stays locked after
    its owner was killed. ``storage``: another storage of the folder, for tests with faults."""

    def __init__(
        self,
        folder: str | Path,
        settings: ArchiveSettings | None = None,
        *,
        driver_folder: str | Path | None = None,
        authenticator: Authenticator | None = None,
        authorisation: AuthorisationService | None = None,
        on_end: Callable[[], None] | None = None,
        liveness_timeout_s: float = LIVENESS_TIMEOUT_MS / 1000,
        storage: WritableStorage | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.failure: BaseException | None = None
        self._settings = settings = settings or ArchiveSettings()
        self._on_end = on_end
        self._ended = threading.Event()
        self._noting = threading.Lock()
        self._limit = LineLimit(ERRORS_IN_A_PERIOD, PERIOD_S)
        with ExitStack() as opened:
            aeron = Aeron.connect(driver_folder, use_invoker=True, client_name=_client_name(settings.archive_id))
            opened.callback(aeron.close)
            self.driver_folder = aeron.folder
            self.archive_id = aeron.client_id if settings.archive_id is None else settings.archive_id
            require_unused_id(aeron, self.archive_id)
            self._counters = ArchiveCounters(
                aeron,
                self.archive_id,
                CycleThresholds(
                    settings.conductor_cycle_threshold_ns,
                    settings.recorder_cycle_threshold_ns,
                    settings.replayer_cycle_threshold_ns,
                ),
                threading_mode=settings.threading_mode,
                claim=lambda errors: claim_id(aeron, self.archive_id, errors),
            )
            opened.callback(self._counters.close)
            with _kept_alive(aeron):
                if storage is None:
                    make_folder(str(self.folder))
                    storage = LocalWritableStorage(self.folder)
                self._archive = open_folder(
                    storage,
                    settings,
                    driver_folder=str(aeron.folder),
                    archive_id=self.archive_id,
                    liveness_timeout_s=liveness_timeout_s,
                )
            opened.callback(self._close_folder)
            context = ServiceContext(
                aeron=aeron,
                archive=self._archive,
                archive_id=self.archive_id,
                settings=settings,
                on_error=self._note,
                now_ms=now_ms,
            )
            self._conductor = ArchiveConductor(
                context, self._counters, authenticator=authenticator, authorisation=authorisation
            )
            self.control_channels = self._conductor.control_channels
            self._transferring = [
                AgentRunner(name, [agent], idle_strategy(idle or settings.idle_strategy), self._note)
                for name, agent, idle in (
                    (RECORDER, self._conductor.recorder, settings.recorder_idle_strategy),
                    (REPLAYER, self._conductor.replayer, settings.replayer_idle_strategy),
                )
                if agent is not None
            ]
            self._conductor.stop_transfers = self._stop_transfers
            strategy = idle_strategy(settings.idle_strategy)
            conditions = self._conductor.conditions
            self._runner = AgentRunner(CONDUCTOR, [self._conductor], strategy, self._on_error, conditions)
            for runner in (*self._transferring, self._runner):
                runner.start()
            self._exits = opened.pop_all()

    def _stop_transfers(self) -> None:
        for runner in self._transferring:
            runner.close()

    def _note(self, error: BaseException) -> None:
        """Log an error for which there is no client to answer, at a limited rate, so that no client fills the log."""
        with self._noting:
            self._counters.count_error()
            self._archive.record_error(error)
            left_out = self._limit.take(time.monotonic())
        if left_out is None:
            return
        if left_out:
            _log.error("archive %s: %d more errors were not logged", self.folder, left_out)
        _log.error("archive %s: %s", self.folder, error, exc_info=not isinstance(error, EverlogError))

    def _on_error(self, error: Exception) -> None:
        """An error that ended a duty cycle: without its driver, the service can't go on."""
        self._note(error)
        if self._conductor.is_cut_off and not self._ended.is_set():
            self.failure = error
            self._ended.set()
            if self._on_end is not None:
                self._on_end()

    @property
    def recovered(self) -> list[str]:
        """What was repaired when the folder was opened, a line for each step."""
        return self._archive.recovered

    @property
    def is_running(self) -> bool:
        """Whether the service still runs. It ends when it is closed, or when its driver ends."""
        return not self._ended.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the service has ended. Returns false if it still runs after ``timeout_s`` seconds."""
        return self._ended.wait(timeout_s)

    def close(self) -> None:
        """Stop all recordings and replays, and give the folder back. A second call does nothing."""
        self._runner.close()
        self._ended.set()
        self._exits.close()

    def _close_folder(self) -> None:
        if self.failure is None:
            self._archive.close()
        else:
            self._archive.abandon()

    def __enter__(self) -> EmbeddedArchive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def _kept_alive(aeron: Aeron) -> Iterator[None]:
    """Do the client's work in another thread meanwhile: the driver gives up a client without a sign of life, and to
    recover a large archive may take longer."""
    is_over = threading.Event()

    def work() -> None:
        while not is_over.wait(KEEP_ALIVE_S):
            with suppress(EverlogError):  # the next call of the client raises it again
                aeron.do_work()

    thread = threading.Thread(target=work, name="archive-keep-alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _client_name(archive_id: int | None) -> str:
    return "archive" if archive_id is None else f"archive archiveId={archive_id}"
