"""The names of files and folders in a store.

A channel's folder has the channel's name, byte for byte. Slices are found by name only; their numbers may have gaps.
Source: ``stores/filestore.go`` (newFileMsgStore, getChannelsDir, compactClientFile)."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

SERVER_FILE = "server.dat"
CLIENTS_FILE = "clients.dat"
SUBS_FILE = "subs.dat"
LOCK_FILE = ".rootdir.lck"
TRUNCATE_WITNESS = ".truncate.lck"
ROOT_FILES = frozenset({SERVER_FILE, CLIENTS_FILE, LOCK_FILE, TRUNCATE_WITNESS})

MAX_SLICE_NUMBER = (1 << 31) - 1

_SLICE = re.compile(r"msgs\.(-?[0-9]{1,12})\.(dat|idx)(\.bak)?", re.ASCII)
_COMPACTION = re.compile(r"(clients\.dat|subs)[0-9]+", re.ASCII)


class SliceName(NamedTuple):
    """A parsed slice file name: slice number, ``dat`` or ``idx``, and whether an archive script renamed it to
    ``.bak``."""

    number: int
    kind: str
    is_bak: bool


def parse_slice_name(name: str) -> SliceName | None:
    """Parse a slice file's name such as ``msgs.3.dat``. Returns ``None`` for any other name."""
    match = _SLICE.fullmatch(name)
    if match is None:
        return None
    number = int(match[1])
    return SliceName(number, match[2], match[3] is not None) if abs(number) <= MAX_SLICE_NUMBER else None


def slice_file(number: int, kind: str, *, is_bak: bool = False) -> str:
    """Return the file name of slice ``number``; ``kind`` is ``dat`` or ``idx``."""
    return f"msgs.{number}.{kind}" + (".bak" if is_bak else "")


def is_message_file(name: str) -> bool:
    """Whether the server takes a file for a slice; it refuses to start if the name has no valid number."""
    return name.startswith("msgs.") and name.endswith(".dat")


def is_compaction_file(name: str) -> bool:
    """Whether a file is a temporary file of a compaction."""
    return _COMPACTION.fullmatch(name) is not None


def channel_bytes(folder: str) -> bytes:
    """Return the channel's name as bytes, as in messages and in the derivation of its encryption key."""
    return os.fsencode(folder)


def channel_text(folder: str) -> str:
    """Return the channel's name for display: bytes that are not UTF-8 become ``\\xNN``."""
    return folder if folder.isascii() else channel_bytes(folder).decode("utf-8", "backslashreplace")


def channel_problem(name: str) -> str | None:
    """Return why the server would refuse to create a channel of that name, or ``None`` if it would not."""
    if not name or any(part == "" for part in name.split(".")):
        return "an empty part between dots"
    if any(c in name for c in "*>"):
        return "a wildcard"
    if any(c in name for c in " \t\r\n"):
        return "white space"
    return None
