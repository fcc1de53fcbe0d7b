"""Names of an export's folders: ``store=.../stream=.../hour=...``, as Hive and Spark write them.

Every value becomes one part of a path and can't leave its folder. Characters that are unsafe in file names become
``%XX``, which Spark and pyarrow decode. Only ASCII is escaped so, because Spark decodes higher values as characters and
pyarrow as bytes of UTF-8. A value that is too long, or has characters that can't be written so, is shortened to its
end, followed by ``~``, which no other name has, and a checksum: the manifest has the full value.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime

UNKNOWN_HOUR = "unknown"
MAX_NAME_BYTES = 200
"""Limit of a folder's name; file systems allow 255."""
KEPT_BYTES = 120
MARK = "~"
NULL_NAME = "__HIVE_DEFAULT_PARTITION__"
"""Spark's name for a null."""
HOUR_NS = 3600 * 10**9

_SAFE = re.compile(r"[A-Za-z0-9_.,+@() -]")
_ESCAPE = re.compile("%([0-9A-F]{2})")


def folder_name(column: str, value: str) -> str:
    """``column=value`` as a folder name."""
    escaped = "".join(map(_escaped, value))
    if escaped == NULL_NAME:
        escaped = escaped.replace("_", "%5F", 1)
    if escaped.endswith((".", " ")):  # some file systems drop them
        escaped = f"{escaped[:-1]}%{ord(escaped[-1]):02X}"
    is_plain = bool(value) and all(_is_writable(letter) for letter in value)
    if not is_plain or len(f"{column}={escaped}".encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        escaped = _shortened(value)
    return f"{column}={escaped}"


def value_of(name: str) -> str | None:
    """The value in a folder's name; ``None`` if only the manifest has it."""
    _, _, escaped = name.partition("=")
    if MARK in escaped:
        return None
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), escaped)


def hour_name(hour: int | None) -> str:
    """``2024-05-01-13`` in UTC for hours since 1970; ``unknown`` for ``None``. The calendar covers every time in 64-bit
    nanoseconds."""
    if hour is None:
        return UNKNOWN_HOUR
    days, hours = divmod(hour, 24)
    day = datetime.fromordinal(datetime(1970, 1, 1, tzinfo=UTC).toordinal() + days)
    return f"{day:%Y-%m-%d}-{hours:02d}"


def _is_writable(letter: str) -> bool:
    """Whether a folder's name can have this character, as itself or as two hex digits."""
    return letter.isascii() or letter.isprintable()


def _escaped(letter: str) -> str:
    if _SAFE.fullmatch(letter) or (not letter.isascii() and letter.isprintable()):
        return letter
    return f"%{ord(letter):02X}"


def _shortened(value: str) -> str:
    raw = value.encode("utf-8", "surrogatepass")
    kept = "".join(letter for letter in value if _SAFE.fullmatch(letter))[-KEPT_BYTES:]
    return f"{kept}{MARK}{hashlib.sha256(raw).hexdigest()[:32]}"
