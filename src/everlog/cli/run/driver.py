"""``everlog run driver``: a media driver in this process."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from types import FrameType

import click

from everlog.cli.text import print_error, printable, warn

SWITCH_SECONDS = 0.0002
"""How long one of the driver's threads may keep the interpreter from another; by default it is 5 ms."""
SECONDS_BETWEEN_LOOKS = 3600.0


@click.command
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(dir_okay=False))
@click.option("-D", "given", multiple=True, metavar="NAME=VALUE", help="A property of Aeron's; may be given again.")
@click.option("--dir", "folder", metavar="DIR", help="Its folder: aeron.dir. Default: /dev/shm/aeron-USER.")
@click.option("--print", "prints", is_flag=True, help="Print all properties as they are then, and end.")
def driver(files: tuple[str, ...], given: tuple[str, ...], folder: str | None, prints: bool) -> int:
    """Run an Aeron media driver, for clients of everlog and of the real Aeron, until SIGTERM or Ctrl-C.

    It is configured by Aeron's own property names: in FILEs (Java's format), in the environment (AERON_DIR,
    AERON_TERM_BUFFER_LENGTH, ...), by -D; the last of these wins. Sizes may end with k, m or g, durations with ns, us,
    ms or s.
    """
    from everlog.aeron.transport.driver.settings.properties import load

    settings = [*given, *([f"aeron.dir={folder}"] if folder is not None else [])]
    loaded = load(files, os.environ, settings)
    for warning in loaded.warnings:
        warn(warning)
    if prints:
        click.echo("\n".join(printable(line) for line in loaded.configuration.lines()))
        return 0
    from everlog.aeron.transport.driver.embedded import EmbeddedDriver

    stop = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    sys.setswitchinterval(SWITCH_SECONDS)
    with EmbeddedDriver(loaded.configuration, warn, on_end=stop.set) as running:
        if loaded.configuration.print_configuration_on_start:
            click.echo("\n".join(printable(line) for line in loaded.configuration.lines()))
        print_error(f"media driver {running.pid} serves in {running.dir}")
        # What starting left is never garbage: later collections need not look at it.
        gc.collect()
        gc.freeze()
        while not stop.wait(SECONDS_BETWEEN_LOOKS):
            pass
    print_error("media driver ended")
    return 0
