"""A media driver in one call: as a child process, or in threads of this one.

Typical use::

    with MediaDriver.launch(dir="/dev/shm/mine") as driver:
        ...  # clients connect to driver.dir

A child process is the default: its heartbeats and its network go on while this interpreter is busy. It ends when its
parent does, in whatever way.
"""

from __future__ import annotations

from typing import Any

from everlog.aeron.transport.driver.running_driver import RunningDriver, Warn
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.driver.settings.settings import ThreadingMode
from everlog.errors import UsageError


def quiet(warning: str) -> None:
    """Takes a warning and says nothing."""


class MediaDriver(RunningDriver):
    """A driver that :meth:`launch` started. Use it as a context manager, or end it with :meth:`close`."""

    def __init__(self, driver: RunningDriver) -> None:
        self._driver = driver
        self.dir, self.pid = driver.dir, driver.pid

    @staticmethod
    def launch(
        configuration: Configuration | None = None,
        *,
        in_process: bool = False,
        warn: Warn = quiet,
        **settings: Any,
    ) -> MediaDriver:
        """A driver that serves: ``cnc.dat`` is ready when this returns. ``settings`` are fields of
        :class:`Configuration`, instead of one. ``warn`` is told what a user should know, in one line each.

        Raises :class:`UsageError` for a wrong setting, :class:`DriverIsActive` when another driver has the folder,
        :class:`StoreUnavailable` and :class:`WriteFailed` when the folder or its memory can't be had.
        """
        if configuration is not None and settings:
            raise UsageError("launch", found="a configuration and settings", expected="one of them")
        wanted = configuration or Configuration(**settings)
        if in_process:
            from everlog.aeron.transport.driver.embedded import EmbeddedDriver

            return MediaDriver(EmbeddedDriver(wanted, warn))
        if wanted.threading_mode is ThreadingMode.INVOKER:
            expected = "SHARED, SHARED_NETWORK or DEDICATED; or in_process=True"
            raise UsageError("aeron.threading.mode", found="INVOKER", expected=expected)
        from everlog.aeron.transport.driver.child import ChildDriver

        return MediaDriver(ChildDriver(wanted, warn))

    @property
    def is_running(self) -> bool:
        """Whether the driver still runs: it was not closed, no client asked it to end, and it did not die."""
        return self._driver.is_running

    def wait(self, seconds: float | None = None) -> bool:
        """Until it does not run any more; ``False`` when that takes longer."""
        return self._driver.wait(seconds)

    def close(self) -> None:
        """Ends it; its folder is deleted where the configuration says so. Idempotent."""
        self._driver.close()
