"""What the verbs share: which driver, which channel, which stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from everlog.aeron.transport.client.aeron import Aeron

CHANNEL, STREAM_ID = "aeron:ipc", 1001
"""Where Aeron's samples publish, but for IPC."""
INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
MS_PER_SECOND = 1000

F = TypeVar("F", bound=Callable[..., Any])


def connection_options(command: F) -> F:
    """Decorator: ``--dir``, ``--channel``, ``--stream``."""
    for option in reversed(
        (
            click.option(
                "--dir", "folder", metavar="DIR", help="The driver's folder. Default: AERON_DIR, else Aeron's."
            ),
            click.option("--channel", default=CHANNEL, show_default=True, help="Such as aeron:udp?endpoint=host:port."),
            click.option(
                "--stream",
                "stream_id",
                type=click.IntRange(INT32_MIN, INT32_MAX),
                default=STREAM_ID,
                show_default=True,
                help="Its number on the channel.",
            ),
        )
    ):
        command = option(command)
    return command


def connect(folder: str | None, seconds: float) -> Aeron:
    """A client of the driver, which is waited for."""
    return Aeron.connect(folder, driver_timeout_ms=max(1, int(seconds * MS_PER_SECOND)))
