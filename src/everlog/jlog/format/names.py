"""Names of a journal's files. They are made from numbers and hex digits only, so none can lead out of the folder."""

from __future__ import annotations

import re

METASTORE = "metastore"
PRE_COMMIT = "pre_commit"
CHECKPOINT_PREFIX = "cp."
INDEX_SUFFIX = ".idx"
MAX_LOG = 0xFFFF_FFFF
"""Segments are numbered with 32 bits."""
TRANSIENT_PREFIX = "~"
"""Subscribers named so are there for a session: the original's repair skips them."""

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
    """The number of a segment, or ``None`` for another name. Only lower-case digits: writers open no other name."""
    return int(name, 16) if _SEGMENT.fullmatch(name) else None


def parse_index_name(name: str) -> int | None:
    """The segment that an index is of, or ``None`` for another name."""
    return parse_segment_name(name.removesuffix(INDEX_SUFFIX)) if name.endswith(INDEX_SUFFIX) else None


def checkpoint_name(subscriber: str) -> str:
    """``cp.616c706861`` for ``alpha``."""
    return CHECKPOINT_PREFIX + subscriber.encode("utf-8", "surrogateescape").hex()


def parse_checkpoint_name(name: str) -> str | None:
    """The subscriber that a checkpoint file is of, or ``None``: another name, an odd number of hex digits, or none at
    all.

    Names are bytes to JLog; those that are not UTF-8 keep their bytes as surrogates, so that ``checkpoint_name`` finds
    the file again.
    """
    digits = name.removeprefix(CHECKPOINT_PREFIX)
    if digits == name or not digits or len(digits) % 2 or not _HEX.fullmatch(digits):
        return None
    return bytes.fromhex(digits).decode("utf-8", "surrogateescape")


def printable(subscriber: str) -> str:
    """A subscriber's name as text that can be encoded anywhere: bytes that are not UTF-8 as ``\\xNN``."""
    return subscriber.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
