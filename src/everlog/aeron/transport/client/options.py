"""How a client is set up. Names and defaults are those of Aeron's ``Aeron.Context``."""

from __future__ import annotations

import getpass
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from everlog.errors import UsageError
from everlog.time_units import NS_PER_MS

if TYPE_CHECKING:
    from everlog.aeron.transport.client.image import Image
    from everlog.aeron.transport.protocol.commands import OnPublicationError

ImageHandler = Callable[["Image"], object]
CounterHandler = Callable[[int, int], object]
"""Called with a counter's registration id and its id."""

FOLDER_VARIABLE = "AERON_DIR"
MAX_NAME_LENGTH = 100
MAX_IDLE_SLEEP_NS = 1_000_000_000


def default_folder() -> Path:
    """Where a driver is looked for: ``AERON_DIR``, else ``/dev/shm/aeron-<user>`` on Linux and ``aeron-<user>`` in the
    folder for temporary files elsewhere."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    base = Path("/dev/shm") if sys.platform == "linux" and Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "default"
    return base / f"aeron-{user}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Durations are in the unit that ends their name."""

    driver_timeout_ms: int = 10_000
    """How long to wait for a driver, and for its answer; a driver that is silent for longer is gone."""
    keep_alive_interval_ns: int = 500_000_000
    """How often the client says that it lives, and looks whether the driver does."""
    idle_sleep_ns: int = 16_000_000
    """How long the client's thread sleeps when there was nothing to do; at most a second."""
    await_sleep_ns: int = 1_000_000
    """How long a call that awaits the driver's answer sleeps between two looks."""
    client_name: str = ""
    """Behind the client's heartbeat in the driver's counters; at most 100 ASCII letters."""
    use_invoker: bool = False
    """No thread of its own: the program calls :meth:`Aeron.do_work`, at least as often as the keep-alive interval."""
    on_available_image: ImageHandler | None = None
    """For all subscriptions that are added without a handler of their own."""
    on_unavailable_image: ImageHandler | None = None
    """The same, for images that have ended."""
    on_available_counter: CounterHandler | None = None
    on_unavailable_counter: CounterHandler | None = None
    on_publication_error: Callable[[OnPublicationError], object] | None = None
    """A receiver refused an image of a publication of this client."""
    on_error: Callable[[BaseException], object] | None = None
    """What goes wrong where no call could raise it; by default it is logged by ``everlog.aeron``."""
    on_close: Callable[[], object] | None = None
    """Called once, when the client ends, whatever ends it."""

    def __post_init__(self) -> None:
        for name in ("driver_timeout_ms", "keep_alive_interval_ns", "await_sleep_ns"):
            if getattr(self, name) <= 0:
                raise UsageError(name, found=str(getattr(self, name)), expected="more than 0")
        if not 0 <= self.idle_sleep_ns <= MAX_IDLE_SLEEP_NS:
            raise UsageError("idle_sleep_ns", found=str(self.idle_sleep_ns), expected=f"0 to {MAX_IDLE_SLEEP_NS}")
        if len(self.client_name) > MAX_NAME_LENGTH or not self.client_name.isascii():
            raise UsageError(
                "client_name", found=repr(self.client_name), expected=f"at most {MAX_NAME_LENGTH} ASCII letters"
            )

    @property
    def driver_timeout_ns(self) -> int:
        """The driver's timeout in nanoseconds."""
        return self.driver_timeout_ms * NS_PER_MS
