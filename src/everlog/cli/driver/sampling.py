"""The parts that all verbs share: the folder, ``--json`` and ``--watch``, and times in the format of Java's tools."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from everlog.aeron.transport.format.cnc_file import CNC_NAME, CncFile
from everlog.cli.seconds import Seconds
from everlog.cli.text import is_terminal, print_error, warn
from everlog.core.files.storage import LocalStorage, Storage
from everlog.errors import StoreUnavailable

NS_PER_MS, MS = 1_000_000, 1_000
MIN_WATCH_SECONDS = 0.01
CLEAR = "\x1b[2J\x1b[H"
FAULTS_FOUND = 1

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """Decorator that adds ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(command)


def stat_options(command: F) -> F:
    """Decorator that adds ``--json`` and ``--watch``."""
    command = click.option(
        "--watch",
        is_flag=False,
        flag_value=1.0,
        type=Seconds(MIN_WATCH_SECONDS),
        metavar="[SECONDS]",
        help="Repeat every SECONDS (default: 1) until interrupted.",
    )(command)
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object each time.")(command)


def storage_at(folder: str) -> Storage:
    """The storage of the driver's folder, which may be a URL."""
    if "://" in folder:
        from everlog.stores import storage_of

        return storage_of(folder)
    return LocalStorage(folder)


def cnc_path(folder: str) -> str:
    """The path of the driver's ``cnc.dat``, for printing."""
    return os.path.join(folder, CNC_NAME)


def open_cnc(folder: str) -> CncFile:
    """Open the driver's ``cnc.dat``. Raises :class:`StoreUnavailable` for a folder without one."""
    try:
        return CncFile.open(storage_at(folder))
    except StoreUnavailable as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        found = f"no {CNC_NAME}"
        text = f"no media driver here: {folder} has {found}"
        raise StoreUnavailable(cnc_path(folder), found=found, message=text) from error


def repeat(watch: float | None, once: Callable[[], int]) -> int:
    """Run ``once`` and return its exit code; with ``--watch`` repeat it, also while the driver is gone or starting."""
    if watch is None:
        return once()
    while True:
        if is_terminal(sys.stdout):
            click.echo(CLEAR, nl=False)
        try:
            once()
        except StoreUnavailable as error:
            print_error(str(error))
        sys.stdout.flush()
        time.sleep(watch)


def report_problem(cnc: CncFile) -> int:
    """Warn of a truncated ``cnc.dat``; returns the exit code."""
    if cnc.problem is None:
        return 0
    warn(f"{CNC_NAME}: {cnc.problem}; the output is incomplete")
    return FAULTS_FOUND


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // NS_PER_MS


def local_time(timestamp_ms: int) -> datetime | None:
    """A time in the local zone; ``None`` for one outside the calendar."""
    try:
        return datetime.fromtimestamp(timestamp_ms // MS, UTC).astimezone()
    except (OverflowError, ValueError, OSError):
        return None


def date_text(timestamp_ms: int) -> str:
    """The time in the local zone, such as ``2026-11-21 06:21:18.964+0000``; the number followed by ``ms`` for a time
    outside the calendar."""
    moment = local_time(timestamp_ms)
    if moment is None:
        return f"{timestamp_ms}ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{timestamp_ms % MS:03}{moment:%z}"
