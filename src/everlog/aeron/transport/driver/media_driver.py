"""Starts a media driver in one call, as a child process or in threads of this process.

Typical use::

    with MediaDriver.launch(dir="/dev/shm/mine") as driver:
        ...  # clients connect to driver.dir

A child process is the default: its heartbeats and network traffic continue while this interpreter is busy. It stops
when its parent does, even if the parent is killed.
"""

from __future__ import annotations

from typing import Unpack

from everlog.aeron.transport.driver.running_driver import RunningDriver, Warn
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.driver.settings.keywords import SettingKeywords
from everlog.aeron.transport.driver.settings.settings import ThreadingMode
from everlog.core.options import fill
from everlog.errors import UsageError


def quiet(warning: str) -> None:
    """Ignore a warning."""


class MediaDriver(RunningDriver):
    """A driver started by :meth:`launch`. Use it as a context manager, or stop it with :meth:`close`."""

    def __init__(self, driver: RunningDriver) -> None:
        self._driver = driver
        self.dir, self.pid = driver.dir, driver.pid

    @staticmethod
    def launch(
        configuration: Configuration | None = None,
        *,
        in_process: bool = False,
        warn: Warn = quiet,
        **settings: Unpack[SettingKeywords],
    ) -> MediaDriver:
        """Start a driver; ``cnc.dat`` is ready when this returns.

        Give a ``configuration``, or its fields as keywords. ``in_process`` runs the driver in threads of this process.
        ``warn`` receives one-line warnings for the user.

        Raises :class:`UsageError` for a wrong setting, :class:`DriverIsActive` if another driver uses the folder,
        :class:`StoreUnavailable` or :class:`WriteFailed` if the folder or its files can't be created.
        """
        if configuration is not None and settings:
            raise UsageError(
                "launch",
                found="a configuration and settings",
                expected="one of them",
                message="launch takes a configuration or settings, not both",
            )
        wanted = configuration or fill(Configuration, settings)
        if in_process:
            from everlog.aeron.transport.driver.embedded import EmbeddedDriver

            return MediaDriver(EmbeddedDriver(wanted, warn))
        if wanted.threading_mode is ThreadingMode.INVOKER:
            raise UsageError(
                "aeron.threading.mode",
                found="INVOKER",
                expected="SHARED, SHARED_NETWORK or DEDICATED",
                message="aeron.threading.mode=INVOKER needs in_process=True",
            )
        from everlog.aeron.transport.driver.child import ChildDriver

        return MediaDriver(ChildDriver(wanted, warn))

    @property
    def is_running(self) -> bool:
        """Whether the driver still runs. It stops when it is closed, when a client terminates it, or when it dies."""
        return self._driver.is_running

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the driver has stopped. Returns ``False`` if it still runs after ``timeout_s`` seconds."""
        return self._driver.wait(timeout_s)

    def close(self) -> None:
        """Stop the driver, and delete its folder if the configuration says so. Idempotent."""
        self._driver.close()
