"""The options for driver, channel and stream, which all verbs share, and the connection to the driver."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from everlog.aeron.transport.client.aeron import Aeron
from everlog.aeron.transport.client.options import ClientOptions, default_folder
from everlog.aeron.transport.format.cnc_file import CNC_NAME
from everlog.errors import StoreUnavailable

CHANNEL, STREAM_ID = "aeron:ipc", 1001
"""Aeron's samples use the same stream id, on a UDP channel."""
INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
POLL_SECONDS = 0.01

F = TypeVar("F", bound=Callable[..., Any])


def connection_options(command: F) -> F:
    """Decorator that adds ``--dir``, ``--channel`` and ``--stream``."""
    for option in reversed(
        (
            click.option(
                "--dir",
                "folder",
                metavar="DIR",
                help="The driver's folder. Default: AERON_DIR or /dev/shm/aeron-USER.",
            ),
            click.option(
                "--channel",
                default=CHANNEL,
                show_default=True,
                help="The channel's URI, such as aeron:udp?endpoint=host:port.",
            ),
            click.option(
                "--stream",
                "stream_id",
                type=click.IntRange(INT32_MIN, INT32_MAX),
                default=STREAM_ID,
                show_default=True,
                help="The stream id on the channel.",
            ),
        )
    ):
        command = option(command)
    return command


def connect(folder: str | None, wait_s: float) -> Aeron:
    """A client of the driver. Waits up to ``wait_s`` seconds for the driver's folder to appear. Raises
    :class:`StoreUnavailable` without a running driver."""
    place = Path(folder) if folder is not None else default_folder()
    end = time.monotonic() + wait_s
    while not (place / CNC_NAME).exists() and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
    if not (place / CNC_NAME).exists():
        text, hint = f"no media driver runs in {place}", "start one: everlog run driver"
        raise StoreUnavailable(str(place), found="no media driver", hint=hint, message=text)
    return Aeron.connect(place, driver_timeout_ms=ClientOptions().driver_timeout_ms)
