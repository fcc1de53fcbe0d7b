"""Which kind of file system a file is on, as far as the system tells."""

from __future__ import annotations

import functools
import os

_MOUNTS = "/proc/self/mountinfo"
_DEVICE, _KIND_BEHIND_DASH = 2, 1


def file_system_of(fd: int) -> str | None:
    """The kind, such as ``ext4``, of the file system that an open file is on; ``None`` where the system does not tell:
    not on Linux, or a file system whose files have other device numbers than its mount (btrfs, overlay)."""
    return _kind(os.fstat(fd).st_dev)


@functools.lru_cache(maxsize=64)
def _kind(device: int) -> str | None:
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open(_MOUNTS, encoding="utf-8", errors="replace") as file:
            for line in file:
                fields = line.split()
                if len(fields) > _DEVICE and fields[_DEVICE] == wanted and "-" in fields:
                    return fields[fields.index("-") + _KIND_BEHIND_DASH]
    except (OSError, IndexError):
        return None
    return None
