"""The interface of a running media driver, in this process or in a child process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Self

Warn = Callable[[str], None]
"""Receives one-line warnings for the user."""


class RunningDriver(ABC):
    """A running driver. Use it as a context manager, or stop it with :meth:`close`."""

    dir: str
    """The driver's folder, which clients connect to (``aeron.dir``)."""
    pid: int
    """The driver's process id."""

    @property
    @abstractmethod
    def is_running(self) -> bool:
        """Whether the driver still runs. It stops when it is closed, when a client terminates it, or when it dies."""

    @abstractmethod
    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the driver has stopped. Returns ``False`` if it still runs after ``timeout_s`` seconds."""

    @abstractmethod
    def close(self) -> None:
        """Stop the driver, and delete its folder if the configuration says so. Idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
