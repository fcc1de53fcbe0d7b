"""Options of a client. Names and defaults are those of Aeron's ``Aeron.Context``."""

from __future__ import annotations

import getpass
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from everlog.core.options import fill
from everlog.errors import UsageError
from everlog.time_units import NS_PER_MS

if TYPE_CHECKING:
    from everlog.aeron.transport.client.image import Image
    from everlog.aeron.transport.protocol.commands import OnPublicationError

ImageHandler = Callable[["Image"], object]
CounterHandler = Callable[[int, int], object]
"""Called with the counter's registration id and its counter id."""

FOLDER_VARIABLE = "AERON_DIR"
MAX_NAME_LENGTH = 100
MAX_IDLE_SLEEP_NS = 1_000_000_000


def default_folder() -> Path:
    """The driver's default folder: ``AERON_DIR`` if set, else ``/dev/shm/aeron-<user>`` on Linux and ``aeron-<user>``
    in the temporary folder elsewhere."""
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
    """Options of :meth:`Aeron.connect`. Each duration's name ends with its unit."""

    driver_timeout_ms: int = 10_000
    """How long to wait for a driver to start and for its answers. A driver without a heartbeat for longer counts as
    stopped."""
    keep_alive_interval_ns: int = 500_000_000
    """How often the client writes its heartbeat and checks the driver's; four times within the driver's client liveness
    timeout, if that is more often."""
    idle_sleep_ns: int = 16_000_000
    """How long the client's thread sleeps when it has nothing to do; at most a second."""
    await_sleep_ns: int = 1_000_000
    """How long a call that waits for the driver's answer sleeps between checks."""
    client_name: str = ""
    """Name in the label of the client's heartbeat counter; at most 100 ASCII characters."""
    use_invoker: bool = False
    """Start no thread: the program calls :meth:`Aeron.do_work`, at least as often as the keep-alive interval."""
    on_available_image: ImageHandler | None = None
    """Called with each new image of a subscription that has no handler of its own."""
    on_unavailable_image: ImageHandler | None = None
    """Called with each image that has ended, of a subscription that has no handler of its own."""
    on_available_counter: CounterHandler | None = None
    on_unavailable_counter: CounterHandler | None = None
    on_publication_error: Callable[[OnPublicationError], object] | None = None
    """Called when a receiver rejects an image of one of this client's publications."""
    on_error: Callable[[BaseException], object] | None = None
    """Called with errors that no call can raise; by default the logger ``everlog.aeron`` gets them."""
    on_close: Callable[[], object] | None = None
    """Called once when the client ends, for any reason."""

    def __post_init__(self) -> None:
        for name in ("driver_timeout_ms", "keep_alive_interval_ns", "await_sleep_ns"):
            if getattr(self, name) <= 0:
                raise UsageError(name, found=str(getattr(self, name)), expected="more than 0")
        if not 0 <= self.idle_sleep_ns <= MAX_IDLE_SLEEP_NS:
            raise UsageError("idle_sleep_ns", found=str(self.idle_sleep_ns), expected=f"0 to {MAX_IDLE_SLEEP_NS}")
        if len(self.client_name) > MAX_NAME_LENGTH or not self.client_name.isascii():
            raise UsageError(
                "client_name", found=repr(self.client_name), expected=f"at most {MAX_NAME_LENGTH} ASCII characters"
            )

    @property
    def driver_timeout_ns(self) -> int:
        """:attr:`driver_timeout_ms` in nanoseconds."""
        return self.driver_timeout_ms * NS_PER_MS


class Settings(TypedDict, total=False):
    """The fields of :class:`ClientOptions` as keyword arguments."""

    driver_timeout_ms: int
    keep_alive_interval_ns: int
    idle_sleep_ns: int
    await_sleep_ns: int
    client_name: str
    use_invoker: bool
    on_available_image: ImageHandler | None
    on_unavailable_image: ImageHandler | None
    on_available_counter: CounterHandler | None
    on_unavailable_counter: CounterHandler | None
    on_publication_error: Callable[[OnPublicationError], object] | None
    on_error: Callable[[BaseException], object] | None
    on_close: Callable[[], object] | None


def with_settings(options: ClientOptions, settings: Settings) -> ClientOptions:
    """A copy of ``options`` with some fields replaced. Raises :class:`UsageError` for an unknown name or a wrong
    value."""
    return fill(ClientOptions, {**{field.name: getattr(options, field.name) for field in fields(options)}, **settings})
