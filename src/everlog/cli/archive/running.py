"""The connection of all verbs to a running archive: its control channel, or its folder, whose mark file names it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from everlog.aeron.archive.folder.archive import load_mark
from everlog.aeron.channel_uri import SCHEME, ChannelUri
from everlog.aeron.mark_file import now_ms
from everlog.aeron.transport.client.options import default_folder
from everlog.cli.archive.recordings import local_archive
from everlog.core.files.regular_files import read_small_file
from everlog.errors import StoreUnavailable, UsageError

if TYPE_CHECKING:
    from everlog.aeron.archive.client import AeronArchive

F = TypeVar("F", bound=Callable[..., Any])
LOCAL_RESPONSES = "aeron:ipc?term-length=64k"
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
MAX_CREDENTIALS_BYTES = 1 << 16
CREDENTIALS_VARIABLE = "EVERLOG_ARCHIVE_CREDENTIALS"
ENVIRONMENT_DIR = "AERON_DIR"


def connection_options(command: F) -> F:
    """Decorator that adds ``--aeron-dir``, ``--response-channel``, ``--control-stream`` and ``--credentials-file``."""
    for option in (
        click.option("--credentials-file", metavar="FILE", help=f"Credentials; default: {CREDENTIALS_VARIABLE}."),
        click.option("--control-stream", type=int, metavar="N", help="Stream of the control channel. Default: 10."),
        click.option("--response-channel", metavar="CHANNEL", help="Channel of the archive's answers."),
        click.option("--aeron-dir", metavar="DIR", help="The media driver's folder. Default: AERON_DIR, else its own."),
    ):
        command = option(command)
    return command


def is_channel(target: str) -> bool:
    """Whether ``DIR`` on the command line is a control channel."""
    return target.startswith(SCHEME)


def is_served(folder: str) -> bool:
    """Whether a service that clients can reach runs on the folder."""
    mark = load_mark(local_archive(folder))
    return mark is not None and mark.is_live(now_ms()) and bool(mark.texts["local_control_channel"])


@contextmanager
def connect(
    target: str,
    *,
    aeron_dir: str | None = None,
    response_channel: str | None = None,
    control_stream: int | None = None,
    credentials_file: str | None = None,
) -> Iterator[AeronArchive]:
    """Connect to the archive behind a channel or a folder. Raises :class:`StoreUnavailable` if none runs there."""
    from everlog.aeron.archive.client import AeronArchive, Credentials

    channel, stream_id, folder = _reached(target, aeron_dir)
    text = os.environ.get(CREDENTIALS_VARIABLE, "").encode()
    if credentials_file is not None:
        text = read_small_file(credentials_file, MAX_CREDENTIALS_BYTES).rstrip(b"\n")
    with AeronArchive.connect(
        control_request_channel=channel,
        control_request_stream_id=stream_id if control_stream is None else control_stream,
        control_response_channel=response_channel or _response_channel(channel),
        aeron_directory_name=folder,
        client_name="everlog-archive",
        credentials_supplier=Credentials(text),
    ) as archive:
        yield archive


def _reached(target: str, aeron_dir: str | None) -> tuple[str, int, Path]:
    """The control channel, its stream, and the driver's folder."""
    if is_channel(target):
        return target, 10, Path(aeron_dir) if aeron_dir is not None else default_folder()
    mark = load_mark(local_archive(target))
    if mark is None or not mark.is_live(now_ms()):
        message = f"no archive is running on {target}"
        hint = "everlog run archive starts one"
        raise StoreUnavailable(target, found="no running archive", expected="one", hint=hint, message=message)
    channel, stream_id = mark.texts["local_control_channel"], mark.header.local_control_stream_id
    if not channel:
        message = f"the archive on {target} serves no clients: a program has opened its folder"
        raise StoreUnavailable(target, found="no control channel", expected="one", message=message)
    folder = aeron_dir or os.environ.get(ENVIRONMENT_DIR) or mark.texts["aeron_directory"]
    return channel, stream_id, Path(folder) if folder else default_folder()


def _response_channel(control_channel: str) -> str:
    uri = ChannelUri.parse(control_channel)
    if uri.is_ipc:
        return LOCAL_RESPONSES
    host = (uri.get("endpoint") or "").rpartition(":")[0]
    if host in LOOPBACK:
        return f"aeron:udp?endpoint={host}:0"
    message = f"the archive at {control_channel} needs a channel for its answers"
    hint = "--response-channel aeron:udp?endpoint=THIS_HOST:0, an address of this host that the archive can reach"
    raise UsageError("--response-channel", found="none", expected="a channel", hint=hint, message=message)
