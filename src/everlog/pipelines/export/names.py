"""Names of an export's folders: ``store=.../stream=.../hour=...``, as Hive and Spark write them.

Every value becomes one part of a path that can't leave its folder. What is not safe in a file's name is ``%XX``, which
Spark and pyarrow turn back by themselves; only ASCII is written so, for above it Spark takes each for a character,
pyarrow for a byte of UTF-8. Of a name that is too long, or has characters that can't be written so, the end and a
checksum are kept, behind a ``~`` that no other name has: the manifest says which name that is.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime

UNKNOWN_HOUR = "unknown"
MAX_NAME_BYTES = 200
"""Of a folder's name; file systems take 255."""
KEPT_BYTES = 120
MARK = "~"
NULL_NAME = "__HIVE_DEFAULT_PARTITION__"
"""What Spark takes for a null."""
HOUR_NS = 3600 * 10**9

_SAFE = re.compile(r"[A-Za-z0-9_.,+@() -]")
_ESCAPE = re.compile("%([0-9A-F]{2})")


def folder_name(column: str, value: str) -> str:
    """``column=value`` as the name of a folder."""
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
    """The value in a folder's name; ``None`` where only the manifest knows it."""
    _, _, escaped = name.partition("=")
    if MARK in escaped:
        return None
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), escaped)


def hour_name(hour: int | None) -> str:
    """``2024-05-01-13``, in UTC, of hours since 1970; ``unknown`` for ``None``. Every time in 64 bits of nanoseconds is
    in the calendar."""
    if hour is None:
        return UNKNOWN_HOUR
    days, hours = divmod(hour, 24)
    day = datetime.fromordinal(datetime(1970, 1, 1, tzinfo=UTC).toordinal() + days)
    return f"{day:%Y-%m-%d}-{hours:02d}"


def _is_writable(letter: str) -> bool:
    """A character that a folder's name has as itself, or as two hex digits."""
    return letter.isascii() or letter.isprintable()


def _escaped(letter: str) -> str:
    if _SAFE.fullmatch(letter) or (not letter.isascii() and letter.isprintable()):
        return letter
    return f"%{ord(letter):02X}"


def _shortened(value: str) -> str:
    raw = value.encode("utf-8", "surrogatepass")
    kept = "".join(letter for letter in value if _SAFE.fullmatch(letter))[-KEPT_BYTES:]
    return f"{kept}{MARK}{hashlib.sha256(raw).hexdigest()[:32]}"
