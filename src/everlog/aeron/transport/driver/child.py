"""A media driver in a child process that never outlives its parent."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from everlog.aeron.transport.driver.running_driver import RunningDriver, Warn
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.runtime.child import ChildProcess, serve

MODULE = "everlog.aeron.transport.driver.child"


class ChildDriver(RunningDriver):
    """A driver in a child process, see :class:`~everlog.runtime.child.ChildProcess`."""

    def __init__(self, configuration: Configuration, warn: Warn) -> None:
        self.dir = configuration.dir
        self._child = ChildProcess(MODULE, configuration, warn, what="the media driver", where=self.dir)
        self.pid = int(self._child.ready)

    @property
    def is_running(self) -> bool:
        """Whether the child process still runs."""
        return self._child.is_running

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the driver has stopped. Returns ``False`` if it still runs after ``timeout_s`` seconds."""
        return self._child.wait(timeout_s)

    def close(self) -> None:
        """Stop the driver, and delete its folder if the configuration says so. Idempotent."""
        self._child.close()

    def kill(self) -> None:
        """Kill the process as ``kill -9`` does; nothing is cleaned up."""
        self._child.kill()


def start(configuration: Configuration, warn: Warn, on_end: Callable[[], None]) -> tuple[RunningDriver, int]:
    """Start the driver in this process, and return it with its process id."""
    from everlog.aeron.transport.driver.embedded import EmbeddedDriver

    return EmbeddedDriver(configuration, warn, on_end=on_end), os.getpid()


if __name__ == "__main__":
    sys.exit(serve(start))
