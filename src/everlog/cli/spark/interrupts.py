"""Handles Ctrl-C during a Spark job: one line on stderr and exit code 130."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import click

from everlog.cli.text import print_error

GOING_ON = frozenset({"export", "migrate"})
"""Verbs whose next run continues where this one stopped."""


@contextlib.contextmanager
def interruptible(verb: str) -> Iterator[Callable[[], None]]:
    """A block that Ctrl-C ends with one line on stderr, whatever error Spark's client raises from the interrupted call.
    Call the yielded function once the session exists: it replaces Spark's own handler, which calls the JVM during
    another call and fails."""
    is_interrupted = False
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        logging.disable()  # py4j logs a traceback to the root logger for each interrupted call
        raise KeyboardInterrupt

    def install() -> None:
        if is_main:
            signal.signal(signal.SIGINT, interrupt)

    try:
        yield install
    except BaseException as error:
        if not is_interrupted and not isinstance(error, KeyboardInterrupt):
            raise
        rest = (
            "committed work is kept; run the command again to continue" if verb in GOING_ON else "nothing was changed"
        )
        print_error(f"interrupted: {rest}")
        raise click.Abort from None  # even if Spark turned it into another error
    finally:
        if is_interrupted:
            logging.disable(logging.NOTSET)
        if is_main:
            signal.signal(signal.SIGINT, before)
