"""Names of a journal's files. They consist of fixed text, numbers and hex digits, so none can point outside the
folder."""

from __future__ import annotations

import re

METASTORE = "metastore"
PRE_COMMIT = "pre_commit"
CHECKPOINT_PREFIX = "cp."
INDEX_SUFFIX = ".idx"
MAX_LOG = 0xFFFF_FFFF
"""Segment numbers have 32 bits."""
TRANSIENT_PREFIX = "~"
"""Prefix of session subscribers, which the C library's repair skips."""

_SEGMENT = re.compile(r"[0-9a-f]{8}")
_HEX = re.compile(r"[0-9a-f]*")


def segment_name(log: int) -> str:
    """``0000000a`` for 10. Raises :class:`ValueError` outside 0..``MAX_LOG``."""
    if not 0 <= log <= MAX_LOG:
        raise ValueError(f"segment number {log} is outside 0..{MAX_LOG}")
    return f"{log:08x}"


def index_name(log: int) -> str:
    """``0000000a.idx`` for 10."""
    return segment_name(log) + INDEX_SUFFIX


def parse_segment_name(name: str) -> int | None:
    """The number of a segment, or ``None`` for other names. Digits must be lower case, as writers create them."""
    return int(name, 16) if _SEGMENT.fullmatch(name) else None


def parse_index_name(name: str) -> int | None:
    """The segment of an index, or ``None`` for other names."""
    return parse_segment_name(name.removesuffix(INDEX_SUFFIX)) if name.endswith(INDEX_SUFFIX) else None


def checkpoint_name(subscriber: str) -> str:
    """``cp.616c706861`` for ``alpha``."""
    return CHECKPOINT_PREFIX + subscriber.encode("utf-8", "surrogateescape").hex()


def parse_checkpoint_name(name: str) -> str | None:
    """The subscriber of a checkpoint file. ``None`` for other names, and for an odd number of hex digits or none.

    JLog names are bytes. Bytes that are not UTF-8 become surrogates, so that ``checkpoint_name`` gives the same file.
    """
    digits = name.removeprefix(CHECKPOINT_PREFIX)
    if digits == name or not digits or len(digits) % 2 or not _HEX.fullmatch(digits):
        return None
    return bytes.fromhex(digits).decode("utf-8", "surrogateescape")


def printable(subscriber: str) -> str:
    """A subscriber's name as text for any encoding: bytes that are not UTF-8 become ``\\xNN``."""
    return subscriber.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
