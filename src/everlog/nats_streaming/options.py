"""The options for opening a NATS Streaming store."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from everlog.core.options import whole_number
from everlog.errors import UsageError, WrongType
from everlog.kernel.crc32 import IEEE, Crc32
from everlog.nats_streaming.format.limits import Limits, parse_count, parse_duration, parse_size

_TRUE = {"true", "1", "yes", "on"}
_FALSE = {"false", "0", "no", "off"}


@dataclass(frozen=True, kw_only=True)
class NatsStreamingOptions:
    """Options for opening a store. Each value may also be text, as on a command line.

    ``max_msgs``, ``max_bytes`` (``"64MB"``) and ``max_age`` (seconds, or ``"24h"``) hide the messages that a server
    with these limits would drop; ages are measured up to ``now_ns`` (default: the current time). ``crc_poly`` is the
    checksum's polynomial, in reversed form. ``crc=False`` checks only the last message of each slice, as the server
    does. ``include_bak`` also reads the ``.bak`` slices that an archive script has renamed.

    The encryption key comes from the first of these that is set: ``encryption_key``; the file
    ``encryption_key_file`` (a line end is ignored); the environment variable named by ``encryption_key_env``; the
    environment variable ``NATS_STREAMING_ENCRYPTION_KEY``. Without a key, encrypted data is returned encrypted."""

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
        """The parsed limits. Raises :class:`UsageError` if one is invalid."""
        return Limits(
            parse_count("max_msgs", self.max_msgs),
            parse_size("max_bytes", self.max_bytes),
            parse_duration("max_age", self.max_age),
        )

    def clock_ns(self) -> int:
        """The time up to which ages are measured: ``now_ns``, or the current time."""
        return time.time_ns() if self.now_ns is None else _integer("now_ns", self.now_ns)

    def new_crc(self) -> Crc32:
        """A new CRC-32 with the polynomial ``crc_poly``."""
        return Crc32(_integer("crc_poly", self.crc_poly))

    @property
    def checks_crc(self) -> bool:
        """Whether all checksums are checked."""
        return _truth("crc", self.crc)

    @property
    def reads_bak(self) -> bool:
        """Whether ``.bak`` slices count as part of their channel."""
        return _truth("include_bak", self.include_bak)


def _integer(name: str, value: Any) -> int:
    if isinstance(value, str):
        return whole_number(name, value)
    try:
        return int(value)
    except TypeError:
        raise WrongType(name, found=repr(value), expected="a whole number, decimal or 0x...") from None
    except (ValueError, OverflowError):  # int() refuses NaN and infinity
        raise UsageError(name, found=repr(value), expected="a whole number, decimal or 0x...") from None


def _truth(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text not in _TRUE | _FALSE:
        raise UsageError(name, found=repr(value), expected="true or false")
    return text in _TRUE
