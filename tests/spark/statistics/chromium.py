"""A Chromium without a window: EVERLOG_CHROMIUM, the machine's own, or playwright's, which is downloaded only where
EVERLOG_INTEROP=download asks for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")


class Missing(Exception):
    """None to be had, and why."""


def find() -> str:
    """The program. Raises :class:`Missing`."""
    if chosen := os.environ.get("EVERLOG_CHROMIUM"):
        return chosen
    for name in NAMES:
        if found := shutil.which(name):
            return found
    if (own := _playwrights()) is not None:
        return own
    if os.environ.get("EVERLOG_INTEROP") != "download":
        raise Missing("no Chromium here: EVERLOG_INTEROP=download gets one, EVERLOG_CHROMIUM names one")
    command = [sys.executable, "-m", "playwright", "install", "--only-shell", "chromium"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode or (own := _playwrights()) is None:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["nothing"]
        raise Missing(f"no Chromium on this machine, and playwright install said: {said[0]}")
    return own


def _playwrights() -> str | None:
    """The shell that this version of playwright wants, if it is there."""
    home = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH", Path.home() / ".cache" / "ms-playwright"))
    found = sorted(home.glob("chromium_headless_shell-*/*/*headless*shell*")) if home.is_dir() else []
    return str(found[-1]) if found else None
