"""``everlog run driver``: runs a media driver in this process."""

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
"""The interpreter's switch interval: how long one of the driver's threads may keep others waiting (Python: 5 ms)."""
WAIT_SECONDS = 3600.0


@click.command
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(dir_okay=False))
@click.option("-D", "given", multiple=True, metavar="NAME=VALUE", help="Set an Aeron property; repeatable.")
@click.option("--dir", "folder", metavar="DIR", help="The driver's folder, aeron.dir. Default: /dev/shm/aeron-USER.")
@click.option("--print", "prints", is_flag=True, help="Print all properties with their final values, and exit.")
def driver(files: tuple[str, ...], given: tuple[str, ...], folder: str | None, prints: bool) -> int:
    """Run an Aeron media driver, for everlog's clients and the original ones, until SIGTERM or Ctrl-C.

    Configure it with Aeron's property names: in FILEs (Java's properties format), in the environment (AERON_DIR,
    AERON_TERM_BUFFER_LENGTH, ...) or with -D; the last of these wins. Sizes may end with k, m or g, durations with ns,
    us, ms or s.
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
        print_error(f"media driver {running.pid} is running in {running.dir}")
        # Objects made at the start live as long as the driver: exclude them from garbage collection.
        gc.collect()
        gc.freeze()
        while not stop.wait(WAIT_SECONDS):
            pass
    print_error("media driver stopped")
    return 0
