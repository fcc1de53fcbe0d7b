"""How a store is read."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from everlog.core.options import whole_number
from everlog.errors import UsageError
from everlog.kernel.crc32 import IEEE, Crc32
from everlog.nats_streaming.format.limits import Limits, parse_count, parse_duration, parse_size

_TRUE = {"true", "1", "yes", "on"}
_FALSE = {"false", "0", "no", "off"}


@dataclass(frozen=True, kw_only=True)
class NatsStreamingOptions:
    """Values may be text, as a command line gives them.

    ``max_msgs``, ``max_bytes`` (``"64MB"``) and ``max_age`` (seconds, ``"24h"``) hide what a server with these limits
    would drop; ``now_ns`` is the time that ages are counted to (the clock's by default). ``crc_poly`` is the
    polynomial of the checksums, in reversed form; ``crc=False`` checks none but the last message's of a slice, as the
    server does. ``include_bak`` reads slices that an archive script put aside, too.

    The key is ``encryption_key``, else the content of ``encryption_key_file`` (without a line end), else of the
    environment variable ``encryption_key_env``; else of ``NATS_STREAMING_ENCRYPTION_KEY`` where that is set. Without
    one, encrypted data is given as it is."""

    max_msgs: int | str | None = None
    max_bytes: int | str | None = None
    max_age: float | str | None = None
    now_ns: int | str | None = None
    encryption_key: str | bytes | None = field(default=None, repr=False)
    encryption_key_file: str | None = None
    encryption_key_env: str | None = None
    crc: bool | str = True
    crc_poly: int | str = IEEE
    include_bak: bool | str = False

    def __post_init__(self) -> None:
        self.limits()
        self.new_crc()
        _ = self.checks_crc, self.reads_bak, self.clock_ns()

    def limits(self) -> Limits:
        """The limits in force."""
        return Limits(
            parse_count("max_msgs", self.max_msgs),
            parse_size("max_bytes", self.max_bytes),
            parse_duration("max_age", self.max_age),
        )

    def clock_ns(self) -> int:
        """The time that ages are counted to."""
        return time.time_ns() if self.now_ns is None else _integer("now_ns", self.now_ns)

    def new_crc(self) -> Crc32:
        """The checksum with the store's polynomial."""
        return Crc32(_integer("crc_poly", self.crc_poly))

    @property
    def checks_crc(self) -> bool:
        """Whether checksums are compared."""
        return _truth("crc", self.crc)

    @property
    def reads_bak(self) -> bool:
        """Whether ``.bak`` slices are part of their channel."""
        return _truth("include_bak", self.include_bak)


def _integer(name: str, value: Any) -> int:
    if isinstance(value, str):
        return whole_number(name, value)
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):  # infinity has no whole number
        raise UsageError(name, found=repr(value), expected="a whole number, decimal or 0x...") from None


def _truth(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text not in _TRUE | _FALSE:
        raise UsageError(name, found=repr(value), expected="true or false")
    return text in _TRUE
