"""``everlog aeron sub``: prints a stream's messages."""

from __future__ import annotations

import sys
import time
from binascii import b2a_base64
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from zlib import crc32

import click

from everlog.aeron.transport.client.images.fragment_assembler import FragmentAssembler
from everlog.cli.aeron_stream.connection import connect, connection_options
from everlog.cli.read import unescaped
from everlog.cli.seconds import Seconds
from everlog.cli.text import is_terminal, print_error, printable
from everlog.core.counting import counted

if TYPE_CHECKING:
    from everlog.aeron.transport.client.images.image_reader import Header
    from everlog.aeron.transport.client.subscription import Subscription

WAIT_SECONDS = 10.0
FRAGMENTS = 1024
"""The most fragments of one poll."""
IDLE_SECONDS = 0.0005
TIMED_OUT = 1

Format = Callable[[bytes, "Header"], bytes]


@click.command
@connection_options
@click.option("--count", type=click.IntRange(min=0), metavar="N", help="Stop after N messages.")
@click.option("--until-end", is_flag=True, help="Stop when all publishers have gone, once one was there.")
@click.option(
    "--timeout",
    "timeout_s",
    type=Seconds(),
    metavar="SECONDS",
    help="Stop with exit code 1 when no message comes for this long.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line, with payloads in base64.")
@click.option("--raw", is_flag=True, help="Print the bare payload bytes, with nothing between them.")
@click.option("--delimiter", metavar="TEXT", help=r"With --raw: print TEXT after each payload; \n, \t, \0, \xHH work.")
@click.option(
    "--wait", "wait_s", type=Seconds(), default=WAIT_SECONDS, show_default=True, help="How long to wait for a driver."
)
def sub(
    folder: str | None,
    channel: str,
    stream_id: int,
    count: int | None,
    until_end: bool,
    timeout_s: float | None,
    as_json: bool,
    raw: bool,
    delimiter: str | None,
    wait_s: float,
) -> int:
    """Print each message on a line of its own, unchanged, until interrupted. On a terminal, control characters are
    escaped.
    """
    if as_json and raw:
        raise click.UsageError("--json and --raw exclude each other")
    if delimiter is not None and not raw:
        raise click.UsageError("--delimiter needs --raw")
    printing = Printing(message_format(as_json, raw, delimiter), count)
    with connect(folder, wait_s) as aeron, aeron.add_subscription(channel, stream_id) as subscription:
        code = _follow(subscription, printing, until_end, timeout_s)
    print_error(f"{counted(printing.done, 'message')} printed")
    return code


@dataclass(slots=True)
class Printing:
    """Formats messages and writes them to stdout, at most ``limit`` of them."""

    format: Format
    limit: int | None
    done: int = 0
    _waiting: list[bytes] = field(default_factory=list)

    @property
    def is_enough(self) -> bool:
        """Whether the limit is reached."""
        return self.limit is not None and self.done >= self.limit

    def take(self, payload: bytes, header: Header) -> None:
        """Format a whole message, unless the limit is reached."""
        if not self.is_enough:
            self._waiting.append(self.format(payload, header))
            self.done += 1

    def flush(self) -> None:
        """Write the messages taken since the last flush."""
        if self._waiting:
            sys.stdout.buffer.write(b"".join(self._waiting))
            sys.stdout.buffer.flush()
            self._waiting.clear()


def _follow(subscription: Subscription, printing: Printing, until_end: bool, timeout_s: float | None) -> int:
    assembler = FragmentAssembler(printing.take)
    was_connected = False
    last = time.monotonic()
    while not printing.is_enough:
        is_connected = subscription.is_connected
        polled = subscription.poll(assembler, FRAGMENTS)
        printing.flush()
        if polled:
            was_connected, last = True, time.monotonic()
            continue
        if until_end and was_connected and not is_connected:
            break
        was_connected = was_connected or is_connected
        if timeout_s is not None and time.monotonic() - last > timeout_s:
            print_error(f"no message for {timeout_s:g} s")
            return TIMED_OUT
        time.sleep(IDLE_SECONDS)
    return 0


def message_format(as_json: bool, raw: bool, delimiter: str | None) -> Format:
    """How messages are printed: as JSON, bare, or each on a line of its own."""
    if as_json:
        return _json
    if raw:
        ending = b"" if delimiter is None else unescaped(delimiter)
        return lambda payload, header: payload + ending
    if is_terminal(sys.stdout):
        return lambda payload, header: printable(payload.decode("utf-8", "backslashreplace")).encode() + b"\n"
    return lambda payload, header: payload + b"\n"


def _json(payload: bytes, header: Header) -> bytes:
    """The message with those fields of ``everlog read --json`` that a message in flight has."""
    return (
        f'{{"session_id": {header.session_id}, "stream_id": {header.stream_id}, "end_position": {header.position}, '
        f'"term_id": {header.term_id}, "reserved_value": {header.reserved_value}, "length": {len(payload)}, '
        f'"crc32": "{crc32(payload):08x}", "payload": "{b2a_base64(payload, newline=False).decode()}"}}\n'
    ).encode()
