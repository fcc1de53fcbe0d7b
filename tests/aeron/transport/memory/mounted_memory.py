"""A file system in memory of a given size, for tests of what happens when it is full."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def mounted(folder: Path, size: str) -> Iterator[Path]:
    """``folder`` is one of ``size`` (``2m``) meanwhile. The test is skipped where this system mounts none for us."""
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("no file system can be mounted here: that needs mount(8), and root")
    command = [mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
