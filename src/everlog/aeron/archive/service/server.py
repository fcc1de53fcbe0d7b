"""Starts a live archive in one call, as a child process or in a thread of this process, with or without a media driver.

Typical use::

    with ArchiveServer.launch("/var/lib/archive", embedded_driver=True, dir="/dev/shm/mine") as server:
        ...  # clients connect to server.control_channels
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from everlog.aeron.archive.service.security.interfaces import Authenticator, AuthorisationService
from everlog.aeron.archive.service.security.rules_file import load_rules
from everlog.aeron.archive.service.security.sample import SampleAuthenticator, SampleAuthorisationService
from everlog.aeron.archive.service.settings.choices import SupplierName
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.mark_file import LIVENESS_TIMEOUT_MS
from everlog.aeron.transport.client.options import default_folder
from everlog.aeron.transport.driver.media_driver import MediaDriver
from everlog.aeron.transport.driver.running_driver import Warn
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.errors import UsageError
from everlog.runtime.child import ChildProcess, serve

MODULE = "everlog.aeron.archive.service.server"


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """What a server runs: the archive's folder and settings, the driver that it starts (``driver``) or uses, the file
    with the rules of who may do what, who decides that, and how long the folder stays locked after its owner was
    killed."""

    folder: str
    settings: ArchiveSettings = field(default_factory=ArchiveSettings)
    driver_folder: str | None = None
    driver: Configuration | None = None
    security_file: str | None = None
    authenticator: SupplierName = "default"
    authorisation: SupplierName = "default"
    liveness_timeout_s: float = LIVENESS_TIMEOUT_MS / 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Running:
    """What a server that runs tells of itself."""

    pid: int
    archive_id: int
    driver_folder: str
    control_channels: list[str]
    recovered: list[str]


def quiet(warning: str) -> None:
    """Ignore a warning."""


class Service:
    """An archive in this process, and a media driver, if one is wanted: in a process of its own, so that neither waits
    for the other's interpreter, or with ``in_process`` in threads of this one. Raises the errors of
    :class:`~everlog.aeron.archive.service.embedded.EmbeddedArchive` and of the driver."""

    def __init__(
        self,
        launch: Launch,
        warn: Warn = quiet,
        on_end: Callable[[], None] | None = None,
        *,
        in_process: bool = False,
    ) -> None:
        from everlog.aeron.archive.service.embedded import EmbeddedArchive

        security = None if launch.security_file is None else load_rules(launch.security_file)
        if security is not None and security.warning is not None:
            warn(security.warning)
        authenticator: Authenticator | None = None if security is None else security.authenticator
        authorisation: AuthorisationService | None = None if security is None else security.authorisation
        if launch.authenticator == "sample":
            authenticator = SampleAuthenticator()
        if launch.authorisation == "sample":
            authorisation = SampleAuthorisationService()
        with ExitStack() as opened:
            folder = launch.driver_folder
            if launch.driver is not None:
                folder = opened.enter_context(MediaDriver.launch(launch.driver, in_process=in_process, warn=warn)).dir
            self.archive = opened.enter_context(
                EmbeddedArchive(
                    launch.folder,
                    launch.settings,
                    driver_folder=folder,
                    authenticator=authenticator,
                    authorisation=authorisation,
                    on_end=on_end,
                    liveness_timeout_s=launch.liveness_timeout_s,
                )
            )
            self._exits = opened.pop_all()
        self.running = Running(
            pid=os.getpid(),
            archive_id=self.archive.archive_id,
            driver_folder=str(self.archive.driver_folder),
            control_channels=self.archive.control_channels,
            recovered=self.archive.recovered,
        )

    def close(self) -> None:
        """Stop the archive in good order, then the driver."""
        self._exits.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ArchiveServer:
    """A running archive. :meth:`launch` makes one. Use it as a context manager, or stop it with :meth:`close`."""

    def __init__(self, server: ChildProcess | Service) -> None:
        self._server = server
        self._running: Running = server.running if isinstance(server, Service) else server.ready

    @classmethod
    def launch(
        cls,
        folder: str | Path,
        settings: ArchiveSettings | None = None,
        *,
        driver_folder: str | Path | None = None,
        driver: Configuration | None = None,
        security_file: str | None = None,
        liveness_timeout_s: float = LIVENESS_TIMEOUT_MS / 1000,
        in_process: bool = False,
        warn: Warn = quiet,
    ) -> Self:
        """Start an archive on ``folder``, which is made if it is missing; clients can connect when this returns.

        It uses the media driver of ``driver_folder`` (``None``: the default one), or starts one with the configuration
        ``driver``. ``security_file`` names principals and rules
        (:mod:`everlog.aeron.archive.service.security.rules_file`). ``liveness_timeout_s``: how long the folder stays
        locked after its owner was killed. ``in_process`` runs it in threads of this process, else in a child process,
        which ends with its parent. ``warn`` receives one-line warnings for the user.

        Raises :class:`DriverTimeout` without a driver, :class:`StoreUnavailable` while another archive owns the folder
        or has the same id on the driver, :class:`UsageError` for a wrong setting, and the errors of
        :func:`~everlog.aeron.archive.opening.open_archive`.
        """
        if driver is not None and driver_folder is not None and str(driver_folder) != driver.dir:
            message = "give driver_folder for a driver that runs already, or driver to start one"
            raise UsageError("driver_folder", found=str(driver_folder), expected=driver.dir, message=message)
        launch = Launch(
            folder=str(folder),
            settings=settings or ArchiveSettings(),
            driver_folder=str(driver_folder or default_folder()) if driver is None else None,
            driver=driver,
            security_file=security_file,
            liveness_timeout_s=liveness_timeout_s,
        )
        if in_process:
            return cls(Service(launch, warn, in_process=True))
        return cls(ChildProcess(MODULE, launch, warn, what="the archive", where=launch.folder))

    @property
    def pid(self) -> int:
        """The process that serves."""
        return self._running.pid

    @property
    def archive_id(self) -> int:
        """The archive's id, which its counters and clients name."""
        return self._running.archive_id

    @property
    def driver_folder(self) -> str:
        """The folder of the media driver."""
        return self._running.driver_folder

    @property
    def control_channels(self) -> list[str]:
        """The control channels, with the ports they are bound to; the local one (IPC) comes last."""
        return self._running.control_channels

    @property
    def recovered(self) -> list[str]:
        """What was repaired when the folder was opened, a line for each step."""
        return self._running.recovered

    @property
    def is_running(self) -> bool:
        """Whether the archive still runs. It stops when it is closed, when its driver ends, or when it dies."""
        server = self._server
        return server.archive.is_running if isinstance(server, Service) else server.is_running

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the archive has stopped. Returns false if it still runs after ``timeout_s`` seconds."""
        server = self._server
        return server.archive.wait(timeout_s) if isinstance(server, Service) else server.wait(timeout_s)

    def close(self) -> None:
        """Stop all recordings and replays, and give the folder back. A second call does nothing."""
        self._server.close()

    def kill(self) -> None:
        """Kill a child process as ``kill -9`` does; nothing is cleaned up. Raises :class:`UsageError` for an archive in
        this process."""
        if isinstance(self._server, Service):
            message = "an archive in this process can't be killed"
            raise UsageError("kill", found="an archive in this process", expected="a child process", message=message)
        self._server.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def start(launch: Launch, warn: Warn, on_end: Callable[[], None]) -> tuple[Service, Running]:
    """Start the service in this process."""
    service = Service(launch, warn, on_end)
    return service, service.running


if __name__ == "__main__":
    # What is pickled must have its importable names.
    from everlog.aeron.archive.service import server

    sys.exit(serve(server.start))
