"""Ctrl-C while Spark works: one line, and exit code 130."""

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
"""Verbs whose next run does the rest."""


@contextlib.contextmanager
def interruptible(verb: str) -> Iterator[Callable[[], None]]:
    """A block that Ctrl-C ends with one line, whatever Spark's client has to say of the call that broke off. Call what
    it gives when there is a session: Spark's own handler calls the JVM in the midst of another call, which fails."""
    has_come = False
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal has_come
        has_come = True
        logging.disable()  # py4j logs a traceback for each call that breaks off, to the root logger
        raise KeyboardInterrupt

    def take() -> None:
        if is_main:
            signal.signal(signal.SIGINT, interrupt)

    try:
        yield take
    except BaseException as error:
        if not has_come and not isinstance(error, KeyboardInterrupt):
            raise
        rest = "what was committed stays, run it again to go on" if verb in GOING_ON else "nothing was changed"
        print_error(f"interrupted: {rest}")
        raise click.Abort from None  # also where Spark made another error of it
    finally:
        if has_come:
            logging.disable(logging.NOTSET)
        if is_main:
            signal.signal(signal.SIGINT, before)
