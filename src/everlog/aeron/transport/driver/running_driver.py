"""What every media driver of ours can be asked, in this process or in a child."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Self

Warn = Callable[[str], None]
"""Takes what a user should know, in one line."""


class RunningDriver(ABC):
    """A driver that runs. Use it as a context manager, or end it with :meth:`close`."""

    dir: str
    """Its folder, which clients connect to (``aeron.dir``)."""
    pid: int
    """Its process."""

    @property
    @abstractmethod
    def is_running(self) -> bool:
        """Whether the driver still runs: it was not closed, no client asked it to end, and it did not die."""

    @abstractmethod
    def wait(self, seconds: float | None = None) -> bool:
        """Until it does not run any more; ``False`` when that takes longer."""

    @abstractmethod
    def close(self) -> None:
        """Ends it; its folder is deleted where the configuration says so. Idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
