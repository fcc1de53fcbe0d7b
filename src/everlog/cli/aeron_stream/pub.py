"""``everlog aeron pub``: publishes stdin."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import click

from everlog.aeron.transport.client.appending.results import too_long
from everlog.cli.aeron_stream.connection import connect, connection_options
from everlog.cli.read import unescaped
from everlog.cli.seconds import Seconds
from everlog.cli.text import print_error
from everlog.core.counting import counted
from everlog.errors import EverlogError, UsageError

if TYPE_CHECKING:
    from everlog.aeron.transport.client.publication import ExclusivePublication

CHUNK_BYTES = 1 << 16
WAIT_SECONDS = 10.0
POLL_SECONDS = 0.001


@click.command
@connection_options
@click.option("--delimiter", metavar="TEXT", help=r"End messages with TEXT instead of \n; \t, \0, \xHH work.")
@click.option(
    "--block", type=click.IntRange(min=1), metavar="BYTES", help="Publish blocks of this many bytes, of any content."
)
@click.option("--count", type=click.IntRange(min=0), metavar="N", help="Stop after N messages.")
@click.option(
    "--wait",
    "wait_s",
    type=Seconds(),
    default=WAIT_SECONDS,
    show_default=True,
    help="How long to wait for a driver, and for a subscriber.",
)
def pub(
    folder: str | None,
    channel: str,
    stream_id: int,
    delimiter: str | None,
    block: int | None,
    count: int | None,
    wait_s: float,
) -> int:
    """Publish each line of stdin as a message, without its line break. Waits for a first subscriber before sending, and
    for a slow subscriber to catch up.
    """
    if block is not None and delimiter is not None:
        raise click.UsageError("--block and --delimiter exclude each other")
    ending = b"\n" if delimiter is None else unescaped(delimiter)
    if not ending:
        raise click.UsageError("--delimiter must not be empty")
    stdin = sys.stdin.buffer
    with connect(folder, wait_s) as aeron, aeron.add_exclusive_publication(channel, stream_id) as publication:
        longest = publication.max_message_length
        if block is not None and block > longest:
            raise too_long(longest)
        _await_subscriber(publication, wait_s)
        batches = blocks(stdin, block) if block is not None else lines(stdin, ending, longest)
        _publish(publication, batches, count, wait_s)
    return 0


def _await_subscriber(publication: ExclusivePublication, wait_s: float) -> None:
    end = time.monotonic() + wait_s
    while not publication.is_connected:
        if time.monotonic() > end:
            text = f"no subscriber on {publication.channel} within {wait_s:g} s"
            hint = "--wait SECONDS waits longer"
            raise UsageError(publication.channel, found="no subscriber", hint=hint, message=text)
        time.sleep(POLL_SECONDS)


def _publish(
    publication: ExclusivePublication, batches: Iterator[list[bytes]], count: int | None, wait_s: float
) -> None:
    """Publish, and print how many messages were published, also if one fails."""
    sent = 0
    try:
        for batch in batches if count != 0 else ():
            messages = batch if count is None else batch[: count - sent]
            publication.send_many(messages, timeout_s=wait_s)
            sent += len(messages)
            if sent == count:
                break
    except EverlogError as error:
        print_error(f"{counted(sent + error.appended, 'message')} published")
        raise
    print_error(f"{counted(sent, 'message')} published")


def lines(stdin: BinaryIO, ending: bytes, longest: int) -> Iterator[list[bytes]]:
    """Batches of the messages in each chunk of input, split at ``ending``; text after the last one is a message too.
    Raises :class:`UsageError` for a message over ``longest`` bytes as soon as so much is read: it may have no end."""
    rest = b""
    while chunk := stdin.read1(CHUNK_BYTES):  # type: ignore[attr-defined]
        *found, rest = (rest + chunk).split(ending)
        if found:
            yield found
        if len(rest) >= longest + len(ending):
            raise too_long(longest)
    if rest:
        yield [rest]


def blocks(stdin: BinaryIO, length: int) -> Iterator[list[bytes]]:
    """Batches of the messages in each chunk of input, ``length`` bytes each; the very last one may be shorter."""
    rest = bytearray()
    while chunk := stdin.read1(CHUNK_BYTES):  # type: ignore[attr-defined]
        rest += chunk
        whole = len(rest) - len(rest) % length
        if whole:
            yield [bytes(rest[at : at + length]) for at in range(0, whole, length)]
            del rest[:whole]
    if rest:
        yield [bytes(rest)]
