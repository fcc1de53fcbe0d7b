"""``everlog run archive``: runs a live archive in this process, with or without a media driver."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
import traceback
from types import FrameType

import click

from everlog.cli.text import print_error, printable, say, warn

SWITCH_SECONDS = 0.0002
"""The interpreter's switch interval: how long one thread may keep others waiting (Python: 5 ms)."""
WAIT_SECONDS = 3600.0


class _LogLines(logging.Handler):
    """Prints the archive's log as all other lines on stderr: what was recovered, sessions that ended by a fault,
    errors."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a message, and the place of an error that is none of everlog's own."""
        print_error(record.getMessage())
        if record.exc_info:
            say("".join(traceback.format_exception(record.exc_info[1])).rstrip())


def _print_log() -> None:
    log = logging.getLogger("everlog.aeron.archive")
    log.addHandler(_LogLines())
    log.propagate = False


@click.command
@click.argument("folder", metavar="[FOLDER]", required=False, type=click.Path(file_okay=False))
@click.option("-D", "given", multiple=True, metavar="NAME=VALUE", help="Set an Aeron property; repeatable.")
@click.option("--config", "files", multiple=True, type=click.Path(dir_okay=False), help="Read properties from a file.")
@click.option("--driver", "has_driver", is_flag=True, help="Run a media driver, too.")
@click.option("--aeron-dir", metavar="DIR", help="The driver's folder, aeron.dir. Default: /dev/shm/aeron-USER.")
@click.option("--control-channel", metavar="CHANNEL", help="Serve clients on this UDP channel, too.")
@click.option("--print", "prints", is_flag=True, help="Print all properties with their final values, and exit.")
def archive(
    folder: str | None,
    given: tuple[str, ...],
    files: tuple[str, ...],
    has_driver: bool,
    aeron_dir: str | None,
    control_channel: str | None,
    prints: bool,
) -> int:
    """Run an Aeron archive on FOLDER, for everlog's clients and the original ones, until SIGTERM or Ctrl-C.

    It records streams of the media driver, replays them, and answers clients on aeron:ipc, stream 10, and on the
    control channel if there is one. Configure it with Aeron's property names: in files (--config, Java's properties
    format), in the environment (AERON_ARCHIVE_DIR, AERON_ARCHIVE_CONTROL_CHANNEL, ...) or with -D; the last of these
    wins. With --driver, the driver's properties are read the same way.
    """
    from everlog.aeron.archive.service.settings.properties import load

    own = [("aeron.archive.dir", folder), ("aeron.dir", aeron_dir), ("aeron.archive.control.channel", control_channel)]
    settings = [*given, *(f"{name}={value}" for name, value in own if value is not None)]
    loaded = load(files, os.environ, settings, has_driver=has_driver)
    for warning in loaded.warnings:
        warn(warning)
    if prints:
        click.echo("\n".join(printable(line) for line in loaded.lines()))
        return 0
    from everlog.aeron.archive.service.server import Launch, Service

    stop = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    _print_log()
    sys.setswitchinterval(SWITCH_SECONDS)
    launch = Launch(
        folder=loaded.folder,
        settings=loaded.settings,
        driver_folder=loaded.driver_folder,
        driver=loaded.driver,
        security_file=loaded.security_file,
        authenticator=loaded.authenticator,
        authorisation=loaded.authorisation,
    )
    with Service(launch, warn, stop.set) as service:
        running = service.running
        print_error(f"archive {running.archive_id} is running in {loaded.folder}, process {running.pid}")
        print_error(f"it serves {', '.join(running.control_channels)} of the driver in {running.driver_folder}")
        # Objects made at the start live as long as the archive: exclude them from garbage collection.
        gc.collect()
        gc.freeze()
        while not stop.wait(WAIT_SECONDS):
            pass
        failure = service.archive.failure
    if failure is not None:
        raise failure
    print_error("archive stopped")
    return 0
