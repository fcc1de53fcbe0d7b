"""Determines the type of the file system that a file is on."""

from __future__ import annotations

import functools
import os

_MOUNTS = "/proc/self/mountinfo"
_DEVICE, _KIND_AFTER_DASH = 2, 1


def file_system_of(fd: int) -> str | None:
    """The type of an open file's file system, such as ``ext4``. ``None`` if it can't be determined: not on Linux, or a
    file system whose files have other device numbers than its mount (btrfs, overlay)."""
    return _kind(os.fstat(fd).st_dev)


@functools.lru_cache(maxsize=64)
def _kind(device: int) -> str | None:
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open(_MOUNTS, encoding="utf-8", errors="replace") as file:
            for line in file:
                fields = line.split()
                if len(fields) > _DEVICE and fields[_DEVICE] == wanted and "-" in fields:
                    return fields[fields.index("-") + _KIND_AFTER_DASH]
    except (OSError, IndexError):
        return None
    return None
